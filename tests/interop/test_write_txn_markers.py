"""WriteTxnMarkers by hand, at every version: the same codes, and the same records, as Apache Kafka's."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import pytest

from pkafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pkafka.records.builder import build_batch
from tests.interop.conftest import System
from tests.raw_client import RawClient
from tests.talk import talking

VERSIONS: Final = (0, 1)
PRODUCER: Final = 5_000
Results = dict[int, dict[tuple[str, int], int]]


def marker(
    producer_id: int,
    epoch: int,
    partitions: Iterable[tuple[str, Sequence[int]]],
    *,
    coordinator: int = 0,
    commit: bool = True,
) -> WritableTxnMarker:
    """A marker for partitions of topics, in that order."""
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=list(each)) for name, each in partitions],
    )


class Asked:
    """One system, asked through one connection."""

    def __init__(self, system: System, version: int) -> None:
        self.client = RawClient(system.bootstrap, timeout_s=60)
        self.version = version

    def write(self, *markers: WritableTxnMarker, version: int | None = None) -> Results:
        """The codes; a producer or a topic that comes twice in an answer is an error."""
        answer = self.client.call(
            WriteTxnMarkersRequest(markers=list(markers)), self.version if version is None else version
        )
        found: Results = {}
        for result in answer.markers:
            assert result.producer_id not in found
            names = [topic.name for topic in result.topics]
            assert len(names) == len(set(names))
            found[result.producer_id] = {
                (topic.name, one.partition_index): one.error_code
                for topic in result.topics
                for one in topic.partitions
            }
        return found

    def idempotent(self, topic: str, epoch: int, sequence: int) -> int:
        """The code for a batch of the producer, without a transaction."""
        records = bytes(
            build_batch(
                [(1, None, b"v", ())],
                producer_id=PRODUCER,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        answer = self.client.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    def producers(self, topic: str, partition: int = 0) -> list[tuple[int, ...]]:
        """What the partition knows of its producers."""
        topics = [TopicRequest(name=topic, partition_indexes=[partition])]
        answer = self.client.call(DescribeProducersRequest(topics=topics), 0)
        return sorted(
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in answer.topics[0].partitions[0].active_producers
        )


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def both(request: pytest.FixtureRequest, kafka: System | None, pkafka: System | None, topic: str) -> Any:
    """Both systems with a topic of two partitions."""
    asked = []
    for system in (kafka, pkafka):
        if system is not None:
            with talking(system.bootstrap) as talk:
                talk.create(topic, 2, retention_ms=-1)
                for partition in range(2):
                    talk.ends(topic, partition)
            asked.append(Asked(system, request.param))
    yield asked
    for one in asked:
        one.client.close()


def same(both: list[Asked], *markers: WritableTxnMarker) -> Results:
    """What all answer to a request."""
    first, *others = [one.write(*markers) for one in both]
    assert all(other == first for other in others), (first, others)
    return first


def ends(both: list[Asked], topic: str) -> list[tuple[int, ...]]:
    """What all know of the producers of the topic."""
    first, *others = [one.producers(topic) for one in both]
    assert all(other == first for other in others), (first, others)
    return first


def test_partitions_that_are_led_or_not(both: list[Asked], topic: str) -> None:
    strange = [(topic, [0, 9, -1, 1]), ("no-such-topic", [0, 1]), ("not/legal", [0]), ("", [0])]
    found = same(both, marker(PRODUCER, 0, strange))
    assert set(found) == {PRODUCER}
    assert {code for (name, index), code in found[PRODUCER].items() if name == topic and index in (0, 1)} == {
        0
    }
    assert ends(both, topic) == [(PRODUCER, 0, -1, 0, -1)]


def test_lists_without_elements(both: list[Asked], topic: str) -> None:
    assert same(both) == {}
    assert same(both, marker(PRODUCER, 0, [])) == {}
    assert same(both, marker(PRODUCER, 0, [(topic, [])])) == {}
    assert ends(both, topic) == []


def test_epochs_of_producers_and_of_coordinators(both: list[Asked], topic: str) -> None:
    there = [(topic, [0])]
    for epoch, coordinator in (
        (3, 5),
        (3, 5),
        (2, 5),
        (3, 4),
        (2, 4),
        (4, 4),
        (4, 6),
        (3, 7),
        (32767, 7),
        (0, 8),
    ):
        for commit in (True, False):
            same(both, marker(PRODUCER, epoch, there, coordinator=coordinator, commit=commit))
            ends(both, topic)


def test_a_producer_that_writes_without_a_transaction(both: list[Asked], topic: str) -> None:
    assert {one.idempotent(topic, 2, 0) for one in both} == {0}
    same(both, marker(PRODUCER, 1, [(topic, [0])]))
    same(both, marker(PRODUCER, 2, [(topic, [0])]))
    assert {one.idempotent(topic, 2, 1) for one in both} == {0}
    same(both, marker(PRODUCER, 5, [(topic, [0])]))
    codes = [
        [one.idempotent(topic, epoch, sequence) for epoch, sequence in ((2, 2), (5, 3), (5, 0))]
        for one in both
    ]
    assert codes[0] == codes[-1]
    ends(both, topic)


def test_several_markers_in_a_request(both: list[Asked], topic: str) -> None:
    """Of different producers and of one; each is taken on its own."""
    same(
        both,
        marker(PRODUCER, 0, [(topic, [0, 1])]),
        marker(PRODUCER + 1, 0, [(topic, [1])], commit=False),
        marker(PRODUCER, 3, [(topic, [1])], commit=False),
    )
    ends(both, topic)
    # The last of one producer's counts for a partition that several name.
    same(
        both,
        marker(PRODUCER, 1, [(topic, [0, 1])]),
        marker(PRODUCER, 4, [(topic, [0])]),
        marker(PRODUCER, 2, [(topic, [0])]),
    )
    ends(both, topic)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "coordinator"),
    [
        (-1, 0, 0),
        (-2, 0, 0),
        (PRODUCER, -1, 0),
        (PRODUCER, -2, 0),
        (PRODUCER, 0, -1),
        (PRODUCER, 0, -2),
        (2**62, 0, 2**31 - 1),
    ],
)
def test_numbers_that_no_coordinator_sends(
    both: list[Asked], topic: str, producer_id: int, epoch: int, coordinator: int
) -> None:
    same(both, marker(producer_id, epoch, [(topic, [0, 9])], coordinator=coordinator))
    ends(both, topic)
    # The connection, and the partition, go on.
    same(both, marker(PRODUCER + 9, 0, [(topic, [0])]))
    ends(both, topic)


def test_requests_that_kafka_forgets(pkafka: System | None, topic: str) -> None:
    """Apache Kafka writes these markers and never answers, so their sender waits for its time-out; pkafka answers.

    They are a marker without a partition to write to behind one that is written already, and a partition that is named
    twice in a marker.
    """
    if pkafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves pkafka out")
    with talking(pkafka.bootstrap) as talk:
        talk.create(topic, 2, retention_ms=-1)
        talk.ends(topic, 1)
        asked = Asked(pkafka, 1)
        there = marker(PRODUCER, 0, [(topic, [0])])
        assert asked.write(there, marker(PRODUCER + 1, 0, [])) == {PRODUCER: {(topic, 0): 0}}
        unknown = asked.write(there, marker(PRODUCER + 1, 0, [("no-such-topic", [0])]))
        assert unknown == {PRODUCER: {(topic, 0): 0}, PRODUCER + 1: {("no-such-topic", 0): 3}}
        assert talk.ends(topic) == (0, 2)
        twice = marker(PRODUCER, 0, [(topic, [0, 0]), (topic, [1, 0])])
        assert asked.write(twice) == {PRODUCER: {(topic, 0): 0, (topic, 1): 0}}
        assert talk.ends(topic) == (0, 3)
        asked.client.close()
