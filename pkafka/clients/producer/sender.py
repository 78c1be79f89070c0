"""The producer's one I/O thread: drains batches to the leaders of their partitions and settles the answers.

One Produce request per broker carries one batch of every partition that has one ready (PROD-18). What a batch's
sequence is, and what an error says about it, is in ``idempotence.py``; what transactions ask for in between, in
``transactions.py``.
"""

import logging
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.connection import Address, Pending
from pkafka.clients.errors import ClientError, ClientTimeoutError, ClosedError, Stage
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.idempotence import Idempotence
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.queues import PartitionQueue, TopicQueues
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

if TYPE_CHECKING:
    from pkafka.clients.producer.transaction_channel import TransactionChannel

_POLL_MS_MAX: Final = 1_000
_JOIN_S_MAX: Final = 5.0
_ROUNDS_MAX: Final = 20
_JITTER: Final = 0.2
_PART_OF_BAD_BATCH: Final = (
    "Failed to append record because it was part of a batch which had one more more invalid records"
)
_NO_ID_EVER: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})
_log = logging.getLogger(__name__)


class Sender:
    """See the module.

    Args:
        cluster: polled by this thread alone once it has started.
        topics: those that are produced to.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        metrics: ProducerMetrics,
        topics: dict[str, TopicQueues],
    ) -> None:
        self.accumulator = Accumulator(config, cluster.clock, metrics, self.wake)
        self._cluster = cluster
        self._config = config
        self._metrics = metrics
        self._topics = topics
        self._clock = cluster.clock
        self._idempotence = (
            Idempotence(transactional=config.transactional_id is not None)
            if config.enable_idempotence
            else None
        )
        self.transactions = self._transaction_channel()
        self._is_flushing = False
        self._id_pending = False
        self._id_not_before_ms = 0
        self._id_failures = 0
        self._in_flight: dict[ProducerBatch, None] = {}
        self._requests: Counter[Address] = Counter()
        self._refusing_since_ms: dict[int, int] = {}
        self._next_expiry_ms = 0
        self._wanted = False
        self._sleeping = True
        self._abandon = False
        self._finish_wanted = False
        self.thread = threading.Thread(
            target=self._run, name=f"kafka-producer-network-thread | {config.client_id}", daemon=True
        )

    @property
    def requests_in_flight(self) -> int:
        """Produce requests that are not answered."""
        return self._requests.total()

    def _transaction_channel(self) -> "TransactionChannel | None":
        if self._config.transactional_id is None:
            return None
        from pkafka.clients.producer.transaction_channel import TransactionChannel

        return TransactionChannel(self._cluster, self._config, self.wake)

    def start(self) -> None:
        """Start the thread."""
        self._cluster.network.enable_wakeup()
        self.thread.start()

    def wake(self) -> None:
        """There is something to do; callable from any thread."""
        self._wanted = True
        if self._sleeping:
            self._sleeping = False
            self._cluster.network.wakeup()

    def is_current_thread(self) -> bool:
        """Whether this is the sender thread, as in a callback."""
        return threading.current_thread() is self.thread

    def finish_in_background(self) -> None:
        """Send what is left and end, without anybody waiting for it.

        Takes no lock: the garbage collector may call this on the sender thread while it holds one.
        """
        self._finish_wanted = True
        self._insist()

    def stop(self, timeout_s: float | None) -> None:
        """Wait until all is sent, then end the thread; after the time-out fail what is left.

        Called on the sender thread itself (from a callback) it waits for nothing and fails what is left.
        """
        self.accumulator.close()
        if self.is_current_thread():
            self._abandon = True
            return
        self._insist()
        self.thread.join(timeout_s)
        if self.thread.is_alive():
            self._abandon = True
            self._insist()
            self.thread.join(_JOIN_S_MAX)

    # -- the loop -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_finished():
                self._turn()
        except BaseException:
            _log.exception("the producer's thread ends by an error")
            raise
        finally:
            self.accumulator.close()
            self._abort(ClosedError("Producer is closed forcefully."))
            if self.transactions is not None:
                self.transactions.close()
            self._cluster.close()

    def _is_finished(self) -> bool:
        if self._abandon:
            return True
        if not self.accumulator.closed:
            return False
        has_unsettled = bool(self.accumulator.incomplete)
        if self.transactions is None:
            return not has_unsettled
        return self.transactions.is_over(self._clock.monotonic_ms(), has_unsettled=has_unsettled)

    def _turn(self) -> None:
        self._wanted = False
        if self._finish_wanted and not self.accumulator.closed:
            self.accumulator.close()
        now_ms = self._clock.monotonic_ms()
        wait_ms = min(_POLL_MS_MAX, self._expire(now_ms))
        if self.transactions is not None:
            wait_ms = min(wait_ms, self._transact(self.transactions, now_ms))
        elif self._idempotence is None or self._has_producer_id(self._idempotence, now_ms):
            wait_ms = min(wait_ms, self._drain(now_ms))
        wait_ms = min(wait_ms, self._cluster.keep_fresh(self._watched_topics(), allow_auto_create=True))
        self._sleeping = True
        # What was appended behind the drain's back has set the flag, and finds nobody asleep to wake.
        generation, trouble = self._cluster.generation, self._cluster.last_refresh_error
        self._cluster.network.poll(0 if self._wanted else max(0, wait_ms))
        self._sleeping = False
        if self._cluster.generation != generation or self._cluster.last_refresh_error is not trouble:
            self._forget_idle_topics()
            with self.accumulator.lock:
                self.accumulator.metadata_changed.notify_all()

    def _insist(self) -> None:
        self._sleeping = True
        self.wake()

    def _watched_topics(self) -> Iterator[str]:
        for name, topic in list(self._topics.items()):
            if topic.watched:
                yield name

    def _forget_idle_topics(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for topic in list(self._topics.values()):
            if topic.was_used:
                topic.was_used = False
                topic.idle_since_ms = now_ms
            elif topic.watched and now_ms - topic.idle_since_ms > self._config.metadata_max_idle_ms:
                topic.watched = False
                topic.generation = -1

    # -- draining -----------------------------------------------------------------------------------------

    def _drain(self, now_ms: int) -> int:
        """Send what is due to who can take it; returns in how many milliseconds more will be due."""
        for _ in range(_ROUNDS_MAX):
            due, wait_ms = self._due(now_ms)
            if not due:
                return wait_ms
            chosen: dict[Broker, list[PartitionQueue]] = {}
            for queue in due:
                leader = self._cluster.view.leader(queue.partition)
                if leader is None:
                    self._cluster.want_refresh()
                elif self._idempotence is None or not self._idempotence.waits_for_another_leader(
                    queue, leader.id
                ):
                    chosen.setdefault(leader, []).append(queue)
            sent = False
            for leader, queues in chosen.items():
                not_before_ms = self._ready_ms(leader, now_ms)
                if not_before_ms is not None:
                    wait_ms = min(wait_ms, max(1, not_before_ms - now_ms))
                elif self._cluster.network.can_send(
                    leader.address, in_flight_max=self._config.max_in_flight_requests_per_connection
                ):
                    self._note_refusal(leader, None)
                    self._send(leader, self._take(queues, leader, now_ms))
                    sent = True
                    continue
                self._note_refusal(leader, now_ms)
            if not sent:
                return wait_ms
        return 0  # without acks there may be no end of it: others have their turn first

    def _due(self, now_ms: int) -> tuple[list[PartitionQueue], int]:
        """The queues whose first batch should go now, and when the next one will."""
        due: list[PartitionQueue] = []
        next_ms = now_ms + _POLL_MS_MAX
        in_order = self._config.max_in_flight_requests_per_connection == 1
        with self.accumulator.lock:
            for queue in self.accumulator.waiting:
                if in_order and queue.unanswered:
                    continue
                if self._idempotence is not None and self._idempotence.is_blocked(queue):
                    continue
                if self.transactions is not None and not self.transactions.admits(queue.partition):
                    continue
                due_ms = self.accumulator.due_ms(queue, now_ms)
                if due_ms <= now_ms or self._has_new_leader(queue):
                    due.append(queue)
                else:
                    next_ms = min(next_ms, due_ms)
        return due, next_ms - now_ms

    def _has_new_leader(self, queue: PartitionQueue) -> bool:
        """Whether a batch need not wait before it goes again, because it goes to another broker (KIP-951)."""
        batch = queue.batches[0]
        if not batch.attempts:
            return False
        view = self._cluster.view.partition(queue.partition)
        return view is not None and view.leader >= 0 and (view.leader, view.leader_epoch) != batch.last_leader

    def _ready_ms(self, leader: Broker, now_ms: int) -> int | None:
        """None when a broker can be sent to; else when to look again at the latest."""
        network = self._cluster.network
        if network.is_ready(leader.address):
            return None
        throttle_ms = network.throttle_ms(leader.address)
        if throttle_ms:
            return now_ms + throttle_ms
        backoff_ms = network.backoff_ms(leader.address)
        if backoff_ms:
            self._cluster.want_refresh()
        return now_ms + (backoff_ms or _POLL_MS_MAX)

    def _note_refusal(self, leader: Broker, now_ms: int | None) -> None:
        """Keep records without a key from partitions whose leader takes nothing (KIP-794)."""
        limit_ms = self._config.partitioner_availability_timeout_ms
        if not limit_ms or (now_ms is None and leader.id not in self._refusing_since_ms):
            return
        if now_ms is None:
            del self._refusing_since_ms[leader.id]
        elif now_ms - self._refusing_since_ms.setdefault(leader.id, now_ms) <= limit_ms:
            return
        refusing = set(self._refusing_since_ms)
        for topic in list(self._topics.values()):
            view = self._cluster.view.topics.get(topic.name)
            if view is not None:
                topic.unavailable = frozenset(
                    each.partition for each in view.partitions if each.leader in refusing
                )

    def _take(self, queues: Iterable[PartitionQueue], leader: Broker, now_ms: int) -> list[ProducerBatch]:
        """Take one batch of each queue, as many as one request may carry."""
        batches: list[ProducerBatch] = []
        size = 0
        with self.accumulator.lock:
            for queue in queues:
                size += queue.batches[0].builder.size_bytes
                if batches and size > self._config.max_request_size:
                    break
                batch = self.accumulator.take(queue)
                if self._idempotence is not None:
                    self._idempotence.assign(batch)
                batches.append(batch)
        for batch in batches:
            if not batch.attempts:
                batch.drained_ms = now_ms
            batch.attempts += 1
            batch.queue.unanswered += 1
            view = self._cluster.view.partition(batch.queue.partition)
            batch.last_leader = (leader.id, -1 if view is None else view.leader_epoch)
            self._in_flight[batch] = None
        return batches

    def _send(self, leader: Broker, batches: list[ProducerBatch]) -> None:
        topics: dict[str, TopicProduceData] = {}
        records_count = 0
        for batch in batches:
            name, index = batch.queue.partition
            if name not in topics:
                topics[name] = TopicProduceData(name=name, partition_data=[])
            records = batch.builder.build(
                producer_id=batch.producer[0],
                producer_epoch=batch.producer[1],
                base_sequence=batch.sequence,
                transactional=self.transactions is not None,
            )
            topics[name].partition_data.append(PartitionProduceData(index=index, records=records))
            records_count += batch.count
            if batch.attempts == 1:
                self._measure(batch, len(records))
        self._metrics.records_per_request.record(records_count)
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self._requests[leader.address] += 1
        self._cluster.network.send(
            leader.address,
            request,
            expects_answer=self._config.acks != 0,
            on_done=partial(self._on_done, batches=batches, sent_ms=self._clock.monotonic_ms()),
        )

    def _measure(self, batch: ProducerBatch, size_bytes: int) -> None:
        metrics, topic = self._metrics, self._metrics.topic(batch.queue.partition.topic)
        ratio = size_bytes / batch.builder.size_bytes
        metrics.batch_size.record(size_bytes)
        metrics.queue_time.record(batch.drained_ms - batch.created_ms)
        metrics.records.record(batch.count)
        metrics.record_size.record(batch.builder.size_bytes / batch.count)
        metrics.compression.record(ratio)
        topic.records.record(batch.count)
        topic.bytes_sent.record(size_bytes)
        topic.compression.record(ratio)
        if batch.builder.codec:
            self.accumulator.note_ratio(batch.queue.topic, ratio)

    # -- answers ------------------------------------------------------------------------------------------

    def _on_done(self, pending: Pending, *, batches: list[ProducerBatch], sent_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._requests[pending.address] -= 1
        response = pending.response
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        if isinstance(response, ProduceResponse):
            self._metrics.latency.record(now_ms - sent_ms)
            for topic in response.responses:
                for each in topic.partition_responses:
                    partition = TopicPartition(topic.name, each.index)
                    answers[partition] = each
                    if each.current_leader.leader_id >= 0:
                        self._note_leader(partition, each, response)
        done: list[ProducerBatch] = []
        for batch in batches:
            batch.queue.unanswered -= 1
            self._in_flight.pop(batch, None)
            if batch.finished:
                # Its time ran out meanwhile; that it arrived after all matters to the sequence.
                found = answers.get(batch.queue.partition)
                if self._idempotence is not None and found is not None and not found.error_code:
                    self._idempotence.acknowledged(batch, found.base_offset)
                continue
            if pending.error is not None:
                self._failed(batch, pending.error, done)
            elif response is None:
                self._succeeded(batch, -1, -1, done)
            elif batch.queue.partition not in answers:
                self._failed(batch, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR), done)
            else:
                self._settle(batch, answers[batch.queue.partition], done)
        self.accumulator.release(done)

    def _note_leader(
        self, partition: TopicPartition, answer: PartitionProduceResponse, response: ProduceResponse
    ) -> None:
        brokers = [Broker(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        leader = answer.current_leader
        self._cluster.note_leader(partition, leader.leader_id, leader.leader_epoch, brokers)

    def _settle(
        self, batch: ProducerBatch, answer: PartitionProduceResponse, done: list[ProducerBatch]
    ) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._succeeded(batch, answer.base_offset, answer.log_append_time_ms, done)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt made it; only where is not known any more.
            self._succeeded(batch, -1, -1, done)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        else:
            self._failed(batch, ApiError(code, answer.error_message), done, answer)

    def _succeeded(
        self, batch: ProducerBatch, base_offset: int, append_time_ms: int, done: list[ProducerBatch]
    ) -> None:
        if self._idempotence is not None:
            self._idempotence.acknowledged(batch, base_offset)
        batch.finish(base_offset=base_offset, append_time_ms=append_time_ms)
        done.append(batch)

    def _failed(
        self,
        batch: ProducerBatch,
        error: ApiError | ClientError,
        done: list[ProducerBatch],
        answer: PartitionProduceResponse | None = None,
    ) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._idempotence is not None and isinstance(error, ApiError) and answer is not None:
            retriable = self._idempotence.may_retry(batch, error.code, answer.log_start_offset)
        else:
            retriable = error.retriable
        if retriable:
            self._cluster.want_refresh()
        if retriable and batch.attempts <= self._config.retries and now_ms < batch.deadline_ms:
            batch.not_before_ms = now_ms + self._backoff_ms(batch.attempts - 1)
            with self.accumulator.lock:
                self.accumulator.put_back(batch)
            self._metrics.retries.record(batch.count)
            self._metrics.topic(batch.queue.partition.topic).retries.record(batch.count)
            _log.debug("a batch for %s goes again after %s", batch.queue.partition, error)
            return
        self._give_up(batch, error, done, answer)

    def _give_up(
        self,
        batch: ProducerBatch,
        error: Exception,
        done: list[ProducerBatch],
        answer: PartitionProduceResponse | None = None,
    ) -> None:
        if self._idempotence is not None and answer is None:
            self._idempotence.expired(batch)  # nobody knows whether the broker took it after all
        elif self._idempotence is not None:
            # An earlier attempt may have made it, if this is the last of several.
            free = batch.attempts <= self._config.retries
            self._idempotence.failed(batch, error, sequence_is_free=free)
        if self.transactions is not None:
            self.transactions.failed(error, was_sent=True)
        errors: dict[int, Exception] | None = None
        if answer is not None and answer.record_errors:
            assert isinstance(error, ApiError)
            errors = {
                each.batch_index: ApiError(error.code, each.batch_index_error_message or answer.error_message)
                for each in answer.record_errors
            }
            if batch.count > 1:
                error = ApiError(error.code, _PART_OF_BAD_BATCH)
        self._count_errors(batch)
        batch.finish(error=error, record_errors=errors)
        done.append(batch)

    def _count_errors(self, batch: ProducerBatch) -> None:
        self._metrics.errors.record(batch.count)
        self._metrics.topic(batch.queue.partition.topic).errors.record(batch.count)

    def _backoff_ms(self, attempt: int) -> int:
        """How long to wait before a repetition (KIP-580): twice as long each time, give or take a fifth."""
        exponential_ms = self._config.retry_backoff_ms * 2 ** min(attempt, 20)
        jittered_ms = exponential_ms * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - guards nothing
        return int(min(jittered_ms, self._config.retry_backoff_max_ms))

    def _split(self, batch: ProducerBatch) -> None:
        """Send a batch that is too large for the broker again in two halves, which keep its sequence numbers."""
        records = list(read_records(batch.builder.build(), check_crc=False))
        middle = len(records) // 2
        halves = []
        for part in (records[:middle], records[middle:]):
            builder = BatchBuilder(
                batch.builder.size_bytes, codec=batch.builder.codec, level=batch.builder.level
            )
            for record in part:
                builder.append(record.timestamp, record.key, record.value, record.headers)
            half = ProducerBatch(
                batch.queue, builder, now_ms=batch.created_ms, deadline_ms=batch.deadline_ms, reserved_bytes=0
            )
            half.drained_ms = batch.drained_ms
            half.attempts = batch.attempts
            half.last_leader = batch.last_leader
            halves.append(half)
        pair = (halves[0], halves[1])
        if self._idempotence is not None:
            self._idempotence.split(batch, pair)
        with self.accumulator.lock:
            self.accumulator.split(batch, pair)
        self._metrics.splits.record()

    # -- transactions -------------------------------------------------------------------------------------

    def _transact(self, transactions: "TransactionChannel", now_ms: int) -> int:
        """Do what the transaction needs beside sending batches; returns in how many milliseconds to look again."""
        assert self._idempotence is not None
        wait_ms = _POLL_MS_MAX
        # In this order: a thread that fails to hand a record over may bring the end in between.
        is_fatal, drop_reason = transactions.is_fatal, transactions.drop_reason
        if is_fatal:
            assert drop_reason is not None
            if self.accumulator.incomplete:
                self._abort(drop_reason)
            return wait_ms
        if drop_reason is not None:
            self._drop_unsent(drop_reason)
        producer = transactions.producer
        if producer is not None:
            if producer != self._idempotence.producer:
                self._idempotence.adopt(*producer)
            if transactions.is_completing != self._is_flushing:
                self._is_flushing = not self._is_flushing
                with self.accumulator.lock:
                    self.accumulator.flushing += 1 if self._is_flushing else -1
            wait_ms = self._drain(now_ms)
        return min(wait_ms, transactions.advance(now_ms, lambda: bool(self.accumulator.incomplete)))

    def _drop_unsent(self, error: Exception) -> None:
        """Fail the batches of an aborted transaction that have not been sent yet; others have to come to an end."""
        dropped: list[ProducerBatch] = []
        with self.accumulator.lock:
            for queue in list(self.accumulator.waiting):
                sent = [each for each in queue.batches if each.sequence >= 0]
                if len(sent) == len(queue.batches):
                    continue
                dropped += [each for each in queue.batches if each.sequence < 0]
                queue.batches.clear()
                queue.batches.extend(sent)
                queue.open = None
                if not sent:
                    del self.accumulator.waiting[queue]
        for batch in dropped:
            self._count_errors(batch)
            batch.finish(error=error)
        self.accumulator.release(dropped)

    # -- producer id --------------------------------------------------------------------------------------

    def _has_producer_id(self, idempotence: Idempotence, now_ms: int) -> bool:
        """Whether batches may go; asks a broker for a producer id when there is none."""
        idempotence.refresh()
        if idempotence.producer is not None:
            return True
        if self._id_pending or now_ms < self._id_not_before_ms or not self._cluster.view.brokers:
            return False
        address = self._cluster.any_address()
        if not self._cluster.network.is_ready(address):
            return False
        self._id_pending = True
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        self._cluster.network.send(address, request, on_done=self._on_producer_id)
        return False

    def _on_producer_id(self, pending: Pending) -> None:
        assert self._idempotence is not None
        self._id_pending = False
        response = pending.response
        error: ApiError | ClientError | None = pending.error
        if isinstance(response, InitProducerIdResponse):
            if not response.error_code:
                self._id_failures = 0
                self._idempotence.adopt(response.producer_id, response.producer_epoch)
                return
            error = ApiError(ErrorCode(response.error_code))
        self._id_not_before_ms = self._clock.monotonic_ms() + self._backoff_ms(self._id_failures)
        self._id_failures += 1
        if error is not None and (not error.retriable or getattr(error, "code", None) in _NO_ID_EVER):
            self._abort(error)

    # -- giving up ----------------------------------------------------------------------------------------

    def _expire(self, now_ms: int) -> int:
        """Fail the batches whose delivery.timeout.ms is over; returns in how many milliseconds to look again."""
        if now_ms < self._next_expiry_ms:
            return self._next_expiry_ms - now_ms
        late: list[ProducerBatch] = []
        next_ms = now_ms + self._config.delivery_timeout_ms
        with self.accumulator.lock:
            for queue in list(self.accumulator.waiting):
                while queue.batches and queue.batches[0].deadline_ms <= now_ms:
                    late.append(self.accumulator.take(queue))
                if queue.batches:
                    next_ms = min(next_ms, queue.batches[0].deadline_ms)
        for batch in list(self._in_flight):
            if batch.deadline_ms <= now_ms:
                late.append(batch)
                del self._in_flight[batch]
            else:
                next_ms = min(next_ms, batch.deadline_ms)
        for batch in late:
            if self._idempotence is not None:
                self._idempotence.expired(batch)
            self._count_errors(batch)
            text = (
                f"Expiring {batch.count} record(s) for {batch.queue.partition}:"
                f"{now_ms - batch.created_ms} ms has passed since batch creation"
            )
            cause = self._cluster.last_refresh_error
            hint = None
            if cause is not None:
                text, hint = f"{text}; {cause.message}", cause.hint
            error = ClientTimeoutError(Stage.REQUEST, text, hint=hint)
            if self.transactions is not None:
                self.transactions.failed(error, was_sent=batch.sequence >= 0)
            batch.finish(error=error)
        if late:
            self.accumulator.release(late)
        self._next_expiry_ms = next_ms
        return max(1, next_ms - now_ms)

    def _abort(self, error: Exception) -> None:
        """Fail everything that has no outcome."""
        with self.accumulator.lock:
            left = list(self.accumulator.incomplete)
            for queue in self.accumulator.waiting:
                queue.batches.clear()
                queue.open = None
            self.accumulator.waiting.clear()
        dropped: Counter[TopicPartition] = Counter()
        for batch in left:
            if self._idempotence is not None:
                self._idempotence.failed(batch, error, sequence_is_free=False)
            self._in_flight.pop(batch, None)
            self._count_errors(batch)
            batch.finish(error=error)
            dropped[batch.queue.partition] += batch.count
        self.accumulator.release(left)
        for partition, count in dropped.items():
            _log.warning("%d record(s) for %s were not sent: %s", count, partition, error)
