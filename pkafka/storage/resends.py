"""Which of a producer's batches before its last one may come a second time.

A snapshot knows the last batch of each producer and no more (its format is Kafka's), and so does a log that was opened
or cut. A client may have several in flight whose acknowledgements it did not get, and sends all of them again: the
earlier ones would be neither new nor known, and an idempotent producer gives up on that (OUT_OF_ORDER_SEQUENCE_NUMBER),
or begins a new epoch and writes them twice. They are still in the log, near the end that it had then.
"""

from typing import Final

from pkafka.model import Offset
from pkafka.storage.batch_scan import DamagedBatchError
from pkafka.storage.producer_rebuild import replay
from pkafka.storage.producer_state import BATCHES_REMEMBERED, ProducerEntry, Producers
from pkafka.storage.segment import Segment
from pkafka.storage.segments import Segments

_BYTES_LOOKED_AT: Final = BATCHES_REMEMBERED * 1_048_588
"""What one producer has in flight at the most, with Kafka's default of max.message.bytes."""


def remember_resends(producers: Producers, segments: Segments, below: Offset) -> None:
    """Add to each producer the batches before those that it knows, as far as they lie shortly before an offset.

    Args:
        producers: as of the end of the log.
        segments: of the log, recovered.
        below: where the log ended when it was opened or cut; what was written since, producers know.

    Raises:
        OSError: the disk refused.
    """
    incomplete = [entry for entry in producers.entries.values() if _lacks_some(entry)]
    left = _BYTES_LOOKED_AT
    for segment in reversed(list(segments)):
        if segment.base_offset >= below:
            continue
        if not incomplete or left <= 0:
            return
        end = segment.position_of(below)
        found = _replayed(segment, end, left)
        incomplete = [known for known in incomplete if _go_back(known, found.entries.get(known.producer_id))]
        left -= end


def _lacks_some(entry: ProducerEntry) -> bool:
    return 0 < len(entry.batches) < BATCHES_REMEMBERED and entry.batches[0].first_sequence != 0


def _replayed(segment: Segment, end: int, length: int) -> Producers:
    found = Producers()
    try:
        for batch in segment.scan_before(end, length):
            replay(found, batch)
    except DamagedBatchError:
        # Below the recovery point, where only a reader may run into it: nothing to cut, and less to remember.
        found.clear()
    return found


def _go_back(known: ProducerEntry, found: ProducerEntry | None) -> bool:
    """Take what was found of a producer farther back. Whether there may be more."""
    if found is None:
        return True
    if found.producer_epoch != known.producer_epoch:
        return False
    first = known.batches[0].last_offset
    earlier = [batch for batch in found.batches if batch.last_offset < first]
    known.batches = (*earlier, *known.batches)[-BATCHES_REMEMBERED:]
    return _lacks_some(known)
