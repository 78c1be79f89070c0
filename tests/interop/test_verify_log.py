"""pk-verify-log on what brokers wrote, Apache Kafka 3.9.1 as well as pkafka: sound while it is, damaged when it was."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pkafka.testing import Broker, running_broker
from tests.interop.conftest import EITHER
from tests.interop.kafka import KafkaBroker, running_kafka
from tests.interop.side_by_side import pk
from tests.talk import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.cleaner.backoff.ms": 200,
    "log.message.timestamp.before.max.ms": 2**62,
    "log.initial.task.delay.ms": 0,
}
TOPICS = {
    "small": {"segment.bytes": "20000", "index.interval.bytes": "300"},
    "codec": {"compression.type": "zstd"},
    "latest": {
        "cleanup.policy": "compact",
        "segment.bytes": "4000",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1000",
    },
}


def fill(bootstrap: str, *, transactions: bool) -> None:
    """Write with and without idempotence, in transactions that end both ways, and offsets of a group."""
    quiet: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(quiet)
    topics = [NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()]
    for made in admin.create_topics(topics).values():
        made.result(30)
    for idempotent in (False, True):
        producer = Producer({**quiet, "enable.idempotence": idempotent, "linger.ms": 5})
        for number in range(1_500):
            for topic in TOPICS:
                producer.produce(topic, b"value %d" % number * 5, b"key %d" % (number % 40))
                producer.poll(0)
            if number % 50 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
    for commits in (True, False, True, False) if transactions else ():
        producer = Producer({**quiet, "transactional.id": f"t-{commits}"})
        producer.init_transactions(30)
        for _ in range(5):
            producer.begin_transaction()
            for number in range(30):
                producer.produce("small", b"in a transaction" * 3, partition=number % 2)
            producer.flush(30)
            (producer.commit_transaction if commits else producer.abort_transaction)(30)
    consumer = Consumer({**quiet, "group.id": "g"})
    for offset in range(1, 20):
        consumer.commit(offsets=[TopicPartition("small", 0, offset)], asynchronous=False)
    consumer.close()


def verdicts(log_dir: Path, *flags: str, code: int = 0) -> dict[str, dict[str, object]]:
    """What pk-verify-log says of each log in a data directory."""
    logs = json.loads(pk("verify_log", "--files", log_dir, "--output", "json", *flags, code=code))["logs"]
    return {Path(log["log"]).name: log for log in logs}


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.nightly), "pkafka"])
def broker(
    request: pytest.FixtureRequest, kafka_classpath: str, tmp_path: Path
) -> Iterator[KafkaBroker | Broker]:
    """Each of the two makes in turn, with a data directory of its own."""
    made: AbstractContextManager[KafkaBroker | Broker] = (
        running_kafka(tmp_path, overrides=SETTINGS)
        if request.param == "kafka"
        else running_broker(tmp_path, SETTINGS)
    )
    with made as running:
        yield running


def damaged(found: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: log["problems"] for name, log in found.items() if log["damage"]}


def test_what_a_broker_wrote_is_sound(broker: KafkaBroker | Broker) -> None:
    fill(broker.bootstrap, transactions=isinstance(broker, KafkaBroker))
    cleaned = broker.log_dir / "cleaner-offset-checkpoint"
    wait_for(lambda: cleaned.exists() and "latest" in cleaned.read_text(), timeout_s=60, what="a compaction")
    broker.stop()
    found = verdicts(broker.log_dir, "--deep-iteration")
    assert damaged(found) == {}
    assert found["latest-0"]["compacted"] or found["latest-1"]["compacted"]
    assert (found["small-0"]["segments"], found["small-0"]["compacted"]) != (1, True)
    # Nor does a dump find any: every file of the directory, every record.
    assert pk("dump_log", "--files", broker.log_dir, "--print-data-log")


@pytest.mark.parametrize("broker", EITHER, indirect=True)
def test_what_a_broker_that_was_killed_has_left_is_sound_too(
    broker: KafkaBroker | Broker,
) -> None:
    fill(broker.bootstrap, transactions=isinstance(broker, KafkaBroker))
    broker.kill()
    assert damaged(verdicts(broker.log_dir)) == {}
