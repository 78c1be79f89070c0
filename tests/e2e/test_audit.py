"""The audit's interceptor on real clients: what a copier loses and repeats is in the counts and in the headers."""

import uuid
from pathlib import Path

import pytest

from pkafka.clients.audit import AuditInterceptor, audit_id, compare, read_counts
from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.talk import talking

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DAY_MS = 86_400_000
NAMED = "pkafka.clients.audit.AuditInterceptor"


def read(keys: dict[str, object], topic: str, count: int) -> list[ConsumerRecord]:
    with Consumer({**keys, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[ConsumerRecord] = []
        while len(found) < count:
            found += consumer.poll(500)
    return found


def test_tiers_are_compared_by_counts_and_by_ids(pkafka_broker: Broker, tmp_path: Path) -> None:
    def keys(tier: str) -> dict[str, object]:
        return {
            "bootstrap.servers": pkafka_broker.bootstrap,
            "interceptor.classes": NAMED,
            "audit.tier": tier,
            "audit.bucket.ms": 365 * DAY_MS,
            "audit.counts.file": tmp_path / f"{tier}.jsonl",
        }

    first, copy = (f"audit-{uuid.uuid4().hex[:8]}" for _ in range(2))
    with talking(pkafka_broker.bootstrap) as talk:
        talk.create(first)
        talk.create(copy)
    with Producer(keys("shop")) as producer:
        for number in range(10):
            producer.send(first, b"%d" % number)
    with Producer(keys("copier")) as producer:
        for record in read(keys("reader"), first, 10):
            if record.value == b"3":
                continue  # lost
            for _ in range(2 if record.value in (b"5", b"6", b"7") else 1):
                producer.send(copy, record.value, headers=record.headers)
    last = read(keys("sink"), copy, 12)
    counts = [each for path in tmp_path.iterdir() for each in read_counts(path)]
    found = compare(counts, ["shop", "reader", "copier", "sink"])
    assert [(each.tier, each.records, each.missing) for each in found] == [
        ("shop", 10, 0),
        ("reader", 10, 0),
        ("copier", 12, -2),
        ("sink", 12, -2),
    ]
    assert found[1].delay_max_ms <= found[3].delay_max_ms
    sent = {audit_id(each): each.value for each in read(keys("again"), first, 10)}
    assert len(sent) == 10
    arrived = [audit_id(each) for each in last]
    assert [sent[each] for each in sent if each not in arrived] == [b"3"]
    assert len(arrived) - len(set(arrived)) == 3


def test_what_is_not_acknowledged_is_counted(pkafka_broker: Broker) -> None:
    interceptor = AuditInterceptor()
    with talking(pkafka_broker.bootstrap) as talk:
        topic = f"audit-{uuid.uuid4().hex[:8]}"
        talk.create(topic, max_message_bytes=100)
    keys = {
        "bootstrap.servers": pkafka_broker.bootstrap,
        "interceptor.classes": [interceptor],
        "audit.bucket.ms": 365 * DAY_MS,
    }
    with Producer(keys) as producer:
        assert producer.send(topic, bytes(1_000)).exception() is not None
    (count,) = interceptor.counts()
    assert (count.records, count.failed) == (1, 1)
