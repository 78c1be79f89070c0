"""Loads one partition of __consumer_offsets: plays its records in order; the last record of each key counts.

Pure: the coordinator reads the log in steps and hands in the batches. The rules are those of Kafka's
GroupMetadataManager, with one difference. For a record that it cannot read Kafka gives up the whole partition and
coordinates its groups as if they were new; Replay leaves only that record out, and logs an error.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

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
    Key,
    OffsetKey,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")


class LoadedGroup(NamedTuple):
    """Holds a group as the log has it.

    Attributes:
        value: its state; None when the group has only ever stored offsets.
        offsets: the committed offsets.
        transactional: the commits of open transactions, by producer id.
    """

    value: GroupMetadataValue | None
    offsets: dict[PartitionKey, StoredOffset]
    transactional: dict[int, dict[PartitionKey, StoredOffset]]


class _Last(NamedTuple):
    """Holds the last record of a key so far. Its value is decoded at the end, when no record can replace it any
    more."""

    batch_offset: int
    offset: int
    value: bytes


class Replay:
    """Plays the batches of one partition.

    Args:
        source: the partition, for log lines.
    """

    def __init__(self, source: TopicPartition) -> None:
        self._source = source
        self._keys: dict[bytes, Key] = {}
        self._groups: dict[str, _Last] = {}
        self._offsets: dict[OffsetKey, _Last] = {}
        self._open: defaultdict[int, dict[OffsetKey, _Last]] = defaultdict(dict)

    def play(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Take over one batch, the next in the log."""
        if header.is_control:
            if records:
                self._end_transaction(header.producer_id, records[0])
            return
        offsets = self._open[header.producer_id] if header.is_transactional else self._offsets
        for record in records:
            key = self._key_of(record)
            value = None if record.value is None else _Last(records[0].offset, record.offset, record.value)
            if type(key) is OffsetKey:
                _put(offsets, key, value)
            elif type(key) is GroupKey:
                _put(self._groups, key.group, value)

    def _key_of(self, record: Record) -> Key | None:
        """Decode the key; None when it cannot be decoded."""
        if record.key is None:
            self._cannot_read(record.offset, "it has no key")
            return None
        key = self._keys.get(record.key)
        if key is None:
            try:
                key = self._keys[record.key] = decode_key(record.key)
            except ProtocolError as error:
                self._cannot_read(record.offset, str(error))
                return None
            if isinstance(key, UnknownKey):
                log.warning(
                    "Unknown message key with version %d while loading offsets and group metadata from %s. Ignoring it."
                    " It could be a left over from an aborted upgrade.",
                    key.version,
                    self._source,
                )
        return key

    def _cannot_read(self, offset: int, problem: str) -> None:
        log.error("Ignoring the record at offset %d of %s: %s", offset, self._source, problem)

    def _end_transaction(self, producer_id: int, marker: Record) -> None:
        pending = self._open.pop(producer_id, {})
        if decode_control_key(marker.key) is not ControlType.COMMIT:
            return
        for key, last in pending.items():
            known = self._offsets.get(key)
            if known is None or known.batch_offset < last.batch_offset:
                self._offsets[key] = last

    def groups(self) -> Iterator[tuple[str, LoadedGroup]]:
        """Return the groups that are left after the last batch."""
        offsets: defaultdict[str, list[tuple[int | None, OffsetKey, _Last]]] = defaultdict(list)
        for key, last in self._offsets.items():
            offsets[key.group].append((None, key, last))
        for producer_id, pending in self._open.items():
            for key, last in pending.items():
                offsets[key.group].append((producer_id, key, last))
        for group_id in {**self._groups, **offsets}:
            state = self._groups.get(group_id)
            value = None if state is None else self._read(state, decode_group_value)
            group = LoadedGroup(value, {}, {})
            for transaction, key, last in offsets.get(group_id, ()):
                committed = self._read(last, decode_offset_value)
                if committed is not None:
                    into = (
                        group.offsets
                        if transaction is None
                        else group.transactional.setdefault(transaction, {})
                    )
                    into[key.topic, key.partition] = StoredOffset(last.batch_offset, committed)
            if value is not None or group.offsets or group.transactional:
                yield group_id, group

    def _read(self, last: _Last, decode: Callable[[bytes], V]) -> V | None:
        try:
            return decode(last.value)
        except ProtocolError as error:
            self._cannot_read(last.offset, str(error))
            return None


def _put(into: dict[K, _Last], key: K, last: _Last | None) -> None:
    if last is None:
        into.pop(key, None)
    else:
        into[key] = last
