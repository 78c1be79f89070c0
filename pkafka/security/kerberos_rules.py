"""``sasl.kerberos.principal.to.local.rules``: from a Kerberos principal to the name of a user.

Each rule is DEFAULT, which takes the first part of principals of the own realm, or
``RULE:[n:format](pattern)s/from/to/g`` with ``/L`` or ``/U`` behind for the case: it is for principals of n parts,
makes a text by the format (``$0`` is the realm, ``$1`` the first part) and, where the pattern matches that text,
replaces in it. The first rule that gives a name counts. Patterns and replacements are Java's. Pure.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.java.pattern import PatternError, compile_pattern

_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)"
    r"|RULE:\[(?P<parts>[0-9]*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_REFERENCE: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>[0-9])|(?P<bad>[$\\])", re.DOTALL)


class KerberosRuleError(PkafkaError):
    """The text is no rule."""


class NoLocalNameError(PkafkaError):
    """No rule gives a user for a principal."""


class _Principal(NamedTuple):
    first: str
    second: str | None
    realm: str | None

    @property
    def parameters(self) -> tuple[str, ...]:
        """As a format counts them: the realm first."""
        parts = (self.realm or "", self.first)
        return parts if self.second is None else (*parts, self.second)


class _Rule(NamedTuple):
    text: str
    parts: int
    format: str
    match: re.Pattern[str] | None
    replaced: re.Pattern[str] | None
    replacement: str
    is_for_all: bool
    case: str


class LocalNameRules:
    """Maps principals to users.

    Args:
        default_realm: of this machine; empty where it has none.
        texts: the rules.

    Raises:
        KerberosRuleError: one of them is none.
    """

    def __init__(self, default_realm: str, texts: Sequence[str]) -> None:
        self._default_realm = default_realm
        self._rules = [_parsed(text.strip()) for text in texts]

    def user(self, principal: str) -> str:
        """The user whom a principal stands for.

        Args:
            principal: as ``name/instance@REALM``; the last two may lack.

        Raises:
            NoLocalNameError: no rule is for it, or the one that is gives no plain name.
        """
        parsed = _principal(principal)
        if parsed.second is None and parsed.realm is None:
            return parsed.first
        for rule in self._rules:
            name = self._applied(rule, parsed)
            if name is None:
                continue
            if "/" in name or "@" in name:
                raise NoLocalNameError(f"the rule {_name(rule)} gives {name!r}, which is no plain name")
            return {"L": name.lower(), "U": name.upper()}.get(rule.case if rule else "", name)
        raise NoLocalNameError(f"no rule of sasl.kerberos.principal.to.local.rules is for {principal}")

    def _applied(self, rule: "_Rule | None", principal: _Principal) -> str | None:
        if rule is None:
            return principal.first if principal.realm == self._default_realm else None
        if len(principal.parameters) - 1 != rule.parts:
            return None
        base = _formatted(rule, principal.parameters)
        if rule.match is not None and rule.match.fullmatch(base) is None:
            return None
        if rule.replaced is None:
            return base
        count = 0 if rule.is_for_all else 1
        return rule.replaced.sub(lambda found: _expanded(rule, found), base, count=count)


def _principal(text: str) -> _Principal:
    found = _PRINCIPAL.fullmatch(text)
    if found is not None:
        return _Principal(found["first"], found["second"], found["realm"])
    if "@" in text:
        raise NoLocalNameError(f"malformed Kerberos name: {text}")
    return _Principal(text, None, None)


def _parsed(text: str) -> _Rule | None:
    """None for DEFAULT."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise KerberosRuleError(f"has no rule at: {text}")
    if found["default"]:
        return None
    if not found["parts"]:
        raise KerberosRuleError(f"has a rule that does not say for how many parts it is: {text}")
    return _Rule(
        text,
        int(found["parts"]),
        found["format"],
        _pattern(found["match"]),
        _pattern(found["from"]),
        found["to"] or "",
        found["all"] is not None,
        found["case"] or "",
    )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return compile_pattern(text)
    except PatternError as error:
        raise KerberosRuleError(f"has a pattern that is none: {text}: {error}") from None


def _name(rule: _Rule | None) -> str:
    return "DEFAULT" if rule is None else rule.text


def _formatted(rule: _Rule, parameters: Sequence[str]) -> str:
    def parameter(found: re.Match[str]) -> str:
        if not found[1] or int(found[1]) >= len(parameters):
            raise NoLocalNameError(f"the rule {rule.text} refers to a part that it has not: {found[0]}")
        return parameters[int(found[1])]

    return _PARAMETER.sub(parameter, rule.format)


def _expanded(rule: _Rule, found: re.Match[str]) -> str:
    def piece(reference: re.Match[str]) -> str:
        if reference["literal"] is not None:
            return reference["literal"]
        if reference["number"] is not None and int(reference["number"]) <= found.re.groups:
            return found[int(reference["number"])] or ""
        raise NoLocalNameError(f"the rule {rule.text} has a replacement that is none")

    return _REFERENCE.sub(piece, rule.replacement)
