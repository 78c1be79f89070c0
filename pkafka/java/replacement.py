"""java.util.regex.Matcher.replaceFirst, whose replacements are not those of Python's re."""

import re
from typing import Final

from pkafka.java.pattern import PatternError

_GROUP_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


class NoGroupError(PatternError):
    """The pattern has no group of that number: Java's IndexOutOfBoundsException."""


def replace_first(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    """Matcher.replaceFirst: ``$1`` and ``${name}`` are groups, what follows a backslash is itself.

    Raises:
        PatternError: the replacement refers to no group, or ends too early.
    """
    found = pattern.search(text)
    if found is None:
        return text
    return text[: found.start()] + _expanded(found, replacement) + text[found.end() :]


def _expanded(found: re.Match[str], replacement: str) -> str:
    made, at = "", 0
    while at < len(replacement):
        letter, at = replacement[at], at + 1
        if letter == "\\":
            if at == len(replacement):
                raise PatternError("character to be escaped is missing")
            made, at = made + replacement[at], at + 1
        elif letter == "$":
            group, at = _group_named(found, replacement, at)
            made += group
        else:
            made += letter
    return made


def _group_named(found: re.Match[str], replacement: str, at: int) -> tuple[str, int]:
    """The group that is named from ``at`` on, and where its name ends."""
    if at == len(replacement):
        raise PatternError("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        name = _GROUP_NAME.match(replacement, at + 1)
        if name is None or not replacement.startswith("}", name.end()):
            raise PatternError("named capturing group is missing trailing '}'")
        if name[0] not in found.re.groupindex:
            raise PatternError(f"No group with name {{{name[0]}}}")
        return found[name[0]] or "", name.end() + 1
    if not "0" <= replacement[at] <= "9":
        raise PatternError("Illegal group reference")
    number, at = int(replacement[at]), at + 1
    if number > found.re.groups:
        raise NoGroupError(f"No group {number}")
    # As many digits as make the number of a group that there is.
    while at < len(replacement) and "0" <= replacement[at] <= "9":
        longer = number * 10 + int(replacement[at])
        if longer > found.re.groups:
            break
        number, at = longer, at + 1
    return found[number] or "", at
