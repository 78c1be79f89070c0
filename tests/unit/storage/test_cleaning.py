"""Rounds of compaction over real logs: what stays, what goes, and what a reader and a producer notice of it."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.compression import Codec
from pkafka.records.legacy import build_message_set
from pkafka.storage.batch_scan import DamagedBatchError
from pkafka.storage.cleaning import Cleaning, CleaningAbortedError
from pkafka.storage.log import Log
from pkafka.storage.log_cleaning import LogCleaning, cleanable_part_of
from pkafka.storage.offset_map import OffsetMap
from pkafka.storage.segment import RELATIVE_OFFSET_MAX
from tests.unit.storage.cleaned import COMPACT, batches_of, compact, latest, records_of, write
from tests.unit.storage.makers import NOW, FaultyFiles, World, end_transaction, everything, stored

DAY = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return World(tmp_path, COMPACT).create()


def pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def closed(log: Log) -> None:
    """Begin a new segment, so that what was written can be cleaned."""
    log.roll(NOW)


def test_the_last_value_of_each_key_stays_at_its_offset(log: Log) -> None:
    write(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    write(log, (b"b", b"2"), (b"c", b"1"))
    closed(log)
    write(log, (b"a", b"3"))
    compact(log)
    assert pairs(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"a", b"3")]
    assert log.cleaner_checkpoint == 5
    assert log.log_end_offset == 6
    assert log.log_start_offset == 0


def test_a_second_round_takes_what_the_newer_part_replaces(log: Log) -> None:
    write(log, (b"a", b"1"), (b"b", b"1"))
    closed(log)
    compact(log)
    write(log, (b"a", b"2"))
    closed(log)
    compact(log)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_segments_that_shrank_become_one(log: Log) -> None:
    for number in range(100):
        write(log, (b"k", b"%d" % number))
    closed(log)
    count = len(log.segments)
    compact(log)
    compact_again(log)
    assert count > 10
    assert len(log.segments) < 4
    assert pairs(log) == [(99, b"k", b"99")]
    assert log.segments[0].base_offset == 0


def compact_again(log: Log) -> None:
    """Groups are made by the size before a round, so a second one merges what the first made small."""
    write(log, (b"other", b""))
    closed(log)
    compact(log)
    # The record that only made this round is no part of the test.
    log.truncate_to(log.log_end_offset - 1)


def test_nothing_is_replaced_where_nothing_changes(tmp_path: Path) -> None:
    world = World(tmp_path, COMPACT)
    log = world.create()
    for number in range(8):
        write(log, (b"%d" % number, b"." * 600))
    closed(log)
    before = [segment.generation for segment in log.segments]
    compact(log)
    assert [segment.generation for segment in log.segments] == before
    assert not world.deleted
    assert not world.paths(".cleaned")
    assert log.cleaner_checkpoint == 8


def test_a_batch_keeps_its_header_and_its_codec(log: Log) -> None:
    for codec in Codec:
        write(
            log,
            (b"a", b"x" * 100),
            (b"b%d" % codec, b"y" * 50),
            (b"a", b"z"),
            codec=codec,
            timestamp=NOW + codec,
        )
    closed(log)
    before = [header for header, _ in batches_of(log)]
    compact(log)
    after = [(header, records) for header, records in batches_of(log)]
    assert len(after) == len(before) == 5
    for old, (new, records) in zip(before, after, strict=True):
        assert (new.base_offset, new.last_offset, new.codec) == (old.base_offset, old.last_offset, old.codec)
        assert new.partition_leader_epoch == old.partition_leader_epoch
        assert new.records_count == len(records)
        assert new.max_timestamp == records[-1].timestamp == NOW + old.codec
    assert [record.key for record in records_of(log)] == [b"b0", b"b1", b"b2", b"b3", b"b4", b"a"]


def test_the_largest_timestamp_is_that_of_the_records_that_stay(log: Log) -> None:
    write(log, (b"a", b"old"), timestamp=NOW + 1000)
    write(log, (b"b", b""), timestamp=NOW + 10)
    write(log, (b"a", b"new"), timestamp=NOW + 20)
    closed(log)
    compact(log)
    segment = log.segments[0]
    assert segment.max_timestamp == NOW + 20
    assert log.offset_for_timestamp(NOW + 11) == (NOW + 20, 2, 0)
    assert log.offset_for_timestamp(NOW + 21) is None


def test_a_record_without_a_value_stays_for_its_time_and_then_goes(log: Log) -> None:
    write(log, (b"a", b"1"), (b"b", b"1"))
    write(log, (b"a", None))
    closed(log)
    compact(log, now=NOW)
    assert pairs(log) == [(1, b"b", b"1"), (2, b"a", None)]
    marked = [header for header, _ in batches_of(log) if header.has_delete_horizon]
    assert [header.base_timestamp for header in marked] == [NOW + DAY]
    assert [record.timestamp for record in records_of(log)] == [NOW, NOW]
    again(log, NOW + DAY - 1)
    assert (2, b"a", None) in pairs(log)
    marked = [header for header, _ in batches_of(log) if header.has_delete_horizon]
    assert [header.base_timestamp for header in marked] == [NOW + DAY]
    again(log, NOW + DAY)
    assert pairs(log)[0] == (1, b"b", b"1")
    assert (2, b"a", None) not in pairs(log)


def again(log: Log, now: int) -> None:
    """Something new is written, so that there is a reason for a round."""
    write(log, (b"new", b"%d" % now))
    closed(log)
    compact(log, now=now)


def test_a_deleted_key_that_comes_back_is_there(log: Log) -> None:
    write(log, (b"a", b"1"))
    write(log, (b"a", None))
    write(log, (b"a", b"2"))
    closed(log)
    compact(log)
    again(log, NOW + 2 * DAY)
    assert pairs(log)[0] == (2, b"a", b"2")


def test_delete_retention_ms_says_how_long(tmp_path: Path) -> None:
    log = World(tmp_path, replace(COMPACT, delete_retention_ms=0)).create()
    write(log, (b"a", b"1"))
    write(log, (b"a", None))
    closed(log)
    compact(log)
    assert pairs(log) == [(1, b"a", None)], "also without a time it is seen once"
    again(log, NOW)
    assert (1, b"a", None) not in pairs(log)


@pytest.mark.parametrize("codec", list(Codec))
def test_tombstones_in_compressed_batches(log: Log, codec: Codec) -> None:
    write(log, (b"a", b"1"), (b"b", b"2"), (b"a", None), (b"b", b"3"), codec=codec)
    closed(log)
    compact(log)
    assert pairs(log) == [(2, b"a", None), (3, b"b", b"3")]
    again(log, NOW + DAY)
    assert pairs(log)[0] == (3, b"b", b"3")


def test_records_without_a_key_go(log: Log) -> None:
    write(log, (None, b"x"), (b"a", b"1"))
    closed(log)
    _, cleaning = compact(log)
    assert pairs(log) == [(1, b"a", b"1")]
    assert cleaning.stats.records.keyless == 1


def test_a_full_map_leaves_the_rest_for_the_next_round(log: Log) -> None:
    for number in range(30):
        write(log, (b"k%d" % (number % 20), b"%d" % number))
    closed(log)
    compact(log, offsets=OffsetMap(24 * 12, 0.9))
    assert log.cleaner_checkpoint == 10
    assert len(records_of(log)) == 30
    compact(log, offsets=OffsetMap(24 * 12, 0.9))
    assert log.cleaner_checkpoint == 20
    compact(log, offsets=OffsetMap(24 * 12, 0.9))
    assert log.cleaner_checkpoint == 30
    assert [record.offset for record in records_of(log)] == list(range(10, 30))


def test_one_batch_is_mapped_whole_even_when_the_map_is_too_small_for_it(log: Log) -> None:
    write(log, *[(b"%d" % number, b"") for number in range(40)])
    closed(log)
    compact(log, offsets=OffsetMap(24 * 12, 0.9))
    assert log.cleaner_checkpoint == 40


def test_the_last_batch_of_a_round_leaves_its_header(log: Log) -> None:
    write(log, (b"a", b"1"))
    write(log, (None, b"keyless"))
    closed(log)
    compact(log)
    assert [(header.base_offset, header.records_count) for header, _ in batches_of(log)] == [(0, 1), (1, 0)]


def test_the_last_sequence_of_a_producer_stays_known(tmp_path: Path) -> None:
    world = World(tmp_path, COMPACT)
    log = world.create()
    write(log, (b"a", b"1"), (b"b", b"1"), pid=7, epoch=0, sequence=0)
    write(log, (b"a", b"2"), (b"b", b"2"), pid=8, epoch=0, sequence=0)
    write(log, (b"a", b"3"), (b"b", b"3"), pid=8, epoch=0, sequence=2)
    closed(log)
    compact(log)
    headers = [header for header, _ in batches_of(log)]
    assert [(one.producer_id, one.base_sequence, one.records_count) for one in headers] == [
        (7, 0, 0),
        (8, 2, 2),
    ]
    assert headers[0].last_sequence == 1
    world.crash(log)
    for snapshot in world.paths(".snapshot"):
        snapshot.unlink()
    log = world.open()
    log.set_high_watermark(log.log_end_offset)
    with pytest.raises(ApiError, match="Out of order") as refused:
        write(log, (b"a", b"4"), pid=7, epoch=0, sequence=5)
    assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(log, (b"a", b"4"), pid=7, epoch=0, sequence=2)


def test_a_producer_that_is_forgotten_leaves_no_header(log: Log) -> None:
    write(log, (b"a", b"1"), pid=7, epoch=0, sequence=0)
    write(log, (b"a", b"2"))
    closed(log)
    log.expire_producers(NOW + 2 * DAY)
    compact(log)
    assert [header.producer_id for header, _ in batches_of(log)] == [-1]


def test_aborted_records_go_and_their_marker_stays_until_they_have(log: Log) -> None:
    write(log, (b"a", b"1"))
    write(log, (b"a", b"aborted"), pid=7, epoch=0, sequence=0, transactional=True)
    end_transaction(log, 7, 0, committed=False)
    closed(log)
    compact(log)
    assert pairs(log) == [(0, b"a", b"1")]
    headers = [header for header, _ in batches_of(log)]
    assert [(one.is_control, one.records_count) for one in headers] == [(False, 1), (False, 0), (True, 1)]
    assert [(one.first_offset, one.last_offset) for one in log.aborted_transactions(0, 10)] == [(1, 2)]
    # Once the producer is forgotten its header goes, in a later round the marker gets a horizon, and then goes as well.
    log.expire_producers(NOW + 2 * DAY)
    again(log, NOW)
    assert sum(header.is_control for header, _ in batches_of(log)) == 1
    again(log, NOW)
    assert [header.has_delete_horizon for header, _ in batches_of(log) if header.is_control] == [True]
    assert log.aborted_transactions(0, 10) == []
    again(log, NOW + DAY - 1)
    assert sum(header.is_control for header, _ in batches_of(log)) == 1
    again(log, NOW + DAY)
    assert not any(header.is_control for header, _ in batches_of(log))


def test_keys_of_aborted_transactions_replace_nothing(log: Log) -> None:
    write(log, (b"a", b"1"))
    write(log, (b"a", b"aborted"), pid=7, epoch=0, sequence=0, transactional=True)
    end_transaction(log, 7, 0, committed=False)
    write(log, (b"b", b"committed"), pid=7, epoch=0, sequence=1, transactional=True)
    end_transaction(log, 7, 0, committed=True)
    closed(log)
    for _ in range(3):
        compact(log)
        again(log, NOW)
    assert pairs(log)[:2] == [(0, b"a", b"1"), (3, b"b", b"committed")]


def test_a_commit_marker_goes_after_its_records(log: Log) -> None:
    write(log, (b"a", b"1"), pid=7, epoch=0, sequence=0, transactional=True)
    end_transaction(log, 7, 0, committed=True)
    write(log, (b"a", b"2"))
    closed(log)
    log.expire_producers(NOW + 2 * DAY)
    compact(log)
    again(log, NOW)
    markers = [header for header, _ in batches_of(log) if header.is_control]
    assert [header.has_delete_horizon for header in markers] == [True]
    again(log, NOW + DAY)
    assert not [header for header, _ in batches_of(log) if header.is_control]


def test_a_marker_is_the_last_word_of_a_producer_that_wrote_nothing_else(log: Log) -> None:
    end_transaction(log, 7, 3, committed=True)
    closed(log)
    compact(log)
    again(log, NOW + DAY)
    headers = [header for header, _ in batches_of(log) if header.is_control]
    assert [(one.producer_epoch, one.records_count) for one in headers] == [(3, 0)]


def test_an_open_transaction_is_not_touched(log: Log) -> None:
    write(log, (b"a", b"1"))
    closed(log)
    write(log, (b"a", b"2"), pid=7, epoch=0, sequence=0, transactional=True)
    closed(log)
    write(log, (b"a", b"3"))
    closed(log)
    compact(log)
    assert len(records_of(log)) == 3
    end_transaction(log, 7, 0, committed=True)
    closed(log)
    compact(log)
    assert pairs(log) == [(2, b"a", b"3")]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_messages_of_the_old_formats(tmp_path: Path, magic: int, codec: Codec) -> None:
    log = World(tmp_path, replace(COMPACT, segment_bytes=600)).create()
    rows: list[Any] = [
        [(0, NOW, b"a", b"1"), (1, NOW, b"b", b"1"), (2, NOW, b"a", b"2")],
        [(3, NOW, b"b", None), (4, NOW, b"c", b"1"), (5, NOW, None, b"x")],
        [(6, NOW, b"d", b"1")],
    ]
    data = b"".join(build_message_set(each, magic=magic, codec=codec) for each in rows)
    log.append_as_follower(data)
    log.set_high_watermark(log.log_end_offset)
    closed(log)
    os.utime(log.segments[0].path, (NOW / 1000, NOW / 1000))
    compact(log)
    assert pairs(log) == [(2, b"a", b"2"), (3, b"b", None), (4, b"c", b"1"), (6, b"d", b"1")]
    # They know no horizon: what counts is how much older their segment is than the last clean one.
    write(log, (b"d", b"." * 450))
    closed(log)
    late = NOW // 1000 + 2 * DAY // 1000
    os.utime(log.segments[1].path, (late, late))
    compact(log)
    assert (3, b"b", None) in pairs(log)
    write(log, (b"e", b"1"))
    closed(log)
    compact(log)
    assert [key for _, key, _ in pairs(log)] == [b"a", b"c", b"d", b"e"]


def test_batches_too_far_from_each_other_get_segments_of_their_own(tmp_path: Path) -> None:
    world = World(tmp_path, replace(COMPACT, segment_bytes=1 << 20))
    log = world.create()
    far = RELATIVE_OFFSET_MAX + 5
    offsets = [0, 3, far, far + 1]
    data = b"".join(
        stored(batch_of_key(b"k%d" % (number % 2), b"%d" % offset), offset)
        for number, offset in enumerate(offsets)
    )
    (world.directory / f"{0:020d}.log").write_bytes(data)
    world.crash(log)
    log = world.open(clean=True)
    log.set_high_watermark(log.log_end_offset)
    closed(log)
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, far, far + 2]
    assert [record.offset for record in records_of(log)] == [far, far + 1]


def batch_of_key(key: bytes, value: bytes) -> bytearray:
    from pkafka.records.builder import build_batch

    return build_batch([(NOW, key, value, ())])


def test_the_files_keep_the_time_of_the_last_segment(log: Log) -> None:
    write(log, (b"a", b"1"))
    write(log, (b"a", b"2"))
    closed(log)
    os.utime(log.segments[0].path, (5, 5))
    compact(log)
    assert log.segments[0].path.stat().st_mtime == 5


def test_retention_by_time_still_finds_what_is_old(tmp_path: Path) -> None:
    both = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=1000)
    log = World(tmp_path, both).create()
    write(log, (b"a", b"1"))
    write(log, (b"a", b"2"))
    closed(log)
    write(log, (b"b", b"1"), timestamp=NOW + 5000)
    compact(log)
    assert len(log.delete_old_segments(NOW + 2000)) == 1
    assert pairs(log) == [(2, b"b", b"1")]
    assert log.log_start_offset == 2


def test_a_log_that_was_cut_meanwhile_is_left_alone(log: Log) -> None:
    for number in range(20):
        write(log, (b"a", b"%d" % number))
    closed(log)
    before = pairs(log)
    compact(log, before_take=lambda: log.truncate_to(19))
    assert pairs(log) == before[:19]
    assert log.cleaner_checkpoint is None


def test_a_log_that_shall_not_be_compacted_any_more_is_left_alone(log: Log) -> None:
    write(log, (b"a", b"1"), (b"a", b"2"))
    closed(log)
    compact(log, before_take=lambda: log.update_config(replace(COMPACT, cleanup_policy=("delete",))))
    assert len(records_of(log)) == 2


def test_segments_that_were_deleted_meanwhile_do_not_come_back(tmp_path: Path) -> None:
    both = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_ms=1000)
    world = World(tmp_path, both)
    log = world.create()
    write(log, (b"a", b"1"), (b"a", b"2"))
    closed(log)
    compact(log, before_take=lambda: log.delete_old_segments(NOW + 5000))
    assert records_of(log) == []
    assert not world.paths(".cleaned")


def test_new_files_that_are_gone_are_no_reason_to_give_the_old_ones_up(tmp_path: Path) -> None:
    world = World(tmp_path, COMPACT)
    log = world.create()
    write(log, (b"a", b"1"), (b"a", b"2"))
    closed(log)

    def vanish() -> None:
        for path in world.paths(".cleaned"):
            path.unlink()

    compact(log, before_take=vanish)
    assert len(records_of(log)) == 2
    assert log.failure is None


def test_the_checkpoint_follows_a_truncation(log: Log) -> None:
    write(log, (b"a", b"1"), (b"a", b"2"))
    closed(log)
    write(log, (b"b", b"1"))
    compact(log)
    assert log.cleaner_checkpoint == 2
    log.truncate_to(2)
    assert log.cleaner_checkpoint == 2
    log.truncate_fully_and_start_at(1)
    assert log.cleaner_checkpoint == 1


def test_a_damaged_batch_is_not_given_a_new_checksum(tmp_path: Path) -> None:
    world = World(tmp_path, COMPACT)
    log = world.create()
    write(log, (b"a", b"1"), (b"b", b"precious"), (b"a", b"2"))
    closed(log)
    path = log.segments[0].path
    data = bytearray(path.read_bytes())
    data[data.index(b"precious")] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedBatchError, match="checksum"):
        compact(log)
    assert path.read_bytes() == data


def test_it_stops_where_it_is_told_to(log: Log, tmp_path: Path) -> None:
    for number in range(20):
        write(log, (b"a", b"%d" % number))
    closed(log)
    left = [500]

    def pace(count: int) -> None:
        left[0] -= count
        if left[0] < 0:
            raise CleaningAbortedError

    owner = LogCleaning(log, cleanable_part_of(log, NOW))
    cleaning = Cleaning(owner.plan, OffsetMap(1 << 20, 0.9), files=FaultyFiles(), now_ms=NOW, pace=pace)
    with pytest.raises(CleaningAbortedError):
        cleaning.map_keys()


def test_everything_read_and_written_is_paced(log: Log) -> None:
    for number in range(20):
        write(log, (b"a%d" % number, b""), (b"a%d" % number, b""))
    closed(log)
    paced: list[int] = []
    owner = LogCleaning(log, cleanable_part_of(log, NOW))
    cleaning = Cleaning(
        owner.plan, OffsetMap(1 << 20, 0.9), files=FaultyFiles(), now_ms=NOW, pace=paced.append, read_bytes=1
    )
    cleaning.map_keys()
    for group in cleaning.groups():
        cleaning.rewrite(group)
    stats = cleaning.stats
    assert sum(paced) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert stats.bytes_written < stats.bytes_read == stats.map_bytes_read


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    world = World(tmp_path, COMPACT)
    log = world.create()
    for number in range(20):
        write(log, (b"a", b"%d" % number))
    closed(log)
    files = FaultyFiles()
    files.fail("pwrite", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        compact(log, files=files)
    assert pairs(log) == [(19, b"a", b"19")], "what had nothing to write was replaced before"
    assert log.failure is None


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.lists(
                st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(0, 1000), st.just("long"))),
                min_size=1,
                max_size=8,
            ),
            st.sampled_from(list(Codec)),
        ),
        st.tuples(st.just("transaction"), st.integers(0, 8), st.booleans()),
        st.tuples(st.just("compact"), st.integers(0, 2 * DAY), st.integers(4, 400)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_a_reader_from_the_start_ends_with_the_last_value_of_each_key(
    steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("log"), COMPACT)
    log = world.create()
    model: dict[bytes, bytes] = {}
    originals: dict[int, tuple[bytes | None, bytes | None]] = {}
    now = NOW
    sequence = 0

    def note(base: int, records: list[tuple[bytes, bytes | None]]) -> None:
        for place, (key, value) in enumerate(records):
            originals[base + place] = (key, value)
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value

    for step in steps:
        match step:
            case ("write", fields, codec):
                records = [
                    (
                        b"k%d" % key,
                        None if value is None else b"x" * 60 if value == "long" else b"%d" % value,
                    )
                    for key, value in fields
                ]
                note(write(log, *records, codec=codec, timestamp=now), records)
            case ("transaction", key, committed):
                records = [(b"k%d" % key, b"transactional")]
                base = write(
                    log, *records, pid=7, epoch=0, sequence=sequence, transactional=True, timestamp=now
                )
                sequence += 1
                end_transaction(log, 7, 0, committed=committed)
                if committed:
                    note(base, records)
            case ("compact", later, slots):
                now += later
                compact(log, now=now, offsets=OffsetMap(24 * slots, 0.9))
            case ("roll",):
                closed(log)
            case ("restart", clean):
                checkpoint = log.cleaner_checkpoint
                if clean:
                    log.close()
                else:
                    world.crash(log)
                log = world.open(clean=clean)
                log.set_high_watermark(log.log_end_offset)
                log.cleaner_checkpoint = checkpoint
        aborted = {
            offset
            for one in log.aborted_transactions(0, log.log_end_offset)
            for offset in range(one.first_offset, one.last_offset)
        }
        visible = [record for record in records_of(log) if record.offset not in aborted]
        assert latest(visible) == model
        offsets = [record.offset for record in visible]
        assert offsets == sorted(set(offsets))
        assert all(originals[record.offset] == (record.key, record.value) for record in visible)
    world.crash(log)


def test_a_reader_sees_the_same_through_the_log(log: Log) -> None:
    for number in range(100):
        write(log, (b"k%d" % (number % 9), b"%d" % number), (b"x%d" % number, b"stays"))
    closed(log)
    compact(log)
    seen = everything(log)
    assert seen == [(record.offset, record.value) for record in records_of(log)]
    for offset in range(0, log.log_end_offset):
        assert everything(log, offset) == [row for row in seen if row[0] >= offset]


def test_recovery_reads_what_compaction_wrote(tmp_path: Path) -> None:
    world = World(tmp_path, COMPACT)
    log = world.create()
    for number in range(60):
        write(log, (b"k%d" % (number % 3), b"%d" % number if number % 7 else None))
    write(log, (b"k1", b"no"), pid=7, epoch=0, sequence=0, transactional=True)
    end_transaction(log, 7, 0, committed=False)
    closed(log)
    compact(log)
    before = pairs(log), [one.size for one in log.segments], log.aborted_transactions(0, 100)
    for index in world.paths("index"):
        index.unlink()
    world.crash(log)
    log = world.open()
    assert (pairs(log), [one.size for one in log.segments], log.aborted_transactions(0, 100)) == before
