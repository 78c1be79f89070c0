"""Produce with good and bad record sets: pkafka answers every field and text as Apache Kafka 3.9.1, and stores the
same.

Where Kafka answers UNKNOWN_SERVER_ERROR to damaged bytes, pkafka says what is wrong: that is another test's
(test_records_java).
"""

import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.records.batch import write_crc
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.legacy import build_message_set
from pkafka.records.reading import read_batches
from tests.differences import first_difference
from tests.interop.conftest import System
from tests.raw_client import RawClient, fetch_from, produce_request
from tests.talk import talking, wait_for

pytestmark = pytest.mark.interop

NOON: Final = 1_700_000_000_000
VERSIONS: Final = (1, 2, 3, 6, 8, 11)
ROWS: Final = [(NOON, b"k", b"v", ()), (NOON + 1, b"k2", b"v2", ())]
SETTINGS: Final[Mapping[str, str]] = {
    "message_timestamp_before_max_ms": str(2**62),
    "message_timestamp_after_max_ms": str(2**62),
    "retention_ms": "-1",
}
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "pa-plain": SETTINGS,
    "pa-started": SETTINGS,
    "pa-compacted": {**SETTINGS, "cleanup_policy": "compact"},
    "pa-log-append-time": {**SETTINGS, "message_timestamp_type": "LogAppendTime"},
    "pa-both": {**SETTINGS, "message_timestamp_type": "LogAppendTime", "cleanup_policy": "compact"},
    "pa-gzip": {**SETTINGS, "compression_type": "gzip"},
    "pa-small": {**SETTINGS, "max_message_bytes": "200"},
    "pa-times": {
        "message_timestamp_before_max_ms": "1000",
        "message_timestamp_after_max_ms": "1000",
        "cleanup_policy": "compact",
    },
}


def made(rows: Any = ROWS, patch: Mapping[int, bytes] | None = None, **options: Any) -> bytes:
    """A batch, some bytes of it replaced and the checksum put right."""
    batch = bytearray(build_batch(rows, **options))
    for position, data in (patch or {}).items():
        batch[position : position + len(data)] = data
        write_crc(batch, 0, len(batch))
    return bytes(batch)


def i32(number: int) -> bytes:
    return struct.pack(">i", number)


def old(rows: Any, magic: int, codec: Codec = Codec.NONE) -> bytes:
    return build_message_set([(n, *row[:3]) for n, row in enumerate(rows)], magic=magic, codec=codec)


WITHOUT_KEYS: Final = [(NOON, None, b"v", ()), (NOON, b"k", b"v", ()), *[(NOON, None, b"v", ())] * 4]
SETS: Final = {
    "good": made(),
    "empty": b"",
    "garbage": b"x" * 100,
    "short": b"abc",
    "cut": made()[:-1],
    "tail": made() + b"tail",
    "long tail": made() + b"tail" * 9,
    "two": made() * 2,
    "checksum": made()[:-1] + b"\x7f",
    "base offset": made(base_offset=5),
    "magic 3": made(patch={16: b"\3"}),
    "magic -1": made(patch={16: b"\xff"}),
    "length -5": made(patch={8: i32(-5)}),
    "length 13": made(patch={8: i32(13)}),
    "no count": made(patch={57: i32(0)}),
    "count": made(patch={57: i32(3)}),
    "last offset": made(patch={23: i32(-1)}),
    "records missing": made(patch={23: i32(5), 57: i32(6)}),
    "marker": bytes(
        build_end_marker(
            committed=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOON
        )
    ),
    "transaction": made(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0),
    "no sequence": made(patch={43: struct.pack(">q", 5)}),
    "idempotent": made(producer_id=99_999, producer_epoch=0, base_sequence=0),
    "idempotent, not next": made(producer_id=99_999, producer_epoch=0, base_sequence=7),
    "idempotent, next epoch": made(producer_id=99_999, producer_epoch=1, base_sequence=7),
    "unknown attributes": made(patch={21: b"\1\x80"}),
    "log append time": made([(NOON, None, None, ()), (NOON, b"k", b"v", [("h", b"1")])], timestamp_type=1),
    "log append time, packed": made(
        [(NOON, None, None, ()), (NOON, b"k", b"v", ())], timestamp_type=1, codec=Codec.SNAPPY
    ),
    "no keys": made(WITHOUT_KEYS),
    "no keys, packed": made(WITHOUT_KEYS, codec=Codec.SNAPPY),
    "no time": made([(-1, b"k", b"v", ())]),
    "before all time": made([(-5, b"k", b"v", ()), (-7, b"k", b"v", ())]),
    "before and after": made([(-5, b"k", b"v", ()), (NOON, b"k", b"v", ())]),
    "wrong maximum": made(patch={35: struct.pack(">q", NOON + 77)}),
    "large": made([(NOON, b"k", b"v" * 300, ())]),
    "zstd": made(codec=Codec.ZSTD),
    "v0": old(ROWS, 0),
    "v1": old(ROWS, 1),
    "v1 packed": old(ROWS, 1, Codec.GZIP),
    "v1 packed twice": old(ROWS, 1, Codec.GZIP) * 2,
    "v1 without keys": old(WITHOUT_KEYS, 1),
    "v0 and v1": old(ROWS, 0) + old(ROWS, 1),
}
LAXER: Final = ("before all time", "before and after")
"""Where Kafka has to write these anew, it fails."""
NAME_OF_TOPIC: Final = re.compile(r"\d{13}")


@pytest.fixture(scope="module")
def both(kafka: System | None, pkafka: System | None) -> Iterator[tuple[System, System]]:
    if kafka is None or pkafka is None:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one system out")
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk, RawClient(system.bootstrap) as client:
            for name, configs in TOPICS.items():
                talk.create(name, 1, **configs)
            talk.produce("pa-started", made())
            wanted = DeleteRecordsPartition(partition_index=0, offset=2)
            topics = [DeleteRecordsTopic(name="pa-started", partitions=[wanted])]
            client.call(DeleteRecordsRequest(topics=topics, timeout_ms=5_000), 1)
            # Whoever asks for a coordinator has the topic of offsets made.
            find = FindCoordinatorRequest(key="pa")
            wait_for(lambda: not client.call(find, 1).error_code, what="a coordinator")  # noqa: B023
    yield kafka, pkafka
    for system in (kafka, pkafka):
        with talking(system.bootstrap) as talk:
            for name in TOPICS:
                talk.delete(name)


def answer(system: System, topic: str, data: bytes, version: int, **options: Any) -> tuple[object, ...]:
    with RawClient(system.bootstrap) as client:
        response = client.call(produce_request({(topic, 0): data}, **options), version)
    part = response.responses[0].partition_responses[0]
    return (
        part.error_code,
        part.base_offset,
        "now" if part.log_append_time_ms > NOON + 10 else part.log_append_time_ms,
        part.log_start_offset,
        [(one.batch_index, unmoving(one.batch_index_error_message)) for one in part.record_errors],
        unmoving(part.error_message),
    )


def unmoving(text: str | None) -> str | None:
    """Without the moments of now, which bound what a topic takes."""
    return text and NAME_OF_TOPIC.sub("*", text)


@pytest.mark.parametrize("topic", TOPICS)
def test_every_record_set_is_answered_as_by_kafka(both: tuple[System, System], topic: str) -> None:
    for name, data in SETS.items():
        if topic == "pa-gzip" and name in LAXER:
            continue
        for version in VERSIONS:
            theirs, ours = (answer(system, topic, data, version) for system in both)
            assert ours == theirs, (name, version)
    if "LogAppendTime" not in TOPICS[topic].values():
        theirs_stored, ours_stored = (stored(system, topic) for system in both)
        assert not first_difference(ours_stored, theirs_stored)


def stored(system: System, topic: str) -> list[tuple[Any, ...]]:
    """What the log has: headers, but for what depends on how well a codec packs, and records."""
    with RawClient(system.bootstrap) as client:
        part = fetch_from(client, topic, 2 if topic == "pa-started" else 0, partition_max_bytes=10**7)
    return [
        (*header._replace(batch_length=0, crc=0), records)
        for header, records in read_batches(bytes(part.records or b""))
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_wrong_requests_are_answered_as_by_kafka(both: tuple[System, System], version: int) -> None:
    for topic, acks in (
        ("pa-started", 2),
        ("pa-started", -2),
        ("no-such-topic", 1),
        ("__consumer_offsets", 1),
    ):
        theirs, ours = (answer(system, topic, made(), version, acks=acks) for system in both)
        assert ours == theirs, (topic, acks)
