"""JSON Schema to schemas of Connect, as Confluent's JsonSchemaConverter maps it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pkafka.connect.converters.jsonschema_from_connect import (
    BYTES,
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    ENUM_PREFIX,
    KEY,
    MAP,
    ONE_OF,
    ONE_OF_FIELD,
    VALUE,
    JsonSchemaOptions,
    Node,
    ValuesOfJsonSchema,
)
from pkafka.connect.data.schema import Field, Schema
from pkafka.connect.data.types import Type
from pkafka.connect.errors import DataError

_NUMBERS: Final[dict[str, Type]] = {
    each.value: each
    for each in (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BYTES)
}
_NULL: Final = "null"
_TYPED: Final = frozenset({"type", "properties", "items", "enum", "oneOf", "anyOf", "allOf", "$ref"})
_ABOUT: Final = frozenset(
    {"title", "description", "default", CONNECT_VERSION, CONNECT_PARAMETERS, CONNECT_INDEX}
)


Resolve = Callable[[str, str], tuple[Node, str]]
"""From a ``$ref`` and the name of the schema that it stands in, to what it stands for and the name of that schema."""


class _Parts(NamedTuple):
    """What the type of a schema makes of it."""

    type: Type
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    parameters: Mapping[str, str] = {}
    name: str | None = None
    optional: bool = False


class SchemaFromJsonSchema:
    """Makes the schema of Connect of a JSON Schema.

    Args:
        resolve: finds what it refers to; raises what it likes for what is not there.
        options: how.
    """

    def __init__(self, resolve: Resolve, options: JsonSchemaOptions) -> None:
        self._resolve = resolve
        self._options = options
        self._values = ValuesOfJsonSchema()
        self._outer: list[tuple[str, str]] = []
        """References that are being followed."""

    def convert(self, root: Node, version: int | None = None) -> Schema:
        """The schema of Connect.

        Args:
            version: that it has when the JSON Schema tells none.

        Raises:
            DataError: there is none, as for a schema that has itself in it or that allows anything.
        """
        return self._schema(root, "", version=version)

    def _schema(
        self, node: Node, document: str, *, optional: bool = False, version: int | None = None
    ) -> Schema:
        if not isinstance(node, Mapping) or _TYPED.isdisjoint(node):
            raise DataError(f"A JSON Schema without a type has no schema of Connect: {str(node)[:200]}")
        if "$ref" in node:
            return self._referred(str(node["$ref"]), document, optional=optional, version=version)
        members = _members(node)
        if members is not None:
            some = [each for each in members if not _is_null(each)]
            if len(some) == 1 and len(members) == 2:
                return self._schema(some[0], document, optional=True, version=version)
            parts = self._union(some, document, has_null=len(some) < len(members))
        elif "allOf" in node:
            return self._schema(self._merged(node, document), document, optional=optional, version=version)
        else:
            parts = self._typed(node, document)
        return self._described(node, parts, optional=optional, version=version)

    def _referred(self, reference: str, document: str, *, optional: bool, version: int | None) -> Schema:
        node, where = self._resolve(reference, document)
        key = (reference, document)
        if key in self._outer:
            raise DataError(f"{reference} has itself in it, which no schema of Connect can be")
        self._outer.append(key)
        try:
            return self._schema(node, where, optional=optional, version=version)
        finally:
            self._outer.pop()

    def _union(self, members: list[Node], document: str, *, has_null: bool) -> _Parts:
        fields = tuple(
            Field(f"{ONE_OF_FIELD}{index}", index, self._schema(each, document, optional=True))
            for index, each in enumerate(members)
        )
        return _Parts(Type.STRUCT, fields, name=ONE_OF, optional=has_null)

    def _merged(self, node: Node, document: str) -> Node:
        """One schema that says what all of ``allOf`` say, with the properties of all objects."""
        merged: dict[str, Any] = {key: value for key, value in node.items() if key != "allOf"}
        for each in node["allOf"]:
            part = each
            if isinstance(part, Mapping) and "$ref" in part:
                part, where = self._resolve(str(part["$ref"]), document)
                if where != document:
                    raise DataError("allOf of another schema of the registry has no schema of Connect")
            if not isinstance(part, Mapping) or "$ref" in part or "allOf" in part:
                raise DataError("allOf in allOf has no schema of Connect")
            for key, value in part.items():
                if key == "properties":
                    merged[key] = {**merged.get(key, {}), **value}
                elif key == "required":
                    merged[key] = [*merged.get(key, []), *value]
                elif merged.setdefault(key, value) != value and key in ("type", "oneOf", "anyOf"):
                    raise DataError(f"allOf of several {key} has no schema of Connect")
        return merged

    # -- by type --

    def _typed(self, node: Node, document: str) -> _Parts:
        symbols = node.get("enum")
        if symbols is not None and all(isinstance(each, str) for each in symbols):
            return _Parts(
                Type.STRING, parameters={ENUM: "", **{f"{ENUM_PREFIX}{each}": each for each in symbols}}
            )
        kind = node.get("type")
        if isinstance(kind, list):
            kind = kind[0] if kind else "none"
        if kind is None:
            kind = "object" if "properties" in node else "array" if "items" in node else None
        if kind in ("integer", "number"):
            return _Parts(self._number(node, kind))
        if kind == "string":
            return _Parts(Type.BYTES if node.get(CONNECT_TYPE) == BYTES else Type.STRING)
        if kind == "boolean":
            return _Parts(Type.BOOLEAN)
        if kind == "array":
            return self._array(node, document)
        if kind == "object":
            return self._object(node, document)
        raise DataError(f"The type {kind} of a JSON Schema has no schema of Connect")

    def _number(self, node: Node, kind: str) -> Type:
        told = node.get(CONNECT_TYPE)
        if told is None:
            return Type.INT64 if kind == "integer" else Type.FLOAT64
        found = _NUMBERS.get(str(told))
        if found is None:
            raise DataError(f"Unsupported type {told}")
        return found

    def _array(self, node: Node, document: str) -> _Parts:
        items = node.get("items")
        if not isinstance(items, Mapping):
            raise DataError("Array schema did not specify the items type")
        properties = items.get("properties", {})
        if node.get(CONNECT_TYPE) == MAP and {KEY, VALUE} <= properties.keys():
            return self._map(self._schema(properties[KEY], document), properties[VALUE], document)
        return _Parts(Type.ARRAY, value_schema=self._schema(items, document))

    def _map(self, keys: Schema, values: Node, document: str) -> _Parts:
        return _Parts(Type.MAP, key_schema=keys, value_schema=self._schema(values, document))

    def _object(self, node: Node, document: str) -> _Parts:
        if node.get(CONNECT_TYPE) == MAP:
            return self._map(Schema.STRING, node.get("additionalProperties"), document)
        required = set(node.get("required", ()))
        fields = []
        for index, (name, inner) in enumerate(_ordered(node.get("properties", {}))):
            optional = self._options.optional_unless_required and name not in required
            fields.append(Field(name, index, self._schema(inner, document, optional=optional)))
        return _Parts(Type.STRUCT, tuple(fields))

    # -- what else there is to tell --

    def _described(self, node: Node, parts: _Parts, *, optional: bool, version: int | None) -> Schema:
        parameters = {**parts.parameters, **(node.get(CONNECT_PARAMETERS) or {})}

        def made(default: Any = None) -> Schema:  # noqa: ANN401 - a value of Connect
            return Schema(
                parts.type,
                optional=optional or parts.optional,
                default=default,
                name=node.get("title", parts.name),
                version=node.get(CONNECT_VERSION, version),
                doc=node.get("description"),
                parameters={key: str(value) for key, value in parameters.items()} or None,
                fields=parts.fields,
                key_schema=parts.key_schema,
                value_schema=parts.value_schema,
            )

        found = made()
        default = node.get("default")
        return found if default is None else made(self._values.to_connect(found, default))


def _members(node: Node) -> list[Node] | None:
    """The schemas of a union; None: it is none."""
    for key in ("oneOf", "anyOf"):
        if isinstance(node.get(key), list):
            return list(node[key])
    types = node.get("type")
    if not isinstance(types, list) or len(types) < 2:
        return None
    # What stands beside several types belongs to the members; what is for people, to the whole.
    rest = {key: value for key, value in node.items() if key != "type"}
    inner = {key: value for key, value in rest.items() if len(types) == 2 or key not in _ABOUT}
    return [{"type": each} if each == _NULL else {**inner, "type": each} for each in types]


def _is_null(node: Node) -> bool:
    return isinstance(node, Mapping) and node.get("type") == _NULL


def _ordered(properties: Mapping[str, Node]) -> list[tuple[str, Node]]:
    """Properties in the order that ``connect.index`` says, else in theirs."""

    def index(pair: tuple[int, tuple[str, Node]]) -> int:
        at, (_name, node) = pair
        found = node.get(CONNECT_INDEX) if isinstance(node, Mapping) else None
        return found if isinstance(found, int) else at

    return [pair for _at, pair in sorted(enumerate(properties.items()), key=index)]
