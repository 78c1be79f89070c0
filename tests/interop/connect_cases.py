"""Cases for ``java/ConnectOracle.java``, and what pkafka makes of the same case: values and schemas as tagged JSON."""

import base64
import datetime
import json
import re
import struct
from collections.abc import Mapping
from decimal import Decimal as Number
from typing import Any

from pkafka.connect import converters
from pkafka.connect.config_def import ConfigDef
from pkafka.connect.config_types import config_text
from pkafka.connect.data import (
    ConnectRecord,
    Decimal,
    Headers,
    Schema,
    SchemaAndValue,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
    Type,
)
from pkafka.connect.data import values as connect_values
from pkafka.connect.data.java_classes import class_name
from pkafka.connect.data.java_text import java_text
from pkafka.connect.data.logical import Date, Time, Timestamp, to_millis
from pkafka.connect.errors import ConfigError, ConnectError
from pkafka.connect.transforms import PREDICATES, TRANSFORMS
from pkafka.java.date_format import DateFormatError, SimpleDateFormat

Node = Any
CONVERTERS = [getattr(converters, name) for name in converters.__all__]
PLUGINS: dict[str, Any] = {
    each.JAVA_NAME: each
    for each in (*TRANSFORMS, *PREDICATES, *(each for each in CONVERTERS if hasattr(each, "JAVA_NAME")))
}
_TAGS = {
    "java.lang.Byte": "Byte",
    "java.lang.Short": "Short",
    "java.lang.Integer": "Integer",
    "java.lang.Long": "Long",
    "java.lang.Float": "Float",
    "java.lang.Double": "Double",
}
_ADDRESS = re.compile(r"\[B@[0-9a-f]+")


def node_of(value: Any, schema: Schema | None = None) -> Node:
    """A value as tagged JSON; plain numbers are of the class that their schema says."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ["Boolean", value]
    if isinstance(value, int | float):
        return _number_node(value, schema)
    if isinstance(value, str):
        return ["String", value]
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, bytearray | memoryview):
        return ["buffer", base64.b64encode(value).decode()]
    if isinstance(value, datetime.datetime):
        return ["Date", to_millis(value)]
    if isinstance(value, Number):
        return ["BigDecimal", java_text(value)]
    return _composed_node(value, schema)


def _number_node(value: float, schema: Schema | None) -> Node:
    tag = _TAGS[class_name(value, None if schema is None else schema.type)]
    if value != value:
        return [tag, 0x7FC00000 if tag == "Float" else 0x7FF8000000000000]
    if tag == "Float":
        return [tag, struct.unpack(">i", struct.pack(">f", value))[0]]
    if tag == "Double":
        return [tag, struct.unpack(">q", struct.pack(">d", value))[0]]
    return [tag, int(value)]


def _composed_node(value: Any, schema: Schema | None) -> Node:
    if isinstance(value, Struct):
        fields = value.schema.fields
        pairs = [[each.name, node_of(value.get_without_default(each.name), each.schema)] for each in fields]
        return ["Struct", schema_node(value.schema), pairs]
    if isinstance(value, Mapping):
        is_map = schema is not None and schema.type is Type.MAP
        of_key, of_value = (schema.key_schema, schema.value_schema) if schema and is_map else (None, None)
        return ["Map", [[node_of(key, of_key), node_of(each, of_value)] for key, each in value.items()]]
    element = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
    return ["List", [node_of(each, element) for each in value]]


def schema_node(schema: Schema | None) -> Node:
    """A schema as JSON."""
    if schema is None:
        return None
    is_struct, is_map = schema.type is Type.STRUCT, schema.type is Type.MAP
    return {
        "type": schema.type.name,
        "optional": schema.optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": schema.parameters,
        "default": node_of(schema.default, schema),
        "fields": [[each.name, schema_node(each.schema)] for each in schema.fields] if is_struct else [],
        "key": schema_node(schema.key_schema) if is_map else None,
        "value": schema_node(schema.value_schema) if is_map or schema.type is Type.ARRAY else None,
    }


def record_node(record: ConnectRecord | None) -> Node:
    """A record as JSON."""
    if record is None:
        return None
    return {
        "topic": record.topic,
        "partition": record.partition,
        "keySchema": schema_node(record.key_schema),
        "key": node_of(record.key, record.key_schema),
        "valueSchema": schema_node(record.value_schema),
        "value": node_of(record.value, record.value_schema),
        "timestamp": record.timestamp,
        "headers": [
            [each.key, schema_node(each.schema), node_of(each.value, each.schema)] for each in record.headers
        ],
        **({"offset": record.offset} if isinstance(record, SinkRecord) else {}),
    }


def both_node(both: SchemaAndValue) -> Node:
    """A schema and a value as JSON."""
    return {"schema": schema_node(both.schema), "value": node_of(both.value, both.schema)}


def comparable(node: Node) -> Node:
    """An answer without what may differ: the order of maps, addresses of arrays, texts of records with maps."""
    if isinstance(node, dict):
        return {
            key: comparable(value) for key, value in node.items() if key not in ("text of a map", "offset")
        }
    if isinstance(node, list):
        if len(node) == 2 and node[0] == "Map":
            return ["Map", sorted(map(comparable, node[1]), key=json.dumps)]
        return [comparable(each) for each in node]
    return _text_of(node) if isinstance(node, str) else node


def _text_of(node: str) -> str:
    """Words of Java's own about a regular expression are left out; half a pair of surrogates cannot be printed."""
    return _ADDRESS.sub("[B@", node.partition("Invalid regex: ")[0]).encode("utf-8", "replace").decode()


def error_node(error: Exception) -> Node:
    """A refusal as JSON."""
    assert isinstance(error, ConnectError | ConfigError), repr(error)
    return {"error": [error.JAVA_NAME, str(error)]}


_CONVERSIONS: dict[str, Schema] = {
    "Boolean": Schema.OPTIONAL_BOOLEAN,
    "Byte": Schema.OPTIONAL_INT8,
    "Short": Schema.OPTIONAL_INT16,
    "Integer": Schema.OPTIONAL_INT32,
    "Long": Schema.OPTIONAL_INT64,
    "Float": Schema.OPTIONAL_FLOAT32,
    "Double": Schema.OPTIONAL_FLOAT64,
    "String": Schema.OPTIONAL_STRING,
    "List": SchemaBuilder.array(Schema.STRING).build(),
    "Map": SchemaBuilder.map(Schema.STRING, Schema.STRING).build(),
    "Time": Time.SCHEMA,
    "Date": Date.SCHEMA,
    "Timestamp": Timestamp.SCHEMA,
    "Decimal": Decimal.schema(2),
}


class Case:
    """One case: what Java is asked, and what pkafka answers."""

    def __init__(self, do: str, **asked: Any) -> None:
        self._do = do
        self._asked = asked

    def line(self) -> str:
        """What Java is asked."""
        asked: dict[str, Node] = {"do": self._do}
        for name, value in self._asked.items():
            if isinstance(value, ConnectRecord):
                asked[name] = record_node(value)
            elif isinstance(value, bytes) and name == "bytes":
                asked[name] = base64.b64encode(value).decode()
            elif name == "schema":
                asked[name] = schema_node(value)
            elif name == "value":
                asked[name] = node_of(value, self._asked.get("schema"))
            else:
                asked["class" if name == "name" else name] = value
        return json.dumps(asked)

    def __repr__(self) -> str:
        return f"{self._do} {self._asked}"

    def ours(self) -> Node:
        """What pkafka answers."""
        try:
            return getattr(self, f"_{self._do}")(**self._asked)
        except (ConnectError, ConfigError) as error:
            return error_node(error)
        except DateFormatError as error:
            return {"error": ["java.lang.IllegalArgumentException", str(error)]}

    def _transform(self, name: str, config: dict[str, str], record: ConnectRecord) -> Node:
        transform = PLUGINS[name]()
        transform.configure(config)
        return {"record": record_node(transform.apply(record))}

    def _predicate(self, name: str, config: dict[str, str], record: ConnectRecord) -> Node:
        predicate = PLUGINS[name]()
        predicate.configure(config)
        return {"test": predicate.test(record)}

    def _from(
        self, name: str, config: dict[str, str], schema: Schema | None, value: Any, isKey: bool = False
    ) -> Node:
        converter = PLUGINS[name]()
        converter.configure(config, is_key=isKey)
        return {"bytes": _bytes_node(converter.from_connect("t", None, schema, value))}

    def _to(self, name: str, config: dict[str, str], bytes: bytes | None, isKey: bool = False) -> Node:
        converter = PLUGINS[name]()
        converter.configure(config, is_key=isKey)
        return {"both": both_node(converter.to_connect("t", None, bytes))}

    def _fromHeader(self, name: str, config: dict[str, str], schema: Schema | None, value: Any) -> Node:
        converter = PLUGINS[name]()
        converter.configure({**config, "converter.type": "header"})
        return {"bytes": _bytes_node(converter.from_connect_header("t", "h", schema, value))}

    def _toHeader(self, name: str, config: dict[str, str], bytes: bytes | None) -> Node:
        converter = PLUGINS[name]()
        converter.configure({**config, "converter.type": "header"})
        return {"both": both_node(converter.to_connect_header("t", "h", bytes))}

    def _parse(self, text: str) -> Node:
        return {"both": both_node(connect_values.parse_string(text))}

    def _convert(self, to: str, schema: Schema | None, value: Any) -> Node:
        wanted = _CONVERSIONS[to]
        made = connect_values.convert(wanted, schema, value)
        # Lists and maps are handed on as they are.
        return {"value": node_of(made, schema if isinstance(made, list | Mapping) else wanted)}

    def _infer(self, value: Any) -> Node:
        return {"schema": schema_node(connect_values.infer_schema(value))}

    def _text(self, value: Any) -> Node:
        return {"text": java_text(value)}

    def _validate(self, name: str, config: dict[str, str]) -> Node:
        definition: ConfigDef = PLUGINS[name].CONFIG
        return {
            "values": {
                each.name: [config_text(each.value, definition.keys[each.name].type), each.errors]
                for each in definition.validate(config)
            }
        }

    def _definition(self, name: str) -> Node:
        definition: ConfigDef = PLUGINS[name].CONFIG
        return {
            "keys": [
                [
                    key.name,
                    str(key.type),
                    key.importance.name,
                    config_text(key.default, key.type) if key.has_default else "none",
                    key.documentation,
                    key.group,
                    key.order_in_group,
                    key.width.name,
                    key.display_name,
                ]
                for key in definition.keys.values()
            ]
        }

    def _format(self, pattern: str, millis: int | None = None, text: str = "") -> Node:
        format = SimpleDateFormat(pattern, century_start_ms=self.century_start_ms)
        if millis is not None:
            return {"text": format.format(millis)}
        try:
            return {"millis": format.parse(text)}
        except DateFormatError:
            return {"millis": None}

    century_start_ms = 0


def _bytes_node(data: bytes | None) -> Node:
    return None if data is None else base64.b64encode(data).decode()


def record(
    value: Any = None, schema: Schema | None = None, *, sink: bool = True, **more: Any
) -> ConnectRecord:
    """A record to transform."""
    attributes: dict[str, Any] = {
        "topic": "t",
        "partition": 3,
        "key_schema": None,
        "key": None,
        "value_schema": schema,
        "value": value,
        "timestamp": 1_234_567_890_123,
        "headers": Headers(),
        **more,
    }
    return (
        SinkRecord(**attributes, offset=42, timestamp_type="CreateTime")
        if sink
        else SourceRecord(**attributes)
    )
