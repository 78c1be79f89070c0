"""Reads the files of a log, and shows them: as the text of Kafka's DumpLogSegments, or as rows for other formats.

Reads only, window by window, so memory stays the same for any directory. Batches are shown from their headers, and
records are decoded only when asked for.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pkafka.records import legacy
from pkafka.records.batch import BatchHeader
from pkafka.records.columns import RecordColumns
from pkafka.records.errors import RecordError
from pkafka.records.reading import INFLATED_BYTES_MAX, Record, decode_columns_at
from pkafka.tools.logs.findings import Finding, Findings
from pkafka.tools.logs.records.control import control_text
from pkafka.tools.logs.records.decoders import PLAIN, Content
from pkafka.tools.logs.records.plain_text import batch_line, record_lines, sequences_of, valid_text
from pkafka.tools.logs.rows import (
    BatchRow,
    DamageRow,
    NoteRow,
    OldMessage,
    RecordRow,
    Row,
    text_of,
)
from pkafka.tools.logs.segment_walk import NO_LIMIT, Batch, SegmentWalk
from pkafka.tools.logs.selection import EVERYTHING, Selection
from pkafka.tools.logs.side_files import (
    NAMED_FILES,
    SIDE_SUFFIXES,
    DumpError,
    SideFiles,
    base_offset_of,
    kind_of_side_file,
    position_before,
)

_KRAFT_SNAPSHOT: Final = ".checkpoint"
_KRAFT_BOOTSTRAP: Final = "bootstrap.checkpoint"
_BATCHED: Final = (".log", _KRAFT_SNAPSHOT)
SUFFIXES: Final = (*_BATCHED, *SIDE_SUFFIXES)
_BLOCK_LINES: Final = 2_000
_BLOCK_BYTES: Final = 1 << 18


def is_known(path: Path) -> bool:
    """Whether a file is one of a log, as its name says."""
    return path.suffix in SUFFIXES or path.name in NAMED_FILES


Records: TypeAlias = RecordColumns | list[RecordRow]
"""Of a batch: columns where all of them are plain, rows where they are markers or of an old format."""


def kinds_in(path: Path, *, records: bool) -> tuple[str, ...]:
    """The kinds of rows (see ``rows.FIELDS``) that a file can give, but for notes."""
    if is_batched(path):
        return ("batch", "record", "damage") if records else ("batch", "damage")
    return (kind_of_side_file(path),) if is_known(path) else ()


class Part(NamedTuple):
    """A part of a segment that is dumped alone: from one position where a batch begins up to another, or to the end.

    ``following`` is the offset that comes next, -1 where that is not known.
    """

    start: int
    stop: int | None = None
    following: int = -1


class Reached(NamedTuple):
    """How far a segment, or a part of it, was read: the position behind the last batch, and where the rest ends.

    ``first_offset`` is that of the first record, ``following`` the one behind the last; -1 where none was decoded.
    """

    end: int
    size: int
    first_offset: int
    following: int
    is_damaged: bool


NOTHING: Final = Reached(0, 0, -1, -1, is_damaged=False)


@dataclass
class Dump:
    """How to dump, and what was found wrong on the way.

    Args:
        records: decode the records too.
        bytes_max: read at most so many bytes of a segment.
        verify_only: check indexes without showing their entries.
        sanity_only: only look whether an index would survive a start.
        selection: leave the rest out.
        resync: search the next plausible batch behind damage, as Kafka's tool does not.
        on_read: called with numbers of bytes read, for showing progress.
        part: of a segment, only this.

    Attributes:
        findings: what was found wrong.
        reached: how far the last segment was read.
    """

    records: bool = False
    bytes_max: int = NO_LIMIT
    verify_only: bool = False
    sanity_only: bool = False
    selection: Selection = EVERYTHING
    resync: bool = False
    on_read: Callable[[int], None] | None = None
    part: Part | None = None
    findings: Findings = field(default_factory=Findings)
    reached: Reached = NOTHING
    _passed_over: bool = field(default=False, init=False)

    def rows(self, path: Path) -> Iterator[Row]:
        """Everything in one file, a row each; what is wrong is added to ``findings``.

        Raises:
            DumpError: there is no such file, or its name has no base offset.
            OSError: it cannot be read.
        """
        if not is_batched(path):
            yield from self._side_file(path)
            return
        yield from self._heading(path)
        walk, damages = self._walk(path)
        for batch, records in self._batches(path, walk):
            yield from damages
            damages.clear()
            yield _row_of(batch)
            if records is not None:
                yield from record_rows(batch.header, records)
        yield from damages
        yield from self._end(path, walk)

    def text(
        self,
        path: Path,
        *,
        content: bool,
        metadata: bool = True,
        header_values: bool = False,
        by: Content = PLAIN,
    ) -> Iterator[bytes]:
        """What Kafka's tool prints of one file, in large blocks of whole lines.

        Args:
            content: show keys and payloads of records.
            metadata: show the other fields of records.
            header_values: show the values of headers too.
            by: how keys and payloads are shown.

        Raises:
            DumpError, OSError: as :meth:`rows`.
        """

        def line_of(row: Row) -> bytes:
            text = text_of(
                row, content=content, metadata=metadata, header_values=header_values, decode=by.texts
            )
            return f"{text}\n".encode(errors="replace")

        if not is_batched(path):
            yield from _blocks(line_of(row) for row in self._side_file(path))
            return
        yield b"".join([line_of(row) for row in self._heading(path)])
        fast = metadata and not header_values and (by.is_plain or not content)
        walk, damages = self._walk(path)
        lines: list[bytes] = []
        size = 0
        for batch, records in self._batches(path, walk):
            if damages:
                lines += map(line_of, damages)
                damages.clear()
            lines.append(batch_line(batch))
            if records is not None:
                if fast and isinstance(records, RecordColumns):
                    fresh = record_lines(records, batch.header, content=content)
                else:
                    fresh = [line_of(row) for row in record_rows(batch.header, records)]
                lines += fresh
                size += sum(map(len, fresh))
            if len(lines) > _BLOCK_LINES or size > _BLOCK_BYTES:
                yield valid_text(lines)
                lines.clear()
                size = 0
        lines += map(line_of, damages)
        lines += [line_of(row) for row in self._end(path, walk)]
        yield valid_text(lines)

    # -- segments -----------------------------------------------------------------------------------------

    def _heading(self, path: Path) -> Iterator[Row]:
        if self.part is not None and self.part.start:
            return
        if path.suffix == ".log":
            yield NoteRow(f"Log starting offset: {base_offset_of(path)}")
        elif path.name == _KRAFT_BOOTSTRAP:
            yield NoteRow("KRaft bootstrap snapshot")
        else:
            end, dash, epoch = path.stem.partition("-")
            if not (end.isdecimal() and dash and epoch.isdecimal()):
                raise DumpError(f"{path}: the name of a snapshot is its end offset and epoch")
            yield NoteRow(f"Snapshot end offset: {int(end)}, epoch: {int(epoch)}")

    def _walk(self, path: Path) -> tuple[SegmentWalk, list[DamageRow]]:
        """A walk, and where it will put the damage that it passes over."""
        damages: list[DamageRow] = []
        self._passed_over = False

        def note(position: int, size: int, reason: str) -> None:
            self._passed_over = True
            damages.append(DamageRow(position, size, reason))
            self._other(path, f"{size} bytes at position {position} are no batch: {reason}")

        # A header does not know the earliest time of its records, so where they are decoded they say it themselves.
        by_header = self.selection._replace(time_to=None) if self.records else self.selection
        walk = SegmentWalk(
            path,
            bytes_max=self._limit(),
            start=self._start_of(path),
            stop_offset=self.selection.offset_to,
            wanted=None if self.selection.is_everything else by_header.may_have,
            resync=self.resync,
            on_damage=note,
            on_read=self.on_read,
        )
        return walk, damages

    def _limit(self) -> int:
        stop = None if self.part is None else self.part.stop
        return self.bytes_max if stop is None else min(self.bytes_max, stop)

    def _start_of(self, path: Path) -> int:
        """Where to begin: as near to the first offset that is wanted as the offset index leads, if it is right."""
        if self.part is not None and self.part.start:
            return self.part.start
        if self.selection.offset_from is None or self.bytes_max != NO_LIMIT or path.suffix != ".log":
            return 0
        return position_before(path, self.selection.offset_from)

    def _batches(self, path: Path, walk: SegmentWalk) -> Iterator[tuple[Batch, Records | None]]:
        """The batches that are wanted, with their records where these are; notes what is wrong with them."""
        everything, decoded = self.selection.is_everything, self.records
        first, following = -1, -1 if self.part is None else self.part.following
        try:
            for batch in walk:
                if not batch.is_valid:
                    self._other(path, f"the batch at position {batch.position} is not valid")
                if not decoded:
                    yield batch, None
                    continue
                try:
                    records = records_of(batch)
                except RecordError as error:
                    self._other(
                        path, f"the records of the batch at position {batch.position}: {error.message}"
                    )
                    yield batch, None
                    continue
                if everything:
                    following = self._check_offsets(path, records, following)
                    if first < 0 and records is not None and len(records):
                        first = _first_offset(records)
                elif records is not None:
                    records = _selected(records, self.selection)
                    if not len(records):
                        continue
                yield batch, records
        except FileNotFoundError as error:
            raise DumpError(f"{path} does not exist") from error
        is_damaged = self._passed_over or walk.end < walk.size
        self.reached = Reached(walk.end, walk.size, first, following, is_damaged)

    def _check_offsets(self, path: Path, records: Records | None, following: int) -> int:
        """List offsets that do not follow each other.

        Returns:
            The offset that has to come next.
        """
        if records is None or not len(records):
            return following
        if isinstance(records, RecordColumns):
            offsets = records.offsets
            if isinstance(offsets, range) and following in (-1, offsets.start):
                return offsets.stop
        else:
            offsets = [row.record.offset for row in records]
        for offset in offsets:
            if offset != following != -1:
                self.note_gap(path, following, offset)
            following = offset + 1
        return following

    def note_gap(self, path: Path, following: int, offset: int) -> None:
        """Note that an offset stands where another one has to follow."""
        text = f"  {following - 1} is followed by {offset}"
        self.findings.add(Finding.GAP, path, text, damage=offset < following)

    def _end(self, path: Path, walk: SegmentWalk) -> Iterator[Row]:
        trailing = walk.size - walk.end
        if trailing <= 0 or self._limit() != NO_LIMIT:
            return
        if walk.fault is not None:
            # Here Kafka's tool ends with a stack trace.
            self._other(path, f"at position {walk.end}: {walk.fault}")
            return
        self._other(path, f"{trailing} invalid bytes at the end")
        yield NoteRow(f"Found {trailing} invalid bytes at the end of {path.name}")

    def _other(self, path: Path, text: str) -> None:
        self.findings.add(Finding.OTHER, path, f"{path}: {text}")

    def _side_file(self, path: Path) -> Iterator[Row]:
        files = SideFiles(
            self.findings,
            wanted=self.selection.has,
            bytes_max=self.bytes_max,
            verify_only=self.verify_only,
            sanity_only=self.sanity_only,
        )
        return files.rows(path)


def record_rows(header: BatchHeader, records: Records) -> Iterator[RecordRow]:
    """The records of a batch, a row each."""
    if isinstance(records, list):
        yield from records
        return
    kind = header.timestamp_type
    for fields, sequence in zip(records.rows(), sequences_of(records.offsets, header), strict=False):
        yield RecordRow(Record(*fields), header.magic, kind, sequence, None)


def is_batched(path: Path) -> bool:
    """Whether a file holds batches, as its name says."""
    return path.suffix in _BATCHED and path.name not in NAMED_FILES


def _row_of(batch: Batch) -> BatchRow:
    return BatchRow(batch.header, batch.position, batch.size, batch.is_valid)


def records_of(batch: Batch) -> Records | None:
    """The records of a batch, None without any; also of one with a wrong checksum, as far as that goes.

    Raises:
        RecordError: they cannot be decoded.
    """
    header = batch.header
    if header.magic < 2:
        return _old_records(batch)
    columns = decode_columns_at(batch.view, batch.at, header, check_crc=False)[1]
    if columns is None or not header.is_control:
        return columns
    return [
        RecordRow(record, header.magic, header.timestamp_type, -1, control_text(record))
        for record in map(Record._make, columns.rows())
    ]


def _old_records(batch: Batch) -> list[RecordRow]:
    view, at = batch.view, batch.at
    view = view[at : at + batch.size]
    try:
        messages = list(legacy.deep_messages(view, bytes_max=INFLATED_BYTES_MAX))
        are_valid = True
    except RecordError:
        messages = list(legacy.deep_messages(view, bytes_max=INFLATED_BYTES_MAX, check_crc=False))
        are_valid = False
    kind = batch.header.timestamp_type
    return [
        RecordRow(
            Record(each.offset, each.timestamp, each.key, each.value, ()),
            each.magic,
            kind,
            -1,
            None,
            OldMessage(each.crc, are_valid),
        )
        for each in messages
    ]


def _selected(records: Records, selection: Selection) -> Records:
    """Those of a batch's records that are wanted."""
    if isinstance(records, list):
        return [row for row in records if selection.has(row.record.offset, row.record.timestamp)]
    chosen = [
        index
        for index, (offset, time) in enumerate(zip(records.offsets, records.timestamps, strict=True))
        if selection.has(offset, time)
    ]
    if len(chosen) == len(records):
        return records
    if chosen and chosen[-1] - chosen[0] == len(chosen) - 1:
        return records.part(chosen[0], chosen[-1] + 1)
    rows = list(records.rows())
    return RecordColumns.of(rows[index] for index in chosen)


def _first_offset(records: Records) -> int:
    return records.offsets[0] if isinstance(records, RecordColumns) else records[0].record.offset


def _blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines joined, many at a time."""
    block: list[bytes] = []
    for line in lines:
        block.append(line)
        if len(block) >= _BLOCK_LINES:
            yield b"".join(block)
            block.clear()
    yield b"".join(block)
