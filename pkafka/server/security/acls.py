"""What a set of rules allows: Kafka's AclAuthorizer as pure decisions.

A rule that denies wins over all that allow. READ, WRITE, DELETE and ALTER allow DESCRIBE as well, and ALTER_CONFIGS
allows DESCRIBE_CONFIGS; a denial implies nothing. Rules for a name, for a prefix of it and for every name count alike:
none of them hides another one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pkafka.security.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclFilter,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from pkafka.security.principal import Principal

_IMPLIED_BY: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALL,
    ),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL),
}
"""The operations by which a rule allows these."""

_Index = dict[tuple[Permission, Operation, ResourceType, PatternType, str, str], set[str]]


class Verdict(NamedTuple):
    """What the rules say to a question.

    Attributes:
        is_allowed: the answer.
        because: the rule that decided; None where no rule did.
        reason: why, in words.
    """

    is_allowed: bool
    because: Acl | None
    reason: str


class Acls:
    """Holds rules by their patterns, and answers what they allow.

    Args:
        super_users: may do everything, whatever the rules say.
        allows_unruled: what no rule is about is allowed (allow.everyone.if.no.acl.found).
    """

    def __init__(self, super_users: Iterable[Principal] = (), *, allows_unruled: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self.allows_unruled = allows_unruled
        self._entries: dict[Pattern, tuple[Entry, ...]] = {}
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}
        """How many prefixed patterns there are of each length."""
        self._index: _Index = {}
        """The names in the patterns of rules that differ in nothing else: answers about any resource of a type."""

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def __iter__(self) -> Iterator[Acl]:
        for pattern, entries in self._entries.items():
            for entry in entries:
                yield Acl(pattern, entry)

    # -- the rules --

    def of(self, pattern: Pattern) -> tuple[Entry, ...]:
        """The entries of one pattern."""
        return self._entries.get(pattern, ())

    def patterns(self) -> list[Pattern]:
        """The patterns that have rules."""
        return list(self._entries)

    def put(self, pattern: Pattern, entries: Iterable[Entry]) -> bool:
        """Replace the entries of one pattern.

        Returns:
            Whether that changes anything.
        """
        new = tuple(dict.fromkeys(entries))
        old = self._entries.get(pattern, ())
        if set(new) == set(old):
            return False
        for entry in old:
            self._forget(pattern, entry)
        for entry in new:
            self._index.setdefault(_key(pattern, entry), set()).add(pattern.name)
        if bool(old) != bool(new):
            self._count(pattern, 1 if new else -1)
        if new:
            self._entries[pattern] = new
        else:
            del self._entries[pattern]
        return True

    def replace(self, rules: Mapping[Pattern, Iterable[Entry]]) -> None:
        """Have these rules and no others."""
        for pattern in self.patterns():
            if pattern not in rules:
                self.put(pattern, ())
        for pattern, entries in rules.items():
            self.put(pattern, entries)

    def chosen(self, wanted: AclFilter) -> Iterator[Acl]:
        """The rules that a filter chooses."""
        for pattern, entries in self._entries.items():
            if wanted.pattern.matches(pattern):
                for entry in entries:
                    if wanted.entry.matches(entry):
                        yield Acl(pattern, entry)

    def _count(self, pattern: Pattern, change: int) -> None:
        if pattern.kind is PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(pattern.type, {})
            length = len(pattern.name)
            lengths[length] = lengths.get(length, 0) + change
            if not lengths[length]:
                del lengths[length]

    def _forget(self, pattern: Pattern, entry: Entry) -> None:
        key = _key(pattern, entry)
        names = self._index[key]
        names.discard(pattern.name)
        if not names:
            del self._index[key]

    # -- what they allow --

    def may(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether a principal may do something to one resource."""
        return self.verdict(principal, host, operation, kind, name).is_allowed

    def verdict(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Verdict:
        """Decide as :meth:`may`, and say why.

        Args:
            principal: whom the client acts for.
            host: the client's address, as Java writes it.
            operation: a single one, not ANY or ALL.
            kind, name: of the resource.
        """
        if principal in self.super_users:
            return Verdict(True, None, "a super user")
        patterns = list(self._about(kind, name))
        if not patterns:
            reason = "no rule is about the resource, and allow.everyone.if.no.acl.found is"
            return Verdict(
                self.allows_unruled, None, f"{reason} {'true' if self.allows_unruled else 'false'}"
            )
        denied_by, allowed_by = (
            (operation, Operation.ALL),
            _IMPLIED_BY.get(operation, (operation, Operation.ALL)),
        )
        principals = (str(principal), WILDCARD_PRINCIPAL)
        allowing: Acl | None = None
        for pattern in patterns:
            for entry in self._entries[pattern]:
                if entry.principal not in principals or entry.host not in (host, WILDCARD):
                    continue
                if entry.permission is Permission.DENY:
                    if entry.operation in denied_by:
                        return Verdict(False, Acl(pattern, entry), "a rule denies it")
                elif allowing is None and entry.operation in allowed_by:
                    allowing = Acl(pattern, entry)
        if allowing is None:
            return Verdict(False, None, "no rule allows it")
        return Verdict(True, allowing, "a rule allows it")

    def _about(self, kind: ResourceType, name: str) -> Iterator[Pattern]:
        """The patterns with rules that a resource falls under."""
        entries = self._entries
        literal, wildcard = Pattern(kind, name), Pattern(kind, WILDCARD)
        if literal in entries:
            yield literal
        if wildcard in entries and name != WILDCARD:
            yield wildcard
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                prefix = Pattern(kind, name[:length], PatternType.PREFIXED)
                if prefix in entries:
                    yield prefix

    def may_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Whether there can be a resource of a type to which a principal may do something (KIP-679)."""
        if principal in self.super_users:
            return True
        denied, denied_prefixes = (
            self._names(principal, host, operation, kind, pattern, Permission.DENY)
            for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        )
        if WILDCARD in denied:
            return False
        if self.allows_unruled:
            return True
        allowed, allowed_prefixes = (
            self._names(principal, host, operation, kind, pattern, Permission.ALLOW)
            for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        )
        if any(not _has_prefix_in(one, denied_prefixes) for one in allowed_prefixes):
            return True
        return any(
            one == WILDCARD or (one not in denied and not _has_prefix_in(one, denied_prefixes))
            for one in allowed
        )

    def _names(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        kind: ResourceType,
        pattern: PatternType,
        permission: Permission,
    ) -> set[str]:
        """The names in the patterns of all rules that say this of the principal, without what others imply."""
        found: set[str] = set()
        for who in (str(principal), WILDCARD_PRINCIPAL):
            for where in (host, WILDCARD):
                for what in (operation, Operation.ALL):
                    found |= self._index.get((permission, what, kind, pattern, who, where), set())
        return found


def _key(pattern: Pattern, entry: Entry) -> tuple[Permission, Operation, ResourceType, PatternType, str, str]:
    return entry.permission, entry.operation, pattern.type, pattern.kind, entry.principal, entry.host


def _has_prefix_in(name: str, prefixes: set[str]) -> bool:
    return bool(prefixes) and any(name[:length] in prefixes for length in range(len(name) + 1))
