"""Raw sockets to a broker: frames made beforehand for the loads, and single requests around them."""

import random
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pkafka.protocol.messages.delete_topics import DeleteTopicsRequest
from pkafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec

PRODUCE_VERSION: Final = 9
TIMEOUT_S: Final = 60.0
CLIENT_ID: Final = "benchmark"


class Link:
    """One blocking connection for single requests."""

    def __init__(self, address: tuple[str, int], timeout_s: float = TIMEOUT_S) -> None:
        self._socket = socket.create_connection(address, timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def call(self, api_key: ApiKey, version: int, message: Message) -> Any:
        """The answer to ``message``.

        Raises:
            OSError: the broker closed the connection, or said nothing for as long as ``timeout_s``.
        """
        self._socket.sendall(encode_request(api_key, version, 1, CLIENT_ID, message))
        head = self._file.read(4)
        if len(head) < 4:
            raise ConnectionError("the broker closed the connection")
        (size,) = struct.unpack(">i", head)
        return decode_response(api_key, version, self._file.read(size))[1]


def answers(address: tuple[str, int]) -> bool:
    """Whether a broker answers ApiVersions there."""
    try:
        with Link(address) as link:
            response = link.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
            return bool(response.error_code == 0)
    except OSError:
        return False


def create_topic(
    address: tuple[str, int],
    name: str,
    partitions: int,
    configs: dict[str, str] | None = None,
    *,
    replicas: int = 1,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Create a topic and wait until every partition has a leader."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    with Link(_controller(address), timeout_s) as link:
        response = link.call(
            ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=int(timeout_s * 1000))
        )
        _check(response.topics[0].error_code)
    wait_for_leaders(address, name, partitions, timeout_s=timeout_s)


def _controller(address: tuple[str, int]) -> tuple[str, int]:
    """Who makes and deletes topics in the cluster of the broker at ``address``."""
    with Link(address) as link:
        answer = link.call(ApiKey.METADATA, 5, MetadataRequest(topics=[]))
    (found,) = [broker for broker in answer.brokers if broker.node_id == answer.controller_id]
    return str(found.host), int(found.port)


def wait_for_leaders(
    address: tuple[str, int], name: str, partitions: int, *, timeout_s: float = TIMEOUT_S
) -> dict[tuple[str, int], list[int]]:
    """Wait until every partition of a topic has a leader, as the broker at ``address`` knows it.

    Returns:
        Which partitions each broker leads.

    Raises:
        TimeoutError: not within ``timeout_s``.
    """
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with Link(address) as link:
            answer = link.call(ApiKey.METADATA, 5, request)
        topic = answer.topics[0]
        brokers = {broker.node_id: (str(broker.host), int(broker.port)) for broker in answer.brokers}
        led: dict[tuple[str, int], list[int]] = {}
        for entry in topic.partitions:
            if entry.error_code == 0 and entry.leader_id in brokers:
                led.setdefault(brokers[entry.leader_id], []).append(int(entry.partition_index))
        if topic.error_code == 0 and sum(map(len, led.values())) == partitions:
            return led
        time.sleep(0.02)
    raise TimeoutError(f"{name} has no leaders")


def delete_topic(address: tuple[str, int], name: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """Delete a topic; its files go in the background."""
    with Link(_controller(address), timeout_s) as link:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=int(timeout_s * 1000))
        _check(link.call(ApiKey.DELETE_TOPICS, 4, request).responses[0].error_code)


def end_offsets(address: tuple[str, int], name: str, partitions: int) -> list[int]:
    """The log end offset of every partition of a topic whose only broker listens at ``address``."""
    return end_offsets_of(address, name, range(partitions))


def end_offsets_of(address: tuple[str, int], name: str, partitions: Iterable[int]) -> list[int]:
    """The end offsets, for consumers, of some partitions that the broker at ``address`` leads, in their order."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in partitions]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=wanted)], replica_id=-1)
    with Link(address) as link:
        answered = link.call(ApiKey.LIST_OFFSETS, 1, request).topics[0].partitions
    for entry in answered:
        _check(entry.error_code)
    return [entry.offset for entry in sorted(answered, key=lambda entry: int(entry.partition_index))]


def text(size_bytes: int) -> bytes:
    """Words that repeat, the same each time: lz4 makes three fifths of them, zstd a third."""
    dice = random.Random(3)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(dice.choices(letters, k=dice.randint(3, 9))) for _ in range(2_000)]
    return b" ".join(dice.choices(words, k=size_bytes // 4))[:size_bytes]


def batch(record_bytes: int, batch_bytes: int, source: bytes, codec: Codec = Codec.NONE) -> tuple[bytes, int]:
    """A batch of records of ``record_bytes`` of value each, and how many they are.

    Args:
        record_bytes: of each value.
        batch_bytes: about so long is the batch before it is compressed.
        source: bytes to cut the values from: random ones where nothing is to be compressed.
        codec: of the batch.
    """
    count = max(1, batch_bytes // (record_bytes + 10))
    now = int(time.time() * 1000)
    step = max(1, (len(source) - record_bytes) // count)
    records = [(now, None, source[i * step : i * step + record_bytes], ()) for i in range(count)]
    return bytes(build_batch(records, codec=codec)), count


def produce_frame(
    topic: str, partition: int, records: bytes, correlation_id: int, *, acks: int, client_id: str = CLIENT_ID
) -> bytes:
    """A whole Produce request."""
    request = _produce_request(topic, partition, records, acks)
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, correlation_id, client_id, request)


def produce(address: tuple[str, int], topic: str, partition: int, records: bytes) -> None:
    """Produce one batch to the partition's leader at ``address``; returns when all replicas in sync have it."""
    with Link(address) as link:
        answer = link.call(ApiKey.PRODUCE, PRODUCE_VERSION, _produce_request(topic, partition, records, -1))
    _check(answer.responses[0].partition_responses[0].error_code)


def _produce_request(topic: str, partition: int, records: bytes, acks: int) -> ProduceRequest:
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])


def produce_answer_layout(topic: str) -> tuple[int, int]:
    """Of the answer to :func:`produce_frame` without errors: its size with prefix, and where its error code is."""
    # size 4, correlation id 4, tags 1, topics 1, name, partitions 1, index 4 | error 2, offset 8, time 8, start 8,
    # record errors 1, message 1, tags 1 | tags 1, throttle 4, tags 1
    error_at = 4 + 4 + 1 + 1 + (1 + len(topic)) + 1 + 4
    return error_at + 2 + 8 + 8 + 8 + 1 + 1 + 1 + 1 + 4 + 1, error_at


def _check(*codes: int) -> None:
    for code in codes:
        if code:
            raise RuntimeError(f"the broker answered {ErrorCode(code).name}")


def connect(address: tuple[str, int], count: int) -> Sequence[socket.socket]:
    """Connections for a load, non-blocking, without Nagle's delay."""
    sockets = []
    for _ in range(count):
        connection = socket.create_connection(address, TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        sockets.append(connection)
    return sockets
