"""Rules for a client that a test tells apart by its address: without logins every client is User:ANONYMOUS."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pkafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from pkafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pkafka.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclFilter,
    EntryFilter,
    Operation,
    PatternFilter,
    PatternType,
    Permission,
    ResourceType,
)
from tests.raw_client import RawClient

SUBJECT: Final = "127.0.0.9"
"""Where the client comes from."""
OTHER: Final = "127.0.0.8"
ADMIN: Final = "127.0.0.1"
"""Where the test itself comes from, and a broker that sends requests to itself."""
ANONYMOUS: Final = "User:ANONYMOUS"
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
EVERYTHING: Final = tuple(
    (kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else WILDCARD)
    for kind in ResourceType
    if kind is not ResourceType.ANY
)
"""A name of each type that stands for all of it."""


class Rule(NamedTuple):
    """A rule, for the client unless it says otherwise."""

    type: ResourceType
    name: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    kind: PatternType = PatternType.LITERAL
    principal: str = ANONYMOUS
    host: str = SUBJECT

    def creation(self) -> AclCreation:
        """The rule in a request."""
        return AclCreation(
            resource_type=self.type,
            resource_name=self.name,
            resource_pattern_type=self.kind,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )

    def filter(self) -> AclFilter:
        """What chooses this rule and no other."""
        return AclFilter(
            PatternFilter(self.type, self.name, self.kind),
            EntryFilter(self.principal, self.host, self.operation, self.permission),
        )


def add_rules(admin: RawClient, rules: Sequence[Rule]) -> None:
    """Add rules, by a client that may."""
    created = admin.call(CreateAclsRequest(creations=[one.creation() for one in rules]), 3)
    assert [one.error_code for one in created.results] == [0] * len(rules)


def open_to_admin(address: str) -> None:
    """Let the test itself do everything, at a broker where what no rule is about is open so far."""
    with RawClient(address) as admin:
        add_rules(admin, [Rule(kind, name, Operation.ALL, host=ADMIN) for kind, name in EVERYTHING])


def set_rules(address: str, rules: Sequence[Rule]) -> None:
    """Have these rules for clients, and no others; those of the test's own address stay."""
    with RawClient(address) as admin:
        filters = [
            DeleteAclsFilter(
                resource_type_filter=ResourceType.ANY,
                resource_name_filter=None,
                pattern_type_filter=PatternType.ANY,
                principal_filter=None,
                host_filter=host,
                operation=Operation.ANY,
                permission_type=Permission.ANY,
            )
            for host in (SUBJECT, WILDCARD, OTHER)
        ]
        deleted = admin.call(DeleteAclsRequest(filters=filters), 3)
        assert not any(one.error_code for one in deleted.filter_results)
        add_rules(admin, rules)
