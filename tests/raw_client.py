"""A connection that sends what a test says, well-formed or not, and reads the answers one by one.

No retries, no metadata, no record API: what the broker does to one connection shows as it is.
"""

import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Self, TypeVar

from pkafka.errors import ErrorCode
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages import create_topics, fetch, list_offsets, metadata, produce
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.reading import Record, read_records
from tests.talk import wait_for

Key = TypeVar("Key", tuple[str, int], tuple[bytes, int], tuple[str | bytes, int])

OTHER_BROKER = os.environ.get("PKAFKA_TEST_BOOTSTRAP")
"""host:port of a running broker that tests ask instead of starting pkafka: what does Apache Kafka answer?"""

_names = itertools.count()


def new_topic_name(prefix: str = "t") -> str:
    """A name that nobody has used."""
    return f"{prefix}-{os.getpid()}-{time.monotonic_ns()}-{next(_names)}"


class ClosedByBroker(ConnectionError):
    """The broker ended the connection."""


class RawClient:
    """One connection to ``host:port``, from the address ``source`` of this machine where it is given."""

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 60.0,
        receive_buffer_bytes: int = 0,
        source: str | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self.sock = socket.socket()
        self.sock.settimeout(timeout_s)
        if receive_buffer_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            if source is not None:
                self.sock.bind((source, 0))
            self.sock.connect((host, int(port)))
        except OSError:
            self.sock.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self.sock.getsockname()[1]
        self._sent: list[tuple[int, int, int]] = []
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    # -- bytes --

    def send_bytes(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send_frame(self, body: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(body)) + body)

    def read_bytes(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self.sock.recv(count - len(data))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ClosedByBroker(f"after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)

    def read_frame(self) -> bytes:
        return self.read_bytes(struct.unpack(">i", self.read_bytes(4))[0])

    def is_closed(self, *, within_s: float = 60.0) -> bool:
        """Whether the broker closes the connection, without another answer."""
        self.sock.settimeout(within_s)
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    # -- messages --

    def encoded(self, message: Message, version: int, *, client_id: str | None = "raw") -> bytes:
        """The frame of a request, whose answer :meth:`receive` will expect next."""
        assert message.__api_key__ is not None
        self._correlation_id += 1
        self._sent.append((message.__api_key__, version, self._correlation_id))
        return encode_request(message.__api_key__, version, self._correlation_id, client_id, message)

    def send(self, message: Message, version: int, *, client_id: str | None = "raw") -> None:
        self.send_bytes(self.encoded(message, version, client_id=client_id))

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        key, version, sent_id = self._sent.pop(0)
        correlation_id, response = decode_response(key, version, self.read_frame())
        assert correlation_id == sent_id
        return response

    def forget(self) -> None:
        """Expect no answer to the request that was encoded last, as to Produce with acks=0."""
        self._sent.pop()

    def call(self, message: Message, version: int) -> Any:
        self.send(message, version)
        return self.receive()


def at_once(jobs: Sequence[Callable[[], object]], *, timeout_s: float = 100.0) -> None:
    """Run each job in a thread of its own; fails with what the first of them raised, or when one does not end."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        for job in as_completed([threads.submit(job) for job in jobs], timeout=timeout_s):
            job.result()


def create_topic(address: str, partitions: int = 1, **configs: object) -> str:
    """Create a topic and wait until it is led; ``retention_ms=5`` is the setting ``retention.ms``."""
    name = new_topic_name()
    request = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=str(value))
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=50_000,
    )
    with RawClient(address) as client:
        [topic] = client.call(request, 5).topics
        assert topic.error_code == 0, ErrorCode(topic.error_code)
        keys = {(name, partition): -1 for partition in range(partitions)}
        wait_for(
            lambda: not any(code for code, _offset in ask_offsets(client, keys).values()), what="leaders"
        )
    return name


def topic_id(client: RawClient, topic: str) -> bytes:
    """The id that the broker gave a topic."""
    request = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    [found] = client.call(request, 12).topics
    assert found.error_code == 0
    return bytes(found.topic_id)


def batch(*values: bytes, timestamp: int | None = None, key: bytes | None = None, **options: Any) -> bytes:
    """A batch of plain values with the present time."""
    now = int(time.time() * 1000) if timestamp is None else timestamp
    return bytes(build_batch([(now, key, value, ()) for value in values], **options))


def produce_request(
    sets: Mapping[tuple[str, int], bytes | None] | Sequence[tuple[tuple[str, int], bytes | None]],
    *,
    acks: int = -1,
    timeout_ms: int = 60_000,
) -> produce.ProduceRequest:
    """A Produce request with a record set for each (topic, partition), in order."""
    pairs = sets.items() if isinstance(sets, Mapping) else sets
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            produce.TopicProduceData(
                name=topic, partition_data=[produce.PartitionProduceData(index=partition, records=data)]
            )
            for (topic, partition), data in pairs
        ],
    )


def produce_to(
    client: RawClient,
    topic: str,
    data: bytes,
    partition: int = 0,
    *,
    version: int = 9,
    acks: int = -1,
    timeout_ms: int = 60_000,
) -> tuple[ErrorCode, int]:
    """Produce one record set: (error code, base offset)."""
    request = produce_request({(topic, partition): data}, acks=acks, timeout_ms=timeout_ms)
    answer = client.call(request, version)
    found = answer.responses[0].partition_responses[0]
    return ErrorCode(found.error_code), found.base_offset


def fetch_request(
    places: "Mapping[Key, int] | Iterable[tuple[Key, int]]",
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    partition_max_bytes: int = 1_000_000,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[str | bytes, int]] = (),
    last_fetched_epoch: int = -1,
    current_leader_epoch: int = -1,
) -> fetch.FetchRequest:
    """A Fetch request: (topic name or id, partition) to the offset to read from; ``session``: id and epoch."""

    def topic_of(topic: str | bytes) -> dict[str, Any]:
        return {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}

    pairs = places.items() if isinstance(places, Mapping) else places
    return fetch.FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            fetch.FetchTopic(
                **topic_of(topic),
                partitions=[
                    fetch.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        last_fetched_epoch=last_fetched_epoch,
                        current_leader_epoch=current_leader_epoch,
                    )
                ],
            )
            for (topic, partition), offset in pairs
        ],
        forgotten_topics_data=[
            fetch.ForgottenTopic(**topic_of(topic), partitions=[partition]) for topic, partition in forgotten
        ],
    )


def fetched(response: Any) -> dict[tuple[str | bytes, int], Any]:
    """(topic name, or id where there is none, partition) to what was answered for it, in order."""
    return {
        (topic.topic or bytes(topic.topic_id), part.partition_index): part
        for topic in response.responses
        for part in topic.partitions
    }


def records_of(part: Any, from_offset: int = 0) -> list[Record]:
    """The whole records of one fetched partition, checksums looked at."""
    return list(read_records(part.records or b"", from_offset=from_offset))


def fetch_from(
    client: RawClient,
    topic: str | bytes,
    offset: int,
    partition: int = 0,
    *,
    version: int = 12,
    **options: Any,
) -> Any:
    """What one fetch of one partition answers for it."""
    response = client.call(fetch_request({(topic, partition): offset}, **options), version)
    assert response.error_code == 0, ErrorCode(response.error_code)
    [part] = fetched(response).values()
    return part


def ask_offsets(
    client: RawClient,
    keys: Mapping[tuple[str, int], int],
    *,
    version: int = 7,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
) -> dict[tuple[str, int], tuple[ErrorCode, int]]:
    """ListOffsets: (topic, partition) to the timestamp asked for; answers (error code, offset)."""
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(
                        partition_index=partition,
                        timestamp=timestamp,
                        current_leader_epoch=current_leader_epoch,
                    )
                ],
            )
            for (topic, partition), timestamp in keys.items()
        ],
    )
    return {
        (topic.name, part.partition_index): (ErrorCode(part.error_code), part.offset)
        for topic in client.call(request, version).topics
        for part in topic.partitions
    }
