"""Writes the offset syncs of one partition while it is copied; they say to the next run how far this one has come."""

from collections.abc import Mapping
from typing import NamedTuple

from pkafka.clients.producer import Producer
from pkafka.clients.producer.futures import RecordFuture
from pkafka.connect.mirror.records import OffsetSync
from pkafka.connect.mirror.sync_queue import OffsetSyncQueue
from pkafka.model import TopicPartition


class SyncPlace(NamedTuple):
    """Where offset syncs are written, and how many.

    Args:
        settings: of clients of the cluster.
        topic: of the syncs.
        lag_max: by so many records may a translated offset be behind, ``offset.lag.max``.
    """

    settings: Mapping[str, object]
    topic: str
    lag_max: int


class SyncWriter:
    """Writes syncs as MirrorMaker 2's source task does.

    Args:
        producer: to the cluster of the syncs.
        place: the topic.
        partition: of the source.
    """

    def __init__(self, producer: Producer, place: SyncPlace, partition: TopicPartition) -> None:
        self._producer = producer
        self._topic = place.topic
        self._partition = partition
        self._queue = OffsetSyncQueue(place.lag_max)
        self._failure: Exception | None = None

    def begin(self, upstream: int, downstream: int) -> None:
        """Say which record will be the first one, and where: from now on a run that was killed can be gone on with.

        Raises:
            ApiError, ClientError: it cannot be written.
        """
        self._write(OffsetSync(self._partition, upstream, downstream)).result()

    def note(self, upstream: int, downstream: int, count: int) -> None:
        """Records that follow each other are in the copy, from these offsets on.

        Raises:
            ApiError, ClientError: an earlier sync could not be written.
        """
        for _ in self._queue.note_run(self._partition, upstream, downstream, count):
            self._send()

    def finish(self) -> None:
        """Write that of the last record, and wait until all are acknowledged.

        Raises:
            ApiError, ClientError: one could not be written.
        """
        self._queue.promote()
        for _ in range(2):  # when ten were under way, the last one could not be sent yet
            self._send()
            self._producer.flush()
        self._check()

    def _send(self) -> None:
        self._check()
        while (sync := self._queue.take()) is not None:
            self._write(sync).add_done_callback(self._sent)

    def _write(self, sync: OffsetSync) -> RecordFuture:
        return self._producer.send(self._topic, sync.value, sync.key, partition=0)

    def _sent(self, future: RecordFuture) -> None:
        """On the producer's thread."""
        self._failure = self._failure or future.exception(0)
        self._queue.settled()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
