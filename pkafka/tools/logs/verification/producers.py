"""The producers of a log, as its batches tell of them: compared with snapshots and with aborted transactions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from pkafka.errors import StorageError
from pkafka.records.control import ControlType, decode_end_marker, decode_key
from pkafka.records.errors import RecordError
from pkafka.records.reading import decode_batch
from pkafka.tools.logs.rows import ProducerRow
from pkafka.tools.logs.segment_walk import Batch
from pkafka.tools.logs.side_files import base_offset_of, file_content, producers_in
from pkafka.tools.logs.verification.report import NOTHING, LogReport


@dataclass(slots=True)
class Producer:
    """What a producer snapshot says of one producer."""

    epoch: int = -1
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    transaction_start: int = -1
    latest: int = field(default=-1, compare=False)
    """The largest time so far."""

    def enter(self, epoch: int) -> None:
        """Forget the batches of an earlier epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.last_sequence = self.last_offset = -1
            self.offset_delta = 0

    @classmethod
    def of(cls, row: ProducerRow) -> "Producer":
        return cls(
            row.producer_epoch,
            row.last_sequence,
            row.last_offset,
            row.offset_delta,
            row.timestamp,
            row.coordinator_epoch,
            row.current_txn_first_offset,
            row.timestamp,
        )


class AbortedTransaction(NamedTuple):
    """An aborted transaction, as the log has it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def __str__(self) -> str:
        return f"producer {self.producer_id}: offsets {self.first_offset} to {self.last_offset}"


class Producers:
    """What is known of every producer, batch by batch.

    Args:
        report: gets what is wrong.
        snapshots: the producer snapshots, in order of their offsets.
        knows_all: whether the log begins at its very first offset, so that no producer is from before.
    """

    def __init__(self, report: LogReport, snapshots: Sequence[Path], *, knows_all: bool) -> None:
        self._report = report
        self._snapshots = list(snapshots)
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """Where the transactions that are open began, by producer."""
        self._aborted: list[AbortedTransaction] = []
        self.knows_all = knows_all

    def taken_aborted(self) -> list[AbortedTransaction]:
        """The transactions aborted since this was last asked."""
        found, self._aborted = self._aborted, []
        return found

    def batch(self, path: Path, batch: Batch) -> None:
        """Take note of a batch with a producer."""
        header = batch.header
        state = self._producers.setdefault(header.producer_id, Producer())
        if header.is_control:
            self._marker(path, batch, state)
            return
        state.enter(header.producer_epoch)
        if header.is_transactional and state.transaction_start < 0:
            state.transaction_start = self._open[header.producer_id] = header.base_offset
        state.last_sequence = header.last_sequence
        state.last_offset = header.last_offset
        state.offset_delta = header.last_offset_delta
        state.timestamp = header.max_timestamp
        state.latest = max(state.latest, header.max_timestamp)

    def _marker(self, path: Path, batch: Batch, state: Producer) -> None:
        header = batch.header
        try:
            records = decode_batch(batch.view, batch.at, header)
            if not records:
                return
            if decode_key(records[0].key) not in (ControlType.ABORT, ControlType.COMMIT):
                return
            marker = decode_end_marker(records[0].key, records[0].value)
        except RecordError as error:
            self._report.add(path, "records", error.message, position=batch.position, size=batch.size)
            return
        state.enter(header.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.timestamp = header.max_timestamp
        state.latest = max(state.latest, header.max_timestamp)
        first, state.transaction_start = state.transaction_start, -1
        self._open.pop(header.producer_id, None)
        if first >= 0 and marker.control_type is ControlType.ABORT:
            stable = min(self._open.values(), default=header.last_offset + 1)
            self._aborted.append(AbortedTransaction(header.producer_id, first, header.last_offset, stable))

    def compare(self, reached: int | None, log_end: int) -> None:
        """Compare the snapshots up to an offset (None: all) with what the log says so far.

        Args:
            log_end: behind the last offset that the log has, as far as it is known.
        """
        while self._snapshots:
            offset = base_offset_of(self._snapshots[0])
            if reached is not None and offset > reached:
                return
            path = self._snapshots.pop(0)
            if reached is None and offset > log_end:
                self._report.add(
                    path, "producers", f"it is of offset {offset}, but the log ends at {log_end}"
                )
                continue
            try:
                rows = list(producers_in(file_content(path)))
            except StorageError as error:
                self._report.add(path, "producers", str(error))
                continue
            for row in rows:
                self._compare_producer(path, offset, row)
            self.knows_all = True

    def _compare_producer(self, path: Path, offset: int, row: ProducerRow) -> None:
        report = self._report
        theirs = Producer.of(row)
        ours = self._producers.get(row.producer_id)
        if ours is not None and theirs.timestamp == ours.latest:
            # A marker's time may be before that of its records; the larger of them is as good.
            theirs.timestamp = ours.timestamp
        start = report.first_offset if report.first_offset != NOTHING else offset
        if row.last_offset >= offset:
            text = f"producer {row.producer_id} has written offset {row.last_offset}, which is not before {offset}"
            report.add(path, "producers", text)
        elif ours is None or 0 <= row.last_offset < start:
            if row.last_offset >= start and not report.is_compacted:
                text = f"producer {row.producer_id} has written offset {row.last_offset}, but not in this log"
                report.add(path, "producers", text)
            # What lies before the log's start only the snapshot knows.
            self._take_over(row.producer_id, theirs)
        elif ours != theirs and not report.is_compacted:
            differences = ", ".join(
                f"{each.name.replace('_', ' ')} {there}, in the log {here}"
                for each in fields(ours)
                if each.compare
                and (there := getattr(theirs, each.name)) != (here := getattr(ours, each.name))
            )
            report.add(path, "producers", f"producer {row.producer_id}: {differences}")
            self._take_over(row.producer_id, theirs)

    def _take_over(self, producer_id: int, state: Producer) -> None:
        self._producers[producer_id] = state
        self._open.pop(producer_id, None)
        if state.transaction_start >= 0:
            self._open[producer_id] = state.transaction_start
