"""Fetch as clients of before 0.11 (v0-3), and of before zstd (to v9), send it: pkafka answers as Apache Kafka 3.9.1.

Both serve the same logs, written by hand: formats that follow each other in one file, every codec, markers and
transactions. Three things that Kafka does are not asked of pkafka. It fills an answer up to the size of the range in
the log, with the beginning of a message that does not fit: whole messages are compared. It repeats the first data
batch behind a marker with which the range begins. And of the batches before one of zstd it sends, where these are few,
the first alone.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.control import build_end_marker
from pkafka.records.legacy import build_message_set
from pkafka.records.reading import Record, read_records
from pkafka.testing import running_broker
from tests.interop import kafka as oracle
from tests.interop.conftest import System
from tests.raw_client import RawClient, fetch_from, fetch_request, fetched
from tests.talk import talking

pytestmark = [pytest.mark.interop, pytest.mark.nightly, pytest.mark.timeout(300)]

NOON: Final = 1_700_000_000_000
SETTINGS: Final = {"broker.id": 0, "log.retention.ms": -1, "offsets.topic.replication.factor": 1}
OLD: Final = (0, 1, 2, 3)
BEFORE_ZSTD: Final = (4, 6, 9)


def modern(base: int, count: int, codec: Codec = Codec.NONE, **options: Any) -> bytes:
    rows = [(NOON + base + n, b"k", b"%d" % (base + n), [("h", b"x")]) for n in range(count)]
    return bytes(build_batch(rows, base_offset=base, codec=codec, leader_epoch=0, **options))


def tiny(base: int, count: int) -> bytes:
    """Records that need more room in the old formats."""
    return bytes(build_batch([(NOON, None, b"x", ())] * count, base_offset=base, leader_epoch=0))


def old(magic: int, base: int, count: int, codec: Codec = Codec.NONE) -> bytes:
    rows = [(base + n, NOON + base + n, b"k", b"%d" % (base + n)) for n in range(count)]
    return build_message_set(rows, magic=magic, codec=codec)


def transactional(base: int, count: int, sequence: int = 0) -> bytes:
    return modern(base, count, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)


def marker(base: int, *, committed: bool = True) -> bytes:
    return bytes(
        build_end_marker(
            committed=committed,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOON,
            base_offset=base,
            leader_epoch=0,
        )
    )


class Made(NamedTuple):
    """A topic of one partition: its settings and its log."""

    log: bytes
    end: int
    configs: Mapping[str, str] = {}


OFF: Final = {"message_downconversion_enable": "false"}
LOGS: Final = {
    "plain": Made(modern(0, 3) + modern(3, 4) + modern(7, 1), 8),
    "codecs": Made(
        modern(0, 3, Codec.GZIP) + modern(3, 4, Codec.LZ4) + modern(7, 2, Codec.SNAPPY) + modern(9, 1), 10
    ),
    "v0-then-v2": Made(old(0, 0, 2) + modern(2, 3), 5),
    "v1-then-v2": Made(old(1, 0, 2) + modern(2, 3), 5),
    "v0-v1-v2": Made(old(0, 0, 2) + old(1, 2, 2) + modern(4, 3) + modern(7, 2, Codec.GZIP), 9),
    "v2-v1-v2": Made(modern(0, 3) + old(1, 3, 2) + modern(5, 3), 8),
    "v0": Made(old(0, 0, 2) + old(0, 2, 3, Codec.GZIP), 5),
    "v1": Made(old(1, 0, 2) + old(1, 2, 3, Codec.GZIP), 5),
    "log-append-time": Made(modern(0, 3, timestamp_type=1) + modern(3, 1), 4),
    "grows": Made(b"".join(tiny(50 * number, 50) for number in range(4)), 200),
    "transactions": Made(
        transactional(0, 2) + marker(2) + transactional(3, 2, 2) + marker(5, committed=False) + modern(6, 2),
        8,
    ),
    "marker-last": Made(transactional(0, 2) + marker(2), 3),
    "marker-then-zstd": Made(transactional(0, 2) + marker(2) + modern(3, 2, Codec.ZSTD), 5),
    "zstd-first": Made(modern(0, 3, Codec.ZSTD) + modern(3, 3), 6),
    "zstd-between": Made(modern(0, 3) + modern(3, 2) + modern(5, 3, Codec.ZSTD) + modern(8, 2), 10),
    "zstd-last": Made(modern(0, 3) + modern(3, 2) + modern(5, 3, Codec.ZSTD), 8),
    "zstd-topic": Made(modern(0, 3) + modern(3, 2), 5, {"compression_type": "zstd"}),
    "off": Made(modern(0, 3) + modern(3, 2), 5, OFF),
    "off-and-old": Made(old(0, 0, 2) + old(0, 2, 1), 3, OFF),
    "empty": Made(b"", 0),
}


def make(broker: Any) -> None:
    """Create the topics, and start the broker once more with logs that it did not write."""
    with talking(broker.bootstrap) as talk:
        for name, made in LOGS.items():
            talk.create(name, 1, **made.configs)
    broker.stop()
    for name, made in LOGS.items():
        directory = broker.log_dir / f"{name}-0"
        for path in directory.glob("0*"):
            path.unlink()
        (directory / f"{0:020}.log").write_bytes(made.log)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (broker.log_dir / name).unlink(missing_ok=True)
    broker.start()


@pytest.fixture(scope="module")
def both(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, System]]:
    assert kafka_classpath
    ours: Path = tmp_path_factory.mktemp("pkafka")
    theirs = tmp_path_factory.mktemp("kafka")
    with (
        running_broker(ours, SETTINGS) as pkafka,
        oracle.running_kafka(theirs, overrides=SETTINGS) as kafka,
    ):
        for broker in (kafka, pkafka):
            make(broker)
        yield kafka, pkafka


class Answer(NamedTuple):
    """What is answered for one partition, and the whole messages that it has."""

    fields: tuple[object, ...]
    messages: list[bytes]
    rest: bytes | None
    """What is there where no message is whole; None for null records and behind messages."""

    @property
    def records(self) -> list[Record]:
        return list(read_records(b"".join(self.messages)))


def answer_of(part: Any) -> Answer:
    fields = (
        part.error_code,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        part.aborted_transactions,
    )
    if part.records is None:
        return Answer((*fields, None), [], None)
    data = bytes(part.records)
    messages: list[bytes] = []
    while len(data) >= 12:
        offset, size = struct.unpack_from(">qi", data)
        if offset < 0 or 12 + size > len(data):
            break
        messages.append(data[: 12 + size])
        data = data[12 + size :]
    return Answer((*fields, "records"), messages, None if messages else data)


def asked(system: System, name: str, offset: int, version: int, **options: Any) -> Answer:
    with RawClient(system.bootstrap) as client:
        return answer_of(fetch_from(client, name, offset, version=version, max_wait_ms=0, **options))


def without_repetition(records: list[Record]) -> list[Record]:
    seen: dict[int, Record] = {}
    for record in records:
        assert seen.setdefault(record.offset, record) == record
    return list(seen.values())


def check(name: str, theirs: Answer, ours: Answer) -> None:
    assert ours.fields == theirs.fields
    assert ours.rest == theirs.rest
    expected = without_repetition(theirs.records)
    if "zstd" in name:
        assert ours.records[: len(expected)] == expected
        assert bool(ours.records) == bool(expected)
    else:
        assert ours.records == expected
    assert plain(theirs.messages) <= plain(ours.messages)


def plain(messages: list[bytes]) -> set[bytes]:
    """Those without compression, which have one form only."""
    return {each for each in messages if not each[22 if each[16] == 2 else 17] & 7}


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("name", LOGS)
def test_old_consumers_get_what_kafka_gives_them(
    both: tuple[System, System], name: str, version: int
) -> None:
    end = min(LOGS[name].end, 10)
    for offset in range(end + 2):
        for bytes_max in (1_000_000, 0, 16, 100, 150, 180):
            answers = [asked(system, name, offset, version, partition_max_bytes=bytes_max) for system in both]
            check(name, *answers)


@pytest.mark.parametrize("version", BEFORE_ZSTD)
@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("name", LOGS)
def test_consumers_of_before_zstd_get_the_same_bytes(
    both: tuple[System, System], name: str, version: int, isolation: int
) -> None:
    for offset in (0, 2, LOGS[name].end, LOGS[name].end + 1):
        theirs, ours = (asked(system, name, offset, version, isolation_level=isolation) for system in both)
        assert ours == theirs


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("name", [name for name in LOGS if not LOGS[name].configs])
def test_an_old_consumer_reads_a_whole_log(both: tuple[System, System], name: str, version: int) -> None:
    """Fetch by fetch, until it has all or hears why it gets no more."""
    outcomes = []
    for system in both:
        position, seen = 0, dict[int, bytes | None]()
        code: object = 0
        while position < LOGS[name].end and not code:
            answer = asked(system, name, position, version, partition_max_bytes=500)
            code = answer.fields[0]
            found = {each.offset: each.value for each in answer.records if each.offset >= position}
            if not found and not code:
                break
            seen |= found
            position = max(found, default=position) + 1
        outcomes.append((seen, code))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] or name in ("empty", "zstd-first")


@pytest.mark.parametrize("version", OLD)
def test_partitions_of_one_answer_are_converted_each_for_itself(
    both: tuple[System, System], version: int
) -> None:
    wanted = {
        ("v0-v1-v2", 0): 1,
        ("off", 0): 0,
        ("zstd-first", 0): 0,
        ("transactions", 0): 2,
        ("grows", 0): 3,
    }
    answers = []
    for system in both:
        with RawClient(system.bootstrap) as client:
            response = client.call(fetch_request(wanted, max_wait_ms=0), version)
        answers.append({key: answer_of(part) for key, part in fetched(response).items()})
    theirs, ours = answers
    assert ours.keys() == theirs.keys() == wanted.keys()
    for (name, _), answer in theirs.items():
        check(str(name), answer, ours[name, 0])
