"""ListOffsets at every version, for moments and for the names of places: pkafka answers as Apache Kafka 3.9.1.

Version 0 goes by the times of the files, which are set here; later ones go by the records'.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pkafka.records.builder import build_batch
from tests.interop.conftest import System
from tests.raw_client import RawClient
from tests.talk import talking

pytestmark = pytest.mark.interop

NOON: Final = 1_700_000_000_000
LONG_MAX: Final = 2**63 - 1
FILES_MS: Final = (NOON, NOON + 1_000, NOON - 5_000, NOON + 3_000, NOON + 4_000, NOON + 5_000)
"""When the segments were written last; the third was touched by somebody who restored it from a copy."""
FULL: Final = "list-offsets"
EMPTY: Final = "list-offsets-empty"
VERSIONS: Final = registry.versions(ApiKey.LIST_OFFSETS)
MOMENTS: Final = (
    *range(-7, 1),
    *sorted({moment + age for moment in FILES_MS for age in (-1, 0, 1)}),
    LONG_MAX,
    -LONG_MAX,
)
Wanted = tuple[str, int, int]
"""topic, partition, timestamp"""


@pytest.fixture(scope="module")
def both(kafka: System | None, pkafka: System | None) -> Iterator[tuple[System, System]]:
    if kafka is None or pkafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one system out")
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk:
            talk.create(FULL, 2, segment_bytes=200, retention_ms=-1)
            talk.create(EMPTY)
            for number in range(len(FILES_MS)):
                rows = [(NOON + number * 1_000 - age, None, bytes(50), ()) for age in (0, 5)]
                talk.produce(FULL, bytes(build_batch(rows)))
        paths = sorted((system.log_dir / f"{FULL}-0").glob("*.log"))
        for path, moment in zip(paths, FILES_MS, strict=True):
            os.utime(path, ns=(0, moment * 1_000_000))
    yield kafka, pkafka
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk:
            talk.delete(FULL)
            talk.delete(EMPTY)


def answers(
    system: System,
    version: int,
    wanted: Sequence[Wanted],
    *,
    replica: int = -1,
    isolation: int = 0,
    count: int = 3,
    epoch: int = -1,
) -> list[tuple[object, ...]]:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(
                    partition_index=partition,
                    timestamp=timestamp,
                    current_leader_epoch=epoch,
                    max_num_offsets=1 if version else count,
                )
            ],
        )
        for topic, partition, timestamp in wanted
    ]
    request = ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics)
    with RawClient(system.bootstrap) as client:
        response = client.call(request, version)
    return [
        (topic.name, *(getattr(part, field.name) for field in part.__fields__))
        for topic in response.topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 100])
def test_version_0_goes_by_the_times_of_files(both: tuple[System, System], count: int) -> None:
    for moment in MOMENTS:
        for topic in (FULL, EMPTY):
            theirs, ours = (answers(system, 0, [(topic, 0, moment)], count=count) for system in both)
            assert ours == theirs, (topic, moment)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_later_versions_go_by_the_times_of_records(both: tuple[System, System], version: int) -> None:
    for moment in MOMENTS:
        for topic in (FULL, EMPTY):
            theirs, ours = (
                answers(system, version, [(topic, 0, moment)], isolation=int(version >= 2)) for system in both
            )
            assert ours == theirs, (topic, moment)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_asks_and_for_what_there_is_not(both: tuple[System, System], version: int) -> None:
    for replica in (-3, -2, -1, 0, 1):
        for wanted in (
            [(FULL, 0, -1), (FULL, 1, LONG_MAX), (EMPTY, 0, -1)],
            [(FULL, 9, -1), ("no-such-topic", 0, -2), (FULL, 9, -9)],
            [(FULL, 0, -1), (FULL, 1, -2), (FULL, 0, -2)],
        ):
            theirs, ours = (answers(system, version, wanted, replica=replica) for system in both)
            assert ours == theirs, (replica, wanted)
    for epoch in (-2, 0, 1, 5) if version >= 4 else ():
        theirs, ours = (answers(system, version, [(FULL, 0, -1)], epoch=epoch) for system in both)
        assert ours == theirs, epoch
