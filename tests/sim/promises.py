"""What producers of transactions were told, what readers of committed records have seen, and what must hold of both."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tests.sim.checker import Key
from tests.sim.world import World

TOPIC: Final = "x"
KEYS: Final[Sequence[Key]] = ((TOPIC, 0), (TOPIC, 1))
"""The partitions that transactions write to."""
_NO_OFFSET: Final = -1


class Fate(Enum):
    """What is known of a transaction."""

    OPEN = "open"
    ASKED = "asked to be committed"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True, eq=False)
class Transaction:
    """One transaction, as its producer knows it."""

    producer: str
    number: int
    fate: Fate = Fate.OPEN
    is_begun: bool = False
    """Whether its coordinator knows of it."""
    values: dict[Key, list[bytes]] = field(default_factory=dict)
    """What was acknowledged, by partition, in order."""
    offset: int | None = None
    """What it commits for its producer's group, once that was acknowledged."""


class Promises:
    """What producers were told of their transactions, and what readers have seen of them.

    Args:
        world: the world.
    """

    def __init__(self, world: World) -> None:
        self.transactions: list[Transaction] = []
        self._world = world
        self._of_value: dict[bytes, Transaction] = {}
        self.seen: dict[Key, dict[int, bytes]] = {key: {} for key in KEYS}
        """What a reader of committed records has read, by offset."""

    def begin(self, producer: str, number: int) -> Transaction:
        """A producer begins a transaction."""
        transaction = Transaction(producer, number)
        self.transactions.append(transaction)
        return transaction

    def sending(self, transaction: Transaction, values: Sequence[bytes]) -> None:
        """These records are on their way."""
        self._of_value.update(dict.fromkeys(values, transaction))

    def read(self, key: Key, offset: int, value: bytes, who: str) -> None:
        """A reader of committed records got one."""
        known = self.seen[key].setdefault(offset, value)
        transaction = self._of_value.get(value)
        if known != value:
            self._world.violated(f"{who} reads {value!r} at {offset} of {key}, where {known!r} was before")
        elif transaction is None:
            self._world.violated(f"{who} reads {value!r} of {key}, which is of no transaction")
        elif transaction.fate in (Fate.OPEN, Fate.ABORTED):
            self._world.violated(
                f"{who} reads {value!r} at {offset} of {key} as committed, and its transaction is"
                f" {transaction.fate.value}"
            )

    @property
    def committed(self) -> int:
        """How many transactions are."""
        return sum(one.fate is Fate.COMMITTED for one in self.transactions)

    def check_end(self, offsets: dict[str, int]) -> None:
        """All is read: each transaction is there once and whole, or not at all.

        Args:
            offsets: what is committed for the group of each producer.
        """
        places: dict[bytes, list[tuple[Key, int]]] = {}
        for key, found in self.seen.items():
            for offset, value in sorted(found.items()):
                places.setdefault(value, []).append((key, offset))
        for value, where in places.items():
            if len(where) > 1:
                self._world.violated(f"{value!r} is committed at {where}")
        for one in self.transactions:
            self._check_whole(one, places.keys())
        for producer in {one.producer: None for one in self.transactions}:
            mine = [one for one in self.transactions if one.producer == producer and one.offset is not None]
            self._check_offset(producer, mine, places.keys(), offsets.get(producer))

    def _check_whole(self, one: Transaction, seen: Set[bytes]) -> None:
        """All records of a transaction are there, or none."""
        values = [value for of_key in one.values.values() for value in of_key]
        there = [value for value in values if value in seen]
        name = f"transaction {one.number} of {one.producer}, {one.fate.value},"
        if one.fate is Fate.COMMITTED and len(there) < len(values):
            self._world.violated(f"{name} lacks {[value for value in values if value not in seen]}")
        elif one.fate is Fate.ABORTED and there:
            self._world.violated(f"{name} is there: {there}")
        elif there and len(there) < len(values):
            self._world.violated(f"{name} is there by half: {there} of {values}")

    def _check_offset(
        self, producer: str, mine: Sequence[Transaction], seen: Set[bytes], offset: int | None
    ) -> None:
        """The offset of a group is that of the last transaction with an offset that is committed."""
        possible: set[int | None] = {_NO_OFFSET}
        for one in mine:
            values = [value for of_key in one.values.values() for value in of_key]
            if one.fate is Fate.COMMITTED or (values and values[0] in seen):
                possible = {one.offset}
            elif one.fate is Fate.ASKED and not values:
                possible.add(one.offset)
        if offset not in possible:
            self._world.violated(f"the offset of {producer} is {offset}, and should be of {possible}")
