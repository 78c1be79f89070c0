"""Produce in transactions, legal and not, at every version, and its files: the same on Apache Kafka and pkafka."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pkafka.records.builder import build_batch
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.one_of_each import OTHER, TOPIC, OneOfEach, one_of_each, stuck_until_the_end
from tests.interop.test_transactions import UNKNOWN_PRODUCER, Script
from tests.names import new_name
from tests.talk import talking, wait_for
from tests.transaction_client import Identity
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

VERSIONS: Final = range(3, 12)
"""Of Produce, those that have transactions."""
STUCK: Final = "stuck"
_NOON: Final = 1_750_000_000_000


class Writer(Script):
    """A script that also produces, to a topic of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        # First: a connection that is open already would be left when this fails.
        _create(bootstrap, topic)
        super().__init__(bootstrap)
        self.topic = topic

    def move(self, topic: str) -> None:
        """Produce to another topic, which is new, from now on."""
        _create(self.bootstrap, topic)
        self.topic = topic

    def write(
        self,
        transactional_id: str | None,
        producer: Identity,
        sequence: int = 0,
        partition: int = 0,
        *,
        version: int = 11,
        acks: int = -1,
        topic: str = "",
        count: int = 1,
        transactional: bool = True,
    ) -> ErrorCode | None:
        """Produce one batch; returns what came of it."""
        data = batch(producer, sequence, count=count, transactional=transactional)
        answer = self.write_all(
            transactional_id, [(topic or self.topic, partition, data)], version=version, acks=acks
        )
        return answer and ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def write_all(
        self,
        transactional_id: str | None,
        batches: Sequence[tuple[str, int, bytes]],
        *,
        version: int = 11,
        acks: int = -1,
    ) -> Any:
        """Produce a batch to each of several partitions; returns the answer."""
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=partition, records=data)]
                )
                for topic, partition, data in batches
            ],
        )
        if acks == 0:
            self.client.send_bytes(self.client.encoded(request, version))
            self.client.forget()
            return None
        return self.ask(request, version)

    def begin_here(self, transactional_id: str, *partitions: int) -> Identity:
        """Make an open transaction with partitions of this script's topic."""
        return self.begin(transactional_id, *partitions, topic=self.topic)

    def unmarked(self, transactional_id: str) -> list[str]:
        """The topics in which a decided transaction still lacks markers."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        [found] = self.client.call(request, 0).transaction_states
        return [one.topic for one in found.topics]

    def note_end(self) -> None:
        """Remember where the partitions end."""
        with talking(self.bootstrap) as talk:
            self.note([talk.ends(self.topic, partition) for partition in range(3)])


def _create(bootstrap: str, topic: str) -> None:
    with talking(bootstrap) as talk:
        talk.create(topic, 3, retention_ms=-1)


def batch(producer: Identity, sequence: int, *, count: int = 1, transactional: bool = True) -> bytes:
    """A batch of a producer."""
    records = [(_NOON + number, b"k", b"v%d" % sequence, ()) for number in range(count)]
    return bytes(
        build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


@pytest.fixture(scope="module")
def both(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneOfEach]:
    """A broker of either kind, whose transactions no other test sees."""
    made = one_of_each(kafka_classpath, zookeeper.connect, tmp_path_factory.mktemp("produce"), shared=False)
    try:
        made.start([STUCK])
        for broker in made.brokers:
            warm(broker.bootstrap)
        yield made
    finally:
        made.kill()


def warm(bootstrap: str) -> None:
    """Produce in a transaction, until the leader could ask the coordinator: Kafka's has to connect to it first."""
    with Writer(bootstrap, "warm") as writer:
        producer = writer.begin_here("warm", 0)
        wait_for(lambda: writer.write("warm", producer) is ErrorCode.NONE, what="the word of the coordinator")
        writer.complete("warm", producer, commit=True)


def in_the_transaction(writer: Writer, name: str) -> None:
    """What belongs to it is appended, repeated, refused by its sequence, and ends with it."""
    for version in VERSIONS:
        tid = f"{name}-{version}"
        producer = writer.begin_here(tid, 0, 1)
        writer.write(tid, producer, 0, version=version)
        writer.write(tid, producer, 1, version=version)
        writer.write(tid, producer, 1, version=version)
        writer.write(tid, producer, 5, version=version)
        writer.write(tid, producer, 2, version=version, acks=1)
        writer.write(tid, producer, 7, 1, version=version)
        writer.write(tid, producer, 0, 1, version=version, count=3)
        writer.complete(tid, producer, commit=version % 2 == 0)
        # A new transaction of the same producer: its sequences go on.
        writer.write(tid, producer, 3, version=version)
        writer.add(tid, producer, [(writer.topic, (0,))])
        writer.write(tid, producer, 2, version=version)
        writer.write(tid, producer, 0, version=version)
        writer.write(tid, producer, 3, version=version)
        writer.complete(tid, producer, commit=True)
        writer.note_end()


def not_in_a_transaction(writer: Writer, name: str) -> None:
    """The partition, the id or the producer is not in the transaction."""
    for version in VERSIONS:
        tid = f"{name}-{version}"
        producer = writer.init(tid)
        writer.write(tid, producer, version=version)
        writer.add(tid, producer, [(writer.topic, (0,))])
        writer.write(tid, producer, 0, 1, version=version)
        writer.write(tid, producer, 0, 7, version=version)
        writer.write(tid, producer, version=version, topic="nowhere")
        writer.write(None, producer, version=version)
        writer.write("", producer, version=version)
        writer.write(f"{tid}-unknown", producer, version=version)
        writer.write(tid, UNKNOWN_PRODUCER, version=version)
        writer.write(tid, producer._replace(epoch=producer.epoch + 1), version=version)
        writer.write(tid, producer._replace(epoch=-1), version=version)
        # Not without a producer: pkafka refuses what Kafka appends as if it were no part of a transaction.
        writer.write(tid, producer, 0, version=version)
        writer.write(f"{tid}-unknown", producer, 1, version=version)
        writer.write(None, producer, 1, version=version)
        writer.complete(tid, producer, commit=True)
        writer.write(tid, producer, 2, version=version)
        writer.note_end()


def plain_batches_in_a_transaction(writer: Writer, name: str) -> None:
    """A producer that has an open transaction in the partition writes without one, and the other way round."""
    for version in VERSIONS:
        tid = f"{name}-{version}"
        producer = writer.begin_here(tid, 0)
        writer.write(tid, producer, 0, version=version)
        writer.write(tid, producer, 1, version=version, transactional=False)
        writer.write(None, producer, 1, version=version, transactional=False)
        writer.write(tid, producer, 0, 1, version=version, transactional=False)
        writer.write(tid, producer, 1, 1, version=version)
        writer.complete(tid, producer, commit=False)
        writer.write(tid, producer, 1, version=version, transactional=False)
        writer.note_end()


def several_partitions_at_once(writer: Writer, name: str) -> None:
    """Of one request, some are in the transaction; or there are several producers in it."""
    for version in VERSIONS:
        tid = f"{name}-{version}"
        producer = writer.begin_here(tid, 0, 1)
        here = [(writer.topic, index, batch(producer, 0)) for index in range(3)]
        writer.write_all(
            tid, [*here, (TOPIC, 0, batch(producer, 0)), (OTHER, 9, batch(producer, 0))], version=version
        )
        writer.write_all(
            tid,
            [(writer.topic, 0, batch(producer, 1)), (writer.topic, 1, batch(UNKNOWN_PRODUCER, 0))],
            version=version,
        )
        writer.write_all(
            tid,
            [
                (writer.topic, 0, batch(producer, 2)),
                (writer.topic, 1, batch(UNKNOWN_PRODUCER, 0, transactional=False)),
            ],
            version=version,
        )
        writer.complete(tid, producer, commit=True)
        writer.note_end()


def fenced_and_late(writer: Writer, name: str) -> None:
    """The transaction was ended by a successor, by time, or by the producer itself."""

    def begun(how: str, version: int, timeout_ms: int = 60_000) -> Identity:
        tid = f"{name}-{version}-{how}"
        producer = writer.init(tid, timeout_ms=timeout_ms)
        writer.add(tid, producer, [(writer.topic, (0, 1))])
        writer.write(tid, producer, 0, version=version)
        return producer

    # Their time is over when the others have had their turn: it has to be enough for a first record on a busy machine.
    # When each of them gets its markers nobody knows, so they have a topic that nobody else writes to meanwhile.
    here = writer.topic
    writer.move(f"{here}-late")
    late = {version: begun("time", version, 8_000) for version in VERSIONS}
    writer.topic = here
    for version in VERSIONS:
        for how in ("successor", "bump", "commit", "abort"):
            tid = f"{name}-{version}-{how}"
            producer = begun(how, version)
            if how == "successor":
                writer.init(tid)
            elif how == "bump":
                writer.init(tid, producer)
            else:
                writer.end(tid, producer, commit=how == "commit")
            writer.wait_for_state(tid, "CompleteCommit" if how == "commit" else "CompleteAbort")
            _go_on_late(writer, tid, producer, version)
    writer.note_end()
    writer.topic = f"{here}-late"
    for version in late:
        writer.wait_for_state(f"{name}-{version}-time", "CompleteAbort")
    for version, producer in late.items():
        _go_on_late(writer, f"{name}-{version}-time", producer, version)
    writer.note_end()


def _go_on_late(writer: Writer, tid: str, producer: Identity, version: int) -> None:
    """The producer goes on behind the end of its transaction, and so does the next one."""
    # Not seen before, seen before, again what is there.
    writer.write(tid, producer, 1, version=version)
    writer.write(tid, producer, 0, version=version)
    writer.write(tid, producer, 0, 1, version=version)
    after = writer.init(tid)
    writer.write(tid, after, 0, version=version)
    writer.write(tid, producer, 0, version=version)
    writer.add(tid, after, [(writer.topic, (0,))])
    writer.write(tid, producer, 0, version=version)
    writer.write(tid, after, 1, version=version)
    writer.write(tid, after, 0, version=version)
    writer.complete(tid, after, commit=True)


def decided_and_not_over(writer: Writer, name: str) -> None:
    """The end is decided, but a partition cannot have its marker yet; the producer goes on writing."""
    with stuck_until_the_end(writer.bootstrap, STUCK) as stuck:
        for version in VERSIONS:
            tid = f"{name}-{version}"
            producer = writer.begin_here(tid, 0, 1)
            writer.add(tid, producer, [(stuck, (0,))])
            writer.write(tid, producer, 0, version=version)
            writer.end(tid, producer)
            wait_for(lambda: writer.unmarked(tid) == [stuck], what="the other markers")  # noqa: B023
            writer.note(writer.state(tid))
            writer.write(tid, producer, 0, 2, version=version)
    for version in VERSIONS:
        writer.wait_for_state(f"{name}-{version}", "CompleteCommit")
    writer.note_end()


SCRIPTS: Final = (
    in_the_transaction,
    not_in_a_transaction,
    plain_batches_in_a_transaction,
    several_partitions_at_once,
    fenced_and_late,
    decided_and_not_over,
)


def play(both: OneOfEach, script: Callable[[Writer, str], None]) -> str:
    """Play a script on both, insist on the same answers, and return the name of its topic."""
    name = new_name("x")

    def played(bootstrap: str) -> list[Any]:
        with Writer(bootstrap, name) as writer:
            script(writer, name)
            return writer.answers

    assert both.answers(played)
    return name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_answers_are_kafkas(both: OneOfEach, script: Callable[[Writer, str], None]) -> None:
    play(both, script)


def test_an_epoch_that_the_coordinator_does_not_know_yet(both: OneOfEach) -> None:
    """In an open transaction Kafka appends such a batch, and can never end the transaction; pkafka refuses it."""
    outcomes = []
    for broker in both.brokers:
        name = new_name("x")
        with Writer(broker.bootstrap, name) as writer:
            producer = writer.begin_here(name, 0)
            writer.write(name, producer, 0)
            answer = writer.write(name, producer._replace(epoch=producer.epoch + 1), 0)
            writer.end(name, producer)
            outcomes.append(answer)
            if broker is both.brokers[1]:
                writer.wait_for_state(name, "CompleteCommit")
    assert outcomes == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH]


@pytest.mark.nightly  # two brokers of its own
def test_the_files_are_kafkas(
    kafka_classpath: str, zookeeper: ZooKeeper, tmp_path: Path, java_tool: JavaTool
) -> None:
    """Logs, indexes of aborted transactions and snapshots of producers, as Kafka's tool shows them."""
    made = one_of_each(kafka_classpath, zookeeper.connect, tmp_path, shared=False)
    try:
        made.start()
        topic = play(made, in_the_transaction)
        for broker in made.brokers:
            broker.stop()  # which writes the snapshots
        for suffix in ("log", "txnindex", "snapshot"):
            theirs, ours = (_dump(java_tool, broker.log_dir, topic, suffix) for broker in made.brokers)
            assert not first_difference(ours, theirs), suffix
            assert "roducerId: " in theirs
    finally:
        made.kill()


def _dump(java_tool: JavaTool, directory: Path, topic: str, suffix: str) -> str:
    files = sorted(path for path in directory.glob(f"{topic}-*/*.{suffix}") if path.stat().st_size)
    done = java_tool("kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(map(str, files)))
    assert done.returncode == 0, done
    text = re.sub(r"\b1[6-9]\d{11}\b", "T", str(done.stdout))
    ids: dict[str, str] = {}
    text = re.sub(r"(producerId: )(\d+)", lambda one: one[1] + ids.setdefault(one[2], f"id{len(ids)}"), text)
    text = re.sub(r"(CRC|crc): \d+", "crc: C", text)
    return re.sub(r"(Dumping )?/\S+/(?=[^/]*/)", "", text)
