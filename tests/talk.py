"""A test's way to talk to a broker of either kind: admin requests, and batches as they are, no producer between."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pkafka.clients.admin.client import Admin
from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST, LATEST, TopicId, TopicPartition
from pkafka.protocol.messages import fetch, init_producer_id, produce
from pkafka.records.builder import build_batch
from pkafka.records.reading import Record, read_batches, read_records

T = TypeVar("T")

PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""What a broker may answer for a moment after its start."""


class Talk:
    """Talks to the broker at ``bootstrap``, the only one of its cluster."""

    def __init__(self, bootstrap: str, *, broker_id: int = 0) -> None:
        self.broker_id = broker_id
        self.admin = Admin({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        self.admin.close()

    # -- topics and settings --

    def create(self, topic: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; ``retention_ms=5`` is the setting ``retention.ms``."""
        settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
        good(self.admin.create_topics([NewTopic(topic, partitions, 1, configs=settings)])[topic])

    def topic_id(self, topic: str) -> TopicId:
        return self._patiently(lambda: good(self.admin.describe_topics([topic])[topic])).topic_id

    def delete(self, topic: str) -> None:
        good(self.admin.delete_topics([topic])[topic])

    def set_topic(self, topic: str, **configs: object) -> None:
        """Set (None: delete) settings of a topic, live."""
        self.alter(ConfigResource(ResourceType.TOPIC, topic), configs)

    def set_broker(self, name: str | None = None, /, **configs: object) -> None:
        """Set (None: delete) dynamic settings of the broker, or with ``name=""`` of all brokers."""
        self.alter(
            ConfigResource(ResourceType.BROKER, str(self.broker_id) if name is None else name), configs
        )

    def alter(self, resource: ConfigResource, configs: Mapping[str, object]) -> None:
        changes = [
            ConfigChange(
                name.replace("_", "."),
                AlterOp.DELETE if value is None else AlterOp.SET,
                None if value is None else str(value),
            )
            for name, value in configs.items()
        ]
        self._patiently(lambda: good(self.admin.alter_configs({resource: changes})[resource]))

    def described(self, type: ResourceType, name: str) -> dict[str, ConfigEntry]:
        resource = ConfigResource(type, name)
        entries = self._patiently(lambda: good(self.admin.describe_configs([resource])[resource]))
        return {each.name: each for each in entries}

    # -- records --

    def ends(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The earliest and the latest offset."""
        key = TopicPartition(topic, partition)
        first = self._patiently(lambda: good(self.admin.list_offsets({key: EARLIEST})[key])).offset
        return first, self._patiently(lambda: good(self.admin.list_offsets({key: LATEST})[key])).offset

    def send(self, topic: str, *values: bytes, partition: int = 0, **batch: Any) -> int:
        """Produce one batch of plain values, with the present time; returns its base offset."""
        now = time.time_ns() // 1_000_000
        records = [(now, None, value, ()) for value in values]
        return self.produce(topic, bytes(build_batch(records, **batch)), partition=partition)

    def produce(self, topic: str, data: bytes, *, partition: int = 0) -> int:
        """Produce a batch as it is, with acks=all; returns its base offset.

        Raises:
            ApiError: the broker refused.
        """
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[
                produce.TopicProduceData(
                    name=topic,
                    partition_data=[produce.PartitionProduceData(index=partition, records=data)],
                )
            ],
        )

        def once() -> int:
            answer = self.admin.cluster.request(request, produce.ProduceResponse, max_version=11)
            found = answer.responses[0].partition_responses[0]
            if found.error_code:
                raise ApiError(ErrorCode(found.error_code), found.error_message)
            return int(found.base_offset)

        return self._patiently(once)

    def read(self, topic: str, partition: int = 0, *, start: int | None = None) -> list[Record]:
        """Every record of a partition, to its end."""
        first, end = self.ends(topic, partition)
        position = first if start is None else start
        records: list[Record] = []
        deadline = time.monotonic() + 60
        while position < end:
            data = self._patiently(lambda: self._fetch(topic, partition, position))  # noqa: B023 - called at once
            batches = list(read_batches(data, from_offset=position))
            if not batches:
                # A leader that is new knows late how far its replicas are.
                assert time.monotonic() < deadline, (
                    f"nothing at {position} of {topic}-{partition}, which ends at {end}"
                )
                continue
            records += read_records(data, from_offset=position)
            # Not behind the last record: compaction leaves batches without any, and markers are none.
            position = batches[-1][0].next_offset
            deadline = time.monotonic() + 60
        return records

    def _fetch(self, topic: str, partition: int, offset: int) -> bytes:
        request = fetch.FetchRequest(
            replica_id=-1,
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=50_000_000,
            topics=[
                fetch.FetchTopic(
                    topic=topic,
                    partitions=[
                        fetch.FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=10_000_000
                        )
                    ],
                )
            ],
        )
        answer = self.admin.cluster.request(request, fetch.FetchResponse, max_version=12)
        found = answer.responses[0].partitions[0]
        if found.error_code:
            raise ApiError(ErrorCode(found.error_code))
        return bytes(found.records or b"")

    def new_producer(self) -> tuple[int, int]:
        """The id and epoch of a new idempotent producer."""
        request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        def once() -> tuple[int, int]:
            answer = self.admin.cluster.request(request, init_producer_id.InitProducerIdResponse)
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code))
            return answer.producer_id, answer.producer_epoch

        return self._patiently(once)

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + 60
        while True:
            try:
                return ask()
            except ApiError as error:
                if error.code not in PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)


@contextmanager
def talking(bootstrap: str, *, broker_id: int = 0) -> Iterator[Talk]:
    """A :class:`Talk` that is closed on leaving."""
    talk = Talk(bootstrap, broker_id=broker_id)
    try:
        yield talk
    finally:
        talk.close()


def good(outcome: T | ApiError | ClientError) -> T:
    """The outcome, when it is none of failure."""
    if isinstance(outcome, ApiError | ClientError):
        raise outcome
    return outcome


def code_of(outcome: object) -> ErrorCode | None:
    """The error code of an outcome of failure."""
    return outcome.code if isinstance(outcome, ApiError) else None


def wait_for(condition: Callable[[], object], *, timeout_s: float = 60.0, what: str = "it") -> None:
    """Wait for something that a broker does in its own time; the limit only ends tests that fail."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(0.03)
