"""Access control lists, as clients and brokers talk about them: what a rule says, and filters that choose among rules.

Kafka's AclBinding and AclBindingFilter. What a set of rules allows is in :mod:`pkafka.server.security.acls`.
"""

from enum import IntEnum
from typing import Final, NamedTuple

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
UNKNOWN: Final = 0
"""The number of types, patterns, operations and permissions that says that there is none."""
WILDCARD: Final = "*"
"""As the name of a literal pattern every resource of its type; as a host every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
"""Stands in a rule for every principal."""


class _Named(IntEnum):
    """A number on the wire that has a name in znodes and texts, as ``DescribeConfigs``, and one in capitals."""

    @property
    def title(self) -> str:
        """The name in znodes, as ``TransactionalId``."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @classmethod
    def numbers(cls) -> frozenset[int]:
        """The numbers that mean something."""
        return frozenset(int(one) for one in cls)


class ResourceType(_Named):
    """What a rule is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Named):
    """How the name in a rule, or in a filter, is compared (KIP-290)."""

    ANY = 1
    """In filters: literal and prefixed patterns of exactly this name."""
    MATCH = 2
    """In filters: the patterns that a resource of this name falls under."""
    LITERAL = 3
    PREFIXED = 4


class Operation(_Named):
    """What a rule allows or denies."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(_Named):
    """Whether a rule allows or denies."""

    ANY = 1
    DENY = 2
    ALLOW = 3


# As ErrorCode has it: Python 3.11 finds the members of an enum slowly, unless the class itself holds them.
for _kind in (ResourceType, PatternType, Operation, Permission):
    for _member in _kind:
        type.__setattr__(_kind, _member.name, _member)

SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be done to a resource of each type, in Kafka's order."""


class Pattern(NamedTuple):
    """The resources that rules are about: one by its name, or all whose names begin so."""

    type: ResourceType
    name: str
    kind: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether a resource of this type and that name falls under the pattern."""
        if self.kind is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


CLUSTER: Final = Pattern(ResourceType.CLUSTER, CLUSTER_NAME)


class Entry(NamedTuple):
    """What a rule says of its resources: this principal, from this host, may or may not do that."""

    principal: str
    """As ``User:alice``."""
    host: str
    operation: Operation
    permission: Permission


class Acl(NamedTuple):
    """A rule: an entry for a pattern."""

    pattern: Pattern
    entry: Entry


class PatternFilter(NamedTuple):
    """Chooses patterns.

    Attributes:
        type: of resource; ANY for all.
        name: None for all.
        kind: LITERAL or PREFIXED patterns of this name, ANY for both; MATCH for those that cover the name.
    """

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    kind: PatternType = PatternType.ANY

    def matches(self, pattern: Pattern) -> bool:
        """Whether the filter chooses the pattern."""
        if self.type not in (ResourceType.ANY, pattern.type):
            return False
        if self.kind not in (PatternType.ANY, PatternType.MATCH, pattern.kind):
            return False
        if self.name is None:
            return True
        if self.kind is PatternType.MATCH:
            return pattern.covers(self.name)
        return self.name == pattern.name

    def named(self) -> tuple[Pattern, ...]:
        """The patterns that the filter can choose, where it names them; empty where it takes a look at all."""
        if self.type is ResourceType.ANY or self.name is None or self.kind is PatternType.MATCH:
            return ()
        kinds = (PatternType.LITERAL, PatternType.PREFIXED) if self.kind is PatternType.ANY else (self.kind,)
        return tuple(Pattern(self.type, self.name, kind) for kind in kinds)


class EntryFilter(NamedTuple):
    """Chooses entries; None and ANY choose all."""

    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, entry: Entry) -> bool:
        """Whether the filter chooses the entry."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


class AclFilter(NamedTuple):
    """Chooses rules."""

    pattern: PatternFilter = PatternFilter()
    entry: EntryFilter = EntryFilter()

    def matches(self, acl: Acl) -> bool:
        """Whether the filter chooses the rule."""
        return self.pattern.matches(acl.pattern) and self.entry.matches(acl.entry)


ANY_ACL: Final = AclFilter()
"""Chooses every rule."""
NO_ACL: Final = AclFilter(PatternFilter(name=""))
"""Chooses no rule: no name is empty."""


class FilterNumbers(NamedTuple):
    """A filter as requests have it: what it chooses by stands there as numbers, which may mean nothing here."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def has_unknown(self) -> bool:
        """Whether a part is UNKNOWN, which no request may say."""
        return UNKNOWN in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def filter(self) -> AclFilter:
        """The filter; one that chooses nothing where a number means nothing yet."""
        try:
            return AclFilter(
                PatternFilter(
                    ResourceType(self.resource_type), self.resource_name, PatternType(self.pattern_type)
                ),
                EntryFilter(
                    self.principal, self.host, Operation(self.operation), Permission(self.permission)
                ),
            )
        except ValueError:
            return NO_ACL
