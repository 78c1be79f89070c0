"""Loads one partition of __transaction_state: the last record of each transactional id counts.

Pure: the coordinator reads the log in steps and hands in the batches. A record that cannot be read is left out and an
error is logged; Kafka gives up the rest of the partition then, and coordinates the half that it has.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from pkafka.errors import ProtocolError
from pkafka.model import TopicPartition
from pkafka.records.batch import BatchHeader
from pkafka.records.reading import Record
from pkafka.server.transactions.hosted import Entry
from pkafka.server.transactions.records import decode_key, decode_value
from pkafka.server.transactions.transaction import Facts

log = logging.getLogger(__name__)


class TransactionLoading:
    """Loads a partition.

    Args:
        source: the partition.
        restored: makes an entry of what the log has of an id.
        coordinate: begins with the entries.
    """

    def __init__(
        self,
        source: TopicPartition,
        restored: Callable[[str, int, Facts], Entry],
        coordinate: Callable[[int, Mapping[str, Entry]], None],
    ) -> None:
        self._source = source
        self._restored = restored
        self._coordinate = coordinate
        self._last: dict[bytes, tuple[int, bytes]] = {}
        """By key: the offset of the last record, and its value."""

    def begin(self) -> None:
        """Forget what an attempt before this one has played."""
        self._last = {}

    def play(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Take over one batch, the next in the log."""
        if header.is_control:
            return
        for record in records:
            if record.key is None:
                self._cannot_read(record.offset, "it has no key")
            elif record.value is None:
                self._last.pop(record.key, None)
            else:
                self._last[record.key] = record.offset, record.value

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Make the entries that are left after the last batch."""
        for key, (offset, value) in self._last.items():
            try:
                transactional_id = decode_key(key)
                facts = None if transactional_id is None else decode_value(value)
            except ProtocolError as error:
                self._cannot_read(offset, str(error))
                continue
            if transactional_id is None or facts is None:
                log.warning(
                    "Unknown version of a key while loading transaction metadata from %s. Ignoring it."
                    " It could be a left over from an aborted upgrade.",
                    self._source,
                )
                continue
            yield transactional_id, self._restored(transactional_id, self._source.partition, facts)

    def loaded(self, entries: Mapping[str, Entry], took_ms: float) -> None:
        """Begin with the entries."""
        self._last = {}
        log.log(
            logging.INFO if entries else logging.DEBUG,
            "Finished loading %d transaction metadata from %s in %d milliseconds",
            len(entries),
            self._source,
            took_ms,
        )
        self._coordinate(self._source.partition, entries)

    def _cannot_read(self, offset: int, problem: str) -> None:
        log.error("Ignoring the record at offset %d of %s: %s", offset, self._source, problem)
