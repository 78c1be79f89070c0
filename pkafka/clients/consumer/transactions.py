"""Which batches of a fetch a ``read_committed`` reader may not see (KIP-98)."""

from collections.abc import Iterable

from pkafka.protocol.messages.fetch import AbortedTransaction
from pkafka.records.batch import BatchHeader
from pkafka.records.control import ControlType, decode_key


class AbortedBatches:
    """Asked about the batches of a fetch one after the other, as they come.

    Args:
        aborted: the aborted transactions that reach into the fetched range, as the broker lists them.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborting: set[int] = set()

    def skip(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to a transaction that is aborted further on."""
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= header.last_offset:
            self._aborting.add(waiting.pop().producer_id)
        return header.is_transactional and not header.is_control and header.producer_id in self._aborting

    def note_marker(self, header: BatchHeader, key: bytes | None) -> None:
        """A control batch came: with an abort marker, the producer's aborted transaction ends."""
        if decode_key(key) is ControlType.ABORT:
            self._aborting.discard(header.producer_id)
