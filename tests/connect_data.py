"""Schemas and values of Connect, made at random."""

from decimal import Decimal as Number
from typing import Any

from hypothesis import strategies as st

from pkafka.connect.data import (
    Date,
    Decimal,
    Float32,
    Int8,
    Int16,
    Int32,
    Schema,
    SchemaBuilder,
    Struct,
    Time,
    Timestamp,
    Type,
)
from pkafka.connect.data.logical import MILLIS_PER_DAY, from_millis

TEXTS = st.one_of(
    st.text('ab"\\:,{}[]é\n\x1f 1', max_size=6),
    st.sampled_from(["", "true", "12", "1.5", "null", "2020-01-02"]),
)
FIELD_NAMES = ("a", "b", "c", "d.e")
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
TIMES = st.one_of(
    st.integers(-(10**13), 10**13), st.integers(-50_000, 80_000).map(lambda day: day * MILLIS_PER_DAY)
)

# Of few digits: Java before its version 19 writes some others with more than they need.
FLOATS = st.one_of(
    st.integers(-8000, 8000).map(lambda eighths: eighths / 8),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 1e10, 0.10000000149011612]),
)
DOUBLES = st.one_of(
    st.builds(
        lambda digits, exponent: float(f"{digits}e{exponent}"), st.integers(-999, 999), st.integers(-8, 12)
    ),
    FLOATS,
    st.sampled_from([1e300, -1e20]),
)


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-3, 3), st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1))


_PRIMITIVE: dict[Type, st.SearchStrategy[Any]] = {
    **{type: _integers(bits) for type, bits in _BITS.items()},
    Type.FLOAT32: FLOATS,
    Type.FLOAT64: DOUBLES,
    Type.BOOLEAN: st.booleans(),
    Type.STRING: TEXTS,
    Type.BYTES: st.binary(max_size=4),
}
_LOGICAL: dict[str, st.SearchStrategy[Any]] = {
    Date.LOGICAL_NAME: st.integers(-100_000, 100_000).map(lambda day: from_millis(day * MILLIS_PER_DAY)),
    Time.LOGICAL_NAME: st.integers(0, MILLIS_PER_DAY - 1).map(from_millis),
    Timestamp.LOGICAL_NAME: TIMES.map(from_millis),
}


def decimals(scale: int) -> st.SearchStrategy[Number]:
    """Numbers of a scale."""
    return st.integers(-(10**20), 10**20).map(lambda unscaled: Number(unscaled).scaleb(-scale))


@st.composite
def values_of(draw: st.DrawFn, schema: Schema) -> Any:
    """A value of a schema."""
    if schema.optional and draw(st.integers(0, 3)) == 0:
        return None
    if schema.name == Decimal.LOGICAL_NAME:
        return draw(decimals(int((schema.parameters or {})["scale"])))
    if schema.name in _LOGICAL:
        return draw(_LOGICAL[schema.name])
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return draw(st.lists(values_of(schema.value_schema), max_size=2))
    if schema.type is Type.MAP:
        assert schema.value_schema is not None
        assert schema.key_schema is not None
        # Of one entry at most: a HashMap has an order of its own.
        return draw(st.dictionaries(values_of(schema.key_schema), values_of(schema.value_schema), max_size=1))
    if schema.type is Type.STRUCT:
        struct = Struct(schema)
        for field in schema.fields:
            struct.put(field, draw(values_of(field.schema)))
        return struct
    return draw(_PRIMITIVE[schema.type])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2, *, only: Type | None = None, simple: bool = False) -> Schema:
    """A schema.

    Args:
        depth: how many levels of values in values.
        only: of this type.
        simple: without what is for people, and required.
    """
    builder = draw(_builders(depth, only))
    if builder.build().name is None and not simple and draw(st.integers(0, 4)) == 0:
        builder.name("n").version(draw(st.integers(1, 3))).doc("about").parameter("k", "v")
    if simple:
        return builder.build()
    if draw(st.booleans()):
        builder.optional()
    # A default that is a struct has another schema than the one whose default it is; bytes in a list equal no others.
    if draw(st.integers(0, 3)) == 0 and builder.type.is_primitive:
        default = draw(values_of(builder.build()))
        if default is not None:
            builder.default(default)
    return builder.build()


@st.composite
def _builders(draw: st.DrawFn, depth: int, only: Type | None) -> SchemaBuilder:
    primitive = [type for type in Type if type.is_primitive]
    kind = only or draw(
        st.sampled_from([*primitive, "logical", *([Type.ARRAY, Type.MAP, Type.STRUCT] if depth else [])])
    )
    if kind == "logical":
        of_decimal = Decimal.builder(draw(st.integers(-1, 3)))
        return draw(st.sampled_from([Date.builder(), Time.builder(), Timestamp.builder(), of_decimal]))
    assert isinstance(kind, Type)
    if kind is Type.ARRAY:
        return SchemaBuilder.array(draw(schemas(depth - 1)))
    if kind is Type.MAP:
        keys = draw(st.sampled_from([Schema.STRING, Schema.STRING, Schema.INT32, Schema.OPTIONAL_STRING]))
        return SchemaBuilder.map(keys, draw(schemas(depth - 1)))
    builder = SchemaBuilder(kind)
    if kind is Type.STRUCT:
        for name in draw(st.lists(st.sampled_from(FIELD_NAMES), unique=True, max_size=3)):
            builder.field(name, draw(schemas(depth - 1)))
    return builder


@st.composite
def with_schema(draw: st.DrawFn, depth: int = 2, *, only: Type | None = None) -> tuple[Schema, Any]:
    """A schema and a value of it."""
    schema = draw(schemas(depth, only=only))
    return schema, draw(values_of(schema))


PLAIN_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    _integers(64),
    DOUBLES,
    TEXTS,
)
SCALARS = st.one_of(
    PLAIN_SCALARS,
    st.binary(max_size=3),
    _integers(8).map(Int8),
    _integers(16).map(Int16),
    _integers(32).map(Int32),
    FLOATS.map(Float32),
)


def maps(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Maps in the order in which a HashMap has these names."""
    made = st.dictionaries(st.sampled_from(FIELD_NAMES), values, max_size=3)
    return made.map(lambda fields: dict(sorted(fields.items())))


WITHOUT_SCHEMA = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=2), maps(inner)), max_leaves=5
)
MAPS = maps(WITHOUT_SCHEMA)
