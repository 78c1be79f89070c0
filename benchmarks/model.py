"""What a scenario is, and what it gives."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.systems import Target

WARM_UP_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a scenario gives for each system and round.

    ``bar`` bounds the ratio of pkafka's median to Kafka's: from below where more is better, else from above;
    ``bar_pure`` stands in its place where the compiled loops are not in use. ``floor`` bounds the median itself, on
    every system, from above where less is better: for figures that compare clients.
    """

    name: str
    unit: str
    more_is_better: bool
    bar: float | None = None
    bar_pure: float | None = None
    floor: float | None = None

    def bar_of(self, system: str) -> float | None:
        """The bar for one system."""
        return self.bar_pure if system == "pkafka-pure" and self.bar_pure is not None else self.bar


@dataclass(slots=True)
class Settings:
    """How long and how large; and what the rounds of a run share."""

    seconds: float = 20.0
    rounds: int = 5
    quick: bool = False
    kafka: dict[str, float] = field(default_factory=dict)
    """What was learned of Kafka before the rounds, such as its highest rate."""

    def scaled(self, amount: int, quick: int) -> int:
        """An amount of data or work, less of it for a quick run."""
        return quick if self.quick else amount


Measure = Callable[[Target, Settings], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load and the figures it gives.

    Args:
        name: as on the command line.
        about: what is measured, with acks, codec, sizes: one line above the table.
        figures: what ``measure`` gives, by name.
        measure: one round on one system.
        started: whether the system runs already when it is measured.
        warm_up: whether Kafka has the same load for 30 seconds first.
        prepare: once a system before the first round (on Kafka first), for data to read or rates to be learned.
        tls: whether it also listens with TLS, at ``target.tls``.
        settings: gives more settings of the system, which ``target.settings`` keeps.
        beside: what runs beside the target in all rounds; entered before ``prepare``, kept in ``target.beside``.
    """

    name: str
    about: str
    figures: tuple[Figure, ...]
    measure: Measure
    started: bool = True
    tls: bool = False
    warm_up: bool = True
    prepare: Callable[[Target, Settings], None] | None = None
    settings: Callable[[], Mapping[str, object]] | None = None
    beside: Callable[[Target], AbstractContextManager[object]] | None = None
