"""Who a client of ZooKeeper is, and which rights its nodes give to others (``zookeeper.set.acl``)."""

from typing import Any, Final, NamedTuple

from pkafka.coordination.administration import OPEN_TO_ALL, Acl, Permission
from pkafka.coordination.znodes import SENSITIVE_PATHS

_EVERYTHING: Final = Permission(31)
_READ: Final = Permission(1)
REFUSED_LOGIN: Final = "ZooKeeper refuses the name or the password of section 'Client'"
_OF_ALL_CLIENTS: Final = "/consumers"
"""Consumers of Kafka 0.8 write under it, each as itself or as nobody."""

PROTECTED_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/delegation_token",
    "/kafka-acl-extended",
    "/migration",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended/prefixed",
    "/kafka-acl-extended-changes",
)
"""The subtrees that Apache Kafka 3.9 protects, in the order in which its tool names those that are missing."""


class ZooKeeperLogin(NamedTuple):
    """By what a client logs in at ZooKeeper (SASL, DIGEST-MD5)."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"ZooKeeperLogin({self.username!r})"

    def sasl_options(self) -> dict[str, str]:
        """As kazoo takes them."""
        return {"mechanism": "DIGEST-MD5", "username": self.username, "password": self.password}


def rights_at(path: str) -> tuple[Acl, ...]:
    """Who may do what with a new node, where nodes are protected, as Kafka has it.

    Args:
        path: of the node, in the cluster's chroot.

    Returns:
        All rights for its creator; all clients may read what holds no secret.
    """
    if path == _OF_ALL_CLIENTS:
        return OPEN_TO_ALL
    own = Acl(_EVERYTHING, "auth", "")
    if path.startswith(SENSITIVE_PATHS):
        return (own,)
    return (own, Acl(_READ, "world", "anyone"))


def for_kazoo(rights: tuple[Acl, ...]) -> Any:  # noqa: ANN401 - kazoo has no annotations
    """The same in kazoo's classes."""
    from kazoo.security import ACL, Id

    return [ACL(int(each.perms), Id(each.scheme, each.id)) for each in rights]
