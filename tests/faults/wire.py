"""A connection that speaks the protocol and nothing more: no retries, no metadata, so that faults show as they are."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pkafka.errors import ErrorCode
from pkafka.model import EARLIEST as EARLIEST
from pkafka.model import LATEST
from pkafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pkafka.protocol.messages.delete_topics import DeleteTopicsRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.records.builder import build_batch
from pkafka.records.reading import Record, read_records
from tests.raw_client import (
    RawClient,
    ask_offsets,
    batch,
    fetch_request,
    fetched,
    produce_request,
    produce_to,
)

CREATE_TOPICS_VERSION = 5
DELETE_TOPICS_VERSION = 4
FETCH_VERSION = 11
INIT_PRODUCER_ID_VERSION = 4
PRODUCE_VERSION = 9
PARTITION_BYTES = 1 << 20

T = TypeVar("T")


class Wire(RawClient):
    """One connection to ``host:port``, and what the tests ask over it; what goes wrong is an OSError."""

    def __init__(self, address: str, *, timeout_s: float = 30.0) -> None:
        super().__init__(address, timeout_s=timeout_s)

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        *,
        configs: dict[str, str] | None = None,
    ) -> ErrorCode:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=partitions,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=name, value=value)
                        for name, value in (configs or {}).items()
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        return ErrorCode(self.call(request, CREATE_TOPICS_VERSION).topics[0].error_code)

    def delete_topic(self, topic: str) -> ErrorCode:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
        return ErrorCode(self.call(request, DELETE_TOPICS_VERSION).responses[0].error_code)

    def init_producer(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self.call(request, INIT_PRODUCER_ID_VERSION)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        acks: int = -1,
        producer: tuple[int, int, int] = (-1, -1, -1),
        timeout_ms: int = 60_000,
    ) -> tuple[ErrorCode, int]:
        """Send one batch of ``values``; (error, base offset). ``producer``: id, epoch, base sequence."""
        pairs = [(None, value) for value in values]
        return self.produce_pairs(
            topic, partition, pairs, acks=acks, producer=producer, timeout_ms=timeout_ms
        )

    def produce_pairs(
        self,
        topic: str,
        partition: int,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        *,
        acks: int = -1,
        producer: tuple[int, int, int] = (-1, -1, -1),
        timeout_ms: int = 60_000,
    ) -> tuple[ErrorCode, int]:
        """The same with keys."""
        now_ms = int(time.time() * 1000)
        data = build_batch(
            [(now_ms, key, value, ()) for key, value in pairs],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
        return produce_to(
            self, topic, bytes(data), partition, version=PRODUCE_VERSION, acks=acks, timeout_ms=timeout_ms
        )

    def fetch(self, topic: str, partition: int, offset: int) -> tuple[ErrorCode, list[Record]]:
        """What one fetch brings, control records excluded, checksums looked at."""
        error, data = self.fetch_bytes(topic, partition, offset)
        return error, list(read_records(data, from_offset=offset))

    def fetch_bytes(self, topic: str, partition: int, offset: int) -> tuple[ErrorCode, bytes]:
        """The same, as it came."""
        return self.fetch_each(topic, {partition: offset})[partition]

    def fetch_each(
        self, topic: str, offsets: Mapping[int, int], *, bytes_max: int = PARTITION_BYTES
    ) -> dict[int, tuple[ErrorCode, bytes]]:
        """What one fetch from several partitions brings, each from its offset on, as it came."""
        request = fetch_request(
            _places(topic, offsets), max_wait_ms=100, max_bytes=1 << 24, partition_max_bytes=bytes_max
        )
        answer = self.call(request, FETCH_VERSION)
        if answer.error_code:
            return dict.fromkeys(offsets, (ErrorCode(answer.error_code), b""))
        return _outcomes(answer)

    def poll(self, topic: str, partitions: Sequence[int], offset: int, *, max_wait_ms: int) -> None:
        """Ask for records at ``offset``, without waiting for the answer."""
        places = _places(topic, dict.fromkeys(partitions, offset))
        request = fetch_request(places, max_wait_ms=max_wait_ms, partition_max_bytes=PARTITION_BYTES)
        self.send(request, FETCH_VERSION)

    def polled(self) -> dict[int, tuple[ErrorCode, list[Record]]]:
        """The answer to :meth:`poll`, by partition."""
        answer = self.receive()
        assert not answer.error_code
        return {
            partition: (error, list(read_records(data)))
            for partition, (error, data) in _outcomes(answer).items()
        }

    def produce_to_each(self, topic: str, partitions: Sequence[int], value: bytes) -> None:
        """One record for each partition, in one request, without waiting for the answer."""
        sets = {(topic, partition): batch(value) for partition in partitions}
        self.send(produce_request(sets), PRODUCE_VERSION)

    def produced(self) -> dict[int, tuple[ErrorCode, int]]:
        """The answer to :meth:`produce_to_each`: error and base offset, by partition."""
        return {
            one.index: (ErrorCode(one.error_code), one.base_offset)
            for topic in self.receive().responses
            for one in topic.partition_responses
        }

    def offset(self, topic: str, partition: int, timestamp: int = LATEST) -> tuple[ErrorCode, int]:
        return ask_offsets(self, {(topic, partition): timestamp})[topic, partition]


def _places(topic: str, offsets: Mapping[int, int]) -> dict[tuple[str, int], int]:
    return {(topic, partition): offset for partition, offset in offsets.items()}


def _outcomes(answer: Any) -> dict[int, tuple[ErrorCode, bytes]]:
    return {
        partition: (ErrorCode(part.error_code), bytes(part.records or b""))
        for (_topic, partition), part in fetched(answer).items()
    }


def eventually(attempt: Callable[[], T | None], *, timeout_s: float = 60.0, pause_s: float = 0.02) -> T:
    """The first truthy answer of ``attempt``; OSErrors count as not yet.

    Raises:
        AssertionError: there was none in time.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while True:
        try:
            answer = attempt()
            if answer:
                return answer
            last = answer
        except OSError as error:
            last = error
        assert time.monotonic() < deadline, f"not within {timeout_s:.1f} s; at last: {last!r}"
        time.sleep(pause_s)


def produce_when_possible(
    address: str, topic: str, partition: int, values: Sequence[bytes], *, timeout_s: float = 60.0
) -> int:
    """Produce over new connections until it is taken; the base offset.

    A connection that a dead worker's successor will take up is waited for: what was sent over it may be written yet.
    """

    def attempt() -> tuple[int] | None:
        with Wire(address, timeout_s=timeout_s) as wire:
            error, base_offset = wire.produce(topic, partition, values)
            return (base_offset,) if not error else None

    return eventually(attempt, timeout_s=timeout_s)[0]


def read_all(address: str, topic: str, partition: int) -> list[Record]:
    """Every record from the log's start to its end."""
    with Wire(address) as wire:
        error, end = eventually_offset(wire, topic, partition)
        assert not error
        _error, position = wire.offset(topic, partition, EARLIEST)
        records: list[Record] = []
        while position < end:
            error, found = wire.fetch(topic, partition, position)
            assert not error, error
            records += found
            position = found[-1].offset + 1
        return records


def eventually_offset(wire: Wire, topic: str, partition: int) -> tuple[ErrorCode, int]:
    """The end offset, as soon as somebody leads the partition."""

    def attempt() -> tuple[ErrorCode, int] | None:
        error, offset = wire.offset(topic, partition)
        return None if error else (error, offset)

    return eventually(attempt)


def values_of(records: Iterable[Record]) -> list[bytes]:
    return [record.value or b"" for record in records]
