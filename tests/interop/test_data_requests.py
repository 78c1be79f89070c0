"""DeleteRecords, OffsetForLeaderEpoch and Fetch for what there is and is not, at every version: pkafka answers as
Apache Kafka 3.9.1."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pkafka.protocol.schema import Message
from pkafka.records.builder import build_batch
from tests.interop.conftest import System
from tests.raw_client import RawClient, fetch_request
from tests.talk import talking, wait_for

pytestmark = pytest.mark.interop

NOON: Final = 1_700_000_000_000
FULL: Final = "data-requests"
COMPACTED: Final = "data-requests-compacted"
MISSING: Final = "no-such-topic"
# An internal topic that no other test makes come into being on one of the two alone, as a transaction does on Kafka.
INTERNAL: Final = "__share_group_state"
COUNT: Final = 6
ROW: Final = [(NOON, b"k", b"v", ())]
Both = Callable[[Message, int], None]


@pytest.fixture(scope="module")
def systems(kafka: System | None, pkafka: System | None) -> Iterator[tuple[System, System]]:
    if kafka is None or pkafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one system out")
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk:
            talk.create(FULL, 2, retention_ms=-1)
            talk.create(COMPACTED, 1, cleanup_policy="compact")
            talk.create(INTERNAL)
            for topic in (FULL, COMPACTED):
                for _ in range(COUNT):
                    talk.produce(topic, bytes(build_batch(ROW)))
        # A broker that other tests had before has this internal topic, a new one does not yet.
        find = FindCoordinatorRequest(key="g")
        with RawClient(system.bootstrap) as client:
            wait_for(lambda: not client.call(find, 1).error_code, what="a coordinator of groups")  # noqa: B023
    yield kafka, pkafka
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk:
            for topic in (FULL, COMPACTED, INTERNAL):
                talk.delete(topic)


@pytest.fixture
def same(systems: tuple[System, System]) -> Both:
    """Ask both, and insist on the same answer, be it the end of the connection."""

    def ask(request: Message, version: int) -> None:
        answers = []
        for system in systems:
            with RawClient(system.bootstrap) as client:
                answers.append(plain(client.call(request, version)))
        assert answers[1] == answers[0], request

    return ask


def plain(value: Any) -> Any:
    """A message as plain values; topics and partitions in one order, and sessions by whether there is one."""
    if isinstance(value, Message):
        return {
            field.name: bool(getattr(value, field.name))
            if field.name == "session_id"
            else plain(getattr(value, field.name))
            for field in value.__fields__
        }
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("version", registry.versions(ApiKey.DELETE_RECORDS))
def test_delete_records(same: Both, version: int) -> None:
    def delete(*wanted: tuple[str, Sequence[tuple[int, int]]]) -> None:
        topics = [
            DeleteRecordsTopic(
                name=name,
                partitions=[DeleteRecordsPartition(partition_index=index, offset=at) for index, at in places],
            )
            for name, places in wanted
        ]
        same(DeleteRecordsRequest(topics=topics, timeout_ms=5_000), version)

    for offset in (0, version + 1, version, -2, 99):
        delete((FULL, [(0, offset)]))
    delete((FULL, [(1, -1), (9, 0), (-1, 0)]))
    delete((FULL, []))
    delete((FULL, [(1, 99), (1, 0)]))  # a partition twice
    delete((FULL, [(1, 0)]), (FULL, [(0, 0), (1, 99)]))
    for topic in (MISSING, COMPACTED, "__consumer_offsets", INTERNAL, "", "bad/name"):
        delete((topic, [(0, 0)]))


@pytest.mark.parametrize("version", registry.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_offset_for_leader_epoch(same: Both, version: int) -> None:
    for replica in (-2, -1, 0, 1) if version >= 3 else (-2,):
        for topic, index in ((FULL, 0), (FULL, 1), (FULL, 9), (MISSING, 0)):
            for epoch, current in ((0, -1), (1, -1), (-1, -1), (-5, -1), (99, -1), (0, 0), (0, 5), (0, -3)):
                wanted = OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
                if version >= 2:
                    wanted.current_leader_epoch = current
                request = OffsetForLeaderEpochRequest(
                    topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
                )
                if version >= 3:
                    request.replica_id = replica
                same(request, version)


@pytest.mark.parametrize("version", [v for v in registry.versions(ApiKey.FETCH) if 4 <= v <= 12])
def test_fetch(same: Both, version: int) -> None:
    options: list[tuple[int, dict[str, Any]]] = [
        (4, {}),
        (4, {"isolation_level": 1}),
        (4, {"max_bytes": 0}),
        (4, {"min_bytes": -5}),
        (7, {"session": (0, 0)}),
        (7, {"session": (5, 7)}),
        (7, {"session": (5, 0)}),
        (7, {"session": (5, -1)}),
        (9, {"current_leader_epoch": 0}),
        (9, {"current_leader_epoch": 9}),
        (9, {"current_leader_epoch": -7}),
        (12, {"last_fetched_epoch": 0}),
        (12, {"last_fetched_epoch": 7}),
        (12, {"last_fetched_epoch": -7}),
    ]
    places: list[list[tuple[tuple[str, int], int]]] = [
        [((COMPACTED, 0), offset)] for offset in (-1, 0, 3, COUNT, COUNT + 1)
    ]
    places += [[((FULL, 9), 0), ((MISSING, 0), 0), ((FULL, -1), 0)], [(("bad/name", 0), 0), (("", 0), 0)]]
    for since, option in options:
        for wanted in places if since <= version else ():
            same(fetch_request(wanted, max_wait_ms=1, **option), version)
