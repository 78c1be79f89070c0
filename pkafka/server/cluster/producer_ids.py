"""Producer ids: handed out from blocks of 1000, each taken from /latest_producer_id_block once in a cluster's life.

Every broker takes its blocks from the node itself, as Kafka's did before 3.0; since then they ask the controller for
them (AllocateProducerIds), which this broker's controller answers. Asking would be one more hop to the same node, which
needs an active controller that knows the request. Blocks are unique without it: a write holds only at the version read.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from pkafka.coordination.store import BadVersionError, NodeExistsError, NoNodeError, Store
from pkafka.coordination.znodes import ProducerIdBlock
from pkafka.errors import PkafkaError
from pkafka.model import BrokerId, ProducerId

T = TypeVar("T")

BLOCK_SIZE: Final = 1000
_PRODUCER_ID_MAX: Final = 2**63 - 1


class ProducerIdsExhaustedError(PkafkaError):
    """All 2**63 ids were handed out."""


def claim_block(store: Store, broker_id: BrokerId) -> ProducerIdBlock:
    """Take the next block for this broker; blocking.

    A write whose answer is lost costs a block at most, as the next attempt reads again.

    Raises:
        ProducerIdsExhaustedError: there is none left.
        StoreError: the store failed; call again.
    """
    while True:
        try:
            data, stat = store.get(ProducerIdBlock.path())
        except NoNodeError:
            with contextlib.suppress(NodeExistsError):
                store.create(ProducerIdBlock.path(), b"", make_parents=True)
            continue
        # The node is made empty at a broker's first start.
        first = ProducerIdBlock.decode(data).last + 1 if data else 0
        if first > _PRODUCER_ID_MAX - BLOCK_SIZE:
            raise ProducerIdsExhaustedError(f"no producer id is left after {first - 1}")
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
        try:
            store.set(ProducerIdBlock.path(), block.encode(), version=stat.version)
        except BadVersionError:
            continue  # another broker was faster
        return block


def skip_used_ids(store: Store, broker_id: BrokerId, used_max: ProducerId) -> None:
    """Make sure that no id up to ``used_max`` is given again; blocking.

    A log that knows a producer of an id would take the first batches of another one for repeated ones, and drop them.

    Raises:
        StoreError: the store failed.
    """
    while True:
        data, stat = store.get(ProducerIdBlock.path())
        if used_max <= (ProducerIdBlock.decode(data).last if data else -1):
            return
        first = used_max - used_max % BLOCK_SIZE
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
        with contextlib.suppress(BadVersionError):
            store.set(ProducerIdBlock.path(), block.encode(), version=stat.version)


class StoreAccess(Protocol):
    """The way to the coordination store."""

    @property
    def store(self) -> Store:
        """The store of the present session."""
        ...

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function`` on the thread that may use the store, and give back what it returns or raises."""
        ...


class ProducerIds:
    """Gives producer ids, for this broker. Belongs to one event loop.

    Args:
        broker_id: of this broker, written into the block.
    """

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self._block = ProducerIdBlock(broker_id, 0, -1)
        self._next: ProducerId = 0
        self._claiming = asyncio.Lock()

    async def next(self, at: StoreAccess) -> ProducerId:
        """Return an unused id.

        Raises:
            ProducerIdsExhaustedError: there is none left.
            StoreError: a new block was needed and the store failed.
        """
        if self._next > self._block.last:
            async with self._claiming:
                if self._next > self._block.last:
                    self._block = await at.run(claim_block, at.store, self._broker_id)
                    self._next = self._block.first
        producer_id = self._next
        self._next += 1
        return producer_id
