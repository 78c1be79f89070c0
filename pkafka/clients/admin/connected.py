"""What every admin client is, whatever it can do: connections to a cluster, and what it counts."""

import itertools
from collections.abc import Mapping
from typing import Final, Self

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig
from pkafka.clients.metrics import Metric, MetricName, metrics_of
from pkafka.clients.network_metrics import NetworkMetrics
from pkafka.clock import Clock, SystemClock

_numbers: Final = itertools.count(1)


class ConnectedAdmin:
    """An admin client that is connected to a cluster; its subclasses say what it can do.

    Args:
        config: Kafka's admin keys, at least ``bootstrap.servers``; a mapping of dotted keys or the typed form.
        clock: for time-outs.
        fail_fast: raise at once when no bootstrap server can be reached.

    Raises:
        ConfigError: a key has a bad value, or a reporter of ``metric.reporters`` is not one.
    """

    def __init__(
        self,
        config: Mapping[str, object] | ClientConfig,
        *,
        clock: Clock | None = None,
        fail_fast: bool = False,
    ) -> None:
        typed = config if isinstance(config, ClientConfig) else ClientConfig.from_properties(config)
        typed = typed.but(client_id=typed.client_id or f"adminclient-{next(_numbers)}")
        clock = clock or SystemClock()
        self._metrics = metrics_of(typed, clock)
        self.cluster = Cluster(typed, clock=clock, fail_fast=fail_fast)
        self.cluster.network.measure(NetworkMetrics(self._metrics, "admin-client", self.cluster.node_of))

    def metrics(self) -> dict[MetricName, Metric]:
        """What the client counts, under the names of Kafka's AdminClient."""
        return self._metrics.metrics()

    def close(self) -> None:
        """Close every connection, and the reporters."""
        self.cluster.close()
        self._metrics.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
