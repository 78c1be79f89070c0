"""A copy of a replica that is appended to, cut and emptied meanwhile is the same before it takes its place.

Histories are drawn; steps are what directory_moves does, on real logs.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.server.replicas.future_replica import (
    BeginAnew,
    Copy,
    Flush,
    Replace,
    Step,
    Truncate,
    has_name_for_move,
    is_further,
    is_same,
    next_step,
)
from pkafka.storage.log import Log
from tests.unit.storage.makers import END, NOW, World, append, everything

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("cut"), st.integers(0, 6)),
        st.tuples(st.just("delete"), st.integers(0, 6)),
        st.tuples(st.just("lead"), st.just(0)),
        st.tuples(st.just("step"), st.integers(1, 4)),
    ),
    max_size=40,
)


class Pair:
    """The replica that is served, and its copy."""

    def __init__(self, root: Path) -> None:
        (root / "a").mkdir()
        (root / "b").mkdir()
        self.current = World(root / "a").create()
        self.future = World(root / "b").create()
        self.seen: int | None = None
        self.is_flushed = False
        self.epoch = self.written = 0
        self.lead()

    def lead(self) -> None:
        self.epoch += 1
        self.current.begin_epoch(self.epoch)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.written += 1
            append(self.current, b"%d" % self.written, leader_epoch=self.epoch)

    def cut(self, count: int) -> None:
        """Its leader had no more than that, and leads under another epoch now."""
        self.current.truncate_to(max(self.current.log_end_offset - count, self.current.log_start_offset))
        self.lead()

    def delete(self, count: int) -> None:
        self.current.set_high_watermark(self.current.log_end_offset)
        start = min(self.current.log_start_offset + count, self.current.log_end_offset)
        self.current.raise_log_start_offset(start)
        self.current.delete_old_segments(NOW)

    def decide(self) -> Step:
        return next_step(self.current, self.future, truncations_seen=self.seen, is_flushed=self.is_flushed)

    def step(self) -> bool:
        """Do the next step; False when the copy is to take its place."""
        step = self.decide()
        match step:
            case BeginAnew(offset):
                self.future.truncate_fully_and_start_at(offset)
            case Truncate(offset):
                assert offset < self.future.log_end_offset
                self.future.truncate_to(offset)
            case Copy(offset):
                found = self.current.read(offset, bytes_max=150, min_one_batch=True, upper_bound=END)
                if found.length:
                    data = found.segment.read_bytes(found.position, found.length)
                    self.future.append_as_follower(data)
                else:
                    self.future.pass_over(self.current.log_end_offset)
            case Flush():
                self.future.flush()
                self.is_flushed = True
            case Replace():
                return False
        self.seen = self.current.truncations
        return True

    def finish(self) -> None:
        for _ in range(500):
            if not self.step():
                return
        raise AssertionError("the copy never comes to an end")

    def close(self) -> None:
        self.current.close()
        self.future.close()


def from_start_of(log: Log, other: Log) -> list[tuple[int, bytes | None]]:
    return [row for row in everything(log) if row[0] >= other.log_start_offset]


@given(EVENTS)
def test_whatever_happens_meanwhile_the_copy_is_the_same_in_the_end(events: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(Path(directory))
        for kind, number in events:
            if kind == "append":
                pair.append(number)
            elif kind == "cut":
                pair.cut(number)
            elif kind == "delete":
                pair.delete(number)
            elif kind == "lead":
                pair.lead()
            else:
                for _ in range(number):
                    pair.step()
        served = everything(pair.current)
        pair.finish()
        assert everything(pair.current) == served
        assert from_start_of(pair.future, pair.current) == served
        assert pair.future.log_end_offset == pair.current.log_end_offset
        pair.close()


def test_what_was_on_the_disk_is_there_before_the_copy_takes_its_place(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(3)
    pair.current.flush()
    assert isinstance(pair.decide(), Copy)
    pair.finish()
    assert pair.future.recovery_point == 3
    # Only once: on a topic that is flushed all the time the two would go on for ever.
    pair.append(1)
    pair.current.flush()
    pair.step()
    assert isinstance(pair.decide(), Replace)
    pair.close()


def test_without_epochs_only_what_is_committed_is_sure_to_be_the_same(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(4)
    pair.finish()
    for log in (pair.current, pair.future):
        log.leader_epochs.clear()
    pair.current.set_high_watermark(2)
    assert isinstance(pair.decide(), Replace)
    pair.seen = None  # as after a start
    assert pair.decide() == Truncate(2)
    pair.current.truncate_to(3)
    pair.seen = pair.current.truncations
    assert pair.decide() == Truncate(3)
    pair.close()


def test_records_that_compaction_took_from_the_end_are_passed_over(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(2)
    pair.current.pass_over(7)
    pair.finish()
    assert everything(pair.future) == [(0, b"1"), (1, b"2")]
    assert pair.future.log_end_offset == 7
    pair.future.close()
    again = World(tmp_path / "b").open()
    assert again.log_end_offset == 7
    pair.append(1)
    again.append_as_follower(pair.current.segments[-1].read_bytes(0, pair.current.segments[-1].size))
    assert everything(again)[-1] == (7, b"3")
    again.close()
    pair.close()


@pytest.mark.parametrize(("chars", "has"), [(1, True), (213, True), (214, False)])
def test_names_leave_room_for_what_is_added(chars: int, has: bool) -> None:
    name = f"{'t' * chars}-0.{'0' * 32}-future"
    assert (len(name) <= 255) is has
    assert has_name_for_move("t" * chars, 0) is has


def test_of_two_logs_the_one_that_was_written_longer_is_further(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(2)
    assert is_further(pair.current, pair.future)
    assert not is_further(pair.future, pair.current)
    assert not is_same(pair.current, pair.future)
    pair.finish()
    assert is_same(pair.current, pair.future)
    pair.cut(1)
    pair.append(1)
    assert is_further(pair.current, pair.future)  # no longer, but under a later epoch
    assert not is_same(pair.current, pair.future)
    pair.close()
