"""Requests about client quotas, right and wrong, for both systems."""

import math
from collections.abc import Mapping
from typing import Final, TypeAlias

from pkafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pkafka.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Entity: TypeAlias = tuple[tuple[str, str | None], ...]

ALICE: Final[Entity] = (("user", "alice"),)
PAIR: Final[Entity] = (("user", "a l/i:c%e"), ("client-id", "app"))
CHANGES: Final[Mapping[str, tuple[Entity, tuple[tuple[str, float | None], ...]]]] = {
    "a user": (ALICE, (("producer_byte_rate", 1000.0), ("request_percentage", 12.5))),
    "a user again": (ALICE, (("producer_byte_rate", 2000.0), ("consumer_byte_rate", 5.0))),
    "a pair": (PAIR, (("consumer_byte_rate", 77.0),)),
    "a pair the other way": (PAIR[::-1], (("controller_mutation_rate", 0.25),)),
    "any client of a user": ((("user", "alice"), ("client-id", None)), (("producer_byte_rate", 3.0),)),
    "any user": ((("user", None),), (("producer_byte_rate", 4.0),)),
    "any client": ((("client-id", None),), (("consumer_byte_rate", 9007199254740993.0),)),
    "an address": ((("ip", "127.0.0.9"),), (("connection_creation_rate", 5.0),)),
    "any address": ((("ip", None),), (("connection_creation_rate", 5001.0),)),
    "a host": ((("ip", "localhost"),), (("connection_creation_rate", 5000.0),)),
    "an unknown key": (ALICE, (("foo", 1.0),)),
    "an unknown key to remove": (ALICE, (("foo", None),)),
    "an unknown type": ((("topic", "t"),), (("producer_byte_rate", 1.0),)),
    "no type": ((("", "t"),), (("producer_byte_rate", 1.0),)),
    "a type twice": ((("user", "a"), ("user", "b")), (("producer_byte_rate", 1.0),)),
    "an address and a user": ((("ip", "127.0.0.8"), ("user", "b")), (("producer_byte_rate", 1.0),)),
    "nobody": ((), (("producer_byte_rate", 1.0),)),
    "an empty name": ((("user", ""),), (("producer_byte_rate", 1.0),)),
    "an empty client": ((("client-id", ""),), (("producer_byte_rate", 1.0),)),
    "nothing to change": (ALICE, ()),
    "what is no address": ((("ip", "not an ip"),), (("connection_creation_rate", 5.0),)),
    "a rate of bytes for an address": ((("ip", "127.0.0.8"),), (("producer_byte_rate", 5.0),)),
    "a rate of connections for a user": (ALICE, (("connection_creation_rate", 5.0),)),
    "half a byte": (ALICE, (("producer_byte_rate", 1.5),)),
    "nearly a whole byte": (ALICE, (("producer_byte_rate", 2.0000001),)),
    "less than nothing": (ALICE, (("producer_byte_rate", -1.0),)),
    "nothing": (ALICE, (("producer_byte_rate", 0.0),)),
    "no number": (ALICE, (("producer_byte_rate", math.nan),)),
    "without end": (ALICE, (("producer_byte_rate", math.inf),)),
    "more than a long": (ALICE, (("producer_byte_rate", 1e300),)),
    "no percent": (ALICE, (("request_percentage", 0.0),)),
    "percent below zero": (ALICE, (("request_percentage", -3.0),)),
    "half a connection": ((("ip", "127.0.0.8"),), (("connection_creation_rate", 1.5),)),
    "no connection": ((("ip", "127.0.0.8"),), (("connection_creation_rate", 0.0),)),
    "connections below zero": ((("ip", "127.0.0.8"),), (("connection_creation_rate", -1.0),)),
    "more connections than an int": ((("ip", "127.0.0.8"),), (("connection_creation_rate", 1e10),)),
    "a key twice": (ALICE, (("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))),
    "a key set and removed": (ALICE, (("producer_byte_rate", 1.0), ("producer_byte_rate", None))),
    "what is not there": (ALICE, (("controller_mutation_rate", None),)),
    "the last of a pair": (PAIR, (("consumer_byte_rate", None), ("controller_mutation_rate", None))),
    "right and wrong": (ALICE, (("consumer_byte_rate", 6.0), ("foo", 1.0))),
}
"""What is asked for, in this order: the names of the entity, and keys with values, or None to remove them."""

EXACT, DEFAULT, ANY = range(3)
FILTERS: Final[Mapping[str, tuple[tuple[tuple[str, int, str | None], ...], bool]]] = {
    "all": ((), False),
    "all, strictly": ((), True),
    "users": ((("user", ANY, None),), False),
    "users, strictly": ((("user", ANY, None),), True),
    "clients": ((("client-id", ANY, None),), False),
    "clients, strictly": ((("client-id", ANY, None),), True),
    "pairs": ((("client-id", ANY, None), ("user", ANY, None)), True),
    "alice": ((("user", EXACT, "alice"),), False),
    "alice, strictly": ((("user", EXACT, "alice"),), True),
    "any client of alice": ((("user", EXACT, "alice"), ("client-id", DEFAULT, None)), True),
    "a pair": ((("user", EXACT, "a l/i:c%e"), ("client-id", EXACT, "app")), True),
    "the default of users": ((("user", DEFAULT, None),), True),
    "the default of users, with clients": ((("user", DEFAULT, None),), False),
    "addresses": ((("ip", ANY, None),), False),
    "an address": ((("ip", EXACT, "127.0.0.9"),), True),
    "the default of addresses": ((("ip", DEFAULT, None),), True),
    "nobody of this name": ((("user", EXACT, "nobody"),), True),
    "an unknown type": ((("topic", ANY, None),), False),
    "no type": ((("", ANY, None),), False),
    "a type twice": ((("user", ANY, None), ("user", DEFAULT, None)), False),
    "an address and a user": ((("ip", ANY, None), ("user", ANY, None)), False),
    "a match that there is not": ((("user", 3, None),), False),
    "an exact match without a name": ((("user", EXACT, None),), False),
    "a default with a name": ((("user", DEFAULT, "alice"),), True),
    "any with a name": ((("user", ANY, "alice"),), False),
}


def change_request(
    entity: Entity, ops: tuple[tuple[str, float | None], ...], *, validate_only: bool = False
) -> AlterClientQuotasRequest:
    """A request to change the quotas of one entity."""
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
            )
        ],
        validate_only=validate_only,
    )


def filter_request(
    components: tuple[tuple[str, int, str | None], ...], *, strict: bool
) -> DescribeClientQuotasRequest:
    """A request for the quotas of all entities that match."""
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match, match=name) for kind, match, name in components
        ],
        strict=strict,
    )
