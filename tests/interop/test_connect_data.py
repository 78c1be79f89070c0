"""Values, converters and transforms: results and refusals are those of Apache Kafka Connect itself."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pkafka.connect.data import Headers, Schema, SchemaBuilder, Type
from pkafka.connect.data.logical import Decimal, from_millis
from tests.connect_data import (
    FIELD_NAMES,
    MAPS,
    SCALARS,
    TEXTS,
    TIMES,
    WITHOUT_SCHEMA,
    maps,
    schemas,
    values_of,
    with_schema,
)
from tests.interop.connect_cases import PLUGINS, Case, comparable, record
from tests.interop.line_oracle import LineOracle, line_oracle

MUCH = settings(
    max_examples=300,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
TRANSFORMS = "org.apache.kafka.connect.transforms."
JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
PLAIN_CONVERTERS = [name for name in PLUGINS if name.endswith("Converter") and name not in (JSON, SIMPLE)]
SIDES = ("Key", "Value")
BOOLEANS = st.sampled_from(["true", "false"])


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "ConnectOracle") as oracle:
        yield oracle


def agree(java: LineOracle, case: Case) -> None:
    """Java and pkafka answer the same."""
    theirs, ours = json.loads(java.ask(case.line())), case.ours()
    # Python has no dates so far away.
    if "years 1 to 9999" not in str(ours.get("error")):
        assert comparable(_without_odds(ours)) == comparable(_without_odds(theirs)), case


def _without_odds(answer: Any) -> Any:
    """Of a refusal by Java's own code, the class alone: its words are of that version of Java."""
    if "error" in answer and answer["error"][0].startswith("java."):
        return {"error": [answer["error"][0]]}
    if isinstance(answer.get("bytes"), str):
        return {"bytes": base64.b64decode(answer["bytes"]).decode("latin-1")}
    if isinstance(answer.get("record"), dict):
        return {"record": {name: value for name, value in answer["record"].items() if name != "text"}}
    return answer


# -- values ------------------------------------------------------------------------------------------------

PIECES = [
    *'[]{},:"\\ +-.',
    *[
        "0",
        "1",
        "12",
        "300",
        "70000",
        "5000000000",
        "1.5",
        "1e3",
        "1E-2",
        "1e400",
        "-7",
        ".5",
        "5.",
        "99999999999999999999",
        "0.1",
        "007",
    ],
    *[
        "true",
        "false",
        "null",
        "a",
        "é",
        "TRUE",
        "2020-01-02",
        "12:34:56.789Z",
        "2020-01-02T03:04:05.006Z",
        "9:9:9",
    ],
]
LITERALS = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)


@MUCH
@given(
    text=st.one_of(
        LITERALS, LITERALS.map(lambda text: f"[{text}]"), LITERALS.map(lambda text: f"{{{text}}}"), TEXTS
    )
)
def test_texts_are_taken_for_the_same_values(java: LineOracle, text: str) -> None:
    agree(java, Case("parse", text=text))


CONVERSIONS = [
    *("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "String"),
    *("List", "Map", "Time", "Date", "Timestamp", "Decimal"),
]


@MUCH
@given(
    to=st.sampled_from(CONVERSIONS),
    made=st.one_of(
        with_schema(1), st.tuples(st.none(), st.one_of(WITHOUT_SCHEMA, LITERALS, TIMES.map(from_millis)))
    ),
)
def test_values_are_converted_to_the_same(java: LineOracle, to: str, made: tuple[Schema | None, Any]) -> None:
    agree(java, Case("convert", to=to, schema=made[0], value=made[1]))


@MUCH
@given(value=st.one_of(WITHOUT_SCHEMA, with_schema(only=Type.STRUCT).map(lambda made: made[1])))
def test_values_have_the_same_schemas_and_texts(java: LineOracle, value: Any) -> None:
    agree(java, Case("infer", value=value))
    agree(java, Case("text", value=value))


PATTERN_PIECES = [
    *[
        "G",
        "yy",
        "yyyy",
        "y",
        "M",
        "MM",
        "MMM",
        "MMMM",
        "d",
        "dd",
        "D",
        "DDD",
        "H",
        "HH",
        "k",
        "K",
        "h",
        "hh",
        "a",
        "m",
        "mm",
        "s",
        "ss",
        "S",
        "SSS",
        "E",
        "EEEE",
        "z",
        "zzzz",
        "Z",
        "X",
        "XX",
        "XXX",
        "LLLL",
        "u",
    ],
    *("-", "/", ":", " ", "'T'", "''", "'o''clock'", ".", "b", "'", "w", "W", "F", "YYYY"),
]
PATTERNS = st.one_of(
    st.lists(st.sampled_from(PATTERN_PIECES), min_size=1, max_size=6).map("".join),
    st.sampled_from(
        ["yyyy-MM-dd'T'HH:mm:ss.SSSX", "EEE, dd MMM yyyy HH:mm:ss Z", "MM/dd/yyyy hh:mm a", "yyyyMMddHHmmss"]
    ),
)


@MUCH
@given(pattern=PATTERNS, millis=TIMES)
def test_times_have_the_same_texts(java: LineOracle, pattern: str, millis: int) -> None:
    agree(java, Case("format", pattern=pattern, millis=millis))


@MUCH
@given(pattern=PATTERNS, millis=TIMES, edit=st.sampled_from(["", "x", " ", "-", "5"]), at=st.integers(0, 12))
def test_texts_are_read_as_the_same_times(
    java: LineOracle, pattern: str, millis: int, edit: str, at: int
) -> None:
    made = Case("format", pattern=pattern, millis=millis).ours().get("text", "")
    case = Case("format", pattern=pattern, text=made[:at] + edit + made[at:])
    if not set(pattern) & set("YwWFEu") and "yy" not in pattern.replace("yyyy", ""):
        agree(java, case)


# -- converters --------------------------------------------------------------------------------------------

JSON_CONFIGS = st.fixed_dictionaries(
    {
        "schemas.enable": BOOLEANS,
        "decimal.format": st.sampled_from(["BASE64", "numeric"]),
        "replace.null.with.default": BOOLEANS,
    }
)
EITHER = st.one_of(with_schema(), st.tuples(st.none(), WITHOUT_SCHEMA))


def test_json_of_maps_has_the_same_meaning() -> None:
    """Documents of maps are compared by meaning in ``_json_agrees``: the order of a HashMap's keys is its own."""
    assert _meaning(b'{"a":1,"b":[2]}') == _meaning(b'{"b":[2],"a":1}')
    assert _meaning(b'{"a":1}') != _meaning(b'{"a":1.0}')


def _meaning(data: bytes) -> Any:
    def sorted_object(pairs: list[tuple[str, Any]]) -> Any:
        return sorted(pairs, key=lambda pair: pair[0])

    return json.loads(
        data, object_pairs_hook=sorted_object, parse_float=str, parse_int=lambda text: ("int", text)
    )


@MUCH
@given(made=EITHER, config=JSON_CONFIGS)
def test_json_is_written_the_same(
    java: LineOracle, made: tuple[Schema | None, Any], config: dict[str, str]
) -> None:
    agree(java, Case("from", name=JSON, config=config, isKey=False, schema=made[0], value=made[1]))


@MUCH
@given(made=EITHER, config=JSON_CONFIGS)
def test_json_is_read_the_same(
    java: LineOracle, made: tuple[Schema | None, Any], config: dict[str, str]
) -> None:
    written = _written(made, config)
    if written is not None:
        agree(java, Case("to", name=JSON, config=config, isKey=True, bytes=written))


def _written(made: tuple[Schema | None, Any], config: dict[str, str]) -> bytes | None:
    converter = PLUGINS[JSON]()
    converter.configure(config)
    try:
        data: bytes | None = converter.from_connect("t", None, *made)
    except Exception:  # noqa: BLE001  # what is refused is another test's
        return None
    return data


NODES = st.recursive(
    st.sampled_from(
        [
            "null",
            "true",
            "0",
            "-5",
            "300",
            "1.5",
            "1e3",
            "9999999999999999999",
            '"x"',
            '"AQ=="',
            '"a"',
            "1.10",
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda nodes: f"[{','.join(nodes)}]"),
        st.dictionaries(st.sampled_from(FIELD_NAMES), inner, max_size=2).map(
            lambda nodes: "{" + ",".join(f'"{name}":{node}' for name, node in nodes.items()) + "}"
        ),
    ),
    max_leaves=4,
)


@MUCH
@given(schema=schemas(), node=NODES, config=JSON_CONFIGS)
def test_json_that_does_not_fit_is_refused_the_same(
    java: LineOracle, schema: Schema, node: str, config: dict[str, str]
) -> None:
    written = _written((schema, None), {**config, "schemas.enable": "true"})
    if written is not None:
        prefix = written[: written.rindex(b',"payload":')]
        data = prefix + b',"payload":' + node.encode() + b"}"
        agree(java, Case("to", name=JSON, config=config, isKey=False, bytes=data))


SCHEMA_NODES = [
    *("null", "{}", "5", '{"type":5}', '{"type":"x"}', '{"type":"array"}', '{"type":"array","items":null}'),
    *(
        '{"type":"map"}',
        '{"type":"map","keys":null}',
        '{"type":"map","keys":null,"values":null}',
        '{"type":"struct"}',
    ),
    *(
        '{"type":"struct","fields":[5]}',
        '{"type":"struct","fields":[{"type":"int8"}]}',
        '{"type":"struct","fields":[]}',
    ),
    '{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"a"}]}',
    '{"type":"int8","optional":"yes","name":5,"version":"1","doc":1,"parameters":[]}',
    '{"type":"int8","optional":true,"version":4294967297,"parameters":{"a":5}}',
    *(
        '{"type":"int8","default":null}',
        '{"type":"int8","optional":true,"default":null}',
        '{"type":"int8","default":300}',
    ),
    *(
        '{"type":"string","default":5}',
        '{"type":"bytes","default":"*"}',
        '{"type":"int32","name":"n","default":7}',
    ),
    '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"}}',
]


@pytest.mark.parametrize("node", SCHEMA_NODES)
@pytest.mark.parametrize("payload", ["null", "5", '"AQ=="', "{}", "[]", '{"a":1}'])
def test_schemas_in_json_are_read_the_same(java: LineOracle, node: str, payload: str) -> None:
    data = f'{{"schema":{node},"payload":{payload}}}'.encode()
    agree(java, Case("to", name=JSON, config={}, isKey=False, bytes=data))


DOCUMENTS = [
    *(
        b"",
        b" ",
        b"null",
        b"5",
        b"5 6",
        b"{} x",
        b"[1",
        b"{'a':1}",
        b'"a\nb"',
        b"NaN",
        b"-Infinity",
        b"007",
        b"1.",
        b"-",
        b"truth",
    ),
    *(
        b'\xef\xbb\xbf{"a":1}',
        '{"a":"é"}'.encode("utf-16"),
        b'"\xff"',
        b'"\\ud800"',
        b'{"a":1,"a":2}',
        b"12x",
        b"1e999",
    ),
    *(b'{"schema":null,"payload":5}', b'{"payload":5,"schema":null}', b'{"schema":null,"payload":5,"x":1}'),
    *(
        b'{"schema":null}',
        b"123456789012345678901",
        b"18446744073709551617",
        b"-0",
        b"-0.0",
        b"1E+2",
        b'{"schema":null,"payload":5} x',
    ),
]


@pytest.mark.parametrize("data", DOCUMENTS)
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_odd_documents_are_read_the_same(java: LineOracle, data: bytes, enabled: str) -> None:
    agree(java, Case("to", name=JSON, config={"schemas.enable": enabled}, isKey=False, bytes=data))


def test_no_bytes_are_no_value(java: LineOracle) -> None:
    for name in (JSON, *PLAIN_CONVERTERS):
        agree(java, Case("to", name=name, config={}, isKey=False, bytes=None))
        agree(java, Case("from", name=name, config={}, isKey=False, schema=None, value=None))


@MUCH
@given(name=st.sampled_from(PLAIN_CONVERTERS), made=EITHER, data=st.binary(max_size=9))
def test_plain_converters(java: LineOracle, name: str, made: tuple[Schema | None, Any], data: bytes) -> None:
    agree(java, Case("from", name=name, config={}, isKey=False, schema=made[0], value=made[1]))
    agree(java, Case("to", name=name, config={}, isKey=False, bytes=data))


@MUCH
@given(
    name=st.sampled_from(PLAIN_CONVERTERS),
    size=st.sampled_from([1, 2, 4, 8]),
    data=st.binary(min_size=8, max_size=8),
)
def test_plain_converters_read_numbers(java: LineOracle, name: str, size: int, data: bytes) -> None:
    agree(java, Case("to", name=name, config={}, isKey=False, bytes=data[:size]))


WITHOUT_BYTES = SCALARS.filter(lambda value: not isinstance(value, bytes))
ENCODINGS = ["UTF-8", "ISO-8859-1", "UTF-16", "US-ASCII", "nonsense"]


@MUCH
@given(
    value=WITHOUT_BYTES,
    encoding=st.sampled_from(ENCODINGS),
)
def test_encodings_of_text(java: LineOracle, value: Any, encoding: str) -> None:
    name = "org.apache.kafka.connect.storage.StringConverter"
    agree(
        java,
        Case(
            "from", name=name, config={"converter.encoding": encoding}, isKey=True, schema=None, value=value
        ),
    )


@MUCH
@given(made=EITHER, text=LITERALS)
def test_headers(java: LineOracle, made: tuple[Schema | None, Any], text: str) -> None:
    agree(java, Case("fromHeader", name=SIMPLE, config={}, schema=made[0], value=made[1]))
    agree(java, Case("toHeader", name=SIMPLE, config={}, bytes=text.encode()))


# -- transforms --------------------------------------------------------------------------------------------

FIELDS = st.sampled_from(["a", "b", "c", "d.e", "x"])
LISTS = st.lists(FIELDS, max_size=3).map(",".join)
OPTIONAL_FIELD = st.one_of(st.none(), FIELDS, FIELDS.map("{}!".format), FIELDS.map("{}?".format))
TYPE_NAMES = st.sampled_from(
    ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "bytes", "x"]
)
CASTS = st.one_of(
    st.lists(st.tuples(FIELDS, TYPE_NAMES).map(":".join), min_size=1, max_size=2).map(",".join),
    TYPE_NAMES,
    st.sampled_from(["", "a:b:c", "int8,int16", "INT8", " a : int8 "]),
)


def _settings(**required: st.SearchStrategy[str | None]) -> st.SearchStrategy[dict[str, str]]:
    named = {name.replace("_", "."): strategy for name, strategy in required.items()}
    return st.fixed_dictionaries(named).map(
        lambda made: {name: value for name, value in made.items() if value is not None}
    )


MAYBE = st.one_of(st.none(), BOOLEANS)
SIDED: dict[str, st.SearchStrategy[dict[str, str]]] = {
    "Cast": _settings(spec=CASTS, replace_null_with_default=MAYBE),
    "ExtractField": _settings(
        field=st.sampled_from(["a", "b", "d.e", "a.b", "`d.e`", "a.`d.e`", "a.", "`a", "", "x"]),
        field_syntax_version=st.sampled_from([None, "V1", "v2", "V2", "V3"]),
        replace_null_with_default=MAYBE,
    ),
    "Flatten": _settings(delimiter=st.sampled_from([None, ".", "_", ""])),
    "HeaderFrom": _settings(
        fields=LISTS,
        headers=LISTS,
        operation=st.sampled_from(["move", "copy", "MOVE"]),
        replace_null_with_default=MAYBE,
    ),
    "HoistField": _settings(field=FIELDS),
    "InsertField": _settings(
        topic_field=OPTIONAL_FIELD,
        partition_field=OPTIONAL_FIELD,
        offset_field=st.one_of(st.none(), OPTIONAL_FIELD),
        timestamp_field=OPTIONAL_FIELD,
        static_field=st.sampled_from([None, None, "s", "s!"]),
        static_value=st.sampled_from(["v", "w"]),
        replace_null_with_default=MAYBE,
    ),
    "MaskField": _settings(
        fields=LISTS.map(lambda names: ",".join(sorted(names.split(",")))),  # as Java's set has them
        replacement=st.sampled_from([None, None, "5", "-1.5", "x", "", "300"]),
        replace_null_with_default=MAYBE,
    ),
    "ReplaceField": _settings(
        include=st.one_of(st.none(), LISTS),
        exclude=st.one_of(st.none(), LISTS),
        whitelist=st.one_of(st.none(), st.none(), LISTS),
        renames=st.sampled_from([None, "a:z", "a:b", "b:y,a:x", "a", "a:b:c"]),
        replace_null_with_default=MAYBE,
    ),
    "SetSchemaMetadata": _settings(
        schema_name=st.sampled_from([None, "m", ""]),
        schema_version=st.sampled_from([None, "7", "x"]),
        replace_null_with_default=MAYBE,
    ),
    "TimestampConverter": _settings(
        field=st.sampled_from([None, "", "a", "b"]),
        target_type=st.sampled_from(["string", "unix", "Date", "Time", "Timestamp", "x"]),
        format=st.sampled_from([None, "yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSSX", "b", " "]),
        unix_precision=st.sampled_from([None, "seconds", "milliseconds", "microseconds", "nanoseconds", "x"]),
        replace_null_with_default=MAYBE,
    ),
}
MOMENTS = st.one_of(
    TIMES, TIMES.map(from_millis), st.sampled_from(["2020-01-02", "2020-01-02T03:04:05.006Z", "x"])
)
CONTENT = st.one_of(
    with_schema(only=Type.STRUCT),
    with_schema(),
    st.tuples(st.none(), st.one_of(MAPS, WITHOUT_SCHEMA)),
    st.tuples(st.none(), MOMENTS),
    st.tuples(st.none(), maps(MOMENTS)),
)


@pytest.mark.parametrize("name", SIDED)
@MUCH
@given(data=st.data())
def test_transforms_of_keys_and_values(java: LineOracle, name: str, data: st.DataObject) -> None:
    side = data.draw(st.sampled_from(SIDES))
    config = data.draw(SIDED[name])
    schema, value = data.draw(CONTENT)
    of = {"key_schema": schema, "key": value} if side == "Key" else {"schema": schema, "value": value}
    more: dict[str, Any] = {"timestamp": data.draw(st.sampled_from([None, 0, 1_234_567_890_123]))}
    sink = data.draw(st.booleans())
    more["partition"] = 3 if sink else data.draw(st.sampled_from([None, 3]))
    asked = record(**of, sink=sink, **more)
    agree(java, Case("transform", name=f"{TRANSFORMS}{name}${side}", config=config, record=asked))


HEADERS = st.lists(st.tuples(st.sampled_from("hgi"), WITHOUT_SCHEMA), max_size=3)
WHOLE: dict[str, st.SearchStrategy[dict[str, str]]] = {
    "DropHeaders": _settings(headers=st.lists(st.sampled_from("hgi"), max_size=2).map(",".join)),
    "Filter": st.just({}),
    "InsertHeader": _settings(
        header=st.sampled_from([None, "h", ""]), value_literal=st.one_of(LITERALS, st.none())
    ),
    "RegexRouter": _settings(
        regex=st.sampled_from(["t.*", "(t)(.*)", "x", "t|t-1", "(?<n>t).*", "{", "", None]),
        replacement=st.sampled_from(["$1-x", "y", "$2$1", "${n}", "$", "\\$1", "$9", "${z}", "$12", "\\"]),
    ),
    "TimestampRouter": _settings(
        topic_format=st.sampled_from([None, "${timestamp}", "a-${topic}${topic}", "x$1"]),
        timestamp_format=st.sampled_from([None, "yyyy-MM", "HH'h'", "b"]),
    ),
    "ValueToKey": _settings(fields=LISTS, replace_null_with_default=MAYBE),
}


@pytest.mark.parametrize("name", WHOLE)
@MUCH
@given(data=st.data())
def test_transforms_of_records(java: LineOracle, name: str, data: st.DataObject) -> None:
    headers = Headers()
    for key, value in data.draw(HEADERS):
        headers.add(key, value)
    schema, value = data.draw(CONTENT)
    asked = record(
        value,
        schema,
        topic=data.draw(st.sampled_from(["t", "t-1", "u$1"])),
        timestamp=data.draw(st.sampled_from([None, 1_234_567_890_123])),
        headers=headers,
    )
    agree(java, Case("transform", name=TRANSFORMS + name, config=data.draw(WHOLE[name]), record=asked))


def test_records_have_the_same_texts(java: LineOracle) -> None:
    headers = Headers().add("a", 1.5, Schema.FLOAT64).add("b", [1, None])
    for sink in (True, False):
        for value, schema in ((None, None), ([1, "x"], None), (5, Schema.INT32), ({"a": True}, None)):
            asked = record(value, schema, key=1e10, headers=headers, sink=sink)
            case = Case("transform", name=f"{TRANSFORMS}DropHeaders", config={"headers": "x"}, record=asked)
            assert json.loads(java.ask(case.line()))["record"]["text"] == str(asked)


@MUCH
@given(data=st.data())
def test_predicates(java: LineOracle, data: st.DataObject) -> None:
    name, config = data.draw(
        st.sampled_from(
            [
                ("HasHeaderKey", {"name": "h"}),
                ("HasHeaderKey", {"name": ""}),
                ("HasHeaderKey", {}),
                ("RecordIsTombstone", {}),
                ("TopicNameMatches", {"pattern": "t."}),
                ("TopicNameMatches", {"pattern": "t-[0-9&&[^5]]"}),
                ("TopicNameMatches", {"pattern": "("}),
            ]
        )
    )
    headers = Headers()
    for key, value in data.draw(HEADERS):
        headers.add(key, value)
    asked = record(
        data.draw(WITHOUT_SCHEMA), topic=data.draw(st.sampled_from(["t", "t-1", "t-5"])), headers=headers
    )
    agree(java, Case("predicate", name=f"{TRANSFORMS}predicates.{name}", config=config, record=asked))


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLUGINS)
def test_plugins_have_the_same_settings(java: LineOracle, name: str) -> None:
    agree(java, Case("definition", name=name))


@pytest.mark.parametrize("name", [name for name in PLUGINS if PLUGINS[name].CONFIG.keys])
@settings(MUCH, max_examples=30)
@given(data=st.data())
def test_settings_are_refused_the_same(java: LineOracle, name: str, data: st.DataObject) -> None:
    values = st.sampled_from(
        ["", "a", "true", "7", "x", "a,b", "int8", "string", "V2", "copy", "key", "(", "a:b"]
    )
    keys = list(PLUGINS[name].CONFIG.keys)
    config = data.draw(st.dictionaries(st.sampled_from(keys), values, max_size=4))
    agree(java, Case("validate", name=name, config=config))


def test_decimals_of_json_keep_their_digits(java: LineOracle) -> None:
    schema = SchemaBuilder.struct().field("d", Decimal.schema(2)).build()
    for text in ("1.10", "1.5", "100", "1E2", "0.00"):
        prefix = b'{"schema":{"type":"struct","fields":[{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal",'
        rest = f'"parameters":{{"scale":"2"}},"field":"d"}}]}},"payload":{{"d":{text}}}}}'.encode()
        agree(java, Case("to", name=JSON, config={}, isKey=False, bytes=prefix + rest))
    assert schema.field("d") is not None


@MUCH
@given(data=st.data())
def test_defaults_stand_for_null_the_same(java: LineOracle, data: st.DataObject) -> None:
    field = data.draw(schemas(0))
    schema = SchemaBuilder.struct().field("a", field).build()
    value = data.draw(values_of(schema))
    config = data.draw(JSON_CONFIGS)
    agree(java, Case("from", name=JSON, config=config, isKey=False, schema=schema, value=value))
