"""What one partition of __consumer_offsets says: its records played in order, the last word on each key counts.

Pure: the coordinator reads the log in steps and hands in the batches. The rules are those of Kafka's
GroupMetadataManager, but for records that nobody can read: Kafka then gives up the whole partition and coordinates its
groups as if they were new; here only the record is left out, and an error is logged.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pkafka.errors import ProtocolError
from pkafka.model import TopicPartition
from pkafka.protocol.messages.records.group_metadata import GroupMetadataValue
from pkafka.records.batch import BatchHeader
from pkafka.records.control import ControlType
from pkafka.records.control import decode_key as decode_control_key
from pkafka.records.reading import Record
from pkafka.server.groups.offsets import PartitionKey, StoredOffset
from pkafka.server.groups.records import (
    GroupKey,
    OffsetKey,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)

log = logging.getLogger(__name__)


class LoadedGroup(NamedTuple):
    """A group as the log has it.

    Attributes:
        value: its state; None when it only ever stored offsets.
        offsets: what is committed.
        transactional: by producer id, commits of transactions that are still open.
    """

    value: GroupMetadataValue | None
    offsets: dict[PartitionKey, StoredOffset]
    transactional: dict[int, dict[PartitionKey, StoredOffset]]


class Replay:
    """Plays the batches of one partition.

    Args:
        source: whose they are, for the log.
    """

    def __init__(self, source: TopicPartition) -> None:
        self._source = source
        self._groups: dict[str, GroupMetadataValue] = {}
        self._offsets: dict[OffsetKey, StoredOffset] = {}
        self._open: defaultdict[int, dict[OffsetKey, StoredOffset]] = defaultdict(dict)

    def play(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Take over one batch, the next in the log."""
        if header.is_control:
            if records:
                self._end_transaction(header.producer_id, records[0])
            return
        for record in records:
            try:
                self._take(header, records[0].offset, record)
            except ProtocolError as error:
                log.error("Ignoring the record at offset %d of %s: %s", record.offset, self._source, error)

    def _take(self, header: BatchHeader, batch_offset: int, record: Record) -> None:
        if record.key is None:
            raise ProtocolError("it has no key")
        key = decode_key(record.key)
        if isinstance(key, OffsetKey):
            stored = (
                None
                if record.value is None
                else StoredOffset(batch_offset, decode_offset_value(record.value))
            )
            if header.is_transactional:
                pending = self._open[header.producer_id]
                if stored is None:
                    pending.pop(key, None)
                else:
                    pending[key] = stored
            elif stored is None:
                self._offsets.pop(key, None)
            else:
                self._offsets[key] = stored
        elif isinstance(key, GroupKey):
            if record.value is None:
                self._groups.pop(key.group, None)
            else:
                self._groups[key.group] = decode_group_value(record.value)
        else:
            self._unknown(key)

    def _unknown(self, key: UnknownKey) -> None:
        log.warning(
            "Unknown message key with version %d while loading offsets and group metadata from %s. Ignoring it."
            " It could be a left over from an aborted upgrade.",
            key.version,
            self._source,
        )

    def _end_transaction(self, producer_id: int, marker: Record) -> None:
        pending = self._open.pop(producer_id, {})
        if decode_control_key(marker.key) is not ControlType.COMMIT:
            return
        for key, stored in pending.items():
            known = self._offsets.get(key)
            if known is None or known.batch_offset < stored.batch_offset:
                self._offsets[key] = stored

    def groups(self) -> dict[str, LoadedGroup]:
        """All that is left in the end, by group id."""
        found = {group: LoadedGroup(value, {}, {}) for group, value in self._groups.items()}

        def of(group: str) -> LoadedGroup:
            return found.setdefault(group, LoadedGroup(None, {}, {}))

        for key, stored in self._offsets.items():
            of(key.group).offsets[key.topic, key.partition] = stored
        for producer_id, pending in self._open.items():
            for key, stored in pending.items():
                of(key.group).transactional.setdefault(producer_id, {})[key.topic, key.partition] = stored
        return found
