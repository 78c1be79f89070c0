"""The consumer of coroutines."""

import asyncio
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Self, TypeVar

from pkafka.clients.aio.rebalance import AsyncRebalanceListener, Forwarder, tell
from pkafka.clients.aio.turns import Core, Turns
from pkafka.clients.cluster import TopicView
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.config.options import INT_MAX
from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.clients.consumer.subscription import ConsumerRebalanceListener
from pkafka.clients.errors import ClosedError, IllegalArgumentError, IllegalStateError
from pkafka.clients.metrics import Metric, MetricName
from pkafka.clients.offsets import ConsumerGroupMetadata, ListedOffset, OffsetAndMetadata
from pkafka.clock import Clock
from pkafka.model import TopicPartition

T = TypeVar("T")
_CLOSED: Final = "This consumer has already been closed."


class AsyncConsumer:
    """Reads records for coroutines of one event loop: a :class:`~pkafka.clients.consumer.Consumer` behind ``await``.

    One thread of its own makes the consumer's calls, one after the other; a coroutine that waits for records gives way
    to the others. Cancelling a coroutine that waits here ends its waiting, never what it waits for: a commit goes on,
    and records that come are delivered to who asks next. Methods have the arguments and errors of the Consumer's.

    Args:
        config: Kafka's consumer keys (dotted), or the typed form.
        topics: to subscribe to at the start.
        clock: as for the Consumer.

    Raises:
        ConfigError: a key has a bad value.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ConsumerConfig,
        topics: Iterable[str] = (),
        *,
        clock: Clock | None = None,
    ) -> None:
        self._turns_: Turns | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.config = config if isinstance(config, ConsumerConfig) else ConsumerConfig.from_properties(config)
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self._clock = clock
        self._waiting = 0
        """How many coroutines wait for records."""
        self._polling: asyncio.Task[bool] | None = None
        self._error: BaseException | None = None
        """What a poll raised, for the next coroutine that asks for records."""

    async def start(self) -> None:
        """Begin, and subscribe to the topics that were given; ``async with`` does it. Waits for no broker.

        Raises:
            IllegalStateError: it was started before.
            ConfigError: an object that the configuration names cannot be made.
            InvalidGroupIdError: topics are given, and no ``group.id``.
        """
        if self._turns_ is not None:
            raise IllegalStateError("this consumer was started before")
        core = Core(self.config, clock=self._clock)
        name = f"{self.config.client_id or self.config.group_id or 'consumer'}-calls"
        self._turns_ = Turns(core, asyncio.get_running_loop(), name)
        if self._topics:
            try:
                await self.subscribe(self._topics)
            except BaseException:
                await self.stop()
                raise

    async def stop(self, timeout_ms: int | None = None) -> None:
        """Commit if that is automatic, leave the group unless the member is static, and end.

        What was not delivered is not committed. Coroutines that wait for records get a ClosedError; ``async for`` ends.

        Args:
            timeout_ms: as for ``Consumer.close()``.

        Raises:
            Exception: what a callback of the user's raised; the consumer is closed nevertheless.
            IllegalStateError: a rebalance listener awaits it, which the end would have to wait for.
        """
        if self._turns_ is None:
            return
        if self._turns_.is_telling:
            raise IllegalStateError(
                "a rebalance listener cannot wait for the end: that waits for the listener"
            )
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._turns_.close(timeout_ms))
        await asyncio.shield(self._stopping)

    # -- what to read -------------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: AsyncRebalanceListener | ConsumerRebalanceListener | None = None,
    ) -> None:
        """As ``Consumer.subscribe()``; methods of the listener may be coroutines, and are called on the loop."""
        turns = self._turns
        forwarder = None
        if listener is not None:
            told = listener

            def forward(name: str, partitions: Collection[TopicPartition]) -> None:
                turns.tell(lambda: tell(told, name, partitions))

            forwarder = Forwarder(forward)
        wanted = None if topics is None else list(topics)
        await turns.call(lambda core: core.subscribe(wanted, pattern=pattern, listener=forwarder), back=None)

    async def unsubscribe(self) -> None:
        """As ``Consumer.unsubscribe()``."""
        await self._turns.call(Core.unsubscribe, back=None)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """As ``Consumer.assign()``."""
        wanted = list(partitions)
        await self._turns.call(lambda core: core.assign(wanted), back=None)

    async def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return await self._turns.call(Core.assignment)

    async def subscription(self) -> frozenset[str]:
        """The topics subscribed; for a pattern those that match now."""
        return await self._turns.call(Core.subscription)

    async def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """As ``Consumer.seek()``; the next record of the partition that is delivered is the one sought."""
        await self._turns.call(lambda core: core.seek(partition, offset), back=[partition])

    async def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """As ``Consumer.seek_to_beginning()``."""
        await self._of_partitions(Core.seek_to_beginning, partitions)

    async def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """As ``Consumer.seek_to_end()``."""
        await self._of_partitions(Core.seek_to_end, partitions)

    async def seek_to_time(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """As ``Consumer.seek_to_time()``."""
        await self._of_partitions(lambda core, each: core.seek_to_time(timestamp_ms, each), partitions)

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """As ``Consumer.pause()``: none of their records is delivered from now on."""
        wanted = list(partitions)
        await self._turns.call(lambda core: core.pause(wanted), back=wanted)

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """As ``Consumer.resume()``."""
        wanted = list(partitions)
        await self._turns.call(lambda core: core.resume(wanted))

    async def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return await self._turns.call(Core.paused)

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """As ``Consumer.position()``: the offset of the next record of the partition that will be delivered."""

        def look(core: Core, undelivered: Mapping[TopicPartition, int]) -> int:
            return undelivered.get(partition, core.position(partition, timeout_ms))

        return await self._turns.call_beside(look)

    # -- reading ------------------------------------------------------------------------------------------

    async def getone(self) -> ConsumerRecord:
        """The next record; waits until there is one.

        Raises:
            ClosedError: the consumer was stopped meanwhile.
            Exception: as ``Consumer.poll()``.
        """
        undelivered = self._turns.undelivered
        while not undelivered:
            await self._wait_for_records(None)
        return undelivered.take_one()

    async def getmany(
        self, *, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records that were not delivered yet, by partition.

        Args:
            timeout_ms: how long to wait for the first one.
            max_records: at most so many, and not more than ``max.poll.records``.

        Raises:
            ClosedError: the consumer was stopped meanwhile.
            IllegalArgumentError: ``max_records`` is not positive.
            Exception: as ``Consumer.poll()``.
        """
        if max_records is not None and max_records < 1:
            raise IllegalArgumentError("max_records must be positive")
        undelivered = self._turns.undelivered
        if not undelivered:
            await self._wait_for_records(timeout_ms)
        return undelivered.take(max_records)

    def __aiter__(self) -> Self:
        """Records for ever; ends when the consumer is stopped."""
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            return await self.getone()
        except ClosedError:
            if self._stopping is None:
                raise
            raise StopAsyncIteration from None

    # -- offsets of the group -----------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """As ``Consumer.commit_sync()``; without offsets, what was delivered is committed and nothing beyond it."""

        def commit(core: Core, undelivered: Mapping[TopicPartition, int]) -> None:
            wanted = offsets
            if wanted is None and undelivered:
                wanted = {each: undelivered.get(each, at) for each, at in core.consumed().items()}
            core.commit_sync(wanted, timeout_ms=timeout_ms)

        await self._turns.call_beside(commit)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As ``Consumer.committed()``."""
        wanted = list(partitions)
        return await self._turns.call(lambda core: core.committed(wanted, timeout_ms=timeout_ms))

    async def group_metadata(self) -> ConsumerGroupMetadata:
        """As ``Consumer.group_metadata()``, for ``AsyncProducer.send_offsets_to_transaction()``."""
        return await self._turns.call(Core.group_metadata)

    async def enforce_rebalance(self, reason: str | None = None) -> None:
        """As ``Consumer.enforce_rebalance()``."""
        await self._turns.call(lambda core: core.enforce_rebalance(reason))

    # -- looking around -----------------------------------------------------------------------------------

    async def partitions_for(self, topic: str, *, timeout_ms: int | None = None) -> TopicView:
        """As ``Consumer.partitions_for()``."""
        return await self._turns.call(lambda core: core.partitions_for(topic, timeout_ms=timeout_ms))

    async def topics(self, *, timeout_ms: int | None = None) -> dict[str, TopicView]:
        """All topics that this client may see."""
        return await self._turns.call(lambda core: core.topics(timeout_ms=timeout_ms))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        """As ``Consumer.offsets_for_times()``."""
        return await self._turns.call(lambda core: core.offsets_for_times(timestamps, timeout_ms=timeout_ms))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of every partition."""
        wanted = list(partitions)
        return await self._turns.call(lambda core: core.beginning_offsets(wanted, timeout_ms=timeout_ms))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The end of every partition as this consumer's isolation level sees it."""
        wanted = list(partitions)
        return await self._turns.call(lambda core: core.end_offsets(wanted, timeout_ms=timeout_ms))

    def metrics(self) -> dict[MetricName, Metric]:
        """What this consumer counts, under Kafka's names."""
        return self._turns.core.metrics()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def __del__(self) -> None:
        if self._turns_ is not None and self._stopping is None:
            warnings.warn(
                "an AsyncConsumer was dropped without stop()", ResourceWarning, stacklevel=2, source=self
            )

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _turns(self) -> Turns:
        if self._turns_ is None:
            raise IllegalStateError("this consumer is not started", hint="use `async with`, or await start()")
        if self._stopping is not None and not self._turns_.is_telling:
            raise ClosedError(_CLOSED)
        return self._turns_

    async def _of_partitions(
        self,
        function: Callable[[Core, list[TopicPartition] | None], None],
        partitions: Iterable[TopicPartition] | None,
    ) -> None:
        wanted = None if partitions is None else list(partitions)
        await self._turns.call(lambda core: function(core, wanted), back=wanted)

    async def _wait_for_records(self, timeout_ms: int | None) -> None:
        """Wait until there are records to deliver, at most so long; one poll serves all who wait."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1_000
        if self._turns.is_telling:
            raise IllegalStateError(
                "a rebalance listener cannot wait for records: they wait for the listener"
            )
        while not self._turns.undelivered:
            error, self._error = self._error, None
            if error is not None:
                raise error
            left_s = None if deadline is None else max(0.0, deadline - loop.time())
            poll = self._polling
            is_own = poll is None
            if poll is None:
                left_ms = INT_MAX if left_s is None else int(left_s * 1_000 + 0.999)
                poll = self._polling = self._turns.begin(self._poll(left_ms))
            await self._wait_for(poll, None if is_own else left_s)
            if not poll.done() or (is_own and poll.result() and left_s is not None and not self._error):
                return  # it was time

    async def _wait_for(self, poll: "asyncio.Task[bool]", timeout_s: float | None) -> None:
        self._waiting += 1
        try:
            await asyncio.wait({poll}, timeout=timeout_s)
        finally:
            self._waiting -= 1
            if not self._waiting and not poll.done() and self._turns_ is not None:
                self._turns_.interrupt()

    async def _poll(self, timeout_ms: int) -> bool:
        """Poll once.

        Returns:
            Whether it came to its own end; False where it gave way to another call.
        """
        assert self._turns_ is not None
        try:
            return await self._turns_.poll(timeout_ms, lambda: self._waiting > 0)
        except Exception as error:  # noqa: BLE001 - who asks for records gets it
            self._error = error
            return True
        finally:
            self._polling = None
