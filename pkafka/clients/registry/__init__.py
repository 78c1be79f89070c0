"""Schemas of records, kept by a Schema Registry (Confluent's REST API): its client, and serializers that use it.

fastavro, protobuf and jsonschema come with ``pip install 'pkafka[registry]'``; each is imported when a serializer that
needs it is configured.
"""

from pkafka.clients.registry.avro import AvroDeserializer, AvroSerializer
from pkafka.clients.registry.client import RegisteredSchema, SchemaReference, SchemaRegistryClient
from pkafka.clients.registry.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    NotFoundError,
    RegistryError,
    UnauthorizedError,
    UnavailableError,
)
from pkafka.clients.registry.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from pkafka.clients.registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from pkafka.clients.registry.settings import RegistrySettings

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "NotFoundError",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryError",
    "RegistrySettings",
    "SchemaReference",
    "SchemaRegistryClient",
    "UnauthorizedError",
    "UnavailableError",
]
