"""A consumer that reads while its broker goes and comes back, and for long."""

import random
import resource
import threading
from pathlib import Path

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from pkafka.testing import running_broker
from tests.talk import Talk

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_a_broker_that_comes_back_is_read_on_where_the_consumer_was(tmp_path: Path, ends: str) -> None:
    with running_broker(tmp_path / "broker", {"pkafka.workers": 2}) as broker:
        talk = Talk(broker.bootstrap)
        talk.create("t", 2)
        chance = random.Random(ends)
        sent = 0
        for partition in range(2):
            for _ in range(60):
                count = chance.randint(1, 30)
                talk.send("t", *(b"%d" % each for each in range(count)), partition=partition)
                sent += count
        partitions = [TopicPartition("t", each) for each in range(2)]
        with Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "max.partition.fetch.bytes": 1_000,
                "max.poll.records": 7,
                "auto.offset.reset": "none",
            }
        ) as consumer:
            consumer.assign(partitions)
            for each in partitions:
                consumer.seek(each, 0)
            offsets: dict[int, list[int]] = {0: [], 1: []}

            def go_and_come_back() -> None:
                getattr(broker, ends)()
                broker.start()

            restart = threading.Thread(target=go_and_come_back)
            while sum(map(len, offsets.values())) < sent:
                for record in consumer.poll(500):
                    offsets[record.partition].append(record.offset)
                if restart.ident is None and sum(map(len, offsets.values())) > sent // 3:
                    restart.start()
            restart.join(60)
        talk.close()
    for found in offsets.values():
        assert found == list(range(len(found)))


def test_reading_for_long_does_not_grow(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as broker:
        talk = Talk(broker.bootstrap)
        talk.create("t", retention_ms=-1)
        data = bytes(build_batch([(1, None, bytes(1_000), ())] * 900))
        for _ in range(50):
            talk.produce("t", data)
        partition = TopicPartition("t", 0)
        with Consumer({"bootstrap.servers": broker.bootstrap}) as consumer:
            consumer.assign([partition])

            def read_through(times: int) -> None:
                for _ in range(times):
                    consumer.seek(partition, 0)
                    while consumer.position(partition) < 45_000:
                        consumer.poll_chunks(1_000)

            read_through(2)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            read_through(8)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16_000  # KB
        talk.close()
