"""The producer of coroutines."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Self, TypeVar

from pkafka.clients.aio.borrowed_sender import BorrowedSender
from pkafka.clients.aio.call_thread import CallThread
from pkafka.clients.aio.outcomes import BatchOutcome, Outcomes, RecordOutcome
from pkafka.clients.cluster import Cluster, PartitionView
from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import (
    BufferExhaustedError,
    ClientError,
    ClosedError,
    IllegalStateError,
)
from pkafka.clients.metrics import Metric, MetricName
from pkafka.clients.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.futures import BatchFuture, FailedFuture, RecordFuture
from pkafka.clients.producer.producer import Producer
from pkafka.clients.producer.record_metadata import RecordMetadata
from pkafka.clock import Clock
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

T = TypeVar("T")
Headers = Sequence[tuple[str, bytes | None]]
_NO_HEADERS: Final = ()
# What a batch and its first record take beside key and value: headers of both, lengths.
_OVERHEAD: Final = 128


class AsyncProducer:
    """Sends records for coroutines of one event loop: a :class:`~pkafka.clients.producer.Producer` behind ``await``.

    A send takes place on the loop's thread unless it has to wait for metadata or for room in the buffer; then one
    thread of the producer's own waits, in the order of the sends. Cancelling a coroutine that waits here ends its
    waiting, never what it waits for: a record is sent, a commit goes on.

    Args:
        config: Kafka's producer keys (dotted), or the typed form.
        clock: as for the Producer.

    Raises:
        ConfigError: a key has a bad value, or keys contradict each other.
    """

    def __init__(self, config: Mapping[str, object] | ProducerConfig, *, clock: Clock | None = None) -> None:
        self.config = config if isinstance(config, ProducerConfig) else ProducerConfig.from_properties(config)
        self._clock = clock
        self._running: _Running | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; ``async with`` does it. Waits for nothing.

        Raises:
            IllegalStateError: it was started before.
            ConfigError: an object that the configuration names cannot be made.
        """
        if self._running is not None:
            raise IllegalStateError("this producer was started before")
        self._running = _Running(self.config, self._clock, asyncio.get_running_loop())

    async def stop(self, timeout_s: float | None = None) -> None:
        """Send what is left, wait for the outcomes, and end; after ``timeout_s`` fail what is left."""
        if self._running is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._running.close(timeout_s))
        await asyncio.shield(self._stopping)

    async def send(
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 - what the serializers know
        key: Any = None,  # noqa: ANN401 - as above
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = _NO_HEADERS,
    ) -> RecordOutcome:
        """Hand a record over; arguments and errors are those of ``Producer.send()``.

        Waits for metadata of a new topic and for room in the buffer (``buffer.memory``), at most ``max.block.ms`` from
        the time at which the sends before it were handed over. Cancelled meanwhile, the record is sent all the same.

        Returns:
            A future of the outcome, which raises what went wrong.
        """
        running = self._running
        if running is None or self._stopping is not None:
            running = self._live()  # says what is wrong
        # The short way of Producer.send(), with another kind of future. A run may be another thread's: that one is done
        # with it, since nothing waits.
        run = running.accumulator.run
        if (
            topic is run.topic
            and key is None
            and partition is None
            and timestamp_ms is None
            and type(value) is bytes
            and not headers
            and not running.waiting
            and (room := run.room - len(value)) >= 0
            and run.begin_s <= running.now_s() < run.end_s
            and run.keys is None
            and run.generation == running.cluster.generation
        ):
            run.room = room - run.overhead
            outcomes, values = running.outcomes, run.values
            outcome = outcomes.new()
            assert run.batch is not None
            outcome.batch = batch = run.batch
            outcome.index = run.first + len(values)
            outcome.timestamp_ms = run.stamp_ms
            outcome.key_size = -1
            outcome.value_size = len(value)
            values.append(value)
            if run.is_open or run.has(outcome):
                if batch is outcomes.latest:
                    outcomes.of_latest.append(outcome)
                else:
                    outcomes.wait_for(outcome)
                return outcome
        if running.can_send(topic, value, key, partition, headers):
            sent = running.core.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        else:
            sent = await running.hand_over(
                partial(
                    running.core.send,
                    *(topic, value, key),
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    headers=headers,
                ),
                partial(running.core.refuse, topic, partition),
            )
        return running.outcomes.of_record(sent)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,  # noqa: ANN401 - what the serializers know
        key: Any = None,  # noqa: ANN401 - as above
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = _NO_HEADERS,
    ) -> RecordMetadata:
        """:meth:`send`, and wait for the outcome."""
        return await (
            await self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        )

    async def send_batch(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = _NO_HEADERS,
    ) -> BatchOutcome:
        """Hand many records over at once; arguments and errors are those of ``Producer.send_batch()``.

        They are encoded on a thread of the producer's own, while the loop goes on.

        Returns:
            A future of where the records went, run by run; it raises the error of the first run that failed.
        """
        running = self._live()
        sent = await running.hand_over(
            partial(
                running.core.send_batch,
                *(topic, values, keys),
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            ),
            lambda: BatchFuture.of_records(
                -1, [running.core.refuse(topic, partition) for _ in range(len(values))]
            ),
        )
        return running.outcomes.of_batch(sent)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send all that was handed over before this call, and wait for the outcomes: their futures are done then.

        Raises:
            ClientTimeoutError: ``timeout_s`` ran out.
        """
        await self._after_sends(lambda core: core.flush(timeout_s))

    async def partitions_for(self, topic: str) -> list[PartitionView]:
        """As ``Producer.partitions_for()``."""
        return await self._live().call(lambda core: core.partitions_for(topic))

    def metrics(self) -> dict[MetricName, Metric]:
        """The producer's metrics, under Kafka's names."""
        return self._live().core.metrics()

    # -- transactions; errors and time-outs are those of the Producer's methods ----------------------------

    async def init_transactions(self, timeout_s: float | None = None) -> None:
        """As ``Producer.init_transactions()``: once, before all other calls about transactions."""
        await self._live().call(lambda core: core.init_transactions(timeout_s))

    async def begin_transaction(self) -> None:
        """As ``Producer.begin_transaction()``."""
        await self._after_sends(Producer.begin_transaction)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_s: float | None = None,
    ) -> None:
        """As ``Producer.send_offsets_to_transaction()``."""
        await self._live().call(
            lambda core: core.send_offsets_to_transaction(offsets, group_metadata, timeout_s)
        )

    async def commit_transaction(self, timeout_s: float | None = None) -> None:
        """As ``Producer.commit_transaction()``; what was sent before this call belongs to it."""
        await self._after_sends(lambda core: core.commit_transaction(timeout_s))

    async def abort_transaction(self, timeout_s: float | None = None) -> None:
        """As ``Producer.abort_transaction()``."""
        await self._after_sends(lambda core: core.abort_transaction(timeout_s))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction as an ``async with`` block: committed at its end, aborted when something is raised.

        A cancellation is something that is raised. One that comes during the commit leaves that under way.
        """
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self._after_sends(_Core.abort_after_failure)
            raise
        try:
            await self.commit_transaction()
        except (ApiError, ClientError):
            await self._after_sends(_Core.abort_after_failure)
            raise

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _live(self) -> "_Running":
        if self._running is None:
            raise IllegalStateError("this producer is not started", hint="use `async with`, or await start()")
        if self._stopping is not None:
            raise ClosedError("Cannot perform operation after producer has been closed")
        return self._running

    async def _after_sends(self, function: "Callable[[_Core], None]") -> None:
        running = self._live()
        await running.handed_over()
        try:
            await running.call(function)
        finally:
            running.outcomes.settle()


class _Core(Producer):
    """What stands behind the front end needs to know of the producer."""

    def seen_by_each_send(self) -> tuple[Accumulator, Cluster, Callable[[], float]]:
        """Where the run of records is, the metadata, and the time in seconds since the epoch."""
        return self._accumulator, self._cluster, self._now_s

    def lend_sender(self, loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> BorrowedSender:
        """Have the sender's turns on the loop, if they never take long with this configuration.

        Args:
            loop: this is called on its thread.
            told: called on it after each of them.
        """
        security = self._cluster.network.security
        lends = (
            self._transactions is None
            and not self._interceptors.is_needed
            and self.config.compression_type == "none"
            and (security is None or not security.logs_in)
        )
        borrowed = BorrowedSender(self._sender, self._clock, loop, told, lends=lends)
        self._accumulator.wake_sender = borrowed.wake
        return borrowed

    def would_wait(self, topic: str, size_bytes: int | None, partition: int | None) -> bool:
        """Whether a send could have to wait, for metadata or for memory.

        Args:
            size_bytes: of key and value together; None where it is not known, and may be what is allowed at most.
        """
        layout = self._topics.get(topic)
        if layout is None or not layout.watched:
            return True
        view = self._cluster.view.topics.get(topic)
        if view is None or len(view.partitions) <= (partition or 0):
            return True
        config = self.config
        is_known = self._takes_bytes and not self._interceptors.is_needed
        size = size_bytes if is_known and size_bytes is not None else config.max_request_size
        free = self._accumulator.free_bytes
        return free < max(config.batch_size, size + _OVERHEAD) or self._accumulator.waiting_threads > 0

    def refuse(self, topic: str, partition: int | None) -> RecordFuture:
        """The outcome of a record that waited for ``max.block.ms`` behind others."""
        error = BufferExhaustedError(
            f"The record was not handed over within {self.config.max_block_ms} ms: others before it wait for "
            "metadata or buffer memory"
        )
        self._note_failure(error)
        return FailedFuture(topic, partition, error)

    def abort_after_failure(self) -> None:
        """Abort where that is possible; failures of that are logged."""
        self._abort_after_failure()

    def now_ms(self) -> int:
        """The monotonic time."""
        return self._clock.monotonic_ms()


class _Running:
    """A producer that was started, with the threads that wait for it."""

    def __init__(self, config: ProducerConfig, clock: Clock | None, loop: asyncio.AbstractEventLoop) -> None:
        self.core = _Core(config, clock=clock)
        self.accumulator, self.cluster, self.now_s = self.core.seen_by_each_send()
        self.outcomes = Outcomes(loop)
        self.sender = self.core.lend_sender(loop, self.outcomes.work)
        name = self.core.config.client_id
        self._sends = CallThread(loop, f"{name}-sends")
        self._calls = CallThread(loop, f"{name}-calls")
        self.waiting: set[asyncio.Future[Any]] = set()
        """Sends that wait for metadata or memory: later ones have to stay behind them."""

    def can_send(
        self, topic: str, value: object, key: object, partition: int | None, headers: Headers
    ) -> bool:
        """Whether a record can be sent on the loop's thread, where nothing may wait."""
        if self.waiting:
            return False
        size: int | None = None
        if not headers and (value is None or type(value) is bytes) and (key is None or type(key) is bytes):
            size = len(value or b"") + len(key or b"")
        return not self.core.would_wait(topic, size, partition)

    async def hand_over(self, send: Callable[[], T], refuse: Callable[[], T]) -> T:
        """Send on the thread that may wait.

        Args:
            refuse: makes the outcome of what has waited for its turn too long.
        """
        latest_ms = self.core.now_ms() + self.core.config.max_block_ms
        future = self._sends.call(lambda: send() if self.core.now_ms() <= latest_ms else refuse())
        self.waiting.add(future)
        future.add_done_callback(self.waiting.discard)
        return await asyncio.shield(future)

    async def handed_over(self, timeout_s: float | None = None) -> None:
        """Wait until what waits now is handed over, or has failed."""
        if self.waiting:
            await asyncio.wait(set(self.waiting), timeout=timeout_s)

    async def call(self, function: Callable[[_Core], T]) -> T:
        """Make a call that may wait."""
        return await asyncio.shield(self._calls.call(lambda: function(self.core)))

    async def close(self, timeout_s: float | None) -> None:
        """As :meth:`AsyncProducer.stop`."""
        begun_ms = self.core.now_ms()
        await self.handed_over(timeout_s)
        if timeout_s is not None and timeout_s > 0:
            timeout_s = max(0.0, timeout_s - (self.core.now_ms() - begun_ms) / 1_000)
        try:
            await self.call(lambda core: core.close(timeout_s))
        finally:
            await self.handed_over()  # those that were still waiting were told that it is closed
            self.outcomes.settle()
            self._sends.close()
            self._calls.close()
