"""Java's .properties format: text to keys and values and back, as java.util.Properties reads it.

Not a place for meaning: keys are not checked and values are not typed here.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pkafka.errors import ConfigError
from pkafka.java.text import lines as natural_lines

_BLANKS = " \t\f"
_KEY_SIGNS = "\\=:#! "
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(ValueError):
    """The text is not a .properties file: a broken \\uXXXX escape."""


def load_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the file at ``path``.

    Raises:
        ConfigError: the file cannot be read, or has a broken escape; the key is the file's name.
    """
    try:
        return decode_properties(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(os.fspath(path), f"cannot be read: {error.strerror}") from error
    except PropertiesError as error:
        raise ConfigError(os.fspath(path), str(error)) from None


def decode_properties(data: bytes) -> dict[str, str]:
    """Keys and values of a file; it is UTF-8 when it can be, else ISO-8859-1 as Java assumes.

    Raises:
        PropertiesError: a broken escape.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of ``text`` in order; of a key that comes twice the last value counts.

    A line ends at \\n, \\r or \\r\\n; '#' or '!' at its start make it a comment; an odd number of backslashes
    at its end joins it with the next line without that line's leading blanks. The key ends at the first '=',
    ':' or blank that is not escaped.

    Raises:
        PropertiesError: a broken escape.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key_end, value_start = _split(line)
        properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
    return properties


def format_properties(properties: Mapping[str, object]) -> str:
    """The text of a file that Java, too, reads back as these keys and values: ASCII, a line each."""
    return "".join(
        f"{_escaped(key, signs=_KEY_SIGNS)}={_escaped(str(value))}\n" for key, value in properties.items()
    )


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for natural in natural_lines(text):
        line = natural.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            pending = None
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            pending = None
            lines.append(line)
    if pending is not None:
        lines.append(pending)  # of a lone backslash a key without characters
    return lines


def _split(line: str) -> tuple[int, int]:
    """Where the key ends and where the value starts."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    start = end
    while start < len(line) and line[start] in _BLANKS:
        start += 1
    if start < len(line) and line[start] in "=:":
        start += 1
        while start < len(line) and line[start] in _BLANKS:
            start += 1
    return end, start


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        if position == len(text):
            break
        char = text[position]
        position += 1
        if char != "u":
            out.append(_ESCAPES.get(char, char))
            continue
        digits = text[position : position + 4]
        if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            raise PropertiesError(f"\\u{digits} is not a \\uXXXX escape of four hexadecimal digits")
        out.append(chr(int(digits, 16)))
        position += 4
    # Two escapes can make one character outside the basic plane, as in Java's UTF-16 strings.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escaped(text: str, *, signs: str = "\\") -> str:
    out: list[str] = []
    for position, char in enumerate(text):
        if char in signs or (char == " " and position == 0):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(out)
