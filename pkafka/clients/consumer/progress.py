"""How far the records of a partition are processed, when they are handed out in order and completed in any."""

from collections import deque
from collections.abc import Iterable

from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import NO_EPOCH


class Progress:
    """The records of one partition that are being processed; knows no thread."""

    def __init__(self) -> None:
        self._pending: deque[ConsumerRecord] = deque()
        self._done: set[int] = set()
        self._last: ConsumerRecord | None = None

    @property
    def outstanding(self) -> int:
        """How many records cannot be committed yet: they, or some before them, are not completed."""
        return len(self._pending)

    @property
    def offset(self) -> OffsetAndMetadata | None:
        """What may be committed: everything before it is completed. None before anything is."""
        last = self._last
        if last is None:
            return None
        epoch = None if last.leader_epoch == NO_EPOCH else last.leader_epoch
        return OffsetAndMetadata(last.offset + 1, "", epoch)

    def hand_out(self, records: Iterable[ConsumerRecord]) -> None:
        """These, which come next, are being processed from now on."""
        self._pending.extend(records)

    def complete(self, record: ConsumerRecord) -> None:
        """One of those was processed."""
        self._done.add(record.offset)
        while self._pending and self._pending[0].offset in self._done:
            self._last = self._pending.popleft()
            self._done.discard(self._last.offset)
