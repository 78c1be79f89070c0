"""What one client may do by the rules of the moment, as the handlers of its requests ask.

Decisions are remembered until the rules change: a request on a hot path looks its topics up in a dictionary.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from pkafka.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    ResourceType,
)
from pkafka.security.principal import ANONYMOUS, Principal

log: Final = logging.getLogger("kafka.authorizer.logger")
"""Kafka's name, and its words: operators follow denials by them."""

_REMEMBERED_MAX: Final = 10_000
"""How many names are remembered at once for an operation: clients can make names up."""

_COUNTED_MAX: Final = 1_000
"""How many principals have a count of their own."""
_OTHERS: Final = "others"

Decide: TypeAlias = Callable[[Operation, ResourceType, str], bool]
DecideAny: TypeAlias = Callable[[Operation, ResourceType], bool]


class Rights(Protocol):
    """Tells what a client may do."""

    @property
    def principal(self) -> Principal:
        """Whom the client acts for."""
        ...

    @property
    def holds(self) -> bool:
        """Whether a later request of the client may be judged by this object."""
        ...

    @property
    def readable(self) -> Mapping[str, bool]:
        """Whether the client may read a topic, by any name of one."""
        ...

    @property
    def writable(self) -> Mapping[str, bool]:
        """Whether the client may write to a topic, by any name of one."""
        ...

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do something that it asked for; a denial is logged."""
        ...

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """The same where the client did not ask for this resource: nothing is logged."""
        ...

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether there can be a resource of that type to which the client may do this."""
        ...

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> None:
        """Log and count a denial that :attr:`readable` or :attr:`writable` told."""
        ...


def may_in_cluster(rights: Rights, operation: Operation) -> bool:
    """Whether a client may do something to the cluster as a whole; a denial is logged."""
    return rights.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def operations_of(rights: Rights, kind: ResourceType, name: str) -> int:
    """What a client may do to a resource: bit n stands for operation n (KIP-430)."""
    return sum(1 << one for one in SUPPORTED_OPERATIONS[kind] if rights.sees(one, kind, name))


def cluster_operations_of(rights: Rights) -> int:
    """What a client may do to the cluster, as :func:`operations_of`; 0 for one that may not describe it."""
    if not may_in_cluster(rights, Operation.DESCRIBE):
        return 0
    return operations_of(rights, ResourceType.CLUSTER, CLUSTER_NAME)


class _Always(dict[str, bool]):
    def __missing__(self, name: str) -> bool:
        return True


class Unlimited:
    """The rights of every client of a broker without an authorizer, and of the broker itself."""

    principal: Final = ANONYMOUS
    holds: Final = False
    readable: Final[Mapping[str, bool]] = _Always()
    writable: Final[Mapping[str, bool]] = readable

    def may(self, _operation: Operation, _kind: ResourceType, _name: str) -> bool:
        """See :meth:`Rights.may`."""
        return True

    sees = may

    def may_any(self, _operation: Operation, _kind: ResourceType) -> bool:
        """See :meth:`Rights.may_any`."""
        return True

    def denied(self, _operation: Operation, _kind: ResourceType, _name: str) -> None:
        """See :meth:`Rights.denied`."""


UNLIMITED: Final = Unlimited()


class _Remembered(dict[str, bool]):
    """Whether one operation is allowed to the resources of a type, by name; decided when first asked."""

    __slots__ = ("_decide", "_kind", "_operation")

    def __init__(self, decide: Decide, operation: Operation, kind: ResourceType) -> None:
        super().__init__()
        self._decide = decide
        self._operation = operation
        self._kind = kind

    def __missing__(self, name: str) -> bool:
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        decided = self[name] = self._decide(self._operation, self._kind, name)
        return decided


class _Asked(_Remembered):
    """The same, decided at each question."""

    def __missing__(self, name: str) -> bool:
        return self._decide(self._operation, self._kind, name)


class Denials(dict[str, int]):
    """Counts what principals were refused; those that come when there are very many count together."""

    def add(self, principal: Principal) -> None:
        """Count one resource that a principal asked for in vain."""
        name = str(principal)
        if name not in self and len(self) >= _COUNTED_MAX:
            name = _OTHERS
        self[name] = self.get(name, 0) + 1


class DecidedRights:
    """The rights of one principal at one host, as an authorizer decides.

    Args:
        principal: whom the client acts for.
        host: the client's address, as Java writes it.
        decide: the authorizer's decision about one resource.
        decide_any: the same about any resource of a type.
        denials: counts what is denied.
        remembers: decisions hold as long as these rights do.

    Attributes:
        principal: whom the client acts for.
        holds: a later request may be judged by this object.
    """

    __slots__ = (
        "_decide",
        "_decide_any",
        "_denials",
        "_host",
        "_kind",
        "_tables",
        "holds",
        "principal",
        "readable",
        "writable",
    )

    def __init__(
        self,
        principal: Principal,
        host: str,
        decide: Decide,
        decide_any: DecideAny,
        denials: Denials,
        *,
        remembers: bool,
    ) -> None:
        self.principal = principal
        self.holds = remembers
        self._host = host
        self._decide = decide
        self._decide_any = decide_any
        self._denials = denials
        self._kind: type[_Remembered] = _Remembered if remembers else _Asked
        self._tables: dict[tuple[int, int], _Remembered] = {}
        self.readable: Mapping[str, bool] = self._table(Operation.READ, ResourceType.TOPIC)
        self.writable: Mapping[str, bool] = self._table(Operation.WRITE, ResourceType.TOPIC)

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See :meth:`Rights.may`."""
        if self.sees(operation, kind, name):
            return True
        self.denied(operation, kind, name)
        return False

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """See :meth:`Rights.sees`."""
        return self._table(operation, kind)[name]

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """See :meth:`Rights.may_any`."""
        return self._decide_any(operation, kind)

    def denied(self, operation: Operation, kind: ResourceType, name: str) -> None:
        """See :meth:`Rights.denied`."""
        self._denials.add(self.principal)
        log.info(
            "Principal = %s is Denied Operation = %s from host = %s on resource = %s:LITERAL:%s",
            self.principal,
            operation.title,
            self._host,
            kind.title,
            name,
        )

    def _table(self, operation: Operation, kind: ResourceType) -> _Remembered:
        key = int(operation), int(kind)
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self._kind(self._decide, operation, kind)
        return found
