"""``sasl.jaas.config``: one login module, as Java reads it (KIP-85).

The text is ``MODULE FLAG key=value key="value";``. Java's StreamTokenizer reads it: values with anything but
letters, digits and ``-_$`` are quoted, quoted ones know Java's escapes and end with their line, and a slash
begins a comment. No error text has a value in it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIGNS: Final = frozenset("=;{}")
_REFUSED: Final = frozenset({"JndiLoginModule", "LdapLoginModule"})
"""They load objects from the network (CVE-2023-25194, CVE-2025-27818)."""


class JaasError(PkafkaError):
    """The text is no configuration of a login module; the message shows no part of a value."""


class LoginModule(NamedTuple):
    """A login module with its options."""

    class_name: str
    options: Mapping[str, str]

    @property
    def simple_name(self) -> str:
        """The class without its package."""
        return self.class_name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name!r}, options {', '.join(self.options)})"


class Token(NamedTuple):
    """A word, quoted or not, or a sign."""

    text: str
    is_word: bool


def parse_jaas(text: str) -> LoginModule:
    """Read the value of ``sasl.jaas.config``.

    Args:
        text: one login module, closed by a semicolon.

    Raises:
        JaasError: it is none, it has two, or its module is one that Kafka refuses for safety.
    """
    tokens = [token for _, token in tokens_at(text)]
    if not tokens:
        raise JaasError("is empty")
    name, *rest = tokens
    if not name.is_word:
        raise JaasError(f"begins with {name.text!r}, not with the class of a login module")
    check_flag(rest)
    options, used = options_of(rest[1:])
    if len(rest) > used + 1:
        raise JaasError("has more than one login module, or text behind the semicolon")
    module = LoginModule(name.text, options)
    if module.simple_name in _REFUSED:
        raise JaasError(f"names {module.simple_name}, which is refused for safety")
    return module


def format_jaas(class_name: str, options: Mapping[str, str]) -> str:
    """The value of ``sasl.jaas.config`` for a login module; :func:`parse_jaas` and Java read the same options in it."""
    words = [f'{key}="{_with_escapes(value)}"' for key, value in options.items()]
    return " ".join([class_name, "required", *words]) + ";"


def _with_escapes(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def check_flag(tokens: Sequence[Token]) -> None:
    """Check that a control flag comes next.

    Raises:
        JaasError: it does not.
    """
    if not tokens:
        raise JaasError("has no control flag (required) behind the login module")
    if tokens[0].text.upper() not in _FLAGS:
        raise JaasError(
            "has no control flag behind the login module: required, requisite, sufficient, optional"
        )


def options_of(tokens: Sequence[Token]) -> tuple[dict[str, str], int]:
    """The options up to the semicolon, and how many tokens they take with it.

    Raises:
        JaasError: something else comes before it.
    """
    options: dict[str, str] = {}
    position = 0
    while position < len(tokens):
        if tokens[position] == (";", False):
            return options, position + 1
        match tokens[position : position + 3]:
            case [Token(key, True), Token("=", False), Token(value, True)]:
                options[key] = value
            case [Token(key, True), *_]:
                raise JaasError(
                    f'has no value for option {key!r}: write {key}="value"; a number needs quotation marks'
                )
            case _:
                raise JaasError(
                    "has a stray sign among the options; a value with signs needs quotation marks"
                )
        position += 3
    raise JaasError("does not end with a semicolon")


def tokens_at(text: str) -> Iterator[tuple[int, Token]]:
    """The tokens of a text, each with where it begins."""
    position = 0
    while position < len(text):
        char, begin = text[position], position
        if char <= " ":
            position += 1
        elif char == "/":
            position = _after_comment(text, position)
        elif char in "\"'":
            word, position = _quoted(text, position)
            yield begin, Token(word, True)
        elif char in _SIGNS:
            yield begin, Token(char, False)
            position += 1
        elif _is_word(char):
            end = position
            while end < len(text) and (_is_word(text[end]) or text[end] in "0123456789.-"):
                end += 1
            yield begin, Token(text[position:end], True)
            position = end
        else:
            # A digit begins a number, which is no value of an option; other signs stand for themselves.
            yield begin, Token(char, False)
            position += 1


def _is_word(char: str) -> bool:
    return (char.isascii() and char.isalpha()) or char in "_$" or char >= "\xa0"


def _after_comment(text: str, position: int) -> int:
    is_block = text.startswith("/*", position)
    end = text.find("*/" if is_block else "\n", position + (2 if is_block else 1))
    return len(text) if end < 0 else end + (2 if is_block else 1)


def _quoted(text: str, position: int) -> tuple[str, int]:
    """A quoted word and the position behind it; the end of a line closes it too, as Java has it."""
    quote = text[position]
    position += 1
    word: list[str] = []
    while position < len(text) and text[position] not in (quote, "\n", "\r"):
        if text[position] == "\\" and position + 1 < len(text):
            char, position = _escaped(text, position + 1)
            word.append(char)
        else:
            word.append(text[position])
            position += 1
    is_closed = position < len(text) and text[position] == quote
    return "".join(word), position + is_closed


def _escaped(text: str, position: int) -> tuple[str, int]:
    char = text[position]
    if char not in "01234567":
        return _ESCAPES.get(char, char), position + 1
    # Up to three octal digits, and two where three would be more than a byte.
    end = position + 1
    limit = position + (3 if char <= "3" else 2)
    while end < len(text) and end < limit and text[end] in "01234567":
        end += 1
    return chr(int(text[position:end], 8)), end
