"""Schemas of records, kept by a Schema Registry (Confluent's REST API): its client, and serializers that use it.

fastavro and protobuf come with ``pip install 'pkafka[registry]'``; each is imported when its serializer is configured.
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
from pkafka.clients.registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from pkafka.clients.registry.settings import RegistrySettings

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
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
