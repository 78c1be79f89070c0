"""The producer's one I/O thread: drains batches to the leaders of their partitions and takes the answers in.

One Produce request per broker carries one batch of every partition that has one ready. What becomes of a batch is
settled in ``outcomes.py``; what transactions ask for in between is in ``transactions.py``.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.connection import Address, Pending
from pkafka.clients.errors import ClosedError
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.idempotence import Idempotence
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clients.producer.outcomes import Outcomes
from pkafka.clients.producer.producer_id import ProducerIdLookup
from pkafka.clients.producer.queues import PartitionQueue, TopicQueues
from pkafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from pkafka.clients.producer.transaction_channel import TransactionChannel

_POLL_MS_MAX: Final = 1_000
_JOIN_S_MAX: Final = 5.0
_ROUNDS_MAX: Final = 20
_log = logging.getLogger(__name__)


class Sender:
    """The I/O thread of one producer.

    Args:
        cluster: polled by this thread alone once it has started, and by the one that borrows its turns (:meth:`step`).
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
        self._outcomes = Outcomes(
            cluster, config, metrics, self.accumulator, self._idempotence, self.transactions
        )
        self._producer_id = (
            None
            if self._idempotence is None
            else ProducerIdLookup(cluster, config, self._idempotence, self._outcomes.abort)
        )
        self._requests: Counter[Address] = Counter()
        self._refusing_since_ms: dict[int, int] = {}
        self._wanted = False
        self._sleeping = True
        self._abandon = False
        self._finish_wanted = False
        self.borrower: Callable[[], None] | None = None
        """Called once by the thread, between its turns, when another thread may have them; returns when it may not."""
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
        """Send what is left and end; the caller does not wait for it.

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
                if self.borrower is not None and self._may_be_lent():
                    borrower, self.borrower = self.borrower, None
                    borrower()
        except BaseException:
            _log.exception("the producer's thread ends by an error")
            raise
        finally:
            self.accumulator.close()
            self._outcomes.abort(ClosedError("Producer is closed forcefully."))
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
        wait_ms = self._do_what_is_due()
        self._sleeping = True
        # What was appended behind the drain's back has set the flag, and finds the thread awake.
        self._poll(0 if self._wanted else wait_ms)
        self._sleeping = False

    def step(self, *, polls: bool) -> int | None:
        """A turn on the thread that has borrowed them: it never waits, not for the addresses of a name either.

        Args:
            polls: whether something may have come over the connections, or their time may be over.

        Returns:
            In how many milliseconds to call again; None where the sender's own thread has to go on.
        """
        self._sleeping = False
        if polls:
            self._poll(0)
        if not self._may_be_lent():
            return None
        network = self._cluster.network
        network.may_connect = False
        try:
            wait_ms = self._do_what_is_due()
        finally:
            network.may_connect = True
        if network.take_wish_to_connect():
            return None
        self._sleeping = True
        return 0 if self._wanted else max(0, network.wait_ms(wait_ms))

    def fileno(self) -> int:
        """A descriptor that can be read when a step that polls is due."""
        return self._cluster.network.fileno()

    def _may_be_lent(self) -> bool:
        is_ending = self._abandon or self._finish_wanted or self.accumulator.closed
        return not is_ending and self._cluster.network.is_calm

    def _do_what_is_due(self) -> int:
        """Everything but waiting.

        Returns:
            How many milliseconds to wait for something to happen.
        """
        self._wanted = False
        if self._finish_wanted and not self.accumulator.closed:
            self.accumulator.close()
        now_ms = self._clock.monotonic_ms()
        wait_ms = min(_POLL_MS_MAX, self._outcomes.expire(now_ms))
        if self.transactions is not None:
            wait_ms = min(wait_ms, self._transact(self.transactions, now_ms))
        elif self._producer_id is None or self._producer_id.is_there(now_ms):
            wait_ms = min(wait_ms, self._drain(now_ms))
        if self._outcomes.tell() and (self.accumulator.closed or self.transactions is not None):
            return 0  # which may have waited for nothing else
        return max(0, min(wait_ms, self._cluster.keep_fresh(self._watched_topics(), allow_auto_create=True)))

    def _poll(self, wait_ms: int) -> None:
        generation, trouble = self._cluster.generation, self._cluster.last_refresh_error
        self._cluster.network.poll(wait_ms)
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
        """Send what is due to the brokers that can take it.

        Returns:
            In how many milliseconds more will be due.
        """
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
                size += self.accumulator.first_bytes(queue)
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
        self._outcomes.await_answers(batches)
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
            max_version=None if self.transactions is None else self.transactions.produce_version_max,
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

    def _on_done(self, pending: Pending, *, batches: list[ProducerBatch], sent_ms: int) -> None:
        self._requests[pending.address] -= 1
        self._outcomes.answered(pending, batches, sent_ms)

    # -- transactions -------------------------------------------------------------------------------------

    def _transact(self, transactions: "TransactionChannel", now_ms: int) -> int:
        """Do what the transaction needs beside sending batches.

        Returns:
            In how many milliseconds to look again.
        """
        assert self._idempotence is not None
        wait_ms = _POLL_MS_MAX
        # In this order: a thread that fails to hand a record over may bring the end in between.
        is_fatal, drop_reason = transactions.is_fatal, transactions.drop_reason
        if is_fatal:
            assert drop_reason is not None
            if self.accumulator.incomplete:
                self._outcomes.abort(drop_reason)
            return wait_ms
        if drop_reason is not None:
            self._outcomes.drop_unsent(drop_reason)
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
