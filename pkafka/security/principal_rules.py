"""``ssl.principal.mapping.rules`` (KIP-371): from the name in a client's certificate to the name of a user.

Rules stand in a list: ``RULE:pattern/replacement/``, with an L or U behind for the case, or DEFAULT for the name as it
is. The first whose pattern matches the whole name counts. Patterns and replacements are Java's. Pure.
"""

import re
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.java.pattern import PatternError, compile_pattern

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))?"
    r"[^\S\n]*(?P<end>[,\n]|\Z)"
)
_PIECE: Final = re.compile(
    r"\\(?P<literal>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|(?P<bad>[$\\])", re.DOTALL
)


class RuleError(PkafkaError):
    """The text is no list of rules."""


class NoRuleError(PkafkaError):
    """No rule is for that name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None takes every name, as it is."""
    replacement: str
    case: str


class PrincipalRules:
    """Maps names in certificates to names of users.

    Args:
        text: the rules.

    Raises:
        RuleError: the text has something else.
    """

    def __init__(self, text: str) -> None:
        self._rules = _parse(text.strip())

    def user(self, name: str) -> str:
        """The user whom a name stands for.

        Args:
            name: a distinguished name.

        Raises:
            NoRuleError: no rule matches, or the one that does refers to what it has not matched.
        """
        for rule in self._rules:
            if rule.pattern is None:
                return name
            if rule.pattern.fullmatch(name) is not None:
                changed = rule.pattern.sub(lambda match, rule=rule: _expanded(rule.replacement, match), name)  # type: ignore[misc]
                return {"L": changed.lower(), "U": changed.upper()}.get(rule.case, changed)
        raise NoRuleError(f"no rule of ssl.principal.mapping.rules is for {name!r}")


def _parse(text: str) -> list[_Rule]:
    rules, position = [], 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise RuleError(f"has no rule at: {text[position:]}")
        if found["default"]:
            rules.append(_Rule(None, "", ""))
        elif found["pattern"] is not None:
            try:
                pattern = compile_pattern(found["pattern"])
            except PatternError as error:
                raise RuleError(f"has a pattern that is none: {found['pattern']}: {error}") from None
            rules.append(_Rule(pattern, found["replacement"], found["case"]))
        position = found.end()
    return rules


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """The replacement with what was matched. Where a pattern has groups, a number without one stands for itself."""
    groups = match.re.groups

    def piece(found: re.Match[str]) -> str:
        if found["literal"] is not None:
            return found["literal"]
        if found["name"] is not None and found["name"] in match.re.groupindex:
            return match[found["name"]] or ""
        if found["number"] is not None:
            return _group(found["number"], match, groups)
        raise NoRuleError(
            f"a rule of ssl.principal.mapping.rules has a replacement that is none: {replacement}"
        )

    return _PIECE.sub(piece, replacement)


def _group(digits: str, match: re.Match[str], groups: int) -> str:
    """What ``$digits`` stands for: the longest number that a group has, and the digits behind it."""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= groups:
        length += 1
    number = int(digits[:length])
    if number <= groups:
        return (match[number] or "") + digits[length:]
    if groups:
        return f"${digits}"
    raise NoRuleError(
        f"a rule of ssl.principal.mapping.rules refers to group {number}, which its pattern lacks"
    )
