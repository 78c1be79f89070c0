"""Reads the one partition of a topic of MirrorMaker's own, up to its end and on."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final, Self

from pkafka.clients.consumer import Consumer, ConsumerRecord
from pkafka.clients.errors import ClientTimeoutError, Stage
from pkafka.model import TopicPartition

log = logging.getLogger(__name__)

_WAIT_MS: Final = 200
Take = Callable[[ConsumerRecord], None]


class TopicReader:
    """Hands the records of a topic's partition 0 on.

    Args:
        configs: of the consumer, ``bootstrap.servers`` among them.
        topic: that has to exist: a reader creates none.
        take: gets each record.
        from_end: whether to begin behind what is there now.
    """

    def __init__(
        self, configs: Mapping[str, object], topic: str, take: Take, *, from_end: bool = False
    ) -> None:
        self._partition = TopicPartition(topic, 0)
        self._take = take
        self._consumer = Consumer(
            {
                **configs,
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "allow.auto.create.topics": "false",
            }
        )
        self._consumer.assign([self._partition])
        if from_end:
            self._consumer.seek_to_end()
            self._consumer.position(self._partition)  # looked up now
        else:
            self._consumer.seek_to_beginning()

    def read_to_end(
        self, timeout_ms: int | None = None, *, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        """Hand on all that is there now.

        Args:
            timeout_ms: for all of it; None: however long it takes.
            is_wanted: whether to go on; False: this returns, and the rest comes later.

        Raises:
            ClientTimeoutError: the time ran out.
            ClientError, ApiError: the topic cannot be read.
        """
        deadline_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        end = self._consumer.end_offsets([self._partition], timeout_ms=timeout_ms)[self._partition]
        while is_wanted() and self._consumer.position(self._partition) < end:
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise ClientTimeoutError(
                    Stage.REQUEST,
                    f"{self._partition.topic} was not read to its end in {timeout_ms} ms",
                )
            self.poll(_WAIT_MS)

    def poll(self, timeout_ms: int) -> None:
        """Hand on what comes.

        Raises:
            ClientError, ApiError: the topic cannot be read.
        """
        for record in self._consumer.poll(timeout_ms):
            self._take(record)

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
