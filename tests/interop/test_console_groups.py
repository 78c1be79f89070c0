"""pk-console-consumer as a member of groups, and its formatters of internal topics, beside Kafka's tool."""

import contextlib
import signal
import subprocess
import sys

import pytest
from confluent_kafka import Producer

from pkafka.clients.admin.results import GroupState
from pkafka.clients.admin.transaction_results import TransactionState
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.interop.conftest import JavaTool, System
from tests.interop.members import member
from tests.interop.side_by_side import SideBySide, pk
from tests.talk import Talk, good, talking, wait_for

CONSUMER = ("console_consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer")
PROGRAM = "from pkafka.cli.console_consumer import main; main()"
FORMATTERS = (
    "org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
    "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter",
)


@pytest.fixture
def side(java_tool: JavaTool, system: System) -> SideBySide:
    return SideBySide(java_tool, system)


def committed(talk: Talk, group: str) -> dict[TopicPartition, int]:
    found = good(talk.admin.list_group_offsets({group: None})[group])
    return {partition: at.offset for partition, at in found.items() if isinstance(at, OffsetAndMetadata)}


def test_a_group_goes_on_where_it_left_off_whoever_reads(
    talk: Talk, side: SideBySide, java_tool: JavaTool, topic: str
) -> None:
    talk.create(topic)
    talk.send(topic, *[b"%d" % number for number in range(10)])
    group, partition = f"g-{topic}", TopicPartition(topic, 0)
    flags = ("--bootstrap-server", side.bootstrap, "--topic", topic, "--group", group, "--from-beginning")
    assert pk("console_consumer", *flags, "--max-messages", 3).split() == ["0", "1", "2"]
    assert committed(talk, group) == {partition: 3}  # and not what else came with the same poll
    theirs = java_tool(CONSUMER[1], *flags, "--max-messages", "2", "--timeout-ms", "60000")
    assert theirs.stdout.split() == ["3", "4"]
    assert committed(talk, group) == {partition: 5}
    assert pk("console_consumer", *flags, "--until-end").split() == ["5", "6", "7", "8", "9"]
    assert committed(talk, group) == {partition: 10}
    # It left: its session would last longer than this waits.
    wait_for(lambda: good(talk.admin.describe_groups([group])[group]).state is GroupState.EMPTY)


def test_topics_that_match_are_read(talk: Talk, side: SideBySide, topic: str) -> None:
    for number in range(2):
        talk.create(f"{topic}-{number}")
        talk.send(f"{topic}-{number}", b"in %d" % number)
    talk.create(f"not-{topic}")
    talk.send(f"not-{topic}", b"not this")
    flags = ("--bootstrap-server", side.bootstrap, "--include", f"{topic}-.*", "--from-beginning")
    assert sorted(pk("console_consumer", *flags, "--max-messages", 2).splitlines()) == ["in 0", "in 1"]
    named = pk("console_consumer", *flags, "--group", f"g-{topic}", "--until-end")
    assert sorted(named.splitlines()) == ["in 0", "in 1"]
    assert len(committed(talk, f"g-{topic}")) == 2


def test_members_share_partitions_and_a_signal_gives_them_back(
    talk: Talk, system: System, side: SideBySide, topic: str
) -> None:
    talk.create(topic, 2)
    group = f"g-{topic}"
    flags = ["--bootstrap-server", side.bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    with member(system.bootstrap, group, topic):
        reading = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *flags, "--property", "print.partition=true"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:

            def shares() -> list[int]:
                members = good(talk.admin.describe_groups([group])[group]).members
                return [len(each.assignment) for each in members]

            wait_for(lambda: shares() == [1, 1], timeout_s=60, what="a partition for each")
            for partition in range(2):
                talk.send(topic, b"v", partition=partition)
            assert reading.stdout is not None
            assert reading.stdout.readline().endswith("\tv\n")
            reading.send_signal(signal.SIGTERM)
            _, notes = reading.communicate(timeout=60)
            assert (reading.returncode, notes) == (143, "Processed a total of 1 messages\n")
            # Of a member that has not left, its session of 45 seconds would have to end first.
            wait_for(lambda: shares() == [2], what="both partitions for the other")
        finally:
            reading.kill()
            reading.wait()


@pytest.mark.parametrize(
    "formatter",
    [pytest.param(each, marks=pytest.mark.nightly) if "$" in each else each for each in FORMATTERS],
    ids=lambda each: each.rpartition(".")[2],
)
def test_what_the_coordinator_writes_is_shown_alike(
    talk: Talk, system: System, java_tool: JavaTool, topic: str, formatter: str
) -> None:
    talk.create(topic)
    group, partition = f"g-{topic}", TopicPartition(topic, 0)
    for metadata in ("", "schön"):
        good(talk.admin.alter_group_offsets(group, {partition: OffsetAndMetadata(1, metadata, 0)})[partition])
    good(talk.admin.delete_group_offsets(group, [partition])[partition])
    with contextlib.ExitStack() as members:
        for name in ("i", "j", "k", "l"):  # of several, the order shows
            members.enter_context(member(system.bootstrap, group, topic, group_instance_id=name))
    talk.admin.remove_members(group)
    where = CONSUMER_OFFSETS_TOPIC, _offsets_partition(group)
    assert topic in shown_by_both(system, java_tool, where, formatter)


def shown_by_both(system: System, java_tool: JavaTool, where: tuple[str, int], formatter: str) -> str:
    """What both makes show of what there is in a partition now: a broker may write more between the two."""
    topic, partition = where
    with talking(system.bootstrap) as talk:
        count = len(talk.read(topic, partition))
    flags = ["--bootstrap-server", system.bootstrap, "--topic", topic, "--partition", str(partition)]
    flags += ["--offset", "earliest", "--formatter", formatter]
    flags += ["--max-messages", str(count), "--timeout-ms", "60000"]
    ours = pk("console_consumer", *flags)
    assert ours == java_tool(CONSUMER[1], *flags).stdout
    return ours


@pytest.mark.parametrize(
    "formatter",
    [
        "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter",
        "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter",
    ],
    ids=["json", "line"],
)
def test_what_the_transaction_coordinator_writes_is_shown_alike(
    system: System, java_tool: JavaTool, topic: str, formatter: str
) -> None:
    name = f"tx-{topic}"
    with talking(system.bootstrap) as talk:
        talk.create(topic, 14)
    producer = Producer({"bootstrap.servers": system.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for partition in range(14):
            producer.produce(topic, b"v", partition=partition)
        producer.flush(30)
        end(30)
    with talking(system.bootstrap) as talk:

        def state() -> TransactionState:
            return good(talk.admin.describe_transactions([name])[name]).state

        # The end of a transaction has an answer before its markers are written, and the last record comes behind them.
        wait_for(lambda: state() is TransactionState.COMPLETE_ABORT, what="the last record")
    where = TRANSACTION_STATE_TOPIC, _offsets_partition(name)
    assert shown_by_both(system, java_tool, where, formatter).count(name) >= 7


def _offsets_partition(group: str) -> int:
    """Which of 50 partitions has a group, or a transactional id: by Java's hash of its name."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    signed = code - 2**32 if code >= 2**31 else code
    return abs(signed) % 50


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--group", "a", "--consumer-property", "group.id=b"), "do not match. Detected group ids: 'a', 'b'"),
        (("--group", "a", "--partition", "0"), "Options group and partition cannot be specified together."),
        (("--offset", "1"), "The partition is required when offset is specified."),
        (("--formatter", "Nonsense"), "--formatter=Nonsense: is not a class here"),
    ],
)
def test_what_cannot_be_is_said(wrong: tuple[str, ...], message: str) -> None:
    command = [sys.executable, "-c", PROGRAM, "--bootstrap-server", "127.0.0.1:1", "--topic", "t", *wrong]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert message in done.stderr
