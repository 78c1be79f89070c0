"""MirrorMaker 2 in a cluster of workers: exactly once through kills, with whole batches in transactions."""

import random
from functools import partial
from pathlib import Path

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.connect.mirror.records import OffsetSync
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.connect_fixtures import source_broker
from tests.connect_workers import distributed
from tests.mirrors import SYNCS, WORKER, connector
from tests.raw_client import new_topic_name
from tests.talk import talking, wait_for

__all__ = ["source_broker"]


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {
        "broker.id": 0,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """What readers of committed records see."""
    partition = TopicPartition(topic, 0)
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found: list[bytes] = []
        while consumer.position(partition) < end:
            found += [each.value for each in consumer.poll(1_000)]
        return found


def test_each_record_is_copied_once_through_kills(source: Broker, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic_name()
    settings = {**WORKER, "exactly.once.source.support": "enabled"}
    rng = random.Random(3)
    wanted: list[bytes] = []
    with (
        talking(source.bootstrap) as a,
        Producer({"bootstrap.servers": source.bootstrap}) as producer,
        distributed(tmp_path, broker.bootstrap, topic, 1, settings) as (worker,),
    ):
        a.create(topic)
        more = {"topics": topic, "exactly.once.support": "required"}
        more |= {"source.consumer.isolation.level": "read_committed"}
        worker.create(connector("Source", source.bootstrap, broker.bootstrap, more))
        for _ in range(2):
            for _ in range(100):
                values = [b"%d" % (len(wanted) + each) for each in range(rng.choice([1, 10, 200]))]
                wanted += values
                producer.send_batch(topic, values, partition=0)
                producer.flush()
            wait_for(partial(_has, broker, f"A.{topic}", len(wanted) // 2))
            worker.kill()
            worker.start()
        wait_for(lambda: committed(broker.bootstrap, f"A.{topic}") == wanted)
        # Each sync says the truth, those of transactions that were aborted too: there are none.
        with talking(broker.bootstrap) as b:
            here = {each.offset: each.value for each in b.read(f"A.{topic}")}
        there = a.read(topic)
        for sync in (OffsetSync.of(each.key, each.value) for each in a.read(SYNCS)):
            if sync.partition.topic == topic:
                assert there[sync.upstream].value == here[sync.downstream]


def _has(broker: Broker, topic: str, count: int) -> bool:
    with talking(broker.bootstrap) as talk:
        return talk.ends(topic)[1] > count
