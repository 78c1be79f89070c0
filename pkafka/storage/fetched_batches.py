"""What a follower checks of the batches that its leader sent, before it writes them as they are."""

from itertools import pairwise

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import Offset
from pkafka.storage.batch_scan import StoredBatch, scan_buffer
from pkafka.storage.log_values import UnexpectedOffsetError
from pkafka.storage.segment import AppendedBatch


def batches_in_order(view: memoryview, log_end_offset: Offset) -> list[StoredBatch]:
    """All whole batches; a partial last one, which a fetch may end with, is left out.

    Raises:
        UnexpectedOffsetError: they begin below ``log_end_offset``.
        ApiError: CORRUPT_MESSAGE when one is damaged or they are not in order.
    """
    batches = list(scan_buffer(view, check=True))
    if batches and batches[0].base_offset < log_end_offset:
        raise UnexpectedOffsetError(batches[0].base_offset, batches[0].last_offset, log_end_offset)
    for one, following in pairwise(batches):
        if following.base_offset <= one.last_offset:
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the leader sent offset {following.base_offset} behind {one.last_offset}",
            )
    return batches


def entries_of(run: list[StoredBatch]) -> list[AppendedBatch]:
    """What a segment notes of batches that are written in one piece, by their places in it."""
    start = run[0].position
    return [(each.position - start, each.size, each.last_offset, each.max_timestamp) for each in run]


def split_for_segments(batches: list[StoredBatch], room: int, segment_bytes: int) -> list[list[StoredBatch]]:
    """Runs that each fit a segment: one fetch may be larger than ``segment.bytes``.

    Args:
        batches: what to write, at least one.
        room: the bytes that the active segment has left.
        segment_bytes: the bytes of a new segment.
    """
    runs: list[list[StoredBatch]] = [[]]
    for batch in batches:
        if batch.size > room and runs[-1]:
            runs.append([])
            room = segment_bytes
        runs[-1].append(batch)
        room -= batch.size
    return runs
