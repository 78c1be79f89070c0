"""Produce in transactions: pkafka answers every field and text as Apache Kafka 3.9.1, and its logs hold the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.records.builder import build_batch
from pkafka.records.reading import read_batches
from pkafka.testing import running_broker
from tests.differences import first_difference
from tests.interop import kafka as oracle
from tests.interop.conftest import System
from tests.raw_client import RawClient, fetch_from
from tests.talk import talking, wait_for

pytestmark = pytest.mark.interop

NOON = 1_700_000_000_000
VERSIONS = (3, 7, 10, 11)
PARTITIONS = 5
PASSING = ErrorCode.NOT_ENOUGH_REPLICAS
"""A broker of Kafka's says so until it has a connection to its own coordinator."""
ADDED, OTHER, STARTED, PLAIN = 0, 1, 2, 3
"""In the transaction, not in it, in it with records deleted at its start, and for records without transactions."""


@pytest.fixture(scope="module")
def both(kafka: System | None, pkafka: System | None) -> tuple[System, System]:
    """Both systems."""
    if kafka is None or pkafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one out")
    return kafka, pkafka


@dataclass
class Script:
    """Speaks to one system in transactions, and notes what it answers."""

    client: RawClient
    name: str
    """Of the topic and of the transactional id."""
    version: int
    """Of Produce."""
    producer_id: int = -1
    epoch: int = -1
    told: list[tuple[object, ...]] = field(default_factory=list)

    def begin(self) -> None:
        """InitProducerId."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = self._until_done(lambda: self.client.call(request, 4))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, *partitions: int) -> None:
        """AddPartitionsToTxn."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.name, partitions=list(partitions))],
        )

        def code() -> Any:
            results = self.client.call(request, 3).results_by_topic_v3_and_below[0].results_by_partition
            return max(results, key=lambda one: one.partition_error_code)

        self._until_done(code, "partition_error_code")

    def end(self, *, committed: bool) -> None:
        """EndTxn, until the markers are written."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        self._until_done(lambda: self.client.call(request, 3))
        describe = DescribeTransactionsRequest(transactional_ids=[self.name])
        wait_for(
            lambda: (
                self.client.call(describe, 0).transaction_states[0].transaction_state.startswith("Complete")
            )
        )

    def _until_done(self, call: Callable[[], Any], field_name: str = "error_code") -> Any:
        found: list[Any] = []

        def is_done() -> bool:
            found[:] = [call()]
            return not getattr(found[0], field_name)

        wait_for(is_done, what="a transaction request that succeeds")
        return found[0]

    def batch(self, sequence: int = 0, *, transactional: bool = True, **changes: int) -> bytes:
        """A batch of the producer, or of one that is a little different."""
        return bytes(
            build_batch(
                [(NOON, b"k", b"v%d" % sequence, ())],
                producer_id=self.producer_id + changes.get("producer_id", 0),
                producer_epoch=self.epoch + changes.get("epoch", 0),
                base_sequence=sequence,
                transactional=transactional,
            )
        )

    def produce(
        self,
        what: str,
        *sets: tuple[int, bytes],
        transactional_id: str | None = "",
        acks: int = -1,
        topic: str | None = None,
    ) -> None:
        """Send record sets, and note the answer for each; an empty transactional id stands for the script's own."""
        request = ProduceRequest(
            transactional_id=self.name if transactional_id == "" else transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic or self.name,
                    partition_data=[PartitionProduceData(index=index, records=data)],
                )
                for index, data in sets
            ],
        )
        answers: list[Any] = []

        def has_come() -> bool:
            answers[:] = self.client.call(request, self.version).responses
            return all(part.error_code != PASSING for one in answers for part in one.partition_responses)

        wait_for(has_come, what="a coordinator that can be asked")
        for response in answers:
            # Kafka answers for the partitions in the order of a hash table.
            for part in sorted(response.partition_responses, key=lambda one: one.index):
                self.told.append(
                    (
                        what,
                        part.index,
                        part.error_code,
                        part.base_offset,
                        part.log_append_time_ms,
                        part.log_start_offset,
                        [(one.batch_index, one.batch_index_error_message) for one in part.record_errors],
                        part.error_message,
                    )
                )


def play(script: Script) -> None:
    """All that a producer may do right and wrong."""
    batch, produce = script.batch, script.produce
    produce("no such id", (ADDED, build(77)), transactional_id=f"{script.name}-unknown")
    script.begin()
    script.begin()
    produce("before the transaction", (ADDED, batch()))
    script.add(ADDED, STARTED)
    produce("not added", (OTHER, batch()))
    produce("no id", (ADDED, batch()), transactional_id=None)
    produce("no id, and plain records", (PLAIN, build(-1)), (ADDED, batch()), transactional_id=None)
    produce("two epochs", (ADDED, batch()), (STARTED, batch(epoch=1)))
    produce("two producers", (ADDED, batch()), (STARTED, batch(producer_id=1)), (PLAIN, build(-1)))
    produce("another producer", (ADDED, batch(producer_id=1)))
    produce("an epoch to come", (ADDED, batch(epoch=1)))
    produce("acks", (ADDED, batch()), acks=2)
    produce("acks, not added", (OTHER, batch()), acks=2)
    produce("damaged", (ADDED, batch()[:-1] + b"?"))
    produce("damaged, not added", (OTHER, batch()[:-1] + b"?"))
    produce("no such partition", (99, batch()))
    produce("no such topic", (0, batch()), topic="no-such-topic")
    produce("offsets", (0, batch()), topic="__transaction_state")
    produce("a gap of one that is unknown here", (STARTED, batch(5)))
    produce("the first", (ADDED, batch()))
    produce("the first again", (ADDED, batch()))
    produce("a gap", (ADDED, batch(2)))
    produce("the second", (ADDED, batch(1)), (OTHER, batch()), (PLAIN, build(-1)))
    produce("outside of the open transaction", (ADDED, batch(2, transactional=False)))
    produce("an old epoch", (ADDED, batch(2, epoch=-1)))
    script.end(committed=True)
    produce("the second again", (ADDED, batch(1)))
    produce("the third after the end", (ADDED, batch(2)))
    script.add(ADDED)
    produce("the third", (ADDED, batch(2)))
    script.end(committed=False)
    produce("the third again", (ADDED, batch(2)))
    produce("a plain one of the producer", (ADDED, batch(3, transactional=False)))
    before = script.batch(4)
    script.begin()
    script.add(ADDED)
    produce("of the epoch before", (ADDED, before))
    produce("of a new epoch", (ADDED, batch()))
    script.end(committed=True)


def build(producer_id: int) -> bytes:
    """A batch of another producer, or of none."""
    options: dict[str, Any] = (
        {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        if producer_id >= 0
        else {}
    )
    return bytes(build_batch([(NOON, b"k", b"of another", ())], **options))


def stored(client: RawClient, topic: str, partition: int, names: dict[int, int]) -> list[tuple[Any, ...]]:
    """What a partition's log has, without times of markers, and with producers by their order."""
    part = fetch_from(client, topic, 1 if partition == STARTED else 0, partition, partition_max_bytes=10**7)
    return [
        (
            *header._replace(
                crc=0,
                base_timestamp=0,
                max_timestamp=0,
                producer_id=names.setdefault(header.producer_id, len(names)),
            ),
            [(record.offset, record.key, record.value) for record in records],
        )
        for header, records in read_batches(bytes(part.records or b""))
    ]


def wait_for_coordinator(client: RawClient, transactional_id: str) -> None:
    """Wait until a transactional id has a coordinator."""
    find = FindCoordinatorRequest(key=transactional_id, key_type=1)
    wait_for(lambda: not client.call(find, 2).error_code, what="a coordinator")


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_is_answered_as_by_kafka_and_the_same_is_stored(
    both: tuple[System, System], topic: str, version: int
) -> None:
    told: list[list[tuple[object, ...]]] = []
    logs: list[list[list[tuple[Any, ...]]]] = []
    for system in both:
        with talking(system.bootstrap) as talk:
            talk.create(topic, PARTITIONS, **{"message.timestamp.before.max.ms": 2**62, "retention.ms": -1})
        with RawClient(system.bootstrap) as client:
            wait_for_coordinator(client, topic)
            script = Script(client, topic, version)
            script.produce("begin", (STARTED, build(-1)), transactional_id=None)
            wanted = DeleteRecordsPartition(partition_index=STARTED, offset=1)
            client.call(
                DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=5_000
                ),
                1,
            )
            play(script)
            told.append(script.told)
            names: dict[int, int] = {}
            logs.append([stored(client, topic, each, names) for each in range(PARTITIONS)])
        with talking(system.bootstrap) as talk:
            talk.delete(topic)
    theirs, ours = told
    assert len(ours) == len(theirs)
    assert not first_difference(ours, theirs)
    assert not first_difference(logs[1], logs[0])


def test_without_an_answer_a_refusal_closes_the_connection(both: tuple[System, System], topic: str) -> None:
    outcomes = []
    for system in both:
        with talking(system.bootstrap) as talk:
            talk.create(topic, 2)
        with RawClient(system.bootstrap) as client:
            wait_for_coordinator(client, topic)
            script = Script(client, topic, 9)
            script.begin()
            script.add(0)
            # Kafka's broker has a connection to its coordinator from now on, and refuses no more for want of one.
            script.produce("the first", (0, script.batch()))
            data = script.batch(1)
        closed = []
        for partition, transactional_id in ((0, topic), (1, topic), (0, None)):
            with RawClient(system.bootstrap) as client:
                request = ProduceRequest(
                    transactional_id=transactional_id,
                    acks=0,
                    topic_data=[
                        TopicProduceData(
                            name=topic,
                            partition_data=[PartitionProduceData(index=partition, records=data)],
                        )
                    ],
                )
                client.send(request, 9)
                closed.append(client.is_closed(within_s=0.5 if partition == 0 and transactional_id else 60))
        outcomes.append(closed)
    assert outcomes == [[False, True, True]] * 2


def test_while_there_is_no_coordinator_producers_are_told_why(kafka_classpath: str, tmp_path: Path) -> None:
    """Before the first producer has asked for its coordinator, __transaction_state does not exist."""
    told = []
    settings = {"broker.id": 0}
    with (
        oracle.running_kafka(tmp_path / "kafka", overrides=settings) as theirs,
        running_broker(tmp_path / "pkafka", settings) as ours,
    ):
        for system in (theirs, ours):
            with talking(system.bootstrap) as talk:
                talk.create("t", 1)
            request = ProduceRequest(
                transactional_id="x",
                acks=-1,
                topic_data=[
                    TopicProduceData(
                        name="t", partition_data=[PartitionProduceData(index=0, records=build(77))]
                    )
                ],
            )
            with RawClient(system.bootstrap) as client:
                part = client.call(request, 11).responses[0].partition_responses[0]
            told.append((part.error_code, part.base_offset, part.log_start_offset, part.error_message))
    assert told[0][0] == PASSING
    assert told[1] == told[0]
