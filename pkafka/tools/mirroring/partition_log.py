"""Reads a partition of a cluster from an offset up to another, in whole batches, by a consumer without a group."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.clients.raw_batch import RawBatch
from pkafka.model import TopicPartition

_POLL_MS: Final = 500
_OURS: Final = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    "allow.auto.create.topics": "false",
    "max.partition.fetch.bytes": 4 << 20,
}


def reader_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a consumer that reads what it is told to, and commits nothing.

    Args:
        settings: of clients of the cluster.
    """
    return {key: value for key, value in {**settings, **_OURS}.items() if not key.startswith("group.")}


class PartitionLog:
    """A partition from an offset up to another.

    Args:
        consumer: reads it, and nothing else meanwhile.
        partition: which.
        start, end: offsets.
        timeout_ms: how long to wait for the next records of a log that has more.
    """

    def __init__(
        self, consumer: Consumer, partition: TopicPartition, start: int, end: int, timeout_ms: int
    ) -> None:
        self._consumer = consumer
        self._partition = partition
        self._timeout_ms = timeout_ms
        self.position = start
        self.end = end
        consumer.assign([partition])
        consumer.seek(partition, start)

    @property
    def has_more(self) -> bool:
        """Whether there is something to read before the end."""
        return self.position < self.end

    def read(self, take: Callable[[RawBatch], object]) -> None:
        """Hand on what comes next; markers and holes come as nothing but a later position.

        Raises:
            ApiError, ClientError: the log cannot be read.
            ClientTimeoutError: nothing came in time.
        """
        deadline_s = time.monotonic() + self._timeout_ms / 1_000
        while self.has_more:
            batches = self._consumer.poll_batches(_POLL_MS)
            for each in batches:
                if each.first_offset < self.end:
                    take(each)
            self.position = self._consumer.position(self._partition)
            if batches:
                return
            if time.monotonic() > deadline_s:
                raise ClientTimeoutError(
                    Stage.REQUEST,
                    f"nothing came of {self._partition} from offset {self.position} on in {self._timeout_ms} ms",
                )
