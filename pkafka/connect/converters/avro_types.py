"""Schemas of Avro, made ready for conversion: every name written out, and a form that only the bytes depend on."""

import re
from collections.abc import Mapping
from typing import Any, Final

from pkafka.connect.errors import DataError

Node = Any
"""A schema of Avro as JSON has it: a name, a dict, or a list (a union)."""

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
ANYTHING_NAME: Final = f"{NAMESPACE}.Anything"
INTERNAL_TYPE: Final = "connect.internal.type"
_UNNAMED: Final = re.compile(rf"{re.escape(NAMESPACE)}\.({DEFAULT_NAME}|{MAP_ENTRY})[0-9]*\Z")
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

ANYTHING: Final[Node] = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *(
            {"name": name, "type": ["null", name], "default": None}
            for name in ("boolean", "bytes", "double", "float", "int", "long", "string")
        ),
        {"name": "array", "type": ["null", {"type": "array", "items": "Anything"}], "default": None},
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": MAP_ENTRY,
                        "fields": [
                            {"name": "key", "type": "Anything"},
                            {"name": "value", "type": "Anything"},
                        ],
                    },
                },
            ],
            "default": None,
        },
    ],
}
"""What Confluent's converter writes values without a schema as."""


class AvroTypes:
    """A schema with its names written out.

    Args:
        schema: as a registry has it.

    Raises:
        DataError: it is no schema of Avro.
    """

    def __init__(self, schema: Node) -> None:
        self._named: dict[str, dict[str, Node]] = {}
        try:
            self.root: Final[Node] = self._qualified(schema, "")
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"This is no schema of Avro: {schema}") from error
        self._aliases = {name: f"N{index}" for index, name in enumerate(self._named)}
        self._names = {alias: name for name, alias in self._aliases.items()}

    def definition(self, node: Node) -> Node:
        """What a name stands for; anything else is itself."""
        return self._named.get(node, node) if isinstance(node, str) else node

    def type_of(self, node: Node) -> str:
        """The type of a schema: ``record``, ``union``, ``int`` ..."""
        found = self.definition(node)
        if isinstance(found, list):
            return "union"
        return str(found["type"]) if isinstance(found, Mapping) else str(found)

    def branch(self, node: Node) -> str:
        """By what name the bytes' writer knows a member of a union."""
        found = self.definition(node)
        kind = self.type_of(found)
        return self._aliases[found["name"]] if kind in _NAMED else kind

    def name_of(self, branch: str) -> str:
        """The full name of a member of a union that has one."""
        return self._names[branch]

    def for_bytes(self) -> Node:
        """A schema with the same bytes, and nothing else in it: no logical types, no defaults, short names."""
        return self._bare(self.root, set())

    def _bare(self, node: Node, seen: set[str]) -> Node:
        found = self.definition(node)
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return [self._bare(each, seen) for each in found]
        kind = found["type"]
        if kind in _PRIMITIVE:
            return kind
        if kind == "array":
            return {"type": kind, "items": self._bare(found["items"], seen)}
        if kind == "map":
            return {"type": kind, "values": self._bare(found["values"], seen)}
        alias = self._aliases[found["name"]]
        if alias in seen:
            return alias
        seen.add(alias)
        bare: dict[str, Node] = {"type": "record" if kind == "error" else kind, "name": alias}
        if kind == "enum":
            return {**bare, "symbols": found["symbols"]}
        if kind == "fixed":
            return {**bare, "size": found["size"]}
        fields = ({"name": each["name"], "type": self._bare(each["type"], seen)} for each in found["fields"])
        return {**bare, "fields": list(fields)}

    def _qualified(self, node: Node, space: str) -> Node:
        if isinstance(node, list):
            return [self._qualified(each, space) for each in node]
        if isinstance(node, str):
            return self._reference(node, space)
        kind = node["type"]
        if not isinstance(kind, str):
            return self._qualified(kind, space)
        if kind == "array":
            return {**node, "items": self._qualified(node["items"], space)}
        if kind == "map":
            return {**node, "values": self._qualified(node["values"], space)}
        if kind not in _NAMED:
            return node if kind in _PRIMITIVE else self._reference(kind, space)
        name = str(node["name"])
        if "." not in name:
            space = str(node.get("namespace", space) or "")
            name = f"{space}.{name}" if space else name
        if name in self._named:
            raise DataError(f"Can't redefine: {name}")
        qualified = self._named[name] = {**node, "name": name}
        space = name.rpartition(".")[0]
        if kind in ("record", "error"):
            qualified["fields"] = [
                {**each, "type": self._qualified(each["type"], space)} for each in node["fields"]
            ]
        return qualified

    def _reference(self, name: str, space: str) -> str:
        if name in _PRIMITIVE:
            return name
        for full in (name if "." in name or not space else f"{space}.{name}", name):
            if full in self._named:
                return full
        raise DataError(f"Undefined name in a schema of Avro: {name}")


def is_unnamed(name: str) -> bool:
    """Whether the name is one that converters give to what has none."""
    return _UNNAMED.match(name) is not None


def is_map_entry(definition: Node) -> bool:
    """Whether an array of these records is a map whose keys are not plain text."""
    if not isinstance(definition, Mapping) or definition.get("type") != "record":
        return False
    name = str(definition["name"])
    is_entry = name.startswith(f"{NAMESPACE}.{MAP_ENTRY}") and is_unnamed(name)
    return is_entry or definition.get(INTERNAL_TYPE) == MAP_ENTRY


def split_name(full: str) -> tuple[str, str]:
    """Namespace and name."""
    space, _, name = full.rpartition(".")
    return space, name
