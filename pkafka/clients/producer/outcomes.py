"""What becomes of a producer's batches: acknowledged, sent again, split, or given up. Of the sender thread.

What an error says about a batch's sequence is in ``idempotence.py``.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from pkafka.clients.cluster import Broker, Cluster
from pkafka.clients.config import ProducerConfig
from pkafka.clients.config.options import INT_MAX
from pkafka.clients.connection import Pending
from pkafka.clients.errors import ClientError, ClientTimeoutError, Stage
from pkafka.clients.producer.accumulator import Accumulator
from pkafka.clients.producer.backoff import backoff_ms
from pkafka.clients.producer.batch import ProducerBatch
from pkafka.clients.producer.idempotence import Idempotence
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from pkafka.records.builder import BatchBuilder
from pkafka.records.reading import read_records

if TYPE_CHECKING:
    from pkafka.clients.producer.transaction_channel import TransactionChannel

_PART_OF_BAD_BATCH: Final = (
    "Failed to append record because it was part of a batch which had one more more invalid records"
)
_log = logging.getLogger("pkafka.clients.producer.sender")  # the name that operators know


class Outcomes:
    """Brings batches to their end; knows those that are under way.

    Args:
        idempotence: None for a producer without.
        transactions: None for a producer without.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        metrics: ProducerMetrics,
        accumulator: Accumulator,
        idempotence: Idempotence | None,
        transactions: "TransactionChannel | None",
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._config = config
        self._metrics = metrics
        self._accumulator = accumulator
        self._idempotence = idempotence
        self._transactions = transactions
        self._in_flight: dict[ProducerBatch, None] = {}
        self._next_expiry_ms = 0
        self._ended: list[tuple[ProducerBatch, Callable[[], object]]] = []
        """Batches whose outcome is known, and what tells of it, in order."""

    def await_answers(self, batches: Iterable[ProducerBatch]) -> None:
        """Batches are about to be sent."""
        self._in_flight.update(dict.fromkeys(batches))

    def tell(self) -> bool:
        """Finish the batches that were answered: call back, and give their memory back.

        Returns:
            Whether there were any.
        """
        ended, self._ended = self._ended, []
        for _, finish in ended:
            finish()
        if ended:
            self._accumulator.release([batch for batch, _ in ended])
        return bool(ended)

    def answered(self, pending: Pending, batches: list[ProducerBatch], sent_ms: int) -> None:
        """A request has come to its end: an answer, or what kept it from one.

        Where batches wait to be sent, those that were answered are finished by :meth:`tell`, so that the broker has
        work while callbacks run.

        Args:
            batches: those that it carried.
            sent_ms: when it was sent, on the monotonic clock.
        """
        now_ms = self._clock.monotonic_ms()
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
                self._failed(batch, pending.error)
            elif response is None:
                self._succeeded(batch, -1, -1)
            elif batch.queue.partition not in answers:
                self._failed(batch, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            else:
                self._settle(batch, answers[batch.queue.partition])
        if not self._accumulator.waiting:
            self.tell()

    def expire(self, now_ms: int) -> int:
        """Fail the batches whose delivery.timeout.ms is over.

        Returns:
            In how many milliseconds to look again.
        """
        if now_ms < self._next_expiry_ms:
            return self._next_expiry_ms - now_ms
        late: list[ProducerBatch] = []
        next_ms = now_ms + self._config.delivery_timeout_ms
        with self._accumulator.lock:
            for queue in list(self._accumulator.waiting):
                while queue.batches and queue.batches[0].deadline_ms <= now_ms:
                    late.append(self._accumulator.take(queue))
                if queue.batches:
                    next_ms = min(next_ms, queue.batches[0].deadline_ms)
        for batch in list(self._in_flight):
            if batch.deadline_ms <= now_ms:
                late.append(batch)
                del self._in_flight[batch]
            else:
                next_ms = min(next_ms, batch.deadline_ms)
        if late:
            self._expire(late, now_ms)
        self._next_expiry_ms = next_ms
        return max(1, next_ms - now_ms)

    def _expire(self, late: list[ProducerBatch], now_ms: int) -> None:
        self.tell()  # outcomes of a partition come in order
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
            if self._transactions is not None:
                self._transactions.failed(error, was_sent=batch.sequence >= 0)
            batch.finish(error=error)
        self._accumulator.release(late)

    def drop_unsent(self, error: Exception) -> None:
        """Fail the batches of an aborted transaction that have not been sent yet; others have to come to an end."""
        self.tell()
        dropped: list[ProducerBatch] = []
        with self._accumulator.lock:
            for queue in list(self._accumulator.waiting):
                sent = [each for each in queue.batches if each.sequence >= 0]
                if len(sent) == len(queue.batches):
                    continue
                dropped += [each for each in queue.batches if each.sequence < 0]
                queue.batches.clear()
                queue.batches.extend(sent)
                queue.shut()
                if not sent:
                    del self._accumulator.waiting[queue]
        for batch in dropped:
            self._count_errors(batch)
            batch.finish(error=error)
        self._accumulator.release(dropped)

    def abort(self, error: Exception) -> None:
        """Fail everything that has no outcome."""
        self.tell()
        with self._accumulator.lock:
            left = list(self._accumulator.incomplete)
            for queue in self._accumulator.waiting:
                queue.batches.clear()
                queue.shut()
            self._accumulator.waiting.clear()
        dropped: Counter[TopicPartition] = Counter()
        for batch in left:
            if self._idempotence is not None:
                self._idempotence.failed(batch, error, sequence_is_free=False)
            self._in_flight.pop(batch, None)
            self._count_errors(batch)
            batch.finish(error=error)
            dropped[batch.queue.partition] += batch.count
        self._accumulator.release(left)
        for partition, count in dropped.items():
            _log.warning("%d record(s) for %s were not sent: %s", count, partition, error)

    # -- one batch ----------------------------------------------------------------------------------------

    def _settle(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._succeeded(batch, answer.base_offset, answer.log_append_time_ms)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt made it; only where is not known any more.
            self._succeeded(batch, -1, -1)
        elif code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        else:
            self._failed(batch, ApiError(code, answer.error_message), answer)

    def _succeeded(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        if self._idempotence is not None:
            self._idempotence.acknowledged(batch, base_offset)
        self._ended.append(
            (batch, partial(batch.finish, base_offset=base_offset, append_time_ms=append_time_ms))
        )

    def _failed(
        self,
        batch: ProducerBatch,
        error: ApiError | ClientError,
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
            batch.not_before_ms = now_ms + backoff_ms(self._config, batch.attempts - 1)
            with self._accumulator.lock:
                self._accumulator.put_back(batch)
            self._metrics.retries.record(batch.count)
            self._metrics.topic(batch.queue.partition.topic).retries.record(batch.count)
            _log.debug("a batch for %s goes again after %s", batch.queue.partition, error)
            return
        self._give_up(batch, error, answer)

    def _give_up(
        self,
        batch: ProducerBatch,
        error: Exception,
        answer: PartitionProduceResponse | None = None,
    ) -> None:
        if self._idempotence is not None and answer is None:
            self._idempotence.expired(batch)  # whether the broker took it after all is not known
        elif self._idempotence is not None:
            # An earlier attempt may have made it, if this is the last of several.
            free = batch.attempts <= self._config.retries
            self._idempotence.failed(batch, error, sequence_is_free=free)
        if self._transactions is not None:
            self._transactions.failed(error, was_sent=True)
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
        self._ended.append((batch, partial(batch.finish, error=error, record_errors=errors)))

    def _split(self, batch: ProducerBatch) -> None:
        """Send a batch that is too large for the broker again in two halves, which keep its sequence numbers."""
        records = list(read_records(batch.builder.build(), check_crc=False))
        middle = len(records) // 2
        halves = []
        for part in (records[:middle], records[middle:]):
            # What the batch was made of before compression may be larger than all that was known of it.
            builder = BatchBuilder(INT_MAX, codec=batch.builder.codec, level=batch.builder.level)
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
        with self._accumulator.lock:
            self._accumulator.split(batch, pair)
        self._metrics.splits.record()

    def _note_leader(
        self, partition: TopicPartition, answer: PartitionProduceResponse, response: ProduceResponse
    ) -> None:
        brokers = [Broker(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        leader = answer.current_leader
        self._cluster.note_leader(partition, leader.leader_id, leader.leader_epoch, brokers)

    def _count_errors(self, batch: ProducerBatch) -> None:
        self._metrics.errors.record(batch.count)
        self._metrics.topic(batch.queue.partition.topic).errors.record(batch.count)
