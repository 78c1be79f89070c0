"""``Values.parseString``: a text that looks like a number, a time, a list or a map is taken for one (KIP-145)."""

from decimal import Decimal as Number
from typing import Final

from pkafka.connect.data.java_text import to_float32
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp, from_millis, scale_of_number
from pkafka.connect.data.schema import NULL, Schema, SchemaAndValue, SchemaBuilder
from pkafka.connect.data.types import Type, Value
from pkafka.connect.data.values import DATE_FORMAT, TIME_FORMAT, TIMESTAMP_FORMAT, convert, parse_decimal
from pkafka.connect.errors import DataError, NumberFormatError
from pkafka.java.date_format import DateFormatError, SimpleDateFormat
from pkafka.java.text import trim

_DELIMITERS: Final = frozenset(':,{}[]"')
_OUTSIDE_LONG: Final = Number("1e19")
_TEMPORAL: Final[dict[int, tuple[Schema, SimpleDateFormat]]] = {
    len("HH:mm:ss.SSSZ"): (Time.SCHEMA, TIME_FORMAT),
    len("yyyy-MM-ddTHH:mm:ss.SSSZ"): (Timestamp.SCHEMA, TIMESTAMP_FORMAT),
    len("yyyy-MM-dd"): (Date.SCHEMA, DATE_FORMAT),
}
_WIDTHS: Final = ((8, Schema.INT8), (16, Schema.INT16), (32, Schema.INT32), (64, Schema.INT64))
_NUMERIC: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_TRUE: Final = SchemaAndValue(Schema.BOOLEAN, True)
_FALSE: Final = SchemaAndValue(Schema.BOOLEAN, False)
_FIELDS_OF_CLOCK: Final = 4


def parse(text: str | None) -> SchemaAndValue:
    """The value that a text seems to be."""
    if text is None:
        return NULL
    if not text:
        return SchemaAndValue(Schema.STRING, text)
    try:
        return _Parser(text).parse(embedded=False) or NULL
    except RecursionError:
        # In Java the stack ends as well, somewhat later.
        raise DataError("Lists and maps are in each other too deeply") from None


class _Tokens:
    """The text in pieces: delimiters, and what is between them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._next: str | None = None
        self.previous: str | None = None

    @property
    def mark(self) -> int:
        return self.at - len(self._next or "")

    def rewind(self, mark: int) -> None:
        self.at = mark
        self._next = self.previous = None

    def has_next(self) -> bool:
        return self._next is not None or self.at < len(self.text)

    def next(self) -> str:
        self.previous, self._next = self._next or self._read(), None
        return self.previous

    def next_together(self, count: int) -> str | None:
        start = self.mark
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self.at]

    def consume(self, expected: str) -> bool:
        if self._next is None:
            if not self.has_next():
                return False
            self._next = self._read()
        while not trim(self._next) and self.at < len(self.text):
            self._next = self._read()
        if trim(self._next) != expected:
            return False
        self._next = None
        return True

    def _read(self) -> str:
        start, escaped = self.at, False
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == "\\":
                escaped = not escaped
            elif letter in _DELIMITERS and not escaped:
                if start == self.at:
                    self.at += 1
                break
            else:
                escaped = False
            self.at += 1
        return self.text[start : self.at]


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _Tokens(text)
        self._text = text

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if embedded and tokens.consume('"'):
            return self._quoted()
        for literal, meaning in (("null", None), ("true", _TRUE), ("false", _FALSE)):
            if self._is_literal(literal, embedded=embedded):
                return meaning
        start = tokens.mark
        try:
            if tokens.consume("["):
                return self._array()
            if tokens.consume("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)
        token = tokens.next()
        trimmed = trim(token)
        return self._single(trimmed, embedded=embedded) if trimmed else SchemaAndValue(Schema.STRING, token)

    def _is_literal(self, literal: str, *, embedded: bool) -> bool:
        tokens = self._tokens
        start = tokens.mark
        # "true}" is a text, unless it ends a map.
        if tokens.consume(literal) and (embedded or not tokens.has_next()):
            return True
        tokens.rewind(start)
        return False

    def _quoted(self) -> SchemaAndValue:
        content = ""
        while self._tokens.has_next() and not self._tokens.consume('"'):
            content += self._tokens.next()
        return _temporal(content) or SchemaAndValue(Schema.STRING, content)

    def _array(self) -> SchemaAndValue:
        tokens, merger = self._tokens, _Merger()
        result: list[Value] = []
        while tokens.has_next():
            if tokens.consume("]"):
                return _array_of(result, merger.schema)
            if tokens.consume(","):
                raise DataError(f"Unable to parse an empty array element: {self._text}")
            element = self.parse(embedded=True)
            merger.merge(element)
            result.append(None if element is None else element.value)
            here = tokens.mark
            if tokens.consume("]"):
                tokens.rewind(here)
            elif not tokens.consume(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {self._text}")

    def _map(self) -> SchemaAndValue:
        tokens = self._tokens
        result: dict[Value, Value] = {}
        keys, values = _Merger(), _Merger()
        while tokens.has_next():
            if tokens.consume("}"):
                return _map_of(result, keys.schema, values.schema)
            if tokens.consume(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {self._text}")
            key = self.parse(embedded=True)
            if key is None or key.value is None:
                raise DataError(f"Map entry may not have a null key: {self._text}")
            if not tokens.consume(":"):
                raise DataError(f"Map entry is missing ':' at {tokens.at} in {self._text}")
            value = self.parse(embedded=True)
            _put(result, key.value, None if value is None else value.value)
            tokens.consume(",")
            keys.merge(key)
            values.merge(value)
        raise DataError(f"Map is missing terminating '}}': {self._text}")

    def _single(self, token: str, *, embedded: bool) -> SchemaAndValue:
        first = token[0]
        if first.isdecimal():
            found = self._clock(token)
            if found is not None:
                return found
        if first.isdecimal() or first in "+-":
            try:
                return _number(token)
            except NumberFormatError:
                pass
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(Schema.STRING, self._text)

    def _clock(self, token: str) -> SchemaAndValue | None:
        """A time, whose colons are tokens of their own."""
        start = self._tokens.mark
        rest = self._tokens.next_together(_FIELDS_OF_CLOCK)
        found = None if rest is None else _temporal(token + rest)
        if found is None:
            self._tokens.rewind(start)
            found = _temporal(token)
        return found


def _put(result: dict[Value, Value], key: Value, value: Value) -> None:
    try:
        result[key] = value
    except TypeError:
        raise DataError(f"A map of Python cannot have the key {key}") from None


def _number(token: str) -> SchemaAndValue:
    value = parse_decimal(token)
    magnitude = value.copy_abs()
    if value.is_zero():
        return SchemaAndValue(Schema.INT8, 0)
    if 1 <= magnitude <= _OUTSIDE_LONG and value == value.to_integral_value():
        whole = int(value)
        for bits, schema in _WIDTHS:
            if -(1 << (bits - 1)) <= whole < 1 << (bits - 1):
                return SchemaAndValue(schema, whole)
    scale = scale_of_number(value)
    as_double = float(value)
    as_float = to_float32(as_double)
    if scale != 0:
        for schema, number in ((Schema.FLOAT32, as_float), (Schema.FLOAT64, as_double)):
            if abs(number) != float("inf"):
                return SchemaAndValue(schema, number)
    return SchemaAndValue(Decimal.schema(scale), value)


def _temporal(text: str) -> SchemaAndValue | None:
    text = text.replace("\\:", ":")
    known = _TEMPORAL.get(len(text))
    if known is None:
        return None
    schema, format = known
    try:
        return SchemaAndValue(schema, from_millis(format.parse(text)))
    except (DateFormatError, DataError):
        return None


class _Merger:
    """The schema that all values of a list have in common; None: there is none, or no value."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._compatible = True

    def merge(self, latest: SchemaAndValue | None) -> None:
        if latest is None or latest.schema is None or not self._compatible:
            return
        self.schema = latest.schema if self.schema is None else _merged(self.schema, latest.schema)
        self._compatible = self.schema is not None


def _merged(one: Schema, other: Schema) -> Schema | None:
    if one.type is not other.type:
        if one.type in _NUMERIC and other.type in _NUMERIC:
            return max(one, other, key=lambda schema: _NUMERIC.index(schema.type))
        return None
    if one.optional == other.optional:
        return one if one.optional else other
    return one if one == other else None


def _array_of(values: list[Value], element: Schema | None) -> SchemaAndValue:
    if element is None:
        return SchemaAndValue(SchemaBuilder.array_of_null().build(), values)
    schema = SchemaBuilder.array(element).build()
    return SchemaAndValue(schema, [convert(element, None, each) for each in values])


def _map_of(values: dict[Value, Value], key: Schema | None, value: Schema | None) -> SchemaAndValue:
    if key is None:
        return SchemaAndValue(SchemaBuilder.map_of_null().build(), values)
    aligned = {
        convert(key, None, each): inner if value is None else convert(value, None, inner)
        for each, inner in values.items()
    }
    if value is None:
        return SchemaAndValue(SchemaBuilder.map_with_null_values(key).build(), aligned)
    return SchemaAndValue(SchemaBuilder.map(key, value).build(), aligned)
