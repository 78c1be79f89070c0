"""Appending, reading, rolling, truncating and deleting, as an operator would tell it."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.records.batch import BATCH_OVERHEAD, read_header
from pkafka.storage.files import OsFiles
from pkafka.storage.log_directory import LogDirectory
from pkafka.storage.log_values import UnexpectedOffsetError
from pkafka.storage.open_files import OpenFiles
from pkafka.storage.recovery import create_log
from tests.unit.storage.makers import (
    END,
    NOW,
    SMALL,
    TP,
    FaultyFiles,
    World,
    append,
    batch,
    everything,
    stored,
)


def test_offsets_count_records_and_the_header_is_stamped_in_place(world: World) -> None:
    log = world.create()
    assert append(log, b"a", b"b", leader_epoch=3)[:2] == (0, 1)
    assert append(log, b"c", leader_epoch=3)[:2] == (2, 2)
    header = read_header(world.paths(".log")[0].read_bytes())
    assert (header.base_offset, header.partition_leader_epoch) == (0, 3)
    assert log.log_end_offset == 3
    assert log.leader_epochs.entries == [(3, 0)]
    assert everything(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_segment_rolls_before_it_would_exceed_segment_bytes(world: World) -> None:
    log = world.create()
    for _ in range(30):
        append(log, b"x" * 50)
    sizes = [path.stat().st_size for path in world.paths(".log")]
    assert len(sizes) > 3
    assert max(sizes) <= SMALL.segment_bytes
    assert world.rolled == len(sizes) - 1
    assert [path.name for path in world.paths(".log")][1] == f"{log.segments[1].base_offset:020d}.log"
    assert len(everything(log)) == 30


def test_indexes_of_the_active_segment_are_preallocated_and_trimmed_at_roll_and_close(world: World) -> None:
    world.config = replace(SMALL, segment_index_bytes=67)
    log = world.create()
    assert world.paths(".index")[0].stat().st_size == 64
    assert world.paths(".timeindex")[0].stat().st_size == 60
    for place in range(30):
        append(log, b"x" * 50, timestamp=NOW + place)
    first = log.segments[0]
    assert first.offset_index.path.stat().st_size == first.offset_index.entries * 8 > 0
    assert first.time_index.path.stat().st_size == first.time_index.entries * 12 > 0
    log.close()
    assert all(path.stat().st_size < 64 for path in world.paths(".index"))


def test_preallocated_segments_lose_what_was_not_written_at_roll_and_close(world: World) -> None:
    world.config = replace(SMALL, preallocate=True)
    log = world.create()
    assert [path.stat().st_size for path in world.paths(".log")] == [SMALL.segment_bytes]
    for place in range(30):
        append(log, b"x" * 50, timestamp=NOW + place)
    sizes = [path.stat().st_size for path in world.paths(".log")]
    assert sizes == [*[segment.size for segment in log.segments[:-1]], SMALL.segment_bytes]
    assert log.size_bytes < sum(sizes)
    assert len(everything(log)) == 30
    log.close()
    sizes = [path.stat().st_size for path in world.paths(".log")]
    assert sizes == [segment.size for segment in log.segments]
    log = world.open(clean=True)
    assert sizes == [path.stat().st_size for path in world.paths(".log")]
    assert append(log, b"next").base_offset == 30


def test_truncation_and_deletion_of_a_preallocated_segment(world: World) -> None:
    world.config = replace(SMALL, preallocate=True)
    log = world.create()
    for _ in range(4):
        append(log, b"x" * 50)
    log.truncate_to(2)
    assert [path.stat().st_size for path in world.paths(".log")] == [log.size_bytes]
    append(log, b"y" * 50)
    assert [value[:1] for _, value in everything(log) if value] == [b"x", b"x", b"y"]
    log.truncate_fully_and_start_at(100)
    assert [path.stat().st_size for path in world.paths(".log")] == [SMALL.segment_bytes]
    assert all(path.stat().st_size < SMALL.segment_bytes for path in world.paths(".log.deleted"))
    assert append(log, b"z").base_offset == 100


def test_a_full_index_rolls_the_segment(world: World) -> None:
    world.config = replace(SMALL, segment_bytes=1 << 20, segment_index_bytes=36, index_interval_bytes=0)
    log = world.create()
    for place in range(10):
        append(log, b"x", timestamp=NOW + place)
    assert len(log.segments) > 2
    assert all(segment.time_index.entries <= 3 for segment in log.segments)
    assert len(everything(log)) == 10


def test_a_segment_rolls_by_the_age_of_its_first_timestamp(world: World) -> None:
    world.config = replace(SMALL, segment_ms=1000)
    log = world.create()
    append(log, b"a", timestamp=NOW)
    append(log, b"b", timestamp=NOW + 1000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_without_timestamps_rolls_by_the_clock(world: World) -> None:
    world.config = replace(SMALL, segment_ms=1000)
    log = world.create()
    append(log, b"a", timestamp=-1, now=NOW)
    append(log, b"b", timestamp=-1, now=NOW + 1000)
    append(log, b"c", timestamp=-1, now=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_an_offset_beyond_int32_of_the_base_rolls(world: World) -> None:
    log = world.create()
    log.append_as_follower(stored(batch([b"a"]), 0))
    log.append_as_follower(stored(batch([b"b"]), 2**31))
    log.set_high_watermark(log.log_end_offset)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert everything(log) == [(0, b"a"), (2**31, b"b")]


def test_batches_larger_than_a_segment_are_refused(world: World) -> None:
    log = world.create()
    with pytest.raises(ApiError) as refused:
        append(log, b"x" * 700)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_read_ends_at_the_upper_bound_and_at_bytes_max(world: World) -> None:
    world.config = replace(SMALL, segment_bytes=1 << 20)
    log = world.create()
    for place in range(20):
        append(log, b"%03d" % place)
    size = log.size_bytes // 20
    read = log.read(4, bytes_max=1 << 20, min_one_batch=True, upper_bound=10)
    assert (read.position, read.length) == (4 * size, 6 * size)
    assert log.read(4, bytes_max=size + 5, min_one_batch=True, upper_bound=END)[1:3] == (4 * size, size + 5)


def test_the_first_batch_comes_whole_even_beyond_bytes_max_if_wanted(world: World) -> None:
    log = world.create()
    append(log, b"x" * 100)
    append(log, b"y")
    size = log.read(0, bytes_max=1 << 20, min_one_batch=True, upper_bound=1).length
    whole = log.read(0, bytes_max=10, min_one_batch=True, upper_bound=END)
    assert (whole.length, whole.first_batch_incomplete) == (size, False)
    cut = log.read(0, bytes_max=10, min_one_batch=False, upper_bound=END)
    assert (cut.length, cut.first_batch_incomplete) == (10, True)
    assert log.read(0, bytes_max=0, min_one_batch=False, upper_bound=END).length == 0
    assert log.read(0, bytes_max=-1, min_one_batch=False, upper_bound=END).length == 0


def test_the_file_is_not_read_again_for_a_batch_that_was_read_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create()
    append(log, b"x" * 100)
    append(log, b"y")
    first = log.read(0, bytes_max=10, min_one_batch=True, upper_bound=END)
    monkeypatch.delattr(OsFiles, "pread")
    assert log.read(0, bytes_max=10, min_one_batch=True, upper_bound=END) == first


def test_a_batch_that_was_read_is_forgotten_when_another_takes_its_offset(world: World) -> None:
    log = world.create()
    append(log, b"x" * 100)
    assert log.read(0, bytes_max=10, min_one_batch=True, upper_bound=END).length == log.size_bytes
    log.truncate_to(0)
    append(log, b"x" * 200)
    assert log.read(0, bytes_max=10, min_one_batch=True, upper_bound=END).length == log.size_bytes


def test_reads_outside_the_log_are_refused_and_reads_at_its_end_are_empty(world: World) -> None:
    log = world.create()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    log.raise_log_start_offset(1)
    for offset in (0, 5, -1):
        with pytest.raises(ApiError) as refused:
            log.read(offset, bytes_max=100, min_one_batch=True, upper_bound=END)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(4, bytes_max=100, min_one_batch=True, upper_bound=END).length == 0
    # Above the high watermark, but not above the end: nothing yet, no error.
    assert log.read(3, bytes_max=100, min_one_batch=True, upper_bound=3).length == 0
    assert log.read(2, bytes_max=100, min_one_batch=True, upper_bound=2).length == 0


def test_a_read_steps_over_what_compaction_left_empty(world: World) -> None:
    log = world.create()
    log.append_as_follower(stored(batch([b"a"]), 0))
    log.roll(NOW)
    log.append_as_follower(stored(batch([b"b"]), 100))
    log.roll(NOW)
    log.append_as_follower(stored(batch([b"c"]), 500))
    log.set_high_watermark(log.log_end_offset)
    assert everything(log) == [(0, b"a"), (100, b"b"), (500, b"c")]
    assert everything(log, start=101) == [(500, b"c")]
    assert everything(log, start=50, upper_bound=300) == [(100, b"b")]


def test_a_follower_takes_offsets_and_epochs_of_the_leader(world: World) -> None:
    log = world.create()
    data = stored(batch([b"a", b"b"]), 7, 2) + stored(batch([b"c"]), 9, 5) + b"torn"
    assert log.append_as_follower(data)[:2] == (7, 9)
    assert log.leader_epochs.entries == [(2, 7), (5, 9)]
    with pytest.raises(UnexpectedOffsetError):
        log.append_as_follower(stored(batch([b"z"]), 9))
    damaged = stored(batch([b"d"]), 10)
    damaged[-1] ^= 1
    with pytest.raises(ApiError) as refused:
        log.append_as_follower(damaged)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 10


def test_the_index_of_a_follower_is_the_same_however_many_batches_come_at_once(tmp_path: Path) -> None:
    sent = [bytes(stored(batch([b"x" * 60], timestamp=NOW + place), place)) for place in range(7)]
    config = replace(SMALL, segment_bytes=10_000)
    worlds, logs = [], []
    for name in ("one by one", "at once"):
        (tmp_path / name).mkdir()
        worlds.append(World(tmp_path / name, config, FaultyFiles()))
        logs.append(worlds[-1].create())
        logs[-1].append_as_follower(sent[0])
    for data in sent[1:]:
        logs[0].append_as_follower(data)
    files = worlds[1].files
    assert isinstance(files, FaultyFiles)
    files.calls.clear()
    logs[1].append_as_follower(b"".join(sent[1:]))
    assert files.calls == ["pwrite"] * 3  # the batches, and what both indexes get of them
    for log in logs:
        assert log.segments[0].offset_index.entries == 6
        assert [offset for offset, _ in everything(log, 3)] == [3, 4, 5, 6]
        log.close()
    for suffix in (".log", ".index", ".timeindex"):
        one, other = ([path.read_bytes() for path in world.paths(suffix)] for world in worlds)
        assert one == other


def test_a_follower_begins_with_the_whole_batch_in_whose_middle_its_leader_begins(world: World) -> None:
    """Records that DeleteRecords took from a batch are still in it, and a fetch from the log's start brings them."""
    log = world.create()
    log.truncate_fully_and_start_at(2)
    data = stored(batch([b"a", b"b", b"c", b"d"]), 0) + stored(batch([b"e"]), 4)
    assert log.append_as_follower(data)[:2] == (0, 4)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 5, 2)
    log.set_high_watermark(5)
    assert [row for row in everything(log, start=2) if row[0] >= 2] == [(2, b"c"), (3, b"d"), (4, b"e")]
    assert log.segments[0].base_offset == 0
    world.crash(log)
    assert world.open(start=2).log_end_offset == 5


def test_a_follower_without_records_takes_no_batch_that_ends_before_its_end(world: World) -> None:
    log = world.create()
    log.truncate_fully_and_start_at(5)
    with pytest.raises(UnexpectedOffsetError):
        log.append_as_follower(stored(batch([b"a", b"b"]), 0))
    assert (log.log_start_offset, log.log_end_offset, log.failure) == (5, 5, None)


def test_a_follower_splits_a_fetch_that_exceeds_a_segment(world: World) -> None:
    log = world.create()
    fetched = bytearray()
    for offset in range(40):
        fetched += stored(batch([b"x" * 30]), offset)
    assert len(fetched) > 3 * SMALL.segment_bytes
    log.append_as_follower(fetched)
    log.set_high_watermark(log.log_end_offset)
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    assert [offset for offset, _ in everything(log)] == list(range(40))


def test_the_high_watermark_stays_within_the_log(world: World) -> None:
    log = world.create()
    append(log, b"a", b"b")
    assert log.set_high_watermark(99) == 2
    assert log.set_high_watermark(-1) == 0


def test_delete_records_moves_the_start_up_to_the_high_watermark(world: World) -> None:
    log = world.create()
    for _ in range(30):
        append(log, b"x" * 50)
    log.set_high_watermark(20)
    with pytest.raises(ApiError) as refused:
        log.raise_log_start_offset(21)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.raise_log_start_offset(20)
    assert not log.raise_log_start_offset(19)
    gone = log.delete_old_segments(NOW)
    assert gone
    assert gone[-1].base_offset < 20
    assert log.segments[0].base_offset <= 20
    assert [offset for offset, _ in everything(log)] == list(range(20, 30))
    log.close()
    reopened = world.open(clean=True, start=20)
    assert reopened.log_start_offset == 20


def test_deletion_renames_first_and_unlinks_when_the_delay_is_over(world: World) -> None:
    world.config = replace(SMALL, retention_bytes=1000, file_delete_delay_ms=1234)
    log = world.create()
    for _ in range(30):
        append(log, b"x" * 50)
    before = log.size_bytes
    reader = log.read(0, bytes_max=100, min_one_batch=True, upper_bound=END).segment
    descriptor = reader.pin()
    gone = log.delete_old_segments(NOW)
    assert before - sum(deleted.size for deleted in gone) == log.size_bytes >= 1000
    assert log.log_start_offset == log.segments[0].base_offset > 0
    assert [(deleted.base_offset, delay) for deleted, delay in world.deleted] == [
        (deleted.base_offset, 1234) for deleted in gone
    ]
    assert all(path.name.endswith(".deleted") and path.exists() for path in gone[0].paths)
    # Who is sending from a deleted segment can finish.
    assert read_header(os.pread(descriptor, BATCH_OVERHEAD, 0)).base_offset == 0
    reader.unpin()
    for deleted in gone:
        deleted.unlink(world.files)
    assert not [name for name in world.names() if name.endswith(".deleted")]


def test_retention_by_time_leaves_a_fresh_segment_to_append_to(world: World) -> None:
    world.config = replace(SMALL, retention_ms=1000)
    log = world.create()
    for _ in range(20):
        append(log, b"x" * 50)
    assert log.delete_old_segments(NOW + 1000) == []
    assert log.delete_old_segments(NOW + 1001)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert append(log, b"y").base_offset == 20
    assert everything(log) == [(20, b"y")]


@pytest.mark.parametrize("offset", [0, 1, 5, 9, 10, 17, 29, 30, 31])
def test_truncation_cuts_batches_at_and_behind_the_offset(world: World, offset: int) -> None:
    log = world.create()
    for place in range(30):
        append(log, b"%050d" % place, leader_epoch=place // 10)
    generation = log.segments[0].generation
    assert log.truncate_to(offset) == (offset < 30)
    assert log.log_end_offset == min(offset, 30)
    assert log.high_watermark <= log.log_end_offset
    assert [at for at, _ in everything(log)] == list(range(min(offset, 30)))
    assert all(start < log.log_end_offset for _, start in log.leader_epochs.entries)
    assert append(log, b"new", leader_epoch=7).base_offset == min(offset, 30)
    assert everything(log)[-1] == (min(offset, 30), b"new")
    if offset == 0:
        assert log.segments[0].generation != generation
    log.close()
    assert everything(world.open(clean=True))[-1] == (min(offset, 30), b"new")


def test_truncation_inside_a_batch_takes_the_whole_batch(world: World) -> None:
    log = world.create()
    append(log, b"a", b"b")
    append(log, b"c", b"d", b"e")
    assert log.truncate_to(4)
    assert log.log_end_offset == log.high_watermark == 2
    log.close()
    assert world.open(clean=True).log_end_offset == 2


def test_truncating_fully_begins_anew(world: World) -> None:
    log = world.create()
    for _ in range(20):
        append(log, b"x" * 50, pid=1, epoch=0, sequence=log.log_end_offset)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert len(log.producers) == 0
    assert append(log, b"y").base_offset == 1000
    log.close()
    assert [name for name in world.names() if name.endswith(".log")] == [f"{1000:020d}.log"]


def test_truncating_below_the_first_segment_begins_anew_there(world: World) -> None:
    log = world.create()
    log.truncate_fully_and_start_at(1000)
    append(log, b"x")
    assert log.truncate_to(500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)


def test_timestamps_find_the_first_record_not_older(world: World) -> None:
    log = world.create()
    for place in range(20):
        append(log, b"x" * 30, b"y" * 30, timestamp=NOW + 10 * place, leader_epoch=place // 10)
    for place in range(20):
        assert log.offset_for_timestamp(NOW + 10 * place) == (NOW + 10 * place, 2 * place, place // 10)
        assert log.offset_for_timestamp(NOW + 10 * place + 1) == (
            NOW + 10 * place + 1,
            2 * place + 1,
            place // 10,
        )
    assert log.offset_for_timestamp(0) == (NOW, 0, 0)
    assert log.offset_for_timestamp(NOW + 192) is None
    assert log.max_timestamp_offset() == (NOW + 191, 39, 1)
    assert log.earliest_offset() == (-1, 0, 0)


def test_the_largest_timestamp_is_found_inside_its_batch_also_after_reopening(world: World) -> None:
    log = world.create()
    append(log, b"a", timestamp=NOW)
    append(log, b"b", b"c", timestamp=NOW + 500)
    append(log, b"d", timestamp=NOW + 100)
    assert log.max_timestamp_offset() == (NOW + 501, 2, 0)
    log.close()
    assert world.open(clean=True).max_timestamp_offset() == (NOW + 501, 2, 0)


def test_epochs_answer_where_they_ended(world: World) -> None:
    log = world.create()
    assert log.end_offset_for_epoch(0) == (-1, -1)
    for epoch in (1, 1, 4, 4, 4, 6):
        append(log, b"x", leader_epoch=epoch)
    assert log.end_offset_for_epoch(1) == (1, 2)
    assert log.end_offset_for_epoch(3) == (1, 2)
    assert log.end_offset_for_epoch(4) == (4, 5)
    assert log.end_offset_for_epoch(6) == (6, 6)
    assert log.end_offset_for_epoch(7) == (-1, -1)
    assert log.end_offset_for_epoch(0) == (0, 0)
    log.begin_epoch(9)
    assert log.end_offset_for_epoch(6) == (6, 6)


def test_flush_moves_the_recovery_point(world: World) -> None:
    log = world.create()
    for _ in range(30):
        append(log, b"x" * 50)
    assert log.recovery_point == 0
    pending = log.prepare_flush()
    append(log, b"more")
    pending.run()
    log.finish_flush(pending)
    assert log.recovery_point == pending.offset > 20
    log.flush()
    assert log.recovery_point == 31


def test_a_flush_that_a_truncation_overtook_promises_nothing(world: World) -> None:
    log = world.create()
    for _ in range(30):
        append(log, b"x" * 50)
    pending = log.prepare_flush()
    log.truncate_to(3)
    for _ in range(30):
        append(log, b"y" * 50)
    pending.run()
    log.finish_flush(pending)
    assert log.recovery_point == 0


def test_flush_messages_flushes_on_append(world: World) -> None:
    world.config = replace(SMALL, flush_messages=3)
    log = world.create()
    append(log, b"a", b"b")
    assert log.recovery_point == 0
    append(log, b"c")
    assert log.recovery_point == 3


def test_a_closed_log_refuses_appends_and_keeps_everything(world: World) -> None:
    log = world.create()
    append(log, b"a")
    log.close()
    log.close()
    with pytest.raises(ApiError) as refused:
        append(log, b"b")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    reopened = world.open(clean=True)
    assert everything(reopened) == [(0, b"a")] or reopened.set_high_watermark(1) == 1


def test_renaming_for_deletion_caps_the_name(world: World) -> None:
    log = world.create()
    append(log, b"a")
    path = log.rename_for_deletion()
    assert path.is_dir()
    assert path.name.startswith("orders-0.")
    assert path.name.endswith("-delete")
    assert not world.directory.exists()


def test_a_future_replica_takes_the_name_of_its_partition_and_goes_on(world: World) -> None:
    home = LogDirectory(world.root)
    path = home.new_future_path_of(TP)
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-future", path.name)
    log = create_log(path, TP, world.config, world.environment, topic_id=bytes(16))
    for number in range(10):
        append(log, b"%d" % number, leader_epoch=number)
    log.roll(NOW)
    assert log.is_future
    log.become_current()
    assert not log.is_future
    assert log.directory == world.directory
    assert world.root.joinpath(path.name).exists() is False
    # What is opened by name from now on, and what is written by name: indexes, epochs, snapshots, segments.
    for segment in log.segments:
        segment.release_files()
    append(log, b"10", leader_epoch=99)
    log.roll(NOW)
    log.set_high_watermark(log.log_end_offset)
    assert [offset for offset, _ in everything(log)] == list(range(11))
    log.flush()
    log.close()
    again = world.open(clean=True)
    assert again.leader_epochs.latest == 99
    assert again.log_end_offset == 11


def test_a_future_replica_that_is_given_up_is_named_after_its_partition(world: World) -> None:
    """Apache Kafka refuses to start where the name has two suffixes."""
    path = LogDirectory(world.root).new_future_path_of(TP)
    log = create_log(path, TP, world.config, world.environment, topic_id=None)
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-delete", log.rename_for_deletion().name)


def test_an_end_without_records_before_it(world: World) -> None:
    log = world.create()
    append(log, b"a")
    log.pass_over(1)
    assert len(log.segments) == 1
    log.pass_over(5)
    assert log.log_end_offset == 5
    append(log, b"b")
    log.set_high_watermark(log.log_end_offset)
    assert everything(log) == [(0, b"a"), (5, b"b")]
    world.crash(log)
    assert world.open().log_end_offset == 6


def test_a_stray_log_keeps_its_files_under_another_name(world: World) -> None:
    log = world.create()
    append(log, b"a")
    descriptor = log.segments[0].pin()
    path = log.rename_as_stray()
    assert path.name.endswith("-stray")
    assert len(os.pread(descriptor, 61, 0)) == 61
    log.segments[0].unpin()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(descriptor, 61, 0)


def test_a_new_configuration_holds_from_the_next_append_on(world: World) -> None:
    log = world.create()
    for _ in range(5):
        append(log, b"x" * 50)
    log.update_config(replace(SMALL, segment_bytes=200))
    append(log, b"x" * 50)
    append(log, b"x" * 50)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 6]


def test_inactive_segments_do_not_stay_open_without_bound(world: World) -> None:
    world.environment.open_files = OpenFiles(3)
    log = world.create()
    for _ in range(60):
        append(log, b"x" * 50)
    assert len(log.segments) > 9
    for segment in log.segments:
        segment.fileno()
    assert len(world.environment.open_files) == 3
    pinned = log.segments[0]
    pinned.pin()
    for segment in log.segments:
        segment.fileno()
    assert pinned._descriptor != -1
    assert len(everything(log)) == 60


def test_a_directory_that_cannot_be_made_is_a_storage_error(world: World) -> None:
    world.directory.write_text("a file is in the way")
    with pytest.raises(StorageError):
        world.create()
