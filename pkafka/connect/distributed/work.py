"""Connectors and tasks, as a set that keeps its order; what is shared out among workers. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pkafka.connect.states import TaskName
from pkafka.java.hashing import copied_order, string_hash

_UNSIGNED_32: Final = 0xFFFF_FFFF


@dataclass
class Work:
    """Connectors and tasks, each once, in the order in which they came."""

    connectors: dict[str, None] = field(default_factory=dict)
    tasks: dict[TaskName, None] = field(default_factory=dict)

    @classmethod
    def of(cls, connectors: Iterable[str], tasks: Iterable[TaskName]) -> "Work":
        """These connectors and tasks."""
        return cls(dict.fromkeys(connectors), dict.fromkeys(tasks))

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def add(self, other: "Work") -> None:
        """Take others in, behind those that are there."""
        self.connectors |= other.connectors
        self.tasks |= other.tasks

    def minus(self, *others: "Work") -> "Work":
        """Those that none of the others has."""
        return Work.of(
            [each for each in self.connectors if not any(each in other.connectors for other in others)],
            [each for each in self.tasks if not any(each in other.tasks for other in others)],
        )

    def meets(self, other: "Work") -> bool:
        """Whether there is one that both have."""
        return not (
            self.connectors.keys().isdisjoint(other.connectors) and self.tasks.keys().isdisjoint(other.tasks)
        )

    def sorted(self) -> "Work":
        """The same, in the order of their names."""
        return Work.of(
            sorted(self.connectors, key=java_order),
            sorted(self.tasks, key=lambda task: (java_order(task.connector), task.number)),
        )

    def shared_with(self, other: "Work") -> "Work":
        """Those that both have, in the order of a hash set of Java's that was made of this."""
        return Work.of(
            [each for each in copied_order(self.connectors, string_hash) if each in other.connectors],
            [each for each in copied_order(self.tasks, _task_hash) if each in other.tasks],
        )


def configured_work(tasks: Mapping[str, int]) -> Work:
    """All that is configured.

    Args:
        tasks: how many each connector has.
    """
    return Work.of(
        tasks, [TaskName(name, number) for name, count in tasks.items() for number in range(count)]
    )


def java_order(name: str) -> bytes:
    """The key by which Java sorts names: by UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def _task_hash(task: TaskName) -> int:
    return (31 * string_hash(task.connector) + task.number) & _UNSIGNED_32
