"""What a crash, a bad disk or a person leaves in a data directory: a start repairs it, and serves no damage as good."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.wire import EARLIEST, Wire, eventually, produce_when_possible, read_all, values_of

BATCHES = 30
DERIVED = (".index", ".timeindex", ".snapshot")
"""What can be made again from the log."""
SEED = 7


def values(batch: int) -> list[bytes]:
    return [b"%d-%d-" % (batch, number) + b"x" * 50 for number in range(3)]


def write(broker: Broker, topic: str, *, segment_bytes: int = 1 << 30) -> list[bytes]:
    with Wire(broker.bootstrap) as wire:
        configs = {"segment.bytes": str(segment_bytes), "index.interval.bytes": "500"}
        assert wire.create_topic(topic, 1, configs=configs) == ErrorCode.NONE
        wire_values = []
        eventually(lambda: wire.offset(topic, 0)[0] == ErrorCode.NONE)
        for batch in range(BATCHES):
            assert wire.produce(topic, 0, values(batch)) == (ErrorCode.NONE, 3 * batch)
            wire_values += values(batch)
    return wire_values


def directory(broker: Broker, topic: str) -> Path:
    return broker.log_dir / f"{topic}-0"


def active_segment(broker: Broker, topic: str) -> Path:
    return max(directory(broker, topic).glob("*.log"))


def test_a_torn_tail_is_cut_and_produces_go_on(broker: Broker) -> None:
    choice = random.Random(SEED)
    written = {topic: write(broker, topic) for topic in ("a", "b", "c", "d", "e")}
    broker.kill()
    for topic in written:
        segment = active_segment(broker, topic)
        size = segment.stat().st_size
        with segment.open("r+b") as file:
            file.truncate(size - choice.randrange(1, size // 2))
    broker.start()
    for topic, all_values in written.items():
        found = values_of(read_all(broker.bootstrap, topic, 0))
        assert len(found) % 3 == 0
        assert found == all_values[: len(found)]
        assert len(found) >= len(all_values) // 2 - 3
        assert produce_when_possible(broker.bootstrap, topic, 0, [b"on"]) == len(found)
        assert values_of(read_all(broker.bootstrap, topic, 0)) == [*found, b"on"]


def test_what_a_killed_broker_had_preallocated_is_cut(make_broker: MakeBroker) -> None:
    broker = make_broker(**{"log.preallocate": "true"})
    broker.start()
    written = write(broker, "t", segment_bytes=2000)
    assert active_segment(broker, "t").stat().st_size == 2000
    broker.kill()
    broker.start()
    assert values_of(read_all(broker.bootstrap, "t", 0)) == written
    assert active_segment(broker, "t").stat().st_size < 2000
    produce_when_possible(broker.bootstrap, "t", 0, [b"on", *[b"x" * 400] * 4])
    produce_when_possible(broker.bootstrap, "t", 0, [b"x" * 400] * 4)
    assert active_segment(broker, "t").stat().st_size == 2000
    assert broker.stop() == 0
    assert active_segment(broker, "t").stat().st_size < 2000
    broker.start()
    assert values_of(read_all(broker.bootstrap, "t", 0))[: len(written) + 1] == [*written, b"on"]


def test_a_tail_of_zeros_or_of_garbage_is_cut(broker: Broker) -> None:
    tails = {"zeros": bytes(5000), "garbage": random.Random(SEED).randbytes(5000)}
    written = {topic: write(broker, topic) for topic in tails}
    broker.kill()
    for topic, tail in tails.items():
        with active_segment(broker, topic).open("ab") as file:
            file.write(tail)
    broker.start()
    for topic in tails:
        produce_when_possible(broker.bootstrap, topic, 0, [b"on"])
        assert values_of(read_all(broker.bootstrap, topic, 0)) == [*written[topic], b"on"]


def test_a_flipped_bit_behind_the_recovery_point_is_cut(broker: Broker) -> None:
    written = write(broker, "t")
    broker.kill()
    segment = active_segment(broker, "t")
    data = bytearray(segment.read_bytes())
    data[data.index(b"15-1-")] ^= 4
    segment.write_bytes(data)
    broker.start()
    produce_when_possible(broker.bootstrap, "t", 0, [b"on"])
    assert values_of(read_all(broker.bootstrap, "t", 0)) == [*written[: 3 * 15], b"on"]


HARMS: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _data: None,
    "empty": lambda _data: b"",
    "zeros": lambda data: bytes(len(data)),
    "odd": lambda data: data + b"\1\2\3",
    "garbage": lambda data: random.Random(SEED).randbytes(max(len(data), 24)),
}


def test_an_index_that_is_made_again_has_the_entries_that_it_had(broker: Broker) -> None:
    """They are as far apart as the topic wants, which is known only when the store is."""
    write(broker, "t")
    index, times = (active_segment(broker, "t").with_suffix(suffix) for suffix in (".index", ".timeindex"))
    before = [path.read_bytes().rstrip(b"\0") for path in (index, times)]
    assert len(before[0]) > 8 * BATCHES // 5
    broker.kill()
    index.unlink()
    broker.start()
    after = [path.read_bytes().rstrip(b"\0") for path in (index, times)]
    assert after[0] == before[0]
    assert after[1][: len(before[1])] == before[1]
    assert len(after[1]) <= len(before[1]) + 12  # the last entry is written when a segment is closed


@pytest.mark.parametrize("stop", ["clean", "kill -9"])
def test_indexes_and_snapshots_are_made_again(broker: Broker, stop: str) -> None:
    written = {topic: write(broker, topic, segment_bytes=2000) for topic in HARMS}
    if stop == "clean":
        broker.stop()
    else:
        broker.kill()
    for topic, harm in HARMS.items():
        paths = [path for path in directory(broker, topic).iterdir() if path.suffix in DERIVED]
        assert len(paths) > 4
        for path in paths:
            data = harm(path.read_bytes())
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)
    broker.start()
    for topic, expected in written.items():
        produce_when_possible(broker.bootstrap, topic, 0, [b"on"])
        assert values_of(read_all(broker.bootstrap, topic, 0)) == [*expected, b"on"]
        check_lookups(broker, topic, expected)


def check_lookups(broker: Broker, topic: str, written: list[bytes]) -> None:
    """Offsets and timestamps lead where they did before."""
    with Wire(broker.bootstrap) as wire:
        for offset in range(0, len(written), 7):
            error, records = wire.fetch(topic, 0, offset)
            assert (error, records[0].offset, records[0].value) == (ErrorCode.NONE, offset, written[offset])
            error, found = wire.offset(topic, 0, records[0].timestamp)
            assert error == ErrorCode.NONE
            assert found <= offset
            same = wire.fetch(topic, 0, found)[1][0]
            assert same.timestamp == records[0].timestamp
        assert wire.offset(topic, 0, records[0].timestamp + 100_000_000) == (ErrorCode.NONE, -1)


@pytest.mark.parametrize("stop", ["clean", "kill -9"])
@pytest.mark.parametrize("content", ["", "garbage\n\0", "9\n0\n", "0\n1\nt 0\n", "0\n5\nt 0 1\n"])
def test_checkpoints_that_cannot_be_read_cost_no_record(broker: Broker, stop: str, content: str) -> None:
    written = write(broker, "t", segment_bytes=2000)
    if stop == "clean":
        broker.stop()
    else:
        broker.kill()
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        (broker.log_dir / f"{name}-offset-checkpoint").write_text(content)
    (directory(broker, "t") / "leader-epoch-checkpoint").write_text(content)
    broker.start()
    produce_when_possible(broker.bootstrap, "t", 0, [b"on"])
    assert values_of(read_all(broker.bootstrap, "t", 0)) == [*written, b"on"]


def test_leftovers_are_cleared_and_what_is_foreign_is_left_alone(broker: Broker) -> None:
    written = write(broker, "t", segment_bytes=2000)
    broker.stop()
    home = directory(broker, "t")
    first, last = min(home.glob("*.log")), max(home.glob("*.log"))
    leftovers = [
        home / f"{last.stem}.log.cleaned",
        home / f"{first.stem}.index.deleted",
        home / f"{999:020}.log.deleted",
        home / f"{999:020}.index",
    ]
    for path in leftovers:
        path.write_bytes(first.read_bytes())
    # A compaction that had ended but for the last rename: its result takes the segment's place.
    swap = home / f"{first.stem}.log.swap"
    first.rename(swap)
    gone = broker.log_dir / "old-0.0123456789abcdef0123456789abcdef-delete"
    shutil.copytree(home, gone)
    foreign = [broker.log_dir / name for name in ("lost+found", "not a topic", "t-x", "t-")]
    for path in foreign:
        path.mkdir()
    (broker.log_dir / "notes.txt").write_text("mine")
    broker.start()
    produce_when_possible(broker.bootstrap, "t", 0, [b"on"])
    assert values_of(read_all(broker.bootstrap, "t", 0)) == [*written, b"on"]
    assert [path for path in leftovers if path.exists()] == []
    assert first.exists()
    assert not swap.exists()
    eventually(lambda: not gone.exists())
    assert all(path.exists() for path in foreign)
    assert (broker.log_dir / "notes.txt").read_text() == "mine"
    with Wire(broker.bootstrap) as wire:
        assert wire.offset("old", 0)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_does_not_come_back_from_a_directory_that_stayed(broker: Broker) -> None:
    written = write(broker, "t")
    broker.stop()
    # As if the deletion of an older topic of this name had not reached this disk.
    meta = directory(broker, "t") / "partition.metadata"
    lines = meta.read_text().splitlines()
    assert lines[1].startswith("topic_id: ")
    meta.write_text(f"{lines[0]}\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    broker.start()
    assert produce_when_possible(broker.bootstrap, "t", 0, [b"new"]) == 0
    assert values_of(read_all(broker.bootstrap, "t", 0)) == [b"new"]
    (stray,) = broker.log_dir.glob("t-0.*-stray")
    assert (stray / f"{0:020}.log").stat().st_size > len(written)


def test_the_log_start_of_deleted_records_survives_stops(broker: Broker) -> None:
    from pkafka.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

    write(broker, "t")
    with Wire(broker.bootstrap) as wire:
        part = DeleteRecordsPartition(partition_index=0, offset=10)
        topics = [DeleteRecordsTopic(name="t", partitions=[part])]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=10_000)
        answer = wire.call(request, 2).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 10)
    broker.restart()
    with Wire(broker.bootstrap) as wire:
        eventually(lambda: wire.offset("t", 0, EARLIEST) == (ErrorCode.NONE, 10))
        assert wire.fetch("t", 0, 3)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    broker.kill()
    broker.start()
    with Wire(broker.bootstrap) as wire:
        eventually(lambda: wire.offset("t", 0, EARLIEST) == (ErrorCode.NONE, 10))
