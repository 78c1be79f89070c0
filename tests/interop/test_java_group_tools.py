"""Kafka's own tools for groups, with the same words on Apache Kafka and on pkafka with either store."""

from contextlib import ExitStack

from confluent_kafka import Consumer, TopicPartition

from pkafka.clients.admin.results import GroupState
from tests.interop.conftest import Everywhere
from tests.talk import good, talking, wait_for

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PATIENCE_MS = 30_000
"""Of a consumer that knows how many messages come: it costs nothing where these are there."""
MEMBER = r"(?<=member-)[0-9a-f-]{36}"


def consume(everywhere: Everywhere, topic: str, group: str, count: int) -> list[str]:
    """What a member of a group that commits at its end reads."""
    lines = everywhere.run(
        *(CONSOLE_CONSUMER, "--topic", topic, "--group", group, "--max-messages", count),
        *("--timeout-ms", PATIENCE_MS, "--consumer-property", "auto.offset.reset=earliest"),
    ).splitlines()
    for system in everywhere.systems:
        # Java's consumer says that it leaves, and waits for no answer.
        with talking(system.bootstrap) as talk:
            described = talk.admin.describe_groups
            wait_for(lambda: good(described([group])[group]).state is GroupState.EMPTY, what="its leaving")  # noqa: B023
    return lines


def filled(everywhere: Everywhere, topic: str, *, partitions: int = 1, count: int = 10) -> None:
    """A topic with numbered messages in every partition."""
    for system in everywhere.systems:
        with talking(system.bootstrap) as talk:
            talk.create(topic, partitions)
            for partition in range(partitions):
                talk.send(topic, *(b"%d" % number for number in range(count)), partition=partition)


def test_a_console_consumer_goes_on_where_its_group_was(everywhere: Everywhere, topic: str) -> None:
    filled(everywhere, topic)
    group = f"{topic}-group"
    assert consume(everywhere, topic, group, 4) == ["0", "1", "2", "3"]
    assert consume(everywhere, topic, group, 6) == ["4", "5", "6", "7", "8", "9"]
    other = everywhere.run(
        *(CONSOLE_CONSUMER, "--topic", topic, "--group", group, "--from-beginning", "--timeout-ms", 2_000)
    )
    assert other == "", "--from-beginning is for groups without offsets"


def test_groups_are_listed_described_and_deleted(everywhere: Everywhere, topic: str) -> None:
    filled(everywhere, topic, partitions=2)
    group = f"{topic}-group"
    others = rf"(?m)^(?!{topic}).*\n"
    consume(everywhere, topic, group, 20)
    assert group in everywhere.run(CONSUMER_GROUPS, "--list", mask=(others,)).splitlines()
    states = everywhere.run(CONSUMER_GROUPS, "--list", "--state", "empty", mask=(others, r"(?<= ) +"))
    assert states.split() == [group, "Empty"]
    for view in ("--offsets", "--members", "--state"):
        described = everywhere.run(CONSUMER_GROUPS, "--describe", "--group", group, view)
        assert (group in described) is (view != "--members")
    deleted = everywhere.run(CONSUMER_GROUPS, "--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    assert "Successful" in deleted
    assert everywhere.run(CONSUMER_GROUPS, "--describe", "--group", group).count(topic) == 2
    assert "successful" in everywhere.run(CONSUMER_GROUPS, "--delete", "--group", group)
    assert "does not exist" in everywhere.run(CONSUMER_GROUPS, "--describe", "--group", group)
    everywhere.run(CONSUMER_GROUPS, "--delete", "--group", group)


def test_offsets_are_reset(everywhere: Everywhere, topic: str) -> None:
    filled(everywhere, topic, partitions=2)
    group = f"{topic}-group"
    for how in (
        ["--to-earliest"],
        ["--shift-by", "3"],
        ["--to-offset", "7"],
        ["--to-latest"],
        ["--shift-by", "-2"],
        ["--to-current"],
    ):
        words = ["--reset-offsets", "--group", group, "--topic", topic, *how]
        everywhere.run(CONSUMER_GROUPS, *words, "--dry-run")
        everywhere.run(CONSUMER_GROUPS, *words, "--execute")
        everywhere.run(CONSUMER_GROUPS, "--describe", "--group", group)
    assert sorted(consume(everywhere, topic, group, 4)) == ["8", "8", "9", "9"]


def test_a_group_with_members_is_described_and_left_alone(everywhere: Everywhere, topic: str) -> None:
    filled(everywhere, topic, partitions=2)
    group = f"{topic}-group"
    with ExitStack() as stack:
        for system in everywhere.systems:
            consumer = Consumer(
                {"bootstrap.servers": system.bootstrap, "group.id": group, "client.id": "member"}
            )
            stack.callback(consumer.close)
            consumer.subscribe([topic])
            wait_for(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="the assignment")  # noqa: B023
            for partition in range(2):
                consumer.commit(offsets=[TopicPartition(topic, partition, 5 + partition)], asynchronous=False)
        for view in ([], ["--members"], ["--members", "--verbose"], ["--state"]):
            described = everywhere.run(
                CONSUMER_GROUPS, "--describe", "--group", group, *view, mask=(MEMBER, r" +")
            )
            assert group in described
        refused = everywhere.run(CONSUMER_GROUPS, "--delete", "--group", group)
        assert "GroupNotEmptyException" in refused
        words = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
        assert "Stable" in everywhere.run(CONSUMER_GROUPS, *words)
        words = ["--delete-offsets", "--group", group, "--topic", topic]
        assert "GroupSubscribedToTopicException" in everywhere.run(CONSUMER_GROUPS, *words)
