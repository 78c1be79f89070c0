"""Files of messages of Protobuf as values: made of descriptions, read from a registry, and turned into classes.

Registries keep ``.proto`` text and give it as a descriptor when they are asked to (``format=serialized``), so no text
has to be parsed here.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from pkafka.clients.registry.client import PROTOBUF, SchemaReference, SchemaText
from pkafka.clients.serialization import SerializationError
from pkafka.errors import PkafkaError

File = Any
"""A ``FileDescriptorProto`` of the package protobuf."""
Message = Any
"""A message, or the class of one, that the package protobuf has made."""
Descriptor = Any
"""What the package protobuf knows of a message, or of a field."""
Description = Mapping[str, Any]
"""What a ``FileDescriptorProto`` is made of: names of its fields to values, lists and further mappings."""

META: Final = "confluent/meta.proto"
DECIMAL: Final = "confluent/type/decimal.proto"
DATE: Final = "google/type/date.proto"
TIME: Final = "google/type/timeofday.proto"
TIMESTAMP: Final = "google/protobuf/timestamp.proto"
WRAPPERS: Final = "google/protobuf/wrappers.proto"
DOUBLE, FLOAT, INT64, INT32, BOOL, STRING, MESSAGE, BYTES, UINT32, ENUM = 1, 2, 3, 5, 8, 9, 11, 12, 13, 14
"""Types of fields, as ``FieldDescriptorProto.Type`` numbers them."""
UINT64, FIXED64, FIXED32, SFIXED32, SFIXED64, SINT32, SINT64 = 4, 6, 7, 15, 16, 17, 18
OPTIONAL, REPEATED = 1, 3
_META_NUMBER: Final = 1088
_HINT: Final = "Protobuf needs the package protobuf: pip install 'pkafka[registry]'"
_GOOGLE: Final = "google/protobuf/"


def field(name: str, number: int, kind: int, type_name: str | None = None, **more: object) -> Description:
    """The description of a field, of which there is one, unless ``label`` says else.

    Args:
        kind: its type.
        type_name: of a message or an enum, with a dot before it.
    """
    named = {} if type_name is None else {"type_name": type_name}
    return {"name": name, "number": number, "type": kind, "label": OPTIONAL, **named, **more}


def _numbers(*names: str) -> list[Description]:
    return [field(name, number, INT32) for number, name in enumerate(names, 1)]


_PARAMS: Final = {
    "name": "ParamsEntry",
    "field": [field("key", 1, STRING), field("value", 2, STRING)],
    "options": {"map_entry": True},
}
_META: Final = {
    "name": "Meta",
    "nested_type": [_PARAMS],
    "field": [
        field("doc", 1, STRING),
        field("params", 2, MESSAGE, ".confluent.Meta.ParamsEntry", label=REPEATED),
        field("tags", 3, STRING, label=REPEATED),
    ],
}
_EXTENDED: Final = {
    "file": "File",
    "message": "Message",
    "field": "Field",
    "enum": "Enum",
    "enum_value": "EnumValue",
}
_KNOWN: Final[dict[str, Description]] = {
    META: {
        "package": "confluent",
        "dependency": [f"{_GOOGLE}descriptor.proto"],
        "message_type": [_META],
        "extension": [
            field(
                f"{name}_meta",
                _META_NUMBER,
                MESSAGE,
                ".confluent.Meta",
                extendee=f".google.protobuf.{extended}Options",
            )
            for name, extended in _EXTENDED.items()
        ],
    },
    DECIMAL: {
        "package": "confluent.type",
        "message_type": [
            {
                "name": "Decimal",
                "field": [field("value", 1, BYTES), field("precision", 2, UINT32), field("scale", 3, INT32)],
            }
        ],
    },
    DATE: {
        "package": "google.type",
        "message_type": [{"name": "Date", "field": _numbers("year", "month", "day")}],
    },
    TIME: {
        "package": "google.type",
        "message_type": [{"name": "TimeOfDay", "field": _numbers("hours", "minutes", "seconds", "nanos")}],
    },
}
"""Files that every registry has, and the package protobuf has not."""
_OPTIONS: Final[Description] = {
    "name": "options.proto",
    "dependency": [META],
    "message_type": [{"name": "Options", "field": [field("meta", _META_NUMBER, MESSAGE, ".confluent.Meta")]}],
}


def load() -> None:
    """See whether the package protobuf is there.

    Raises:
        PkafkaError: it is not installed.
    """
    try:
        import google.protobuf  # noqa: F401 - whether it is there
    except ImportError as error:
        raise PkafkaError(_HINT) from error


def file_of(described: Description) -> File:
    """A file by its description; ``params`` of a field become its option ``confluent.field_meta``."""
    from google.protobuf import descriptor_pb2

    made = descriptor_pb2.FileDescriptorProto(**{"syntax": "proto3", **_without_params(described)})
    for message, part in zip(made.message_type, described.get("message_type", ()), strict=True):
        _set_params(message, part)
    return made


def _without_params(part: Any) -> Any:  # noqa: ANN401 - whatever a description has
    if isinstance(part, Mapping):
        return {key: _without_params(value) for key, value in part.items() if key != "params"}
    return [_without_params(each) for each in part] if isinstance(part, list) else part


def _set_params(message: Message, described: Description) -> None:
    for made, part in zip(message.field, described.get("field", ()), strict=True):
        if part.get("params"):
            options = _options_class()(meta={"params": part["params"]})
            made.options.MergeFromString(options.SerializeToString())
    for made, part in zip(message.nested_type, described.get("nested_type", ()), strict=True):
        _set_params(made, part)


def params_of(descriptor: Descriptor) -> dict[str, str]:
    """What Confluent's converters have noted of a field (``confluent.field_meta``)."""
    options = descriptor.GetOptions().SerializeToString()
    return dict(_options_class().FromString(options).meta.params) if options else {}


@cache
def _options_class() -> Message:
    """The class of a message that has, of a field's options, those of Confluent's."""
    return ProtobufFile(file_of(_OPTIONS), {}).message("Options")


def text_of(file: File) -> SchemaText:
    """A file as registries take it in the place of ``.proto`` text."""
    return SchemaText(base64.standard_b64encode(file.SerializeToString()).decode("ascii"), PROTOBUF)


def read_file(text: SchemaText, referred: Callable[[SchemaReference], SchemaText]) -> "ProtobufFile":
    """The file of a schema that a registry has given as a descriptor.

    Args:
        referred: what a reference stands for, as a descriptor too.

    Raises:
        SerializationError: it is none, or lacks a file that it imports.
        RegistryError: the registry does not answer.
    """
    imported: dict[str, File] = {}

    def collect(schema: SchemaText) -> None:
        for each in schema.references:
            if each.name not in imported:
                inner = referred(each)
                imported[each.name] = _decoded(inner)
                collect(inner)

    collect(text)
    return ProtobufFile(_decoded(text), imported)


def _decoded(text: SchemaText) -> File:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    if text.kind != PROTOBUF:
        raise SerializationError(f"The schema is of {text.kind}, not of Protobuf")
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text.text, validate=True))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise SerializationError(
            "The Schema Registry gives a schema of Protobuf as text; it has to know format=serialized"
        ) from error


class ProtobufFile:
    """The messages of a file, as classes.

    Args:
        file: that has them.
        imported: files that it imports, by their names there.

    Raises:
        SerializationError: it cannot be a file of Protobuf, or lacks a file that it imports.
    """

    def __init__(self, file: File, imported: Mapping[str, File]) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        self._imported = imported
        self._added: set[str] = set()
        name = file.name or "default.proto"
        self._add(name, file)
        self.descriptor: Final[Descriptor] = self._pool.FindFileByName(name)

    def _add(self, name: str, file: File) -> None:
        self._added.add(name)
        for each in file.dependency:
            if each not in self._added:
                self._add(each, self._imported.get(each) or _known(each))
        named = type(file)()
        named.CopyFrom(file)
        named.name = name
        try:
            self._pool.Add(named)
        except TypeError as error:  # as the package says that descriptors do not fit together
            raise SerializationError(f"This cannot be a schema of Protobuf: {error}") from error

    def message(self, full_name: str) -> Message:
        """The class of a message.

        Raises:
            SerializationError: there is none of that name.
        """
        try:
            return self._class(self._pool.FindMessageTypeByName(full_name))
        except KeyError as error:
            raise SerializationError(f"The schema of Protobuf has no message {full_name}") from error

    def at(self, indexes: Sequence[int]) -> Message:
        """The class of a message by its place: that of its outermost message first.

        Raises:
            SerializationError: there is none.
        """
        found: Descriptor = None
        siblings = list(self.descriptor.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(siblings):
                raise SerializationError(f"The schema of Protobuf has no message {list(indexes)}")
            found = siblings[index]
            siblings = list(found.nested_types)
        return self._class(found)

    def _class(self, descriptor: Descriptor) -> Message:
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(descriptor)


def _known(name: str) -> File:
    """A file that need not be referred to."""
    from google.protobuf import descriptor_pb2

    if name in _KNOWN:
        return file_of({"name": name, **_KNOWN[name]})
    module = _module(name) if name.startswith(_GOOGLE) else None
    if module is None:
        raise SerializationError(
            f"The schema of Protobuf imports {name}, which the Schema Registry does not refer to"
        )
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _module(name: str) -> Any:  # noqa: ANN401 - a module that protoc has made
    try:
        return import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None


def place_of(descriptor: Descriptor) -> list[int]:
    """The place of a message in its file, that of its outermost message first."""
    indexes: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name if outer is None else outer.nested_types_by_name
        indexes.insert(0, list(siblings).index(descriptor.name))
        descriptor = outer
    return indexes


def is_repeated(descriptor: Descriptor) -> bool:
    """Whether a field may have several values; the package has renamed what says so."""
    found = getattr(descriptor, "is_repeated", None)
    return bool(descriptor.label == REPEATED if found is None else found)
