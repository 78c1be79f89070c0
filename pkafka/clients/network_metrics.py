"""What a client's connections carry, under Kafka's names: ``<client>-metrics`` and ``<client>-node-metrics``.

A node is called ``node-N`` by its broker id, and ``node--1``, ``node--2``... while it is known as a bootstrap server.
How long brokers throttle the client is counted here too, at every answer, as in Kafka; how it is kept to, see
``throttling.py``.
"""

import time
from collections.abc import Callable
from typing import Final

from pkafka.clients.connection import Address, Pending
from pkafka.clients.metrics import Metrics, Sensor, Stat

_SENT: Final = {
    "outgoing-byte-rate": (Stat.RATE, "The number of outgoing bytes per second"),
    "outgoing-byte-total": (Stat.TOTAL, "The total number of outgoing bytes"),
    "request-rate": (Stat.OCCURRENCE_RATE, "The number of requests sent per second"),
    "request-total": (Stat.COUNT, "The total number of requests sent"),
    "request-size-avg": (Stat.AVG, "The average size of requests sent."),
    "request-size-max": (Stat.MAX, "The maximum size of any request sent."),
}
_RECEIVED: Final = {
    "incoming-byte-rate": (Stat.RATE, "The number of bytes received per second"),
    "incoming-byte-total": (Stat.TOTAL, "The total number of bytes received"),
    "response-rate": (Stat.OCCURRENCE_RATE, "The number of responses received per second"),
    "response-total": (Stat.COUNT, "The total number of responses received"),
}
_LATENCY: Final = {
    "request-latency-avg": (Stat.AVG, "The average request latency in ms"),
    "request-latency-max": (Stat.MAX, "The maximum request latency in ms"),
}
_THROTTLE: Final = {
    "producer": ("producer-metrics", "produce-throttle-time"),
    "consumer": ("consumer-fetch-manager-metrics", "fetch-throttle-time"),
}


class NetworkMetrics:
    """The sensors of one client's network; see ``Network.measure``.

    Args:
        metrics: where they are registered.
        client: ``producer``, ``consumer`` or ``admin-client``.
        node_of: the id that a broker is called by.
    """

    def __init__(self, metrics: Metrics, client: str, node_of: Callable[[Address], int]) -> None:
        self._metrics = metrics
        self._group = f"{client}-metrics"
        self._node_group = f"{client}-node-metrics"
        self._node_of = node_of
        self._connections = 0
        self._nodes: dict[int, tuple[Sensor, Sensor, Sensor]] = {}
        self._sent = metrics.sensor("sent", self._group, _SENT)
        self._received = metrics.sensor("received", self._group, _RECEIVED)
        self._either_way = self._occurrences("network-io", "network operations (reads or writes)")
        self._created = self._occurrences("connection-creation", "new connections established")
        self._ended = self._occurrences("connection-close", "connections closed")
        self._waits = metrics.sensor(
            "select",
            self._group,
            {
                "select-rate": (Stat.OCCURRENCE_RATE, "The number of times the I/O layer waited per second"),
                "select-total": (Stat.COUNT, "The total number of times the I/O layer waited"),
                **_times("io-wait", "waited", legacy="io-waittime-total"),
            },
        )
        self._work = metrics.sensor("io", self._group, _times("io", "worked", legacy="iotime-total"))
        self._throttle: Sensor | None = None
        if client in _THROTTLE:
            group, name = _THROTTLE[client]
            stats = {
                f"{name}-avg": (Stat.AVG, "The average throttle time in ms"),
                f"{name}-max": (Stat.MAX, "The maximum throttle time in ms"),
            }
            self._throttle = metrics.sensor(name, group, stats)
        metrics.gauge(
            "connection-count",
            self._group,
            lambda: self._connections,
            "The current number of active connections.",
        )

    def opened(self) -> None:
        """A connection was begun."""
        self._connections += 1
        self._created.record()

    def ended(self) -> None:
        """A connection is closed."""
        self._connections -= 1
        self._ended.record()

    def sent(self, pending: Pending, size_bytes: int) -> None:
        """A request goes out."""
        pending.sent_ns = time.perf_counter_ns()
        self._sent.record(size_bytes)
        self._either_way.record()
        self._node(pending.address)[0].record(size_bytes)

    def received(self, pending: Pending, size_bytes: int) -> None:
        """The answer to a request came."""
        self._received.record(size_bytes)
        self._either_way.record()
        _, received, latency = self._node(pending.address)
        received.record(size_bytes)
        latency.record((time.perf_counter_ns() - pending.sent_ns) / 1e6)

    def throttled(self, throttle_ms: int) -> None:
        """An answer came, with the time for which its broker throttles this client; mostly 0."""
        if self._throttle is not None:
            self._throttle.record(throttle_ms)

    def polled(self, begun_ns: int, waited_ns: int) -> None:
        """What there was to do is done; the wait for it began, and was over, then (perf_counter_ns)."""
        self._waits.record(waited_ns - begun_ns)
        self._work.record(time.perf_counter_ns() - waited_ns)

    def _node(self, address: Address) -> tuple[Sensor, Sensor, Sensor]:
        node = self._node_of(address)
        found = self._nodes.get(node)
        if found is None:
            tags = {"node-id": f"node-{node}"}
            found = self._nodes[node] = (
                self._metrics.sensor("node-sent", self._node_group, _SENT, tags=tags),
                self._metrics.sensor("node-received", self._node_group, _RECEIVED, tags=tags),
                self._metrics.sensor("node-latency", self._node_group, _LATENCY, tags=tags),
            )
        return found

    def _occurrences(self, name: str, what: str) -> Sensor:
        stats = {
            f"{name}-rate": (Stat.RATE, f"The number of {what} per second"),
            f"{name}-total": (Stat.TOTAL, f"The total number of {what}"),
        }
        return self._metrics.sensor(name, self._group, stats)


def _times(name: str, what: str, *, legacy: str) -> dict[str, tuple[Stat, str]]:
    total = f"The total time in ns that the I/O thread {what}"
    return {
        f"{name}-time-ns-avg": (Stat.AVG, f"The average time in ns that the I/O thread {what}"),
        f"{name}-time-ns-total": (Stat.TOTAL, total),
        f"{name}-ratio": (Stat.SHARE_OF_TIME, f"The fraction of time that the I/O thread {what}"),
        legacy: (Stat.TOTAL, f"*Deprecated* {total}"),
    }
