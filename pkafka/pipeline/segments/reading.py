"""Reads the batches of a split, and says where damage lies and why. Files alone, without Spark or Arrow.

Damage is the same for every size of splits: behind damage, the search for a right batch ends at the next batch that
the offset index leads to, and a split ends at such a batch at the latest.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pkafka.pipeline.segments.index import IndexedBatches
from pkafka.pipeline.segments.plan import Split
from pkafka.records.batch import BatchHeader
from pkafka.tools.logs.segment_walk import Batch, SegmentWalk

WRONG_CHECKSUM: Final = "wrong checksum"
_TORN: Final = "too few bytes for a batch"


class Damage(NamedTuple):
    """Bytes of a segment that are no batch."""

    position: int
    size: int
    reason: str


Found: TypeAlias = Batch | Damage


def batches_of(split: Split, wanted: Callable[[BatchHeader], bool] | None = None) -> Iterator[Found]:
    """The batches of a split in order, those with a wrong checksum too, and between them what is no batch.

    Args:
        split: of a plan; what has been cut off its file since then is left out.
        wanted: asked about each batch's header; of one that is not, nothing more is looked at.

    Raises:
        OSError: the file cannot be read; FileNotFoundError: it is gone.
    """
    path, at, last_offset = Path(split.segment.path), split.start, -1
    stop = split.stop
    while at < stop:
        walk = SegmentWalk(path, start=at, bytes_max=stop, wanted=wanted)
        broken: int | None = None
        for batch in walk:
            if not batch.is_valid:
                broken = batch.position
                break
            last_offset = batch.header.last_offset
            yield batch
        stop = min(stop, walk.size)
        if broken is None:
            if walk.end >= stop:
                return
            broken = walk.end
        at = _next_right(split, broken, stop)
        yield from _past_damage(path, broken, at, wanted, last_offset)


def _next_right(split: Split, position: int, stop: int) -> int:
    """Where the index leads to the next batch behind a position that is damaged; the end of the split without one."""
    with IndexedBatches.of(split.segment.path, split.segment.base_offset) as index:
        return index.next_batch(position + 1, stop) or stop


def _past_damage(
    path: Path, start: int, stop: int, wanted: Callable[[BatchHeader], bool] | None, last_offset: int
) -> Iterator[Found]:
    damages: list[Damage] = []
    walk = SegmentWalk(
        path,
        start=start,
        bytes_max=stop,
        wanted=wanted,
        resync=True,
        after_offset=last_offset,
        on_damage=lambda *what: damages.append(Damage(*what)),
    )
    for batch in walk:
        yield from damages
        damages.clear()
        yield batch
    yield from damages
    if walk.end < min(stop, walk.size):
        yield Damage(walk.end, walk.size - walk.end, walk.fault or _TORN)
