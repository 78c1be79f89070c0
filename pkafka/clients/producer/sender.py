"""The producer's one I/O thread: drains batches to the leaders of their partitions and settles the answers.

One Produce request per broker carries one batch of every partition that has one ready (PROD-18). With
idempotence every batch has a sequence number; a batch that must be sent again keeps it, and nothing overtakes
it: while a partition recovers it has one batch in flight.
"""

import threading
from collections.abc import Iterable
from typing import Final

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.connection import Pending
from pkafka.clients.errors import ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.accumulator import Accumulator, PartitionQueue
from pkafka.clients.producer.batch import ProducerBatch
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pkafka.records.builder import BatchBuilder
from pkafka.records.reading import read_records

_POLL_MS_MAX: Final = 1_000
# The broker has forgotten this producer, or fenced it: only a new producer id helps (KIP-360).
_LOST_PRODUCER: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class Sender:
    """See the module."""

    def __init__(
        self, cluster: Cluster, config: ProducerConfig, accumulator: Accumulator, topics: set[str]
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = accumulator
        self._topics = topics
        self._clock = cluster.clock
        self._producer: tuple[int, int] | None = None
        self._init_pending: Pending | None = None
        self._init_not_before_ms = 0
        self._in_flight = 0
        self._reset_wanted = False
        self._abandon = False
        self._sleeping = True
        self._thread = threading.Thread(target=self._run, name="pkafka-producer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._cluster.network.enable_wakeup()
        self._thread.start()

    def wake(self) -> None:
        """There is something to do; callable from any thread."""
        if self._sleeping:
            self._sleeping = False
            self._cluster.network.wakeup()

    def stop(self, timeout_s: float | None) -> None:
        """Wait until all is sent, then end the thread; after the time-out fail what is left."""
        self._sleeping = True
        self.wake()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._abandon = True
            self._sleeping = True
            self.wake()
            self._thread.join(5)

    # -- the loop -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_finished():
                self._turn()
        finally:
            self._fail_everything(ClosedError("the producer was closed before the record was sent"))
            self._cluster.close()

    def _is_finished(self) -> bool:
        if self._abandon:
            return True
        with self._accumulator.lock:
            return self._accumulator.closed and not self._accumulator.incomplete

    def _turn(self) -> None:
        wait_ms = min(_POLL_MS_MAX, self._cluster.keep_fresh(self._topics, allow_auto_create=True))
        if self._may_produce():
            self._drain()
        self._expire()
        now_ms = self._clock.monotonic_ms()
        with self._accumulator.lock:
            due_ms = self._accumulator.next_due_ms(now_ms)
        if due_ms is not None:
            # What is due and was not sent waits for an answer or for metadata; both end the poll.
            wait_ms = min(
                wait_ms, due_ms or (self._config.retry_backoff_ms if self._in_flight == 0 else wait_ms)
            )
        self._sleeping = True
        generation = self._cluster.generation
        self._cluster.network.poll(max(1, wait_ms) if not self._work_is_ready() else 0)
        self._sleeping = False
        if self._cluster.generation != generation:
            with self._accumulator.changed:
                self._accumulator.changed.notify_all()

    def _work_is_ready(self) -> bool:
        """Whether something became sendable since the last drain, before this thread goes to sleep."""
        if not self._may_produce():
            return False
        network = self._cluster.network
        limit = self._config.max_in_flight_requests_per_connection
        now_ms = self._clock.monotonic_ms()
        with self._accumulator.lock:
            for partition, _ in self._accumulator.ready(now_ms):
                leader = self._cluster.view.leader(partition)
                if leader is not None and network.can_send(leader.address, in_flight_max=limit):
                    return True
        return False

    def _drain(self) -> None:
        now_ms = self._clock.monotonic_ms()
        network = self._cluster.network
        limit = self._config.max_in_flight_requests_per_connection
        chosen: dict[Broker, list[ProducerBatch]] = {}
        sizes: dict[Broker, int] = {}
        with self._accumulator.lock:
            for partition, queue in self._accumulator.ready(now_ms):
                leader = self._cluster.view.leader(partition)
                if leader is None:
                    self._cluster.want_refresh()
                    continue
                if leader not in chosen and not network.can_send(leader.address, in_flight_max=limit):
                    continue
                size = queue.batches[0].builder.size_bytes
                if leader in chosen and sizes[leader] + size > self._config.max_request_size:
                    continue
                chosen.setdefault(leader, []).append(self._take(queue))
                sizes[leader] = sizes.get(leader, 0) + size
        for leader, batches in chosen.items():
            self._send(leader, batches)

    def _take(self, queue: PartitionQueue) -> ProducerBatch:
        batch = queue.batches.popleft()
        queue.in_flight += 1
        batch.attempts += 1
        if self._producer is not None and batch.producer != self._producer:
            batch.producer = self._producer
            batch.sequence = queue.next_sequence
            queue.next_sequence = queue.next_sequence + batch.builder.count & 0x7FFFFFFF
        return batch

    def _send(self, leader: Broker, batches: list[ProducerBatch]) -> None:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, index = batch.partition
            if name not in topics:
                topics[name] = TopicProduceData(name=name, partition_data=[])
            records = batch.builder.build(
                producer_id=batch.producer[0], producer_epoch=batch.producer[1], base_sequence=batch.sequence
            )
            topics[name].partition_data.append(PartitionProduceData(index=index, records=records))
        request = ProduceRequest(
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self._in_flight += 1
        self._cluster.network.send(
            leader.address,
            request,
            expects_answer=self._config.acks != 0,
            on_done=lambda pending: self._on_done(pending, batches),
        )

    # -- answers ------------------------------------------------------------------------------------------

    def _on_done(self, pending: Pending, batches: list[ProducerBatch]) -> None:
        self._in_flight -= 1
        with self._accumulator.lock:
            for batch in batches:
                self._accumulator.queues[batch.partition].in_flight -= 1
        finished: list[ProducerBatch] = []
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        if isinstance(pending.response, ProduceResponse):
            for topic in pending.response.responses:
                for each in topic.partition_responses:
                    answers[TopicPartition(topic.name, each.index)] = each
        for batch in batches:
            if pending.error is not None:
                self._failed(batch, pending.error, finished)
            elif pending.response is None:
                self._succeeded(batch, -1, -1, finished)
            elif batch.partition not in answers:
                self._failed(batch, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR), finished)
            else:
                self._settle(batch, answers[batch.partition], finished)
        self._accumulator.release(finished)

    def _settle(
        self, batch: ProducerBatch, answer: PartitionProduceResponse, finished: list[ProducerBatch]
    ) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._succeeded(batch, answer.base_offset, answer.log_append_time_ms, finished)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt made it; only where is not known any more.
            self._succeeded(batch, -1, -1, finished)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.builder.count > 1:
            self._split(batch, finished)
        else:
            self._failed(batch, ApiError(code, answer.error_message), finished)

    def _succeeded(
        self, batch: ProducerBatch, base_offset: int, append_time_ms: int, finished: list[ProducerBatch]
    ) -> None:
        with self._accumulator.lock:
            queue = self._accumulator.queues[batch.partition]
            if queue.recovering and not any(each.attempts for each in queue.batches):
                queue.recovering = False
        batch.finish(base_offset=base_offset, append_time_ms=append_time_ms)
        finished.append(batch)

    def _failed(self, batch: ProducerBatch, error: Exception, finished: list[ProducerBatch]) -> None:
        now_ms = self._clock.monotonic_ms()
        lost = isinstance(error, ApiError) and error.code in _LOST_PRODUCER and self._producer is not None
        overtaken = lost and self._is_behind_another(batch)
        retriable = overtaken or lost or bool(getattr(error, "retriable", False))
        self._cluster.want_refresh()
        if lost and not overtaken:
            self._reset_wanted = True
        if retriable and batch.attempts <= self._config.retries and now_ms < batch.deadline_ms:
            backoff_ms = self._config.retry_backoff_ms * 2 ** min(batch.attempts - 1, 16)
            batch.not_before_ms = now_ms + min(backoff_ms, self._config.retry_backoff_max_ms)
            with self._accumulator.lock:
                self._accumulator.queues[batch.partition].recovering = True
                self._accumulator.put_back(batch)
            return
        if batch.sequence >= 0:
            # Its sequence numbers stay unused or unknown: what follows needs a new producer id.
            self._reset_wanted = True
        batch.finish(error=error)
        finished.append(batch)

    def _is_behind_another(self, batch: ProducerBatch) -> bool:
        """Whether an earlier batch of the partition is to be sent again: then a gap in sequence is no surprise."""
        with self._accumulator.lock:
            queue = self._accumulator.queues[batch.partition]
            return any(0 <= each.sequence < batch.sequence for each in queue.batches)

    def _split(self, batch: ProducerBatch, finished: list[ProducerBatch]) -> None:
        """Send a batch that is too large for the broker again in two halves, which keep its sequence numbers."""
        built = batch.builder.build()
        records = list(read_records(built, check_crc=False))
        middle = len(records) // 2
        now_ms = self._clock.monotonic_ms()
        halves = []
        for start, part in ((0, records[:middle]), (middle, records[middle:])):
            half = ProducerBatch(
                batch.partition,
                BatchBuilder(batch.builder.size_bytes, codec=batch.builder.codec, level=batch.builder.level),
                now_ms=now_ms,
                deadline_ms=batch.deadline_ms,
                reserved_bytes=0,
            )
            for record in part:
                half.builder.append(record.timestamp, record.key, record.value, record.headers)
                half.timestamps.append(record.timestamp)
            half.attempts = 1
            half.producer = batch.producer
            half.sequence = batch.sequence + start if batch.sequence >= 0 else -1
            halves.append(half)
        _join(batch, halves, middle)
        with self._accumulator.lock:
            self._accumulator.queues[batch.partition].recovering = True
            for half in reversed(halves):
                self._accumulator.put_back(half)
            self._accumulator.incomplete.update(halves)
            self._accumulator.incomplete.discard(batch)
            self._accumulator.free_bytes += batch.reserved_bytes

    # -- producer id --------------------------------------------------------------------------------------

    def _may_produce(self) -> bool:
        """Whether batches may go now; asks for a producer id when one is needed."""
        if not self._config.enable_idempotence:
            return True
        if self._reset_wanted:
            if self._in_flight:
                return False
            self._reset_wanted = False
            self._producer = None
            with self._accumulator.lock:
                for queue in self._accumulator.queues.values():
                    queue.next_sequence = 0
        if self._producer is not None:
            return True
        if self._init_pending is None and self._clock.monotonic_ms() >= self._init_not_before_ms:
            brokers = list(self._cluster.view.brokers.values())
            if brokers:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
                pending = self._cluster.network.send(
                    brokers[0].address, request, on_done=self._on_producer_id
                )
                self._init_pending = None if pending.done else pending
        return False

    def _on_producer_id(self, pending: Pending) -> None:
        self._init_pending = None
        response = pending.response
        if isinstance(response, InitProducerIdResponse) and not response.error_code:
            self._producer = (response.producer_id, response.producer_epoch)
            return
        self._cluster.want_refresh()
        self._init_not_before_ms = self._clock.monotonic_ms() + self._config.retry_backoff_ms
        error: Exception | None = pending.error
        if isinstance(response, InitProducerIdResponse):
            error = ApiError(ErrorCode(response.error_code))
        if error is not None and not getattr(error, "retriable", False):
            self._fail_everything(error)

    # -- giving up ----------------------------------------------------------------------------------------

    def _expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        late: list[ProducerBatch] = []
        with self._accumulator.lock:
            for queue in self._accumulator.queues.values():
                while queue.batches and queue.batches[0].deadline_ms <= now_ms:
                    late.append(queue.batches.popleft())
        for batch in late:
            if batch.sequence >= 0:
                self._reset_wanted = True
            waited_ms = now_ms - batch.created_ms
            text = (
                f"Expiring {batch.builder.count} record(s) for {batch.partition}: "
                f"{waited_ms} ms have passed since batch creation"
            )
            cause = self._cluster.last_refresh_error
            batch.finish(
                error=ClientTimeoutError(
                    Stage.REQUEST,
                    text if cause is None else f"{text}; {cause.message}",
                    hint=cause.hint if cause else None,
                )
            )
        if late:
            self._accumulator.release(late)

    def _fail_everything(self, error: Exception) -> None:
        with self._accumulator.lock:
            left = list(self._accumulator.incomplete)
            for queue in self._accumulator.queues.values():
                queue.batches.clear()
        for batch in left:
            batch.finish(error=error)
        self._accumulator.release(left)


def _join(whole: ProducerBatch, halves: list[ProducerBatch], middle: int) -> None:
    """Let the futures and callbacks of a split batch learn their outcome from its halves."""
    outcomes: list[ProducerBatch] = []
    callbacks, whole.callbacks = whole.callbacks, []
    for index, callback in callbacks:
        half = halves[0] if index < middle else halves[1]
        half.callbacks.append((index if index < middle else index - middle, callback))

    def settle(_: object, error: Exception | None) -> None:
        outcomes.append(halves[len(outcomes)])
        if len(outcomes) == len(halves):
            failed = next((half.error for half in halves if half.error is not None), error)
            # Offsets of the halves follow each other unless another producer wrote between them.
            whole.finish(
                base_offset=halves[0].base_offset, append_time_ms=halves[0].append_time_ms, error=failed
            )

    for half in halves:
        half.callbacks.append((0, settle))


def expected_size(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    """An upper bound of the bytes that a record takes in a batch, the batch's header included."""
    size = 61 + 21 + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + len(name.encode()) + len(content or b"")
    return size
