"""Which batches of a fetch a ``read_committed`` reader may see (KIP-98)."""

from collections.abc import Iterator, Sequence

from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.records.batch import BatchHeader
from pkafka.records.control import ControlType, decode_key
from pkafka.records.reading import Record


def committed_only(
    batches: Iterator[tuple[BatchHeader, list[Record]]], aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Leave out the batches of aborted transactions; control batches pass, for their offsets.

    Args:
        aborted: the aborted transactions that reach into the fetched range, as the broker lists them.
    """
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    for header, records in batches:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborting.add(waiting.pop().producer_id)
        if header.is_control:
            if records and decode_key(records[0].key) is ControlType.ABORT:
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            yield header, []
            continue
        yield header, records
