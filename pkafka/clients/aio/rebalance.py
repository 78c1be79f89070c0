"""Rebalance listeners of coroutines: told on the loop, while the thread that polls waits."""

import inspect
from collections.abc import Callable, Collection
from typing import Final

from pkafka.clients.consumer.subscription import ConsumerRebalanceListener
from pkafka.model import TopicPartition

Tell = Callable[[str, Collection[TopicPartition]], None]
_LOST: Final = "on_partitions_lost"
_REVOKED: Final = "on_partitions_revoked"


class AsyncRebalanceListener:
    """What a user gives ``subscribe`` to be told of rebalances; override what is of interest.

    The group waits for these coroutines. They may await the consumer (``commit``, ``position``, ``seek`` ...), but for
    its records.
    """

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These go to another member; they are still owned here, so that offsets can be committed."""

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These came; nothing was fetched yet, so that positions can be sought."""

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """These were taken without a word; another member may own them already."""
        await self.on_partitions_revoked(partitions)


class Forwarder(ConsumerRebalanceListener):
    """What the consumer knows as its listener.

    Args:
        tell: has the method of that name called, and waits for it.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Forward it."""
        self._tell(_REVOKED, partitions)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Forward it."""
        self._tell("on_partitions_assigned", partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Forward it."""
        self._tell(_LOST, partitions)


async def tell(
    listener: AsyncRebalanceListener | ConsumerRebalanceListener,
    name: str,
    partitions: Collection[TopicPartition],
) -> None:
    """Call a method of a listener, whose methods may be coroutines or plain ones."""
    if name == _LOST and type(listener).on_partitions_lost is ConsumerRebalanceListener.on_partitions_lost:
        name = _REVOKED  # what that method would call, without awaiting it
    result = getattr(listener, name)(partitions)
    if inspect.isawaitable(result):
        await result
