"""Which client quota applies to a client: by user, by client id, by both, and their defaults (KIP-13, KIP-55, KIP-257).

The entity that decides is the most specific one that has the quota, in this order: user and client id; user and any
client id; user; any user and client id; any user and any client id; any user; client id; any client id. Whoever that
entity takes together shares one rate: a quota of a user alone is shared by all client ids of the user, a quota of any
user is for each user on its own.

Which rate is measured for a client depends, as in Kafka, on which kinds of entity have ever had the quota since the
start of the broker: a user's rate goes on when the quota of the user is taken away.
"""

from collections.abc import Mapping
from enum import Enum, IntFlag, auto
from typing import Final, NamedTuple, TypeAlias

from pkafka.coordination.znodes import DEFAULT_ENTITY, desanitize

_PAIR: Final = "/clients/"
ANY: Final = None
"""Stands for the default of users, or of client ids."""

Names: TypeAlias = tuple[tuple[str | None, ...], tuple[str | None, ...]]
"""The user and the client id of an entity, each in a tuple of its own that is empty where the entity has none."""


class QuotaKind(Enum):
    """What a quota limits; the value is its key."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


class _Entities(IntFlag):
    """The kinds of entity that have had a quota."""

    CLIENT = auto()
    USER = auto()
    PAIR = auto()


class Measured(NamedTuple):
    """Names the rate that counts for a client. An empty name takes all together."""

    user: str
    client_id: str


class Quota(NamedTuple):
    """Says what applies to a client."""

    measured: Measured
    limit: float
    """In the unit of the quota's key."""


def entity_names(entity_type: str, entity_name: str) -> Names:
    """Read the names of an entity from where its settings are stored.

    Args:
        entity_type: ``users`` or ``clients``.
        entity_name: as in the path of its settings, ``USER/clients/CLIENT`` for a pair.
    """
    if entity_type == "clients":
        return (), (_name(entity_name),)
    user, pair, client_id = entity_name.partition(_PAIR)
    return (_name(user),), ((_name(client_id),) if pair else ())


def _name(stored: str) -> str | None:
    return ANY if stored == DEFAULT_ENTITY else desanitize(stored)


class QuotaRules:
    """The quotas of one kind."""

    def __init__(self) -> None:
        self._limits: dict[Names, float] = {}
        self._kinds = _Entities(0)

    def __bool__(self) -> bool:
        """Whether any entity has this quota."""
        return bool(self._limits)

    @property
    def limits(self) -> Mapping[Names, float]:
        """All quotas, by the names of their entities."""
        return self._limits

    def change(self, names: Names, limit: float | None) -> None:
        """Set the quota of an entity; None takes it away."""
        if limit is None:
            self._limits.pop(names, None)
            return
        self._limits[names] = limit
        user, client_id = names
        self._kinds |= _Entities.PAIR if user and client_id else _Entities.USER if user else _Entities.CLIENT

    def of(self, user: str, client_id: str) -> Quota | None:
        """The quota that applies to a client; None for one without."""
        measured = self._measured(user, client_id)
        limit = self._limit(measured)
        return None if limit is None else Quota(measured, limit)

    def _measured(self, user: str, client_id: str) -> Measured:
        if self._kinds in (_Entities(0), _Entities.CLIENT):
            return Measured("", client_id)
        if self._kinds is _Entities.USER:
            return Measured(user, "")
        if self._kinds is _Entities.PAIR:
            return Measured(user, client_id)
        for names in _levels(user, client_id):
            if names in self._limits:
                return Measured(user if names[0] else "", client_id if names[1] else "")
        return Measured("", client_id)

    def _limit(self, measured: Measured) -> float | None:
        """The limit of a rate: of the most specific entity of the same kind."""
        user, client_id = measured
        users = ((user,), (ANY,)) if user else ((),)
        client_ids = ((client_id,), (ANY,)) if client_id else ((),)
        for each_user in users:
            for each_client in client_ids:
                limit = self._limits.get((each_user, each_client))
                if limit is not None:
                    return limit
        return None


def _levels(user: str, client_id: str) -> tuple[Names, ...]:
    return (
        ((user,), (client_id,)),
        ((user,), (ANY,)),
        ((user,), ()),
        ((ANY,), (client_id,)),
        ((ANY,), (ANY,)),
        ((ANY,), ()),
        ((), (client_id,)),
        ((), (ANY,)),
    )
