"""Which offset a key was last seen at: what compaction remembers of the dirty part of a log.

Kafka's SkimpyOffsetMap in another shape: 24 bytes a slot, 16 for a digest of the key and 8 for the offset, whatever the
length of the keys. The table grows up to the memory that it may have, so that a small log costs little. When it is full
the rest of the dirty part waits for the next round.
"""

import mmap
import secrets
from typing import Final

from pkafka.records.loops import append_record, map_keys, move_slots, select_records

_SLOT_BYTES: Final = 24
_SLOTS_MIN: Final = 4096
_GROWTH: Final = 4
_SEED_BITS: Final = 64


class OffsetMap:
    """Keys to offsets, by digest.

    Args:
        bytes_max: the memory of the table; what a batch that comes first needs is had in any case.
        load_factor: how full the table may be, between 0 and 1 (log.cleaner.io.buffer.load.factor).
    """

    def __init__(self, bytes_max: int, load_factor: float) -> None:
        self._slots_max = max(bytes_max // _SLOT_BYTES, 2)
        self._load_factor = load_factor
        self._digest = memoryview(bytearray(16)).cast("Q")
        self._seed = secrets.randbits(_SEED_BITS)
        self._slots = min(_SLOTS_MIN, self._slots_max)
        self._table = _table(self._slots)
        self._entries_max = self._most(self._slots)
        self.entries = 0
        self.latest_offset = -1
        """All keys up to and with this offset are in the map."""

    @property
    def utilization(self) -> float:
        """How full the memory is that the map may have."""
        return self.entries / self._slots_max

    def put_batch(self, data: bytes, count: int, base_offset: int, start_offset: int) -> bool:
        """Note the keys of the records of a batch.

        Args:
            data: the uncompressed records.
            count: how many they are.
            base_offset: of the batch.
            start_offset: records before it do not count.

        Returns:
            False when the map is full; some of the keys may be in it, which does no harm while ``latest_offset`` does
            not move.

        Raises:
            RecordError: the framing of the records is damaged.
        """
        entries_max = self._entries_max
        is_first = self.latest_offset < start_offset
        while True:
            if is_first:
                entries_max = self._most(self._slots)
            self.entries, is_full = map_keys(
                data,
                count,
                base_offset,
                start_offset,
                self._table,
                self._digest,
                self._slots,
                self._seed,
                self.entries,
                entries_max,
            )
            if not is_full:
                return True
            if self._slots >= self._slots_max and not is_first:
                return False
            self._grow()
            entries_max = self._entries_max

    def put(self, key: bytes, offset: int, start_offset: int) -> bool:
        """The same for one key of a message of an old format."""
        return self.put_batch(_record(key), 1, offset, start_offset)

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Whether the map knows no later offset of ``key``."""
        return self.select(_record(key), 1, offset, drop_tombstones=False)[1] == 1

    def select(
        self, data: bytes, count: int, base_offset: int, *, drop_tombstones: bool
    ) -> tuple[bytearray, int, int, int, int]:
        """The records of a batch that stay; see ``pkafka.records._keys.select_records``.

        Raises:
            RecordError: the framing of the records is damaged.
        """
        selected: tuple[bytearray, int, int, int, int] = select_records(
            data,
            count,
            base_offset,
            self.latest_offset,
            self._table,
            self._digest,
            self._slots,
            self._seed,
            drop_tombstones,
        )
        return selected

    def _most(self, slots: int) -> int:
        # One slot stays free, or a search for what is not there would not end.
        return min(max(int(slots * self._load_factor), 1), slots - 1)

    def _grow(self) -> None:
        old = self._table
        slots = self._slots * _GROWTH
        self._slots = slots if self._slots >= self._slots_max else min(slots, self._slots_max)
        self._table = _table(self._slots)
        move_slots(old, self._table, self._slots)
        self._entries_max = self._most(min(self._slots, self._slots_max))


def _table(slots: int) -> "memoryview[int]":
    """Zeros, which take no memory before they are written to."""
    return memoryview(mmap.mmap(-1, slots * _SLOT_BYTES)).cast("B").cast("Q")


def _record(key: bytes) -> bytes:
    """A record of nothing but a key."""
    out = bytearray()
    append_record(out, 0, 0, key, b"", b"\x00")
    return bytes(out)
