"""Asks a Schema Registry for schemas and ids, and remembers the answers that cannot change."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from pkafka.clients.registry.errors import RegistryError
from pkafka.clients.registry.settings import RegistrySettings
from pkafka.clients.registry.transport import Transport

AVRO: Final = "AVRO"
PROTOBUF: Final = "PROTOBUF"
JSON: Final = "JSON"


class SchemaReference(NamedTuple):
    """A schema that another one uses.

    Args:
        name: by which it is used: a full name in Avro, a file to import in Protobuf, a ``$ref`` in JSON Schema.
        subject: where the registry has it.
        version: of the subject.
    """

    name: str
    subject: str
    version: int


class SchemaText(NamedTuple):
    """A schema as a registry knows it.

    Args:
        text: of the schema.
        kind: ``AVRO``, ``PROTOBUF`` or ``JSON``.
        references: to schemas that it uses.
    """

    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The body of a request."""
        body: dict[str, object] = {"schema": self.text}
        if self.kind != AVRO:  # registries before Protobuf do not know the field
            body["schemaType"] = self.kind
        if self.references:
            body["references"] = [each._asdict() for each in self.references]
        return body

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Self:
        """The schema in an answer.

        Raises:
            RegistryError: there is none.
        """
        try:
            references = tuple(
                SchemaReference(each["name"], each["subject"], each["version"])
                for each in answer.get("references") or ()
            )
            return cls(answer["schema"], answer.get("schemaType") or AVRO, references)
        except (KeyError, TypeError, AttributeError) as error:
            raise RegistryError(
                f"The Schema Registry answers something that is no schema: {answer}"
            ) from error


class RegisteredSchema(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: SchemaText


class SchemaRegistryClient:
    """Asks a Schema Registry. Threads may share one: at worst, two ask the same and get the same answer.

    Args:
        settings: where it is; a text is its URL.
        sleep: waits so many seconds before a request is repeated.
        latest_kept_s: so long the latest version of a subject is taken for the latest; -1: for ever.

    Raises:
        ConfigError: a store of keys cannot be read.
    """

    def __init__(
        self,
        settings: RegistrySettings | str,
        sleep: Callable[[float], None] = time.sleep,
        latest_kept_s: float = -1,
    ) -> None:
        if isinstance(settings, str):
            settings = RegistrySettings.of({"schema.registry.url": settings})
        self._transport = Transport(settings, sleep)
        self._latest_kept_s = latest_kept_s
        self._ids: dict[tuple[str, SchemaText, bool, bool], int] = {}
        self._schemas: dict[tuple[int, str], SchemaText] = {}
        self._versions: dict[tuple[str, int, str], RegisteredSchema] = {}
        self._latest: dict[str, tuple[float, RegisteredSchema]] = {}

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> int:
        """The id of a schema, which is made the subject's next version if it is not one yet.

        Raises:
            IncompatibleSchemaError: the subject's rules do not allow it.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        return self._id(subject, schema, normalize=normalize, registers=True)

    def id_of(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> int:
        """The id of a schema that is a version of the subject.

        Raises:
            NotFoundError: it is none.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        return self._id(subject, schema, normalize=normalize, registers=False)

    def _id(self, subject: str, schema: SchemaText, *, normalize: bool, registers: bool) -> int:
        key = (subject, schema, normalize, registers)
        known = self._ids.get(key)
        if known is None:
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if registers else "")
            query = {"normalize": "true"} if normalize else None
            known = _whole(self._transport.ask("POST", path, query, schema.as_json()), "id")
            self._ids[key] = known
        return known

    def lookup(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> RegisteredSchema:
        """The version of a subject that a schema is.

        Raises:
            NotFoundError: it is none.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        query = {"normalize": "true"} if normalize else None
        path = f"/subjects/{quote(subject, safe='')}"
        return _registered(self._transport.ask("POST", path, query, schema.as_json()))

    def schema_of(self, schema_id: int, *, format: str = "") -> SchemaText:
        """The schema of an id.

        Args:
            format: of the text; ``serialized``: the descriptor of a schema of Protobuf, in base64; empty: as it is.

        Raises:
            NotFoundError: no schema has it.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        known = self._schemas.get((schema_id, format))
        if known is None:
            answer = self._transport.ask("GET", f"/schemas/ids/{schema_id}", _query(format))
            known = self._schemas[schema_id, format] = SchemaText.from_json(answer)
        return known

    def version(self, subject: str, version: int, *, format: str = "") -> RegisteredSchema:
        """A version of a subject.

        Args:
            format: of the text, as in :meth:`schema_of`.

        Raises:
            NotFoundError: there is none.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        known = self._versions.get((subject, version, format))
        if known is None:
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            known = _registered(self._transport.ask("GET", path, _query(format)))
            self._versions[subject, version, format] = known
        return known

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject, as it was when it was asked for last.

        Raises:
            NotFoundError: there is no such subject.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        asked_at_s, known = self._latest.get(subject, (0.0, None))
        now_s = time.monotonic()
        if known is None or (0 <= self._latest_kept_s <= now_s - asked_at_s):
            path = f"/subjects/{quote(subject, safe='')}/versions/latest"
            known = _registered(self._transport.ask("GET", path))
            self._latest[subject] = (now_s, known)
        return known

    def subjects(self) -> list[str]:
        """The names of all subjects.

        Raises:
            RegistryError: the registry refuses, or does not answer.
        """
        return [str(each) for each in self._transport.ask("GET", "/subjects") or ()]

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject.

        Raises:
            NotFoundError: there is no such subject.
            RegistryError: the registry refuses for another reason, or does not answer.
        """
        return [
            int(each) for each in self._transport.ask("GET", f"/subjects/{quote(subject, safe='')}/versions")
        ]

    def is_compatible(self, subject: str, schema: SchemaText) -> bool:
        """Whether a schema could become the subject's next version.

        Raises:
            RegistryError: the registry refuses, or does not answer.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest"
        return bool(self._transport.ask("POST", path, None, schema.as_json())["is_compatible"])


def _query(format: str) -> dict[str, str] | None:
    return {"format": format} if format else None


def _registered(answer: Mapping[str, Any]) -> RegisteredSchema:
    schema = SchemaText.from_json(answer)
    return RegisteredSchema(
        str(answer.get("subject")), _whole(answer, "version"), _whole(answer, "id"), schema
    )


def _whole(answer: Mapping[str, Any], name: str) -> int:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, int):
        raise RegistryError(f"The Schema Registry answers without {name}: {answer}")
    return found
