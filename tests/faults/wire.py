"""A connection that speaks the protocol and nothing more: no retries, no metadata, so that faults show as they are."""

import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self, TypeVar

from pkafka.errors import ErrorCode
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pkafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pkafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.reading import Record, read_records

CREATE_TOPICS_VERSION = 5
DELETE_TOPICS_VERSION = 4
FETCH_VERSION = 11
INIT_PRODUCER_ID_VERSION = 4
LIST_OFFSETS_VERSION = 7
PRODUCE_VERSION = 9
EARLIEST, LATEST = -2, -1

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class Wire:
    """One connection to ``host:port``; what goes wrong is an OSError."""

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        host, _, port = address.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, request: Message, version: int) -> None:
        self._correlation_id += 1
        assert request.__api_key__ is not None
        self.sock.sendall(
            encode_request(request.__api_key__, version, self._correlation_id, "faults", request)
        )

    def receive(self, kind: type[R], version: int) -> R:
        assert kind.__api_key__ is not None
        frame = self._read(struct.unpack(">i", self._read(4))[0])
        _correlation_id, response = decode_response(kind.__api_key__, version, frame)
        assert isinstance(response, kind)
        return response

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return bytes(data)

    # -- the requests that the tests need --

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
        self.send(request, CREATE_TOPICS_VERSION)
        return ErrorCode(self.receive(CreateTopicsResponse, CREATE_TOPICS_VERSION).topics[0].error_code)

    def delete_topic(self, topic: str) -> ErrorCode:
        self.send(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), DELETE_TOPICS_VERSION)
        return ErrorCode(self.receive(DeleteTopicsResponse, DELETE_TOPICS_VERSION).responses[0].error_code)

    def init_producer(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.send(request, INIT_PRODUCER_ID_VERSION)
        answer = self.receive(InitProducerIdResponse, INIT_PRODUCER_ID_VERSION)
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
    ) -> tuple[ErrorCode, int]:
        """Send one batch of ``values``; (error, base offset). ``producer``: id, epoch, base sequence."""
        pairs = [(None, value) for value in values]
        return self.produce_pairs(topic, partition, pairs, acks=acks, producer=producer)

    def produce_pairs(
        self,
        topic: str,
        partition: int,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        *,
        acks: int = -1,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> tuple[ErrorCode, int]:
        """The same with keys."""
        now_ms = int(time.time() * 1000)
        batch = build_batch(
            [(now_ms, key, value, ()) for key, value in pairs],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        self.send(request, PRODUCE_VERSION)
        answer = self.receive(ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset

    def fetch(self, topic: str, partition: int, offset: int) -> tuple[ErrorCode, list[Record]]:
        """What one fetch brings, control records excluded, checksums looked at."""
        error, data = self.fetch_bytes(topic, partition, offset)
        return error, list(read_records(data, from_offset=offset))

    def fetch_bytes(self, topic: str, partition: int, offset: int) -> tuple[ErrorCode, bytes]:
        """The same, as it came."""
        return self.fetch_each(topic, {partition: offset})[partition]

    def fetch_each(
        self, topic: str, offsets: Mapping[int, int], *, bytes_max: int = 1 << 20
    ) -> dict[int, tuple[ErrorCode, bytes]]:
        """What one fetch from several partitions brings, each from its offset on, as it came."""
        parts = [
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
            for partition, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 24,
            topics=[FetchTopic(topic=topic, partitions=parts)],
        )
        self.send(request, FETCH_VERSION)
        answer = self.receive(FetchResponse, FETCH_VERSION)
        if answer.error_code:
            return dict.fromkeys(offsets, (ErrorCode(answer.error_code), b""))
        return {
            found.partition_index: (ErrorCode(found.error_code), bytes(found.records or b""))
            for found in answer.responses[0].partitions
        }

    def poll(self, topic: str, partitions: Sequence[int], offset: int, *, max_wait_ms: int) -> None:
        """Ask for records at ``offset``, without waiting for the answer."""
        parts = [
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            for partition in partitions
        ]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 24,
            topics=[FetchTopic(topic=topic, partitions=parts)],
        )
        self.send(request, FETCH_VERSION)

    def polled(self) -> dict[int, tuple[ErrorCode, list[Record]]]:
        """The answer to :meth:`poll`, by partition."""
        answer = self.receive(FetchResponse, FETCH_VERSION)
        assert not answer.error_code
        return {
            found.partition_index: (ErrorCode(found.error_code), list(read_records(found.records or b"")))
            for found in answer.responses[0].partitions
        }

    def produce_to_each(self, topic: str, partitions: Sequence[int], value: bytes) -> None:
        """One record for each partition, in one request, without waiting for the answer."""
        now_ms = int(time.time() * 1000)
        data = [
            PartitionProduceData(index=partition, records=build_batch([(now_ms, None, value, ())]))
            for partition in partitions
        ]
        self.send(
            ProduceRequest(
                acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
            ),
            PRODUCE_VERSION,
        )

    def produced(self) -> dict[int, tuple[ErrorCode, int]]:
        """The answer to :meth:`produce_to_each`: error and base offset, by partition."""
        answer = self.receive(ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses
        return {one.index: (ErrorCode(one.error_code), one.base_offset) for one in answer}

    def offset(self, topic: str, partition: int, timestamp: int = LATEST) -> tuple[ErrorCode, int]:
        part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part])])
        self.send(request, LIST_OFFSETS_VERSION)
        answer = self.receive(ListOffsetsResponse, LIST_OFFSETS_VERSION).topics[0].partitions[0]
        return ErrorCode(answer.error_code), answer.offset


def eventually(attempt: Callable[[], T | None], *, timeout_s: float = 20.0, pause_s: float = 0.02) -> T:
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
    address: str, topic: str, partition: int, values: Sequence[bytes], *, timeout_s: float = 20.0
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
