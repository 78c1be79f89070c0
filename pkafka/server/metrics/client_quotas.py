"""The quotas of clients on the page of metrics: who uses how much of what."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def families(workers: Sequence[Mapping[str, Any]]) -> "Iterable[Metric]":
    """What the page has of them."""
    from prometheus_client.core import GaugeMetricFamily

    labels = ["quota", "user", "client_id"]
    use = GaugeMetricFamily(
        "pkafka_client_quota_use",
        "What clients use that share a quota, a second; of request_percentage, percent of a core.",
        labels=labels,
    )
    limit = GaugeMetricFamily("pkafka_client_quota_limit", "How much they may use.", labels=labels)
    for (key, user, client_id), (used, most) in sorted(_use(workers).items()):
        use.add_metric([key, user, client_id], used)
        limit.add_metric([key, user, client_id], most)
    yield use
    yield limit
    given_up = GaugeMetricFamily(
        "pkafka_client_quota_rates_given_up",
        "Rates that were forgotten before their time, because there were too many clients.",
    )
    given_up.add_metric([], max((worker["client_quotas_given_up"] for worker in workers), default=0))
    yield given_up


def _use(workers: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Use and limit of each quota that clients have come to use, by key, user and client id; workers measure together
    and show the same."""
    return {
        (key, user, client_id): (used, most)
        for worker in workers
        for key, user, client_id, used, most in worker["client_quotas"]
    }
