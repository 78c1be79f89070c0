"""The audit's interceptor: ids that stay with messages, times of all who sent them on, and counts that compare."""

from pathlib import Path

import pytest

from pkafka.clients.audit import (
    ID_HEADER,
    TIME_HEADER,
    AuditCount,
    AuditInterceptor,
    Difference,
    audit_id,
    compare,
    read_counts,
)
from pkafka.clients.consumer.records import ConsumerRecord, ConsumerRecords
from pkafka.clients.producer import Producer
from pkafka.clients.producer.record import ProducerRecord
from pkafka.clients.producer.record_metadata import RecordMetadata
from pkafka.clock import ManualClock
from pkafka.errors import ConfigError
from tests.fakes.broker import FakeBroker

T0 = 1_700_000_040_000  # a whole minute


def made(clock: ManualClock, **configs: object) -> AuditInterceptor:
    interceptor = AuditInterceptor(clock)
    interceptor.configure({name.replace("_", "."): value for name, value in configs.items()})
    return interceptor


def consumed(record: ProducerRecord, timestamp: int = T0) -> ConsumerRecord:
    return ConsumerRecord(record.topic, 0, 0, timestamp, 0, None, record.value, tuple(record.headers), 0)


def test_a_message_keeps_its_id_and_gets_the_time_of_everyone_who_sends_it_on() -> None:
    clock = ManualClock(now_ms=T0)
    first, second = made(clock), made(clock)
    given = ProducerRecord("t", b"v", b"k", partition=3, timestamp_ms=5, headers=[("h", b"x")])
    sent = first.on_send(given)
    assert given.headers == [("h", b"x")]  # what the caller has is not changed
    assert (sent.value, sent.key, sent.partition, sent.timestamp_ms) == (b"v", b"k", 3, 5)
    clock.advance(ms=250)
    copied = second.on_send(ProducerRecord("copy", sent.value, headers=sent.headers))
    assert [name for name, _ in copied.headers] == ["h", ID_HEADER, TIME_HEADER, TIME_HEADER]
    assert audit_id(copied) == audit_id(sent)
    times = [value for name, value in copied.headers if name == TIME_HEADER]
    assert times == [b"%d" % T0, b"%d" % (T0 + 250)]


def test_ids_are_unique() -> None:
    several = [AuditInterceptor() for _ in range(3)]
    ids = [audit_id(each.on_send(ProducerRecord("t"))) for each in several for _ in range(1_000)]
    assert len(set(ids)) == 3_000
    assert {len(each or b"") for each in ids} == {16}


def test_counts_are_of_the_time_at_which_messages_were_first_sent() -> None:
    clock = ManualClock(now_ms=T0)
    sender, reader = made(clock, audit_tier="app"), made(clock, client_id="sink")
    records = ConsumerRecords()
    for _ in range(3):
        records.append(consumed(sender.on_send(ProducerRecord("t"))))
        clock.advance(ms=30_000)
    records.append(consumed(ProducerRecord("t"), T0 + 1))  # no interceptor saw it
    sender.on_acknowledgement(RecordMetadata("t", 0, -1, -1, -1, -1), ValueError())
    assert reader.on_consume(records) is records
    assert sender.counts() == [
        AuditCount("app", "t", T0, 2, 0, 0, 0),
        AuditCount("app", "t", T0 + 60_000, 1, 1, 0, 0),
    ]
    assert reader.counts() == [
        AuditCount("sink", "t", T0, 3, 0, 90_000 + 60_000 + 89_999, 90_000),
        AuditCount("sink", "t", T0 + 60_000, 1, 0, 30_000, 30_000),
    ]
    assert compare([*sender.counts(), *reader.counts()], ["app", "sink"]) == [
        Difference("app", T0, 2, 0, 0.0, 0),
        Difference("sink", T0, 3, -1, 239_999 / 3, 90_000),
        Difference("app", T0 + 60_000, 1, 0, 0.0, 0),
        Difference("sink", T0 + 60_000, 1, 0, 30_000.0, 30_000),
    ]


def test_counts_go_into_a_file_whose_lines_add_up(tmp_path: Path) -> None:
    clock = ManualClock(now_ms=T0)
    path = tmp_path / "counts.jsonl"
    sender = made(clock, audit_tier="app", audit_bucket_ms="1000", audit_counts_file=path)
    sender.on_send(ProducerRecord("t"))
    assert not path.exists()
    clock.advance(ms=1_000)
    sender.on_send(ProducerRecord("t"))
    assert len(read_counts(path)) == 2
    sender.on_send(ProducerRecord("t"))
    sender.close()
    rows = compare(read_counts(path), ["app", "none"])
    assert [(each.tier, each.time_ms - T0, each.records, each.missing) for each in rows] == [
        ("app", 0, 1, 0), ("none", 0, 0, 1), ("app", 1_000, 2, 0), ("none", 1_000, 0, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["", "0", "soon"])
def test_a_bucket_is_a_length_of_time(value: str) -> None:
    with pytest.raises(ConfigError, match=r"audit\.bucket\.ms"):
        made(ManualClock(), audit_bucket_ms=value)


def test_a_producer_takes_it_by_name() -> None:
    with FakeBroker({"t": 1}) as broker:
        keys = {
            "bootstrap.servers": broker.bootstrap,
            "interceptor.classes": "pkafka.clients.audit.AuditInterceptor",
            "audit.tier": "app",
        }
        Producer(keys).close(timeout_s=0)
