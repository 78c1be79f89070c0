"""JSON as Jackson reads and writes it, where Python does otherwise.

Numbers are written as Java prints them, such as ``1.0E10``. What follows a document is passed over. No bytes are no
document.
"""

import json
import re
from decimal import Decimal
from json.encoder import encode_basestring
from json.scanner import make_scanner
from typing import Final

from pkafka.connect.data.java_text import decimal_text, float_text, to_float32
from pkafka.connect.data.types import Value
from pkafka.connect.errors import SerializationError
from pkafka.java.numbers import double_text

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))
_encode: Final = _ENCODER.encode
_ODD: Final = re.compile(
    r"(?:^|[:,\[])-?(?:NaN|Infinity|\d{8,}\.|0\.000|\d(?:\.\d+)?e[+-])|\\u00[01][a-f]", re.ASCII
)
"""Where Java may write something else: doubles outside 0.001 to 10^7, and the digits of an escape."""
_ESCAPE: Final = re.compile(r"\\(?:\\|u00[01][a-f])")
_BLANKS: Final = " \t\n\r"
_BLANK: Final = re.compile(rf"[{_BLANKS}]*")


def write(node: Value) -> bytes:
    """The bytes of a document.

    Args:
        node: dicts with keys of text, lists, text, truth values, None, ``int``, ``float`` and ``Decimal``.

    Raises:
        SerializationError: it has half of a surrogate pair, or is too deep.
    """
    try:
        return text_of(node).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise SerializationError("Error serializing JSON message") from error


def text_of(node: Value) -> str:
    """The text of a document."""
    if node.__class__ is str:
        text = encode_basestring(node)
        return text if "\\u00" not in text else _written(node)
    try:
        text = _encode(node)
    except TypeError:  # a Decimal
        return _written(node)
    return text if _ODD.search(text) is None else _written(node)


def _written(node: Value) -> str:
    if isinstance(node, str):
        return _ESCAPE.sub(lambda match: match[0][:2] + match[0][2:].upper(), encode_basestring(node))
    if isinstance(node, dict):
        return "{" + ",".join(f"{_written(key)}:{_written(value)}" for key, value in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_written, node)) + "]"
    if isinstance(node, float):
        text = double_text(node)
        return f'"{text}"' if text[-1] in "Ny" else text
    return decimal_text(node) if isinstance(node, Decimal) else _encode(node)


def shortest(value: float) -> float:
    """A double that is written as the float of 32 bits that is given."""
    rounded = to_float32(value)
    return rounded if rounded != rounded or abs(rounded) == float("inf") else float(float_text(rounded))


def _refuse_constant(text: str) -> Value:
    raise SerializationError(f"Non-standard token '{text}'")


_scan: Final = make_scanner(json.JSONDecoder(parse_constant=_refuse_constant))  # type: ignore[arg-type]  # typeshed knows it less well
_scan_exactly: Final = make_scanner(json.JSONDecoder(parse_constant=_refuse_constant, parse_float=Decimal))  # type: ignore[arg-type]  # typeshed knows it less well


class Missing:
    """What there is instead of a document where there are no bytes."""


MISSING: Final = Missing()


def decode(data: bytes) -> str:
    """The text of bytes, whose encoding is seen from their beginning.

    Raises:
        SerializationError: they are no text.
    """
    try:
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise SerializationError(f"Invalid UTF-8: {error}") from error


def read(text: str, *, exactly: bool = False) -> Value:
    """The document that a text begins with; ``MISSING`` when there is none.

    Args:
        exactly: whether numbers with a point are ``Decimal``, with all their digits.

    Raises:
        SerializationError: it is no JSON.
    """
    start = skip_blanks(text, 0)
    if start == len(text):
        return MISSING
    try:
        return scan(text, start, exactly=exactly)[0]
    except SerializationError:
        readable = _without_leading_zeros(text)
        if readable == text:
            raise
        return scan(readable, start, exactly=exactly)[0]


def skip_blanks(text: str, at: int) -> int:
    """Where the next character that is no blank stands."""
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


_NUMBER_OR_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
_ZEROS: Final = re.compile(r"(-?)0+(?=[0-9])")


def _without_leading_zeros(text: str) -> str:
    """The same document for a reader that takes no ``007``."""

    def shortened(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else _ZEROS.sub(r"\1", found[0], count=1)

    return _NUMBER_OR_TEXT.sub(shortened, text)


def scan(text: str, at: int, *, exactly: bool = False) -> tuple[Value, int]:
    """The document that begins at ``at``, and where it ends.

    Raises:
        SerializationError: it is no JSON.
    """
    try:
        node, end = (_scan_exactly if exactly else _scan)(text, at)
    except StopIteration as error:
        raise SerializationError(f"Unexpected character at {error.value}") from None
    except (ValueError, RecursionError) as error:
        raise SerializationError(str(error)) from None
    if end < len(text) and node.__class__ in (int, float, Decimal) and text[end] not in ",]}" + _BLANKS:
        raise SerializationError(f"Unexpected character ('{text[end]}') in numeric value")
    return node, end
