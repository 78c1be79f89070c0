"""Which connection a request for markers came by, so that a late request of an earlier one ends no later transaction.

A worker that is forked again goes on under the same leader epoch of __transaction_state, and the producers of its ids
keep their epochs. A request that its predecessor sent, or that the worker itself sent over a connection that it has
given up, may still be on its way to another broker when the next transaction of the same producer has begun there.
Neither epoch tells its marker from the right one. So a pkafka broker says in the client id of these requests which
connection they come by, and the owner of a partition refuses those of an earlier connection than it has heard of.

What this does not protect: Apache brokers do not say it and do not look at it, so they are as unprotected as among
themselves. An owner forgets with its process. A leader that has not heard of the newer connection, as another broker
led the partition meanwhile, knows no better either. The client id is no proof of its sender.

Pure.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pkafka.model import BrokerId

_CLIENT_ID: Final = re.compile(
    r"broker-(\d{1,10})-txn-marker-sender-(\d{1,4})-([0-9a-f]{1,32})-(\d{1,20})", re.ASCII
)
_WORKERS_MAX: Final = 256


class Sender(NamedTuple):
    """Names a connection by which markers come from another pkafka broker."""

    broker_id: BrokerId
    worker: int
    start: str
    """Hexadecimal digits that tell one start of the broker from others."""
    number: int
    """Grows with each connection of the worker and its successors, until the broker starts again."""

    @property
    def client_id(self) -> str:
        """The client id of its requests; it begins as that of an Apache broker."""
        return f"broker-{self.broker_id}-txn-marker-sender-{self.worker}-{self.start}-{self.number}"


def sender_of(client_id: str | None) -> Sender | None:
    """The sender that a client id names; None for clients that are no worker of a pkafka broker."""
    found = _CLIENT_ID.fullmatch(client_id or "")
    if found is None or int(found[2]) >= _WORKERS_MAX:
        return None
    return Sender(int(found[1]), int(found[2]), found[3], int(found[4]))


class Incarnations:
    """Remembers the latest connection of each sender.

    Args:
        is_broker: whether a broker is registered; no others are remembered, so what is remembered is bounded.
    """

    def __init__(self, is_broker: Callable[[BrokerId], bool]) -> None:
        self._is_broker = is_broker
        self._latest: dict[tuple[BrokerId, int], Sender] = {}

    def is_current(self, sender: Sender) -> bool:
        """Take note of a request, and say whether it comes by its sender's latest connection.

        Connections of different starts of a broker are not compared: with a broker that starts again the leader epochs
        of what it leads grow, and thereby the coordinator epochs in its markers.
        """
        place = sender.broker_id, sender.worker
        latest = self._latest.get(place)
        if latest is not None and latest.start == sender.start and sender.number < latest.number:
            return False
        if self._is_broker(sender.broker_id):
            self._latest[place] = sender
        return True
