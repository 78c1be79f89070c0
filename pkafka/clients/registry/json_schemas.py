"""JSON Schemas of a registry: what they refer to is found, and values are held against them.

The only module that knows the package jsonschema, which is imported when values are to be held against a schema.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urldefrag, urljoin

from pkafka.clients.registry.client import JSON, SchemaRegistryClient, SchemaText
from pkafka.clients.serialization import SerializationError
from pkafka.errors import PkafkaError

_HINT: Final = "json.fail.invalid.schema needs jsonschema: pip install 'pkafka[registry]'"


class Place(NamedTuple):
    """A part of a schema.

    Args:
        node: the part, as JSON has it.
        document: the name of the schema that it stands in; empty: the schema itself.
    """

    node: Any
    document: str = ""


class JsonSchema:
    """A schema, with those that it refers to by name.

    Args:
        text: as the registry has it.
        client: of the registry, for the schemas that it refers to.

    Raises:
        SerializationError: it is no JSON Schema.
        RegistryError: the registry lacks one that it refers to, or does not answer.
    """

    def __init__(self, text: SchemaText, client: SchemaRegistryClient) -> None:
        if text.kind != JSON:
            raise SerializationError(f"The schema is of {text.kind}, not of JSON Schema")
        self.root: Final = Place(_parsed(text.text))
        self._documents: dict[str, Any] = {"": self.root.node}
        self._collect(text, client)
        self._validator: Any = None

    @property
    def title(self) -> str | None:
        """By which subjects may be named."""
        found = self.root.node.get("title") if isinstance(self.root.node, Mapping) else None
        return found if isinstance(found, str) else None

    def _collect(self, text: SchemaText, client: SchemaRegistryClient) -> None:
        for each in text.references:
            if each.name not in self._documents:
                inner = client.version(each.subject, each.version).schema
                self._documents[each.name] = _parsed(inner.text)
                self._collect(inner, client)

    def resolve(self, reference: str, document: str) -> Place:
        """What a ``$ref`` stands for: ``#``, ``#/...``, or one of these behind the name of another schema.

        Args:
            document: in which it stands.

        Raises:
            SerializationError: there is no such part.
        """
        name, fragment = urldefrag(reference)
        target = document if not name else self._document(name, document)
        if target is not None and (not fragment or fragment.startswith("/")):
            try:
                return Place(_pointed(self._documents[target], fragment), target)
            except (KeyError, IndexError, ValueError, TypeError):
                target = None
        raise SerializationError(f"A JSON Schema refers to {reference}, which is not there")

    def _document(self, name: str, document: str) -> str | None:
        """The schema of a name, which may be relative to the ``$id`` of the one that refers to it."""
        whole = urljoin(_id(self._documents[document]), name)
        for known, node in self._documents.items():
            if (known and known in (name, whole)) or (_id(node) and _id(node) in (name, whole)):
                return known
        return None

    def validate(self, value: Any) -> None:  # noqa: ANN401 - it is JSON
        """Hold a value against the schema.

        Raises:
            SerializationError: it does not fit; or the schema is none.
            PkafkaError: jsonschema is not installed.
        """
        if self._validator is None:
            self._validator = self._made_validator()
        error = next(self._validator.iter_errors(value), None)
        if error is not None:
            where = error.json_path
            raise SerializationError(f"The value does not fit its JSON Schema: {where}: {error.message}")

    def _made_validator(self) -> Any:  # noqa: ANN401 - a class of jsonschema's
        load()
        from jsonschema import Draft7Validator, SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7

        made = validator_for(self.root.node, default=Draft7Validator)
        others = [(name, node) for name, node in self._documents.items() if name]
        known: Any = Registry()
        for name, node in others:
            resource: Any = Resource.from_contents(node, default_specification=DRAFT7)
            known = known.with_resource(urljoin(_id(self.root.node), name), resource)
        try:
            made.check_schema(self.root.node)
        except SchemaError as error:
            raise SerializationError(f"This is no JSON Schema: {error.message}") from error
        return made(self.root.node, registry=known)


def load() -> None:
    """See whether values can be held against schemas.

    Raises:
        PkafkaError: jsonschema is not installed.
    """
    try:
        import jsonschema  # noqa: F401 - whether it is there
    except ImportError as error:
        raise PkafkaError(_HINT) from error


def _id(node: Any) -> str:  # noqa: ANN401 - it is JSON
    found = node.get("$id", node.get("id")) if isinstance(node, Mapping) else None
    return found if isinstance(found, str) else ""


def _pointed(node: Any, pointer: str) -> Any:  # noqa: ANN401 - it is JSON
    """What a JSON Pointer leads to (RFC 6901)."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        node = node[int(name)] if isinstance(node, list) else node[name]
    return node


def _parsed(text: str) -> Any:  # noqa: ANN401 - it is JSON
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SerializationError(f"The JSON Schema is not JSON: {text[:200]}") from error
    if not isinstance(found, dict | bool):
        raise SerializationError(f"A JSON Schema is an object, or true or false: {text[:200]}")
    return found
