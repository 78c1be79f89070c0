"""Whether the producers' batches of one leader append may be written, tried on copies of the producers' entries.

The log commits the copies once the write has succeeded; until then the state is as before.
"""

from typing import Final

from pkafka.model import Offset
from pkafka.records.control import ControlType
from pkafka.records.validation import ValidatedBatch
from pkafka.storage.log_values import AppendOrigin
from pkafka.storage.producer_rebuild import read_marker
from pkafka.storage.producer_state import (
    BatchMetadata,
    CompletedTransaction,
    ProducerBatch,
    ProducerEntry,
    Producers,
    advance_sequence,
)

_CLIENT: Final = AppendOrigin.CLIENT
"""Looked up once: the members of an enumeration are slow to get at."""
_new_tuple: Final = tuple.__new__
"""Makes a named tuple without the call of its class, which takes three times as long."""


class ProducerTrial:
    """Producer entries that the batches of one append are tried on, kept only when the write succeeds.

    Args:
        producers: of the log.
        origin: of the batches.
    """

    __slots__ = ("_is_clients", "_producers", "begun", "completed", "entries")

    def __init__(self, producers: Producers, origin: AppendOrigin) -> None:
        self._producers = producers
        self._is_clients = origin is _CLIENT
        self.entries: dict[int, ProducerEntry] = {}
        self.begun: list[tuple[int, Offset]] = []
        self.completed: list[CompletedTransaction] = []

    def take(
        self, batch: ValidatedBatch, data: bytearray | memoryview, base: Offset, last: Offset
    ) -> BatchMetadata | None:
        """Try one batch at [base, last].

        Returns:
            The original when it is a duplicate.
        """
        producer_id = batch.producer_id
        entry = self.entries.get(producer_id) or self._producers.get(producer_id)
        if batch.is_control:
            entry = self.entries[producer_id] = entry.copy()
            self._take_marker(entry, batch, data, base)
            return None
        first = batch.base_sequence
        last_sequence = advance_sequence(first, batch.last_offset_delta)
        if self._is_clients:
            duplicate = entry.find_duplicate(batch.producer_epoch, first, last_sequence)
            if duplicate is not None:
                return duplicate
        noted: ProducerBatch = _new_tuple(
            ProducerBatch,
            (
                producer_id,
                batch.producer_epoch,
                first,
                last_sequence,
                base,
                last,
                batch.max_timestamp,
                batch.is_transactional,
            ),
        )
        if batch.producer_epoch < entry.producer_epoch:
            entry.check_epoch(batch.producer_epoch, base)
        if self._is_clients:
            verifications = self._producers.verifications
            if verifications and producer_id in verifications:
                verifications[producer_id].check_sequence(noted)
            entry.check_sequence(noted)
        entry = self.entries[producer_id] = entry.copy()
        if entry.add(noted):
            self.begun.append((producer_id, base))
        return None

    def _take_marker(
        self, entry: ProducerEntry, batch: ValidatedBatch, data: bytearray | memoryview, base: Offset
    ) -> None:
        marker = read_marker(memoryview(data)[batch.position : batch.position + batch.size])
        if marker is None:
            return
        completed = entry.end_transaction(
            producer_epoch=batch.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            is_aborted=marker.control_type is ControlType.ABORT,
            offset=base,
            timestamp=batch.max_timestamp,
            check=True,
        )
        if completed is not None:
            self.completed.append(completed)
