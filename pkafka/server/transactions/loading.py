"""Loads one partition of __transaction_state: the last record of each transactional id counts.

Pure: the coordinator reads the log in steps and hands in what it finds. A record that cannot be read is left out and an
error is logged; Kafka gives up the rest of the partition then, and coordinates the half that it has.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.model import TopicPartition
from pkafka.records.batch import BatchHeader
from pkafka.records.reading import Record
from pkafka.server.coordinator.shards import Shard
from pkafka.server.transactions.hosted import Entry
from pkafka.server.transactions.records import decode_key, decode_value
from pkafka.server.transactions.stored import StoredIds, not_at_rest
from pkafka.server.transactions.transaction import Facts

log = logging.getLogger(__name__)

_KEYS_PER_STEP: Final = 10_000


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
        coordinate: Callable[[int, StoredIds], None],
    ) -> None:
        self._source = source
        self._restored = restored
        self._coordinate = coordinate
        self.values: dict[bytes, bytes] = {}
        """The last value of each key."""

    def begin(self) -> None:
        """Forget what an attempt before this one has played."""
        self.values = {}

    def play(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Take over one batch, the next in the log, unless its values are noted already."""
        if header.is_control:
            return
        for record in records:
            if record.key is None:
                log.error(
                    "Ignoring the record at offset %d of %s: it has no key", record.offset, self._source
                )
            elif record.value is None:
                self.values.pop(record.key, None)
            else:
                self.values[record.key] = record.value

    def shard(self) -> StoredIds:
        """Make what the entries go into; it has those of ids at rest already when :meth:`entries` is at its end."""
        return StoredIds(self.values, self._restore)

    def entries(self) -> Iterator[tuple[str, Entry] | None]:
        """Make the entries of ids that are not at rest, after the last batch."""
        others: list[bytes] = []
        items = iter(self.values.items())
        while some := list(islice(items, _KEYS_PER_STEP)):
            others += not_at_rest(some)
            yield None
        for key in others:
            yield self._entry(key, self.values.pop(key))

    def _entry(self, key: bytes, value: bytes) -> tuple[str, Entry] | None:
        try:
            transactional_id = decode_key(key)
            facts = None if transactional_id is None else decode_value(value)
        except ProtocolError as error:
            log.error("Ignoring a record of %s with the key %r: %s", self._source, key, error)
            return None
        if transactional_id is None or facts is None:
            log.warning(
                "Unknown version of a key while loading transaction metadata from %s. Ignoring it."
                " It could be a left over from an aborted upgrade.",
                self._source,
            )
            return None
        return transactional_id, self._restore(transactional_id, facts)

    def _restore(self, transactional_id: str, facts: Facts) -> Entry:
        return self._restored(transactional_id, self._source.partition, facts)

    def loaded(self, entries: Shard[Entry], took_ms: float) -> None:
        """Begin with the entries."""
        assert isinstance(entries, StoredIds)
        self.values = {}
        log.log(
            logging.INFO if entries else logging.DEBUG,
            "Finished loading %d transaction metadata from %s in %d milliseconds",
            len(entries),
            self._source,
            took_ms,
        )
        self._coordinate(self._source.partition, entries)
