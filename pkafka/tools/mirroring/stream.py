"""One stream of a mirror: reads with a consumer of its own, hands on to the producer that all streams share."""

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from pkafka.clients.consumer import Consumer, ConsumerRebalanceListener, ConsumerRecord
from pkafka.clients.errors import ClientTimeoutError, CommitFailedError, WakeupError
from pkafka.clients.raw_batch import RawBatch
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.regrouping import Regrouping
from pkafka.tools.mirroring.sending import Sending

log = logging.getLogger("kafka.tools.MirrorMaker$MirrorMakerThread")

_POLL_MS: Final = 1_000
_COMMIT_TRIES: Final = 3


class Stream:
    """Copies what the group gives it, and commits only what the target has acknowledged.

    Args:
        consumer: its settings.
        include: whole names of topics.
        sending: the way to the target.
        commit_interval_ms: the time between two commits.
        listener: of the user's, told of rebalances.
        committed: called after each commit.

    Raises:
        ConfigError: a setting is wrong.
    """

    def __init__(
        self,
        consumer: Mapping[str, object],
        include: re.Pattern[str],
        sending: Sending,
        *,
        commit_interval_ms: int,
        listener: ConsumerRebalanceListener | None,
        committed: Callable[[], None],
    ) -> None:
        self._consumer = Consumer(consumer)
        self._include = include
        self._sending = sending
        self._commit_interval_s = commit_interval_ms / 1_000
        self._listener = _Listener(self, listener)
        self._committed = committed
        self._regrouping = Regrouping(sending.rules.batch_bytes)
        self._offsets: dict[TopicPartition, int] = {}
        self._is_stopping = False
        self._has_failed = False

    def run(self) -> None:
        """Copy until :meth:`stop`, then commit and leave the group.

        Raises:
            ApiError, ClientError: the source or the target refuses; what was not acknowledged is not committed.
            HandlerError: the message handler failed.
        """
        try:
            self._consumer.subscribe(pattern=self._include, listener=self._listener)
            self._copy()
            self.commit()
        except Exception:
            self._has_failed = (
                True  # leaving the group revokes partitions, whose offsets are not to be committed
            )
            raise
        finally:
            self._is_stopping = True
            self._consumer.close()

    def stop(self) -> None:
        """Have it end soon; callable from any thread."""
        self._is_stopping = True
        self._consumer.wakeup()

    def _copy(self) -> None:
        due_s = time.monotonic() + self._commit_interval_s
        while not self._is_stopping:
            try:
                self._read()
            except WakeupError:
                continue
            self._sending.check()
            if time.monotonic() >= due_s:
                self.commit()
                due_s = time.monotonic() + self._commit_interval_s

    def _read(self) -> None:
        if self._sending.rules.are_batches_enough:
            for batch in self._consumer.poll_batches(_POLL_MS):
                self._sending.send_batch(batch, self._regrouping)
                self._note(batch)
            self._sending.send_made(self._regrouping.take_all())
            return
        for record in self._consumer.poll(_POLL_MS):
            self._sending.send_record(record)
            self._note_record(record)

    def _note(self, batch: RawBatch) -> None:
        self._offsets[batch.partition] = batch.next_offset

    def _note_record(self, record: ConsumerRecord) -> None:
        self._offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def surrender(self, partitions: Collection[TopicPartition]) -> None:
        """Commit what is taken away.

        Raises:
            ApiError, ClientError: as :meth:`commit`.
        """
        if not self._has_failed:
            self.commit()
        self.give_up(partitions)

    def commit(self) -> None:
        """Wait for the acknowledgements of all that was sent, then commit it.

        A commit that fails leaves the offsets where they were: records are copied again, none is lost.

        Raises:
            ApiError, ClientError: a record could not be sent, or the group refuses for good.
        """
        self._sending.settle()
        if not self._offsets:
            return
        for _ in range(_COMMIT_TRIES):
            try:
                self._consumer.commit_sync(self._offsets)
            except WakeupError:
                continue  # by stop(), which the loop has seen
            except (ClientTimeoutError, CommitFailedError) as error:
                log.warning("Failed to commit offsets; they are committed later, or read again: %s", error)
                return
            except ApiError as error:
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                    raise
                return
            self._committed()
            self._offsets.clear()
            return

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions that belong to another member now, or soon."""
        for each in partitions:
            self._offsets.pop(each, None)


class _Listener(ConsumerRebalanceListener):
    """Commits before partitions go, then tells the user's listener."""

    def __init__(self, stream: Stream, listener: ConsumerRebalanceListener | None) -> None:
        self._stream = stream
        self._listener = listener or ConsumerRebalanceListener()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._stream.surrender(partitions)
        self._listener.on_partitions_revoked(partitions)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._listener.on_partitions_assigned(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._stream.give_up(partitions)
        lost = getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked)
        lost(partitions)
