"""Rounds to a table: minimum, median and maximum of every figure, and the ratio of medians against its bar."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.model import Figure, Scenario


@dataclass(slots=True)
class Report:
    """What one scenario gave."""

    scenario: Scenario
    rounds: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """By system."""
    failures: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The table as text."""
        lines = [f"{self.scenario.name}: {self.scenario.about}"]
        lines.append(
            f"  {'figure':<34}{'system':<14}{'min':>11}{'median':>11}{'max':>11}  {'unit':<12}{'ratio':>7}  bar"
        )
        for figure in self.scenario.figures:
            for system, rounds in self.rounds.items():
                values = [values[figure.name] for values in rounds]
                if values:
                    lines.append(self._line(figure, system, values))
        lines += [f"  FAILED {failure}" for failure in self.failures]
        return lines

    def _line(self, figure: Figure, system: str, values: list[float]) -> str:
        cells = "".join(
            f"{value:>11,.3g}" if value < 100 else f"{value:>11,.0f}"
            for value in (min(values), median(values), max(values))
        )
        ratio = self.ratio(figure, system)
        words = "" if ratio is None else f"{ratio:>7.2f}  {_verdict(figure, figure.bar_of(system), ratio)}"
        if figure.floor is not None:
            words = f"{'':>7}  {_verdict(figure, figure.floor, median(values))}"
        return f"  {figure.name:<34}{system:<14}{cells}  {figure.unit:<12}{words}"

    def ratio(self, figure: Figure, system: str) -> float | None:
        """The median on ``system`` by the median on Kafka; None for Kafka itself, or without it."""
        medians = {
            name: median(values[figure.name] for values in rounds)
            for name, rounds in self.rounds.items()
            if rounds
        }
        kafka = medians.get("kafka")
        if system == "kafka" or not kafka or system not in medians:
            return None
        return medians[system] / kafka

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured."""
        ratios = {
            figure.name: {system: self.ratio(figure, system) for system in self.rounds if system != "kafka"}
            for figure in self.scenario.figures
        }
        return {
            "about": self.scenario.about,
            "units": {figure.name: figure.unit for figure in self.scenario.figures},
            "floors": {
                figure.name: figure.floor for figure in self.scenario.figures if figure.floor is not None
            },
            "bars": {figure.name: figure.bar for figure in self.scenario.figures if figure.bar is not None},
            "rounds": self.rounds,
            "ratios": ratios,
            "failures": self.failures,
        }


def _verdict(figure: Figure, bar: float | None, ratio: float) -> str:
    if bar is None:
        return ""
    met = ratio >= bar if figure.more_is_better else ratio <= bar
    return f"{'>=' if figure.more_is_better else '<='} {bar:g} {'met' if met else 'MISSED'}"
