"""What a start makes of what a stop left: torn tails, flipped bits, leftovers of every kind, damaged side files."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.conversion import down_convert
from pkafka.storage.batch_scan import StoredBatch
from pkafka.storage.log import Log
from pkafka.storage.segment import Segment
from tests.unit.storage.makers import NOW, SMALL, TP, World, append, batch, everything, stored

WIDE = replace(SMALL, segment_bytes=1 << 20)


def recovered(world: World, **where: int) -> Log:
    log = world.open(**where)  # type: ignore[arg-type]
    log.set_high_watermark(log.log_end_offset)
    return log


def written(world: World, count: int) -> Log:
    log = world.create()
    for place in range(count):
        append(
            log,
            b"%050d" % place,
            timestamp=NOW + place,
            leader_epoch=place // 8,
            pid=3,
            epoch=0,
            sequence=place,
        )
    return log


def test_a_log_cut_at_every_byte_of_its_last_batches_keeps_the_whole_ones(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = written(world, 6)
    size = log.size_bytes
    one = size // 6
    world.crash(log)
    original = world.paths(".log")[0].read_bytes()
    for cut in range(size - 3 * one, size):
        world.paths(".log")[0].write_bytes(original[:cut])
        log = recovered(world)
        assert log.log_end_offset == cut // one
        assert log.size_bytes == world.paths(".log")[0].stat().st_size == cut // one * one
        assert log.producers.entries[3].last_sequence == log.log_end_offset - 1
        world.crash(log)


@pytest.mark.parametrize("count", [0, 5])
def test_the_zeros_of_a_preallocated_segment_are_cut_after_a_kill(tmp_path: Path, count: int) -> None:
    world = World(tmp_path, replace(SMALL, preallocate=True))
    log = written(world, count)
    size = log.size_bytes
    world.crash(log)
    assert world.paths(".log")[-1].stat().st_size == SMALL.segment_bytes
    log = recovered(world)
    assert sum(path.stat().st_size for path in world.paths(".log")) == size
    assert [offset for offset, _ in everything(log)] == list(range(count))
    assert append(log, b"next", leader_epoch=9).base_offset == count
    log.close()


def test_a_flipped_bit_cuts_from_its_batch_on(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = written(world, 5)
    one = log.size_bytes // 5
    world.crash(log)
    original = world.paths(".log")[0].read_bytes()
    for place in range(3 * one, 4 * one):
        if 12 <= place - 3 * one < 16 or place - 3 * one < 8:
            continue  # base offset and leader epoch lie outside the checksum
        data = bytearray(original)
        data[place] ^= 0x10
        world.paths(".log")[0].write_bytes(data)
        log = recovered(world)
        assert log.log_end_offset == 3, place - 3 * one
        world.crash(log)


def test_damage_deletes_the_segments_behind_it(world: World) -> None:
    log = written(world, 40)
    segments = log.segments
    assert len(segments) > 4
    world.crash(log)
    victim = segments[2]
    data = bytearray(victim.path.read_bytes())
    data[-1] ^= 1
    victim.path.write_bytes(data)
    log = recovered(world)
    assert [segment.base_offset for segment in log.segments] == [
        segment.base_offset for segment in segments[:3]
    ]
    assert log.log_end_offset == segments[3].base_offset - 1
    assert [offset for offset, _ in everything(log)] == list(range(log.log_end_offset))
    assert append(log, b"next", leader_epoch=9).base_offset == log.log_end_offset - 1


def test_only_segments_from_the_recovery_point_on_are_scanned(world: World) -> None:
    log = written(world, 40)
    segments = log.segments
    world.crash(log)
    data = bytearray(segments[0].path.read_bytes())
    data[-1] ^= 1
    segments[0].path.write_bytes(data)
    assert recovered(world, recovery_point=segments[1].base_offset).log_end_offset == 40


def test_a_clean_stop_is_trusted(world: World) -> None:
    log = written(world, 40)
    log.close()
    before = {path.name: path.read_bytes() for path in world.directory.iterdir()}
    log = world.open(clean=True)
    assert log.recovery_point == log.log_end_offset == 40
    log.close()
    assert {path.name: path.read_bytes() for path in world.directory.iterdir()} == before


def test_recovery_writes_the_same_indexes_as_appending_did(world: World) -> None:
    log = written(world, 40)
    log.close()
    before = {path.name: path.read_bytes() for path in world.directory.iterdir()}
    log = recovered(world)
    log.close()
    after = {path.name: path.read_bytes() for path in world.directory.iterdir()}
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "zeros", "beyond"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_built_anew(world: World, suffix: str, damage: str, clean: bool) -> None:
    log = written(world, 40)
    log.close()
    good = [path.read_bytes() for path in world.paths(suffix)]
    for path in world.paths(suffix):
        if damage == "missing":
            path.unlink()
        elif damage == "odd":
            path.write_bytes(path.read_bytes() + b"x")
        elif damage == "zeros":
            path.write_bytes(bytes(240))
        else:
            path.write_bytes(b"\x7f" * 24)
    log = world.open(clean=clean)
    log.set_high_watermark(40)
    assert [offset for offset, _ in everything(log)] == list(range(40))
    assert log.offset_for_timestamp(NOW + 17) == (NOW + 17, 17, 2)
    log.close()
    if damage != "beyond" or suffix == ".index":
        assert [path.read_bytes() for path in world.paths(suffix)] == good


def test_leftovers_of_every_kind_are_dealt_with(world: World) -> None:
    log = written(world, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    (world.directory / f"{bases[0]:020d}.log.deleted").write_bytes(b"old")
    (world.directory / f"{bases[0]:020d}.snapshot.deleted").write_bytes(b"old")
    (world.directory / f"{bases[1]:020d}.log.cleaned").write_bytes(b"half")
    (world.directory / f"{bases[1]:020d}.index.cleaned").write_bytes(b"half")
    (world.directory / f"{bases[2]:020d}.log.swap").write_bytes(b"void, because it lies above a .cleaned")
    (world.directory / f"{999:020d}.index").write_bytes(b"orphan!!")
    (world.directory / f"{999:020d}.timeindex").write_bytes(b"orphan!!")
    (world.directory / f"{998:020d}.txnindex").write_bytes(b"orphan!!")
    (world.directory / "leader-epoch-checkpoint.tmp").write_bytes(b"half")
    (world.directory / "notes.txt").write_bytes(b"somebody's")
    log = world.open(clean=True)
    log.set_high_watermark(40)
    assert len(everything(log)) == 40
    names = world.names()
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert not [name for name in names if name.startswith(f"{999:020d}") or name.startswith(f"{998:020d}")]
    assert "notes.txt" in names


def swap_in(world: World, log: Log) -> list[int]:
    """What a compaction of the first three segments leaves before its renames: one ``.swap`` in their place."""
    bases = [segment.base_offset for segment in log.segments]
    kept = bytes(stored(batch([b"kept"]), bases[3] - 1))
    log.close()
    (world.directory / f"{0:020d}.log.swap").write_bytes(kept)
    (world.directory / f"{0:020d}.index.swap").write_bytes(b"")
    (world.directory / f"{0:020d}.timeindex.swap").write_bytes(b"")
    return bases


@pytest.mark.parametrize("crashed_after", range(5))
def test_a_crash_in_every_phase_of_a_swap_ends_with_the_new_segment(world: World, crashed_after: int) -> None:
    bases = swap_in(world, written(world, 40))
    olds = [
        path
        for base in bases[:3]
        for path in world.directory.glob(f"{base:020d}.*")
        if path.suffix != ".swap"
    ]
    if crashed_after == 1:  # some of the old ones are renamed already
        for path in olds[:4]:
            path.rename(path.with_name(path.name + ".deleted"))
    if crashed_after == 2:  # all are
        for path in olds:
            path.rename(path.with_name(path.name + ".deleted"))
    if crashed_after == 3:  # and gone
        for path in olds:
            path.unlink()
    if crashed_after == 4:  # and the data file is in place, its index not yet
        for path in olds:
            path.unlink()
        (world.directory / f"{0:020d}.log.swap").rename(world.directory / f"{0:020d}.log")
    log = world.open(clean=crashed_after % 2 == 0)
    log.set_high_watermark(log.log_end_offset)
    assert [segment.base_offset for segment in log.segments] == [0, *bases[3:]]
    found = everything(log)
    assert found[0] == (bases[3] - 1, b"kept")
    assert [offset for offset, _ in found] == list(range(bases[3] - 1, 40))
    assert not [name for name in world.names() if name.endswith((".swap", ".deleted"))]


def test_a_log_that_ends_below_its_start_begins_anew_there(world: World) -> None:
    log = written(world, 10)
    world.crash(log)
    log = recovered(world, start=500)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (500, 500, 0)
    assert log.leader_epochs.entries == []
    assert append(log, b"x", leader_epoch=9).base_offset == 500


def test_leader_epochs_behind_the_cut_are_forgotten(world: World) -> None:
    world.config = WIDE
    log = written(world, 24)
    assert log.leader_epochs.entries == [(0, 0), (1, 8), (2, 16)]
    one = log.size_bytes // 24
    world.crash(log)
    os.truncate(world.paths(".log")[0], 12 * one)
    assert recovered(world).leader_epochs.entries == [(0, 0), (1, 8)]


@pytest.mark.parametrize("content", [b"", b"junk", b"0\n1\n", b"7\n0\n", b"0\n2\n3 1\n2 5\n"])
def test_a_damaged_epoch_file_is_filled_again_by_recovery(world: World, content: bytes) -> None:
    log = written(world, 24)
    world.crash(log)
    (world.directory / "leader-epoch-checkpoint").write_bytes(content)
    assert recovered(world).leader_epochs.entries == [(0, 0), (1, 8), (2, 16)]


@pytest.mark.parametrize("damage", ["missing", "junk", "newest"])
@pytest.mark.parametrize("clean", [True, False])
def test_damaged_snapshots_cost_a_replay_not_the_state(world: World, damage: str, clean: bool) -> None:
    log = written(world, 40)
    log.close()
    snapshots = world.paths(".snapshot")
    assert len(snapshots) > 3
    for path in snapshots[-1:] if damage == "newest" else snapshots:
        if damage == "missing" and not clean:
            path.unlink()
        else:
            path.write_bytes(b"junk")
    log = world.open(clean=clean)
    assert log.producers.entries[3].last_sequence == 39


def test_damage_below_the_recovery_point_is_found_when_the_producers_need_it(world: World) -> None:
    log = written(world, 40)
    segments = log.segments
    world.crash(log)
    for snapshot in world.paths(".snapshot"):
        snapshot.unlink()
    data = bytearray(segments[1].path.read_bytes())
    data[8:12] = bytes(4)  # a length of zero
    segments[1].path.write_bytes(data)
    log = recovered(world, recovery_point=segments[2].base_offset)
    assert log.log_end_offset == segments[1].base_offset
    assert log.producers.entries[3].last_sequence == log.log_end_offset - 1


def test_recovery_replays_each_segment_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knows of the producers at the end of a segment is the beginning of the next, as in Kafka."""
    log = written(world, 40)
    world.crash(log)
    for snapshot in world.paths(".snapshot"):
        snapshot.unlink()
    scans: list[int] = []
    whole = Segment.scan

    def counted(self: Segment, position: int, *, check: bool) -> Iterator[StoredBatch]:
        for each in whole(self, position, check=check):
            scans.append(each.base_offset)
            yield each

    monkeypatch.setattr(Segment, "scan", counted)
    log = recovered(world)
    assert log.producers.entries[3].last_sequence == 39
    assert len(scans) < 40 + 2 * len(log.segments)


def test_snapshots_without_a_segment_go_except_the_newest(world: World) -> None:
    log = written(world, 40)
    log.close()
    for offset in (3, 7, 77):
        shutil.copy(world.paths(".snapshot")[0], world.directory / f"{offset:020d}.snapshot")
    log = world.open(clean=True)
    names = {path.name for path in world.paths(".snapshot")}
    assert not {f"{offset:020d}.snapshot" for offset in (3, 7, 77)} & names


def test_an_empty_directory_becomes_an_empty_log(world: World) -> None:
    world.directory.mkdir()
    log = world.open(start=12)
    assert (log.log_start_offset, log.log_end_offset, log.topic_id) == (12, 12, None)


def test_an_empty_active_segment_may_lack_its_indexes(world: World) -> None:
    log = world.create()
    log.close()
    for suffix in (".index", ".timeindex"):
        world.paths(suffix)[0].unlink()
    log = world.open(clean=True)
    assert append(log, b"a").base_offset == 0


def test_old_message_formats_are_recovered_and_served(world: World) -> None:
    log = world.create()
    world.crash(log)
    data = bytearray()
    for offset in range(4):
        data += b"".join(down_convert(stored(batch([b"old"]), offset), offset % 2))
    world.paths(".log")[0].write_bytes(data + data[: len(data) // 8])
    log = recovered(world)
    assert log.log_end_offset == 4
    assert [offset for offset, _ in everything(log)] == [0, 1, 2, 3]
    assert log.max_timestamp_offset() == (NOW, 1, -1)


def test_a_partition_of_another_name_is_not_mixed_up(world: World) -> None:
    log = world.create()
    assert (log.topic_partition, log.topic_id) == (TP, bytes(range(16)))


def test_offsets_that_go_back_are_damage(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = written(world, 5)
    one = log.size_bytes // 5
    world.crash(log)
    data = world.paths(".log")[0].read_bytes()
    world.paths(".log")[0].write_bytes(data + data[one : 2 * one])
    assert recovered(world).log_end_offset == 5


def test_damage_under_a_clean_mark_is_found_and_cut(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = written(world, 20)
    one = log.size_bytes // 20
    log.close()
    os.truncate(world.paths(".log")[0], 15 * one + 7)
    log = world.open(clean=True)
    assert (log.log_end_offset, log.size_bytes) == (15, 15 * one)
    log.close()
    path = world.paths(".log")[0]
    data = bytearray(path.read_bytes())
    data[10 * one + 8 : 10 * one + 12] = bytes(4)  # a length of zero
    path.write_bytes(data)
    for snapshot in world.paths(".snapshot"):
        snapshot.write_bytes(b"junk")
    log = world.open(clean=True)
    assert log.log_end_offset == 10


def test_damage_in_a_running_log_is_a_corrupt_message(tmp_path: Path) -> None:
    world = World(tmp_path, WIDE)
    log = written(world, 20)
    one = log.size_bytes // 20
    log.close()
    log = world.open(clean=True)
    log.set_high_watermark(20)
    with world.paths(".log")[0].open("r+b") as file:
        file.seek(8)
        file.write(bytes(4 * one))
    with pytest.raises(ApiError) as refused:
        log.read(1, bytes_max=100, min_one_batch=True, upper_bound=20)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
