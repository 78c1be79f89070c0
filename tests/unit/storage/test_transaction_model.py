"""A log knows the transactions that it holds, whatever is done to it: cut, rolled, retained, compacted, reopened.

The model is a list of batches. A consumer of either kind reads from the log what the model says, the last stable offset
is where the oldest open transaction begins, and a follower that copies the log knows the same.
"""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pkafka.model import NO_OFFSET
from pkafka.records.reading import read_batches
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log
from tests.unit.storage.cleaned import compact, write
from tests.unit.storage.makers import END, NOW, World, append, end_transaction

SMALL = LogConfig(
    segment_bytes=500, index_interval_bytes=80, segment_index_bytes=4096, file_delete_delay_ms=0
)
PRODUCERS = st.integers(1, 3)


class Batch(NamedTuple):
    """A batch of the model."""

    base: int
    end: int
    producer_id: int
    """-1 for none."""
    values: tuple[bytes, ...] = ()
    is_transactional: bool = False
    marks: bool | None = None
    """For a marker: whether it commits."""


class Model:
    """What was written and not cut."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start = 0

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.batches[-1].end if self.batches else 0

    def open(self) -> dict[int, int]:
        """Where the open transaction of each producer begins."""
        found: dict[int, int] = {}
        for each in self.batches:
            if each.marks is not None:
                found.pop(each.producer_id, None)
            elif each.is_transactional:
                found.setdefault(each.producer_id, each.base)
        return found

    def is_aborted(self, batch: Batch) -> bool:
        """Whether the marker behind a batch aborts it."""
        if not batch.is_transactional:
            return False
        for each in self.batches:
            if each.base > batch.base and each.marks is not None and each.producer_id == batch.producer_id:
                return not each.marks
        return False

    def stable(self) -> int:
        """The last stable offset, when all is replicated."""
        return max(min(self.open().values(), default=self.end), self.start)

    def committed(self) -> list[tuple[int, bytes]]:
        """What a consumer of committed records reads."""
        return [
            record
            for each in self.batches
            if each.base < self.stable() and not self.is_aborted(each)
            for record in enumerate(each.values, each.base)
            if self.start <= record[0] < self.stable()
        ]


def read_committed(log: Log) -> list[tuple[int, bytes]]:
    """What a consumer of committed records makes of the bytes and of the list of aborted transactions."""
    end = log.last_stable_offset
    aborted = log.aborted_transactions(log.log_start_offset, end)
    found: list[tuple[int, bytes]] = []
    for segment in log.segments:
        for header, records in read_batches(segment.read_bytes(0, segment.size)):
            is_aborted = header.is_transactional and any(
                one.producer_id == header.producer_id
                and one.first_offset <= header.base_offset <= one.last_offset
                for one in aborted
            )
            if header.is_control or is_aborted:
                continue
            found += [
                (record.offset, record.value or b"")
                for record in records
                if log.log_start_offset <= record.offset < end
            ]
    return found


class TransactionMachine(RuleBasedStateMachine):
    """Producers, whose batches and markers come in any order."""

    config = SMALL

    @initialize()
    def create(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        (self.root / "log").mkdir()
        self.world = World(self.root / "log", self.config)
        self.log = self.world.create()
        self.model = Model()
        self.count = 0
        self.sequences: dict[int, int] = {}

    def write(self, values: tuple[bytes, ...], producer_id: int = -1, *, transactional: bool = False) -> int:
        """Append one batch; returns its base offset."""
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        epoch = 0 if producer_id >= 0 else -1
        result = append(
            self.log, *values, pid=producer_id, epoch=epoch, sequence=sequence, transactional=transactional
        )
        return result.base_offset

    @rule(producer_id=PRODUCERS, size=st.integers(1, 3))
    def append_in_transaction(self, producer_id: int, size: int) -> None:
        self._append(producer_id, size, transactional=True)

    @rule(size=st.integers(1, 3))
    def append_plain(self, size: int) -> None:
        self._append(-1, size, transactional=False)

    def _append(self, producer_id: int, size: int, *, transactional: bool) -> None:
        values = tuple(b"%d" % (self.count + place) + b"x" * 30 for place in range(size))
        base = self.write(values, producer_id, transactional=transactional)
        assert base == self.model.end
        self.count += size
        if producer_id >= 0:
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + size
        self.model.batches.append(Batch(base, base + size, producer_id, values, transactional))

    @rule(producer_id=PRODUCERS, commits=st.booleans())
    def mark(self, producer_id: int, commits: bool) -> None:
        base = end_transaction(self.log, producer_id, 0, committed=commits).base_offset
        assert base == self.model.end
        self.model.batches.append(Batch(base, base + 1, producer_id, marks=commits))

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
        self.log = self.world.open(clean=clean, start=self.model.start, recovery_point=point)
        self.log.set_high_watermark(END)

    @precondition(lambda self: self.model.batches)
    @rule(back=st.integers(1, 6))
    def lose(self, back: int) -> None:
        """Another leader lacked the last batches; what was below the start is gone already."""
        kept = self.model.batches[:-back]
        offset = kept[-1].end if kept else 0
        if offset < self.model.start:
            return
        self.log.truncate_to(offset)
        assert self.log.log_end_offset == offset
        self.model.batches = kept
        self._learn_sequences()
        self.log.set_high_watermark(END)

    def _learn_sequences(self) -> None:
        self.sequences = {
            producer_id: entry.last_sequence + 1 for producer_id, entry in self.log.producers.entries.items()
        }

    @invariant()
    def is_as_the_model_says(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_end_offset == self.model.end
        assert self.log.last_stable_offset == self.model.stable()
        known = {
            producer_id: entry.transaction_first_offset
            for producer_id, entry in self.log.producers.entries.items()
            if entry.transaction_first_offset != NO_OFFSET
        }
        assert known == self.model.open()
        assert read_committed(self.log) == self.committed()

    def committed(self) -> list[tuple[int, bytes]]:
        """What a consumer of committed records should read."""
        return self.model.committed()

    @precondition(lambda self: self.model.end > self.model.start)
    @rule()
    def follow(self) -> None:
        """A follower that copies the log from its start knows the same of what it has."""
        (self.root / "copy").mkdir()
        copy = World(self.root / "copy", self.config).create()
        if self.log.segments[0].base_offset:
            copy.truncate_fully_and_start_at(self.log.segments[0].base_offset)
        for segment in self.log.segments:
            if segment.size:
                copy.append_as_follower(segment.read_bytes(0, segment.size))
        copy.raise_log_start_offset(0)
        copy.set_high_watermark(END)
        first = self.log.segments[0].base_offset
        begun = {one: offset for one, offset in self.model.open().items() if offset >= first}
        if begun == self.model.open():
            assert copy.last_stable_offset == max(min(begun.values(), default=self.model.end), first)
        found = [record for record in read_committed(copy) if record[0] >= self.model.start]
        assert found[: len(self.committed())] == self.committed()
        copy.close()
        shutil.rmtree(self.root / "copy")

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.world.crash(self.log)
            shutil.rmtree(self.root)


class RetainedMachine(TransactionMachine):
    """Records are deleted from the start of the log, in the middle of open transactions, too."""

    @rule(forward=st.integers(1, 8), retains=st.booleans())
    def delete(self, forward: int, retains: bool) -> None:
        offset = min(self.model.start + forward, self.model.end)
        self.log.raise_log_start_offset(offset)
        self.model.start = max(self.model.start, offset)
        if retains:
            self.log.delete_old_segments(NOW)


class CompactedMachine(TransactionMachine):
    """Rounds of compaction; each record has a key of its own, so that only aborted ones and markers go."""

    config = replace(SMALL, cleanup_policy=("compact",), delete_retention_ms=0)

    def write(self, values: tuple[bytes, ...], producer_id: int = -1, *, transactional: bool = False) -> int:
        """Append one batch; returns its base offset."""
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        epoch = 0 if producer_id >= 0 else -1
        return write(
            self.log,
            *((value, value) for value in values),
            pid=producer_id,
            epoch=epoch,
            sequence=sequence,
            transactional=transactional,
        )

    @rule(later=st.integers(0, 3))
    def clean(self, later: int) -> None:
        self.log.roll(NOW)
        compact(self.log, now=NOW + later * 1000)
        self.log.cleaner_checkpoint = None  # so that the next round looks at all of it again


MANY = settings(max_examples=20, stateful_step_count=25, deadline=None)
TransactionMachine.TestCase.settings = MANY
RetainedMachine.TestCase.settings = MANY
CompactedMachine.TestCase.settings = MANY
TestTransactions = TransactionMachine.TestCase
TestRetainedTransactions = RetainedMachine.TestCase
TestCompactedTransactions = CompactedMachine.TestCase
