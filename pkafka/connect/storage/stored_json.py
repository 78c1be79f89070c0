"""What the internal topics of a Connect cluster hold: JSON without schemas, as Java's ``JsonConverter`` writes it.

Java's workers read what is written here, and the other way round.
"""

from typing import Final

from pkafka.connect.converters import JsonConverter
from pkafka.connect.data.types import Value

_CONVERTER: Final = JsonConverter()
_CONVERTER.configure({"schemas.enable": "false"}, is_key=False)


def encode_stored(value: Value) -> bytes:
    """The bytes of a value: fields in the order of the mapping, no blanks, UTF-8.

    Raises:
        DataError: it has no JSON.
    """
    encoded = _CONVERTER.from_connect("", None, None, value)
    assert encoded is not None, "None is a record without a value"
    return encoded


def decode_stored(data: bytes | None) -> Value:
    """The value of bytes; None: there are none, or they say null.

    Raises:
        DataError: they are no JSON.
    """
    return _CONVERTER.to_connect("", None, data).value
