"""The logical types: dates, times, timestamps and decimal numbers, and what they are on the wire.

All three types of time are ``datetime`` with a time zone, of milliseconds, as they are all ``java.util.Date`` in Java.
What lies before the year 1 or after the year 9999 is refused, which ``java.util.Date`` can be.
"""

import datetime
import decimal
from typing import ClassVar, Final

from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.types import Type
from pkafka.connect.data.validation import DATE_NAME, DECIMAL_NAME, TIME_NAME, TIMESTAMP_NAME
from pkafka.connect.errors import DataError, NumberFormatError
from pkafka.java.numbers import parse_int

MILLIS_PER_DAY: Final = 24 * 60 * 60 * 1000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EXACT: Final = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def to_millis(value: datetime.datetime) -> int:
    """``Date.getTime``: milliseconds since 1970; a value without a time zone is in UTC."""
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return (value - _EPOCH) // _MILLISECOND


def from_millis(millis: int) -> datetime.datetime:
    """``new Date(millis)``.

    Raises:
        DataError: Python has no such date.
    """
    try:
        return _EPOCH + datetime.timedelta(milliseconds=millis)
    except OverflowError:
        raise DataError(f"{millis} milliseconds since 1970 are not in the years 1 to 9999") from None


class Date:
    """Days since 1970, at midnight UTC."""

    LOGICAL_NAME: ClassVar[str] = DATE_NAME
    SCHEMA: ClassVar[Schema]

    @staticmethod
    def builder() -> SchemaBuilder:
        """Begin a schema of dates."""
        return SchemaBuilder.int32().name(DATE_NAME).version(1)

    @staticmethod
    def from_logical(schema: Schema, value: datetime.datetime) -> int:
        """Days since 1970.

        Raises:
            DataError: the schema is another's, or the value has a time of day.
        """
        if schema.name != DATE_NAME:
            raise DataError("Requested conversion of Date object but the schema does not match.")
        days, rest = divmod(to_millis(value), MILLIS_PER_DAY)
        if rest:
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
        return days

    @staticmethod
    def to_logical(schema: Schema, value: int) -> datetime.datetime:
        """The date of so many days.

        Raises:
            DataError: the schema is another's.
        """
        if schema.name != DATE_NAME:
            raise DataError("Requested conversion of Date object but the schema does not match.")
        return from_millis(value * MILLIS_PER_DAY)


class Time:
    """Milliseconds since midnight, as a time of the first day of 1970."""

    LOGICAL_NAME: ClassVar[str] = TIME_NAME
    SCHEMA: ClassVar[Schema]

    @staticmethod
    def builder() -> SchemaBuilder:
        """Begin a schema of times of the day."""
        return SchemaBuilder.int32().name(TIME_NAME).version(1)

    @staticmethod
    def from_logical(schema: Schema, value: datetime.datetime) -> int:
        """Milliseconds since midnight.

        Raises:
            DataError: the schema is another's, or the value is of another day.
        """
        if schema.name != TIME_NAME:
            raise DataError("Requested conversion of Time object but the schema does not match.")
        millis = to_millis(value)
        if not 0 <= millis <= MILLIS_PER_DAY:
            raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
        return millis

    @staticmethod
    def to_logical(schema: Schema, value: int) -> datetime.datetime:
        """The time of so many milliseconds.

        Raises:
            DataError: the schema is another's, or a day has no such time.
        """
        if schema.name != TIME_NAME:
            raise DataError("Requested conversion of Date object but the schema does not match.")
        if not 0 <= value <= MILLIS_PER_DAY:
            raise DataError(
                "Time values must use number of milliseconds greater than 0 and less than 86400000"
            )
        return from_millis(value)


class Timestamp:
    """Milliseconds since 1970."""

    LOGICAL_NAME: ClassVar[str] = TIMESTAMP_NAME
    SCHEMA: ClassVar[Schema]

    @staticmethod
    def builder() -> SchemaBuilder:
        """Begin a schema of timestamps."""
        return SchemaBuilder.int64().name(TIMESTAMP_NAME).version(1)

    @staticmethod
    def from_logical(schema: Schema, value: datetime.datetime) -> int:
        """Milliseconds since 1970.

        Raises:
            DataError: the schema is another's.
        """
        if schema.name != TIMESTAMP_NAME:
            raise DataError("Requested conversion of Timestamp object but the schema does not match.")
        return to_millis(value)

    @staticmethod
    def to_logical(schema: Schema, value: int) -> datetime.datetime:
        """The timestamp of so many milliseconds.

        Raises:
            DataError: the schema is another's.
        """
        if schema.name != TIMESTAMP_NAME:
            raise DataError("Requested conversion of Timestamp object but the schema does not match.")
        return from_millis(value)


class Decimal:
    """A decimal number: an integer of any size in two's complement, and a scale that the schema has."""

    LOGICAL_NAME: ClassVar[str] = DECIMAL_NAME

    @staticmethod
    def builder(scale: int) -> SchemaBuilder:
        """Begin a schema of decimal numbers.

        Args:
            scale: how many digits stand behind the point; below 0, how many zeros end the number.
        """
        return SchemaBuilder.bytes().name(DECIMAL_NAME).parameter("scale", str(scale)).version(1)

    @staticmethod
    def schema(scale: int) -> Schema:
        """The schema of required decimal numbers of a scale."""
        return Decimal.builder(scale).build()

    @staticmethod
    def from_logical(schema: Schema, value: decimal.Decimal) -> bytes:
        """The integer, as ``BigInteger.toByteArray`` writes it.

        Raises:
            DataError: the number has another scale than the schema says.
        """
        scale = scale_of(schema)
        if scale_of_number(value) != scale:
            raise DataError(
                "Decimal value has mismatching scale for given Decimal schema. "
                f"Schema has scale {scale}, value has scale {scale_of_number(value)}."
            )
        unscaled = int(value.scaleb(scale, _EXACT))
        # One bit more than the digits need, for the sign; of -128 the sign is there already.
        size = (unscaled.bit_length() if unscaled >= 0 else (~unscaled).bit_length()) // 8 + 1
        return unscaled.to_bytes(size, "big", signed=True)

    @staticmethod
    def to_logical(schema: Schema, value: bytes) -> decimal.Decimal:
        """The number.

        Raises:
            DataError: the schema has no scale.
            NumberFormatError: there are no bytes.
        """
        if not value:
            scale_of(schema)
            raise NumberFormatError("Zero length BigInteger")
        return unscaled_decimal(int.from_bytes(value, "big", signed=True), scale_of(schema))


def unscaled_decimal(unscaled: int, scale: int) -> decimal.Decimal:
    """``new BigDecimal(unscaled, scale)``."""
    return decimal.Decimal(unscaled).scaleb(-scale, _EXACT)


def scale_of_number(value: decimal.Decimal) -> int:
    """``BigDecimal.scale``."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"{value} is no number that a decimal of Connect can be")
    return -exponent


def scale_of(schema: Schema) -> int:
    """The scale that a schema of decimal numbers has.

    Raises:
        DataError: it has none.
    """
    text = (schema.parameters or {}).get("scale")
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return parse_int(text)
    except ValueError as error:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from error


def is_logical(schema: Schema | None, name: str) -> bool:
    """Whether a schema is known, and of the logical type of that name."""
    return schema is not None and schema.name == name


for _logical in (Date, Time, Timestamp):
    _logical.SCHEMA = _logical.builder().build()
assert Date.SCHEMA.type is Type.INT32
