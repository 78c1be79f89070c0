"""What the benchmark of single levers gives, and how long and large it is."""

from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """One figure of one way of doing it."""

    lever: str
    way: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how large."""

    seconds: float
    bytes: int
    partitions: tuple[int, ...]
    read_partitions: int
    """Of the topic that more and more consumers share."""

    consumers: tuple[int, ...]
    """How many read it: some of them more than it has partitions."""
