r"""Java ``.properties`` text, as every Kafka configuration file is written.

Knows comments (``#``, ``!``), ``=``, ``:`` or blanks between key and value, ``\`` at the end of a line, and
the escapes ``\t \n \r \f \\ \uXXXX``. It does not expand variables; Kafka's files have none.
"""

import os
import re

from pkafka.errors import ConfigError

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def load_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a properties file.

    Raises:
        ConfigError: the file is missing, not readable or not UTF-8.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ConfigError(os.fspath(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(os.fspath(path), "is not UTF-8 text") from error
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of properties text; of a repeated key the last value counts, as in Java."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        values[_unescape(key)] = _unescape(value)
    return values


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANKS)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        lines.append(pending + line)
        pending = ""
    if pending:
        lines.append(pending)
    return lines


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    value = line[position:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return line[:position], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        body = match[1]
        if len(body) > 1:
            return chr(int(body[1:], 16))
        return _SIMPLE_ESCAPES.get(body, body)

    return _ESCAPE.sub(plain, text)
