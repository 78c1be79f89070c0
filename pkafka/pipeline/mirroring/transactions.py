"""Which transactions of a log were aborted: found by the markers in its segments, as no broker is there to ask."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pkafka.pipeline.segments.plan import Segment
from pkafka.records.batch import BatchHeader
from pkafka.records.control import ControlType, decode_key
from pkafka.records.reading import decode_columns_at
from pkafka.tools.logs.segment_walk import SegmentWalk


class Aborted(NamedTuple):
    """A transaction that was aborted, or never ended.

    Args:
        producer_id: of its producer.
        first_offset: of its first batch.
        last_offset: of its marker; None: it has none.
    """

    producer_id: int
    first_offset: int
    last_offset: int | None

    def reaches_into(self, first_offset: int, last_offset: int) -> bool:
        """Whether a part of it lies between two offsets, both included."""
        return self.first_offset <= last_offset and (
            self.last_offset is None or self.last_offset >= first_offset
        )


def aborted_in(segments: Sequence[Segment], end: int) -> list[Aborted]:
    """The aborted transactions of a log, in the order of their ends; those without an end last.

    Batches are not checked, but for those that are markers.

    Args:
        segments: of the log, in their order.
        end: from this offset on nothing is looked at.

    Raises:
        OSError: a file cannot be read.
    """
    opened: dict[int, int] = {}
    found: list[Aborted] = []

    def is_marker(header: BatchHeader) -> bool:
        if header.is_transactional and not header.is_control:
            opened.setdefault(header.producer_id, header.base_offset)
        return header.is_control

    for segment in segments:
        if segment.base_offset >= end:
            break
        for producer_id, offset, kind in _markers(segment, end, is_marker):
            first = opened.pop(producer_id, None)
            if first is not None and kind is ControlType.ABORT:
                found.append(Aborted(producer_id, first, offset))
    return found + [Aborted(producer_id, first, None) for producer_id, first in opened.items()]


def _markers(
    segment: Segment, end: int, is_marker: Callable[[BatchHeader], bool]
) -> Iterator[tuple[int, int, ControlType]]:
    """Producer, offset and kind of the markers of a segment."""
    for batch in SegmentWalk(Path(segment.path), stop_offset=end, wanted=is_marker):
        if not batch.is_valid:
            return
        header, columns = decode_columns_at(batch.view, batch.at, batch.header, check_crc=False)
        kind = None if columns is None else decode_key(columns.keys[0])
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            yield header.producer_id, header.base_offset, kind
