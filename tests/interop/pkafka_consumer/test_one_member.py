"""pkafka's consumer as the only member of its group, on Apache Kafka and on pkafka: commits."""

from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition
from tests.interop.conftest import JavaTool, System
from tests.interop.consumer_members import Join, alone, partitions, read
from tests.talk import Talk, wait_for


def test_one_member_reads_commits_and_its_successor_goes_on(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 2)
    for partition in range(2):
        talk.send(topic, *(b"%d" % number for number in range(10)), partition=partition)
    with alone(system, group, enable_auto_commit="false") as consumer:
        consumer.subscribe([topic])
        records = read(consumer, 20)
        assert [each.value for each in records if each.partition == 1] == [b"%d" % each for each in range(10)]
        assert consumer.group_metadata().generation_id == 1
        assert consumer.subscription() == {topic}
        consumer.commit_sync({TopicPartition(topic, 0): OffsetAndMetadata(4, "half", 0)})
        consumer.commit_sync({TopicPartition(topic, 1): 10})
    with alone(system, group) as consumer:
        assert consumer.committed(partitions(topic, 2)) == {
            TopicPartition(topic, 0): OffsetAndMetadata(4, "half", 0),
            TopicPartition(topic, 1): OffsetAndMetadata(10, "", None),
        }
        consumer.subscribe([topic])
        assert [(each.partition, each.offset) for each in read(consumer, 6)] == [
            (0, offset) for offset in range(4, 10)
        ]


def test_positions_are_committed_on_their_own_and_at_the_end(
    system: System, talk: Talk, topic: str, group: str
) -> None:
    talk.create(topic, 1)
    talk.send(topic, b"a", b"b", b"c")
    mine = TopicPartition(topic, 0)
    with alone(system, group, auto_commit_interval_ms=200) as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 3)) == 3

        def is_committed() -> bool:
            consumer.poll(50)
            found = consumer.committed([mine])[mine]
            return found is not None and found.offset == 3

        wait_for(is_committed)
    with alone(system, group, auto_commit_interval_ms=60_000) as consumer:
        consumer.subscribe([topic])
        talk.send(topic, b"d")
        assert [each.value for each in read(consumer, 1)] == [b"d"]
        before = consumer.committed([mine])[mine]
        assert before is not None
        assert before.offset == 3
    with alone(system, group) as consumer:
        after = consumer.committed([mine])[mine]
        assert after is not None
        assert after.offset == 4


def test_asynchronous_commits_call_back_in_order(system: System, talk: Talk, topic: str, group: str) -> None:
    talk.create(topic, 1)
    mine = TopicPartition(topic, 0)
    seen: list[tuple[int, Exception | None]] = []
    with alone(system, group) as earlier:
        earlier.committed([mine])  # a broker that has just begun has no coordinator yet, which fails commits
    with alone(system, group, enable_auto_commit="false") as consumer:
        consumer.assign([mine])
        for offset in range(1, 6):
            consumer.commit_async(
                {mine: offset}, lambda offsets, error: seen.append((offsets[mine].offset, error))
            )
        consumer.commit_sync({mine: 6})
        # Those that were called before have ended before.
        assert seen == [(offset, None) for offset in range(1, 6)]
        assert consumer.committed([mine]) == {mine: OffsetAndMetadata(6)}
        metrics = {name.name: metric.value for name, metric in consumer.metrics().items()}
        assert metrics["commit-total"] == 6
        assert metrics["commit-latency-max"] >= 0


def test_kafkas_tool_shows_what_was_committed(
    system: System, talk: Talk, topic: str, group: str, java_tool: JavaTool, join: Join
) -> None:
    talk.create(topic, 2)
    talk.send(topic, *[b"x"] * 5)
    member = join(client_id="my-client", auto_commit_interval_ms=100)
    wait_for(lambda: len(member.values) == 5)

    def row() -> list[str]:
        done = java_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server",
            system.bootstrap,
            "--describe",
            "--group",
            group,
        )
        assert done.returncode == 0, done
        rows = [line.split() for line in done.stdout.splitlines()]
        return next((each for each in rows if each[1:3] == [topic, "0"]), [])

    wait_for(lambda: row()[3:6] == ["5", "5", "0"])
    assert row()[6].startswith("my-client-")
    assert row()[8] == "my-client"
