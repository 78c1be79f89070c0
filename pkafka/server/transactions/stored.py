"""The transactional ids of one partition of __transaction_state: those in use as entries, those at rest as records.

A broker may know a million ids, of which few have a transaction. To decode the records of all would take most of the
time of a loading, and most of the memory. So an id at rest stays as the log has it until it is asked for. Pure.
"""

from collections.abc import Callable, Collection, Iterator
from struct import Struct
from typing import Final

from pkafka.model import Millis
from pkafka.records.loops import others_than
from pkafka.server.transactions.hosted import Entry
from pkafka.server.transactions.records import decode_value
from pkafka.server.transactions.states import TransactionState
from pkafka.server.transactions.transaction import Facts

_VALUE_BYTES: Final = 37
"""The size of a value of version 0 without partitions."""
_STATE_POSITION: Final = 16
_UPDATE_POSITION: Final = 21
_UPDATE: Final = Struct(">q")
_KEY_OVERHEAD: Final = 4
"""A key has its version and the length of the id before the id."""
_ID_BYTES_MAX: Final = 0x7FFF
_VERSION_0: Final = b"\0\0"
_IDLE: Final = bytes(int(state) for state in TransactionState if state.is_idle)


def not_at_rest(items: list[tuple[bytes, bytes]]) -> list[bytes]:
    """The keys of those records, given with their values, that have to be decoded at once.

    All others say that an id has no transaction, and can be decoded later. To be decoded are records of other versions
    and of ids that are not ASCII, too, whatever they say.
    """
    found: list[bytes] = others_than(items, _VALUE_BYTES, _STATE_POSITION, _IDLE)
    return found


class StoredIds:
    """Finds the entries of a partition, and makes those of ids at rest when they are asked for.

    Args:
        at_rest: values by key, none of which :func:`not_at_rest` names; belongs to this object from now on.
        restored: makes an entry of what the log has of an id.
    """

    def __init__(self, at_rest: dict[bytes, bytes], restored: Callable[[str, Facts], Entry]) -> None:
        self._at_rest = at_rest
        self._restored = restored
        self.coordinator_epoch = -1
        """The leader epoch under which the partition was loaded."""
        self._entries: dict[str, Entry] = {}

    def get(self, key: str) -> Entry | None:
        """Find the entry of an id; once it is made, it stays."""
        entry = self._entries.get(key)
        if entry is None and self._at_rest and key.isascii() and len(key) <= _ID_BYTES_MAX:
            value = self._at_rest.pop(_key_of(key), None)
            if value is not None:
                entry = self._entries[key] = self._made(key, value)
        return entry

    def _made(self, key: str, value: bytes) -> Entry:
        entry = self._restored(key, decode_value(value))
        entry.coordinator_epoch = self.coordinator_epoch
        return entry

    def __setitem__(self, key: str, entry: Entry) -> None:
        """Take in an entry."""
        self._entries[key] = entry

    def pop(self, key: str, default: None = None) -> Entry | None:
        """Forget an entry, which may be gone already."""
        return self._entries.pop(key, default)

    def __len__(self) -> int:
        """How many ids there are."""
        return len(self._entries) + len(self._at_rest)

    def values(self) -> Collection[Entry]:
        """The entries that are made: others may refer to them."""
        return self._entries.values()

    def all(self) -> Iterator[Entry]:
        """The entries of all ids, to look at: those of ids at rest are made for the occasion."""
        yield from list(self._entries.values())
        for key in list(self._at_rest):
            value = self._at_rest.get(key)
            if value is not None:
                yield self._made(_id_of(key), value)

    def idle(self) -> Iterator[tuple[Millis, str]]:
        """Every id without a transaction: when it last changed, and the id. Ids may come and go meanwhile."""
        for name, entry in list(self._entries.items()):
            transaction = entry.transaction
            if transaction.pending is None and transaction.facts.state.is_idle:
                yield transaction.facts.update_ms, name
        for key in list(self._at_rest):
            value = self._at_rest.get(key)
            if value is not None:
                yield _UPDATE.unpack_from(value, _UPDATE_POSITION)[0], _id_of(key)


def _key_of(name: str) -> bytes:
    return _VERSION_0 + len(name).to_bytes(2, "big") + name.encode("ascii")


def _id_of(key: bytes) -> str:
    return key[_KEY_OVERHEAD:].decode("ascii")
