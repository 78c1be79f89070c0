"""A log does what a plain list does, whatever is done to it and however often it is reopened."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pkafka.storage.config import LogConfig
from tests.unit.storage.makers import END, NOW, World, append, everything

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=80, segment_index_bytes=64, file_delete_delay_ms=0)


class LogMachine(RuleBasedStateMachine):
    """The model: the values by offset, the log start, and the producer's next sequence."""

    @initialize()
    def create(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.world = World(self.root, CONFIG)
        self.log = self.world.create()
        self.values: dict[int, bytes] = {}
        self.end = 0
        self.start = 0
        self.count = 0

    @rule(sizes=st.lists(st.integers(0, 90), min_size=1, max_size=4), step=st.integers(0, 2))
    def append(self, sizes: list[int], step: int) -> None:
        values = [b"%d:" % (self.count + place) + b"x" * size for place, size in enumerate(sizes)]
        self.count += len(values)
        epoch = max(self.log.leader_epochs.latest, 0) + (step == 2)
        # Timestamps run with offsets, so that the model of time lookups is simple.
        result = append(self.log, *values, timestamp=NOW + self.end, leader_epoch=epoch)
        assert result[:2] == (self.end, self.end + len(values) - 1)
        for value in values:
            self.values[self.end] = value
            self.end += 1

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.end - back, 0)
        whole = self._batch_start(offset)
        self.log.truncate_to(offset)
        for gone in range(whole, self.end):
            self.values.pop(gone, None)
        self.end = min(whole, self.end)
        self.start = min(self.start, self.end)

    def _batch_start(self, offset: int) -> int:
        if offset >= self.end:
            return self.end
        segment = max(
            (each for each in self.log.segments if each.base_offset <= offset),
            key=lambda each: each.base_offset,
            default=None,
        )
        if segment is None:
            return offset  # below the first segment: everything goes, the log begins anew at the offset
        found = segment.find(offset)
        if found is None:
            return offset
        return next(segment.scan(found[0], check=False)).base_offset if found[2] >= offset else offset

    @rule(forward=st.integers(0, 8))
    def delete_records(self, forward: int) -> None:
        offset = min(self.start + forward, self.end)
        self.log.raise_log_start_offset(offset)
        self.start = max(self.start, offset)

    @rule()
    def retain(self) -> None:
        self.log.delete_old_segments(NOW)
        assert self.log.log_start_offset == self.start

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(clean=st.booleans(), flushed=st.booleans())
    def reopen(self, clean: bool, flushed: bool) -> None:
        if flushed:
            self.log.flush()
        if clean:
            self.log.close()
        else:
            self.world.crash(self.log)
        point = self.log.recovery_point
        self.log = self.world.open(clean=clean, start=self.start, recovery_point=point)
        self.log.set_high_watermark(END)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def read_between(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(self.start, self.end))
        bound = data.draw(st.integers(first, self.end))
        found = everything(self.log, start=first, upper_bound=bound)
        wanted = [(offset, value) for offset, value in self._live() if first <= offset < bound]
        # A bound inside a batch ends the read before that batch.
        assert found == wanted[: len(found)]
        assert all(self._batch_of(offset) >= bound for offset, _ in wanted[len(found) :])

    def _batch_of(self, offset: int) -> int:
        for segment in self.log.segments:
            for batch in segment.scan(0, check=True):
                if batch.base_offset <= offset <= batch.last_offset:
                    return batch.last_offset + 1
        raise AssertionError(offset)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def look_up_time(self, data: st.DataObject) -> None:
        wanted = data.draw(st.integers(self.start, self.end))
        found = self.log.offset_for_timestamp(NOW + wanted)
        live = [offset for offset, _ in self._live() if offset >= wanted]
        assert (found.offset if found else None) == (live[0] if live else None)

    def _live(self) -> list[tuple[int, bytes]]:
        return [(offset, value) for offset, value in sorted(self.values.items()) if offset >= self.start]

    @invariant()
    def same_as_the_list(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            assert everything(self.log) == self._live()
            bases = [segment.base_offset for segment in self.log.segments]
            assert bases == sorted(bases)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.world.crash(self.log)
            shutil.rmtree(self.root)


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=30, stateful_step_count=30)
