"""What a worker counts of its group, for Prometheus: under the names of ``connect-worker-rebalance-metrics``."""

from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pkafka.connect.distributed.rebalance_figures import Rounds

_GROUP: Final = "kafka_connect_connect_worker_rebalance_metrics"


class InGroup(NamedTuple):
    """A worker's place in its group.

    Args:
        protocol: ``connect-protocol``, as Kafka names it: EAGER, COMPATIBLE or SESSIONED.
        leader_url: ``leader-name``, the URL of the leader's REST API; None: not known.
        epoch: ``epoch``, the generation.
        rounds: what was counted of the group's rounds.
    """

    protocol: str
    leader_url: str | None
    epoch: int
    rounds: Rounds


def group_metrics(found: InGroup) -> list[Metric]:
    """The metrics. What is a text for Kafka is a label here, of a metric that is 1."""
    rounds = found.rounds
    return [
        _text("connect_protocol", "The Connect protocol that the cluster uses.", found.protocol),
        _text("leader_name", "The leader of the group.", found.leader_url or ""),
        GaugeMetricFamily(f"{_GROUP}_epoch", "The generation of this worker.", found.epoch),
        CounterMetricFamily(
            f"{_GROUP}_completed_rebalances", "Rebalances that this worker has completed.", rounds.completed
        ),
        GaugeMetricFamily(
            f"{_GROUP}_rebalancing", "Whether this worker is rebalancing.", int(rounds.is_under_way)
        ),
        GaugeMetricFamily(
            f"{_GROUP}_rebalance_avg_time_ms", "Milliseconds to rebalance, on average.", rounds.avg_ms
        ),
        GaugeMetricFamily(
            f"{_GROUP}_rebalance_max_time_ms", "Milliseconds to rebalance, at most.", rounds.max_ms
        ),
        GaugeMetricFamily(
            f"{_GROUP}_time_since_last_rebalance_ms",
            "Milliseconds since this worker has completed a rebalance.",
            rounds.since_last_ms,
        ),
    ]


def _text(name: str, about: str, value: str) -> Metric:
    family = GaugeMetricFamily(f"{_GROUP}_{name}", about, labels=(name,))
    family.add_metric((value,), 1)
    return family
