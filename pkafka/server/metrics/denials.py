"""What clients were refused, on the page of metrics: whom to ask why."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def family(counts: Mapping[str, int]) -> "Metric":
    """The counts by principal, of all processes together."""
    from prometheus_client.core import CounterMetricFamily

    found = CounterMetricFamily(
        "pkafka_authorizer_denials",
        "Resources that a principal asked for and was refused, by rules or by an authorizer of the operator's.",
        labels=["principal"],
    )
    for principal, count in sorted(counts.items()):
        found.add_metric([principal], count)
    return found
