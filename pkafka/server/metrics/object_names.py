"""Names of JMX beans, ``domain:key=value,key=value``, and patterns of them (javax.management.ObjectName).

In a pattern ``*`` and ``?`` stand for any text and any character, and a lone ``*`` among the properties for more
properties. The order of properties means nothing. A value in quotes may hold commas, colons and equals signs.
"""

import re
from collections.abc import Callable, Iterator, Mapping

_PROPERTY = re.compile(r'([^,=:"]+)=("(?:[^"\\]|\\.)*"|[^,"]*)')
_PLAIN = re.compile(r"[\w\-%. \t]*", re.ASCII)
_ANY_OTHER = "*"


def object_name(domain: str, properties: Mapping[str, object]) -> str:
    """The name of a bean; a value that has a character with a meaning in names is quoted, as Kafka quotes it."""
    return f"{domain}:{','.join(f'{key}={_value(str(value))}' for key, value in properties.items())}"


def _value(text: str) -> str:
    return (
        text
        if _PLAIN.fullmatch(text)
        else '"' + re.sub(r'(["\\*?])', r"\\\1", text).replace("\n", r"\n") + '"'
    )


def matcher(pattern: str) -> Callable[[str], bool]:
    """What tells whether the name of a bean is one that the pattern means.

    Raises:
        ValueError: it is no pattern.
    """
    wanted_domain, properties, open_ended = _split(pattern)
    domain = _wildcards(wanted_domain)
    wanted = {key: _wildcards(value) for key, value in properties.items()}

    def matches(name: str) -> bool:
        found_domain, found, _ = _split(name)
        return (
            domain.fullmatch(found_domain) is not None
            and (open_ended or len(found) == len(wanted))
            and all(key in found and value.fullmatch(found[key]) for key, value in wanted.items())
        )

    return matches


def _split(name: str) -> tuple[str, dict[str, str], bool]:
    domain, colon, rest = name.partition(":")
    if not colon or not rest:
        raise ValueError(f"{name!r} is no object name: Key properties cannot be empty")
    properties: dict[str, str] = {}
    open_ended = False
    for part in _parts(name, rest):
        if part == _ANY_OTHER:
            open_ended = True
            continue
        found = _PROPERTY.fullmatch(part)
        if found is None:
            raise ValueError(f"{name!r} is no object name: {part!r} is no key=value")
        properties[found[1]] = found[2]
    return domain, properties, open_ended


def _parts(name: str, text: str) -> Iterator[str]:
    at = 0
    while at <= len(text):
        found = _PROPERTY.match(text, at)
        end = found.end() if found else text.find(",", at)
        end = len(text) if end < 0 else end
        yield text[at:end]
        if end < len(text) and text[end] != ",":
            raise ValueError(f"{name!r} is no object name")
        at = end + 1


def _wildcards(pattern: str) -> re.Pattern[str]:
    texts = {"*": ".*", "?": "."}
    return re.compile("".join(texts.get(each) or re.escape(each) for each in pattern), re.DOTALL)
