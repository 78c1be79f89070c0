"""The metrics of a client as Kafka's performance tools print them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pkafka.clients.metrics import Metric, MetricName

# Kafka keeps these as whole numbers, and all other counts as doubles.
_WHOLE: Final = frozenset({"start-time-ms", "preferred-read-replica"})


def metric_lines(metrics: "Mapping[MetricName, Metric]") -> list[str]:
    """A line for each metric, sorted, under a heading; none where there are no metrics."""
    values = {_full_name(name): _text(name, metric.value) for name, metric in metrics.items()}
    if not values:
        return []
    width = max(map(len, values))
    heading = f"{'Metric Name'.ljust(width)}   Value"
    return [
        "",
        heading,
        *(f"{name.ljust(width)} : {value}" for name, value in sorted(values.items())),
    ]


def _full_name(name: "MetricName") -> str:
    tags = ", ".join(f"{key}={value}" for key, value in name.tags)
    return f"{name.group}:{name.name}:{{{tags}}}"


def _text(name: "MetricName", value: object) -> str:
    """As Java writes a double; what is none there stays as it is."""
    if name.name in _WHOLE or not isinstance(value, int | float):
        return str(value)
    return "NaN" if value != value else f"{value:.3f}"
