"""Idempotent writers that remember what was acknowledged, and the check that all of it is there: once, in order."""

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from confluent_kafka import KafkaError, Message, Producer

from pkafka.errors import ErrorCode
from pkafka.model import NO_OFFSET
from tests.differences import first_difference
from tests.faults.wire import Wire, read_all

RECORDS_PER_BATCH = 20
VALUE_BYTES = 200
PACE_S = 0.002
"""Between two sends: the load shall not take the processors from the broker that starts again."""
UNDER_WAY_MAX = 1_000
"""Records that librdkafka may have to send. It gives up those that are old, and on a busy machine a broker that is
killed again and again is away most of the time: without a bound the last of them would wait for minutes."""

Pair: TypeAlias = tuple[bytes | None, bytes | None]
"""A record's key and value."""


def value(number: int) -> bytes:
    return b"%08d" % number + b"." * (VALUE_BYTES - 8)


def numbered(number: int) -> Pair:
    return None, value(number)


class Writer:
    """Writes 0, 1, 2, ... to one partition, a batch after the other; a batch is sent again until it is acknowledged.

    Args:
        address: of the broker.
        topic: what to write to.
        partition: of the topic.
        acks: of each request.
        pair: makes the key and the value of a number.
        batch_records: of each batch.
        pace_s: between two batches.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        partition: int,
        *,
        acks: int = -1,
        pair: Callable[[int], Pair] = numbered,
        batch_records: int = RECORDS_PER_BATCH,
        pace_s: float = PACE_S,
    ) -> None:
        self._address = address
        self._topic = topic
        self.partition = partition
        self._acks = acks
        self._pair = pair
        self._batch_records = batch_records
        self._pace_s = pace_s
        self.acknowledged = 0
        """All records below this number are."""
        self.retries = 0
        self.failure = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        wire: Wire | None = None
        producer: tuple[int, int] | None = None
        while not self._stop.is_set():
            try:
                if wire is None:
                    wire = Wire(self._address, timeout_s=5.0)
                if producer is None:
                    producer = wire.init_producer()
                numbers = range(self.acknowledged, self.acknowledged + self._batch_records)
                error, _offset = wire.produce_pairs(
                    self._topic,
                    self.partition,
                    [self._pair(number) for number in numbers],
                    acks=self._acks,
                    producer=(*producer, self.acknowledged),
                )
            except OSError:
                if wire is not None:
                    wire.close()
                wire = None
                self.retries += 1
                time.sleep(0.02)
                continue
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.acknowledged += self._batch_records
                time.sleep(self._pace_s)
            elif error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                self.retries += 1
                time.sleep(0.02)
            else:
                self.failure = f"{self._topic}-{self.partition}: {error.name}"
                break
        if wire is not None:
            wire.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        assert not self.failure

    def check(self) -> None:
        """All that was acknowledged is there, once and in order; behind it at most the batch that was on its way."""
        found = [
            (record.key, record.value) for record in read_all(self._address, self._topic, self.partition)
        ]
        assert len(found) - self.acknowledged in (0, self._batch_records)
        assert not first_difference(found, [self._pair(number) for number in range(len(found))])


class ImpliedAcknowledgements(logging.Handler):
    """Counts the records that librdkafka takes for acknowledged since later ones of the same producer are.

    The broker had written them and died before it answered. Sent again, they came to a worker that had not been told
    yet what it leads, and were refused; those behind them came after that, and follow on what is in the log. Of the
    others librdkafka knows that they are there, and not where.
    """

    _IMPLIED: Final = re.compile(r"(\d+) message\(s\) implicitly acked")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        found = self._IMPLIED.search(record.getMessage())
        if found is not None:
            self.count += int(found[1])


class LibrdkafkaWriter:
    """The same with librdkafka, several batches on their way at a time; over all partitions of a topic."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self._address = address
        self._topic = topic
        self.acknowledged: list[list[tuple[int, bytes]]] = [[] for _ in range(partitions)]
        self.failures: list[KafkaError] = []
        self._stop = threading.Event()
        self._implied = ImpliedAcknowledgements()
        said = logging.Logger(topic)
        said.addHandler(self._implied)
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 7,
                "debug": "msg",
                "error_cb": self._on_error,
            },
            logger=said,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) < UNDER_WAY_MAX:
                for partition in range(len(self.acknowledged)):
                    self._producer.produce(
                        self._topic, value(number), partition=partition, on_delivery=self._delivered
                    )
                number += 1
            self._producer.poll(PACE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
            return
        partition, offset, data = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert isinstance(data, bytes)
        self.acknowledged[partition].append((NO_OFFSET if offset is None else offset, data))

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(error)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=60)
        assert self._producer.flush(60) == 0
        assert self.failures == []

    def check(self) -> None:
        """Everything was acknowledged in the end; so the log is exactly that, and each at the offset that was said."""
        for partition, acknowledged in enumerate(self.acknowledged):
            found = [
                (record.offset, record.value) for record in read_all(self._address, self._topic, partition)
            ]
            assert not first_difference(
                found, [(number, value(number)) for number in range(len(acknowledged))]
            )
            there = set(found)
            assert [one for one in acknowledged if one[0] != NO_OFFSET and one not in there] == []
        without = sum(offset == NO_OFFSET for each in self.acknowledged for offset, _ in each)
        assert without == self._implied.count
