"""The lag of groups from logs alone, on Apache Kafka's files and on pkafka's: it is what the brokers say."""

import pytest

from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.pipeline.reports import report
from tests.interop.conftest import System
from tests.spark import Sessions
from tests.talk import good, talking

pytestmark = [pytest.mark.timeout(900), pytest.mark.nightly]


def commit_in_transactions(bootstrap: str, topic: str, group: str) -> None:
    """One that is committed, and a later one that is aborted."""
    partition = TopicPartition(topic, 0)
    keys = {"bootstrap.servers": bootstrap, "transactional.id": group}
    with Producer(keys) as producer:
        producer.init_transactions()
        for offset, is_committed in ((2, True), (3, False)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction({partition: offset}, group)
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def test_logs_say_what_brokers_say(system: System, topic: str, spark_sessions: Sessions) -> None:
    groups = {f"{topic}-{number}": number for number in range(3)}
    partitions = [TopicPartition(topic, number) for number in range(3)]
    with talking(system.bootstrap) as talk:
        talk.create(topic, 3)
        for partition in partitions[:2]:
            talk.send(topic, *(b"%d" % number for number in range(5)), partition=partition.partition)
        for group, number in groups.items():
            for at in (4, number):
                offsets = {each: at if each.partition < 2 else 0 for each in partitions}
                assert set(talk.admin.alter_group_offsets(group, offsets).values()) == {None}
        good(talk.admin.delete_group_offsets(f"{topic}-1", partitions[1:2])[partitions[1]])
        expected = []
        commit_in_transactions(system.bootstrap, topic, f"{topic}-eos")
        groups[f"{topic}-eos"] = 2
        for group in sorted(groups):
            for partition, outcome in good(talk.admin.list_group_offsets({group: None})[group]).items():
                committed = good(outcome)
                if committed is not None:
                    end = talk.ends(topic, partition.partition)[1]
                    row = (group, topic, partition.partition, committed.offset, end, end - committed.offset)
                    expected.append(row)
    table = report(spark_sessions.get(), "lag", [str(system.log_dir)], {})
    names = ("group", "topic", "partition", "current_offset", "log_end_offset", "lag")
    found = [tuple(row[name] for name in names) for row in table.collect() if row["topic"] == topic]
    assert found == sorted(expected)
    assert len(found) == 8 + (len(groups) - 3)
