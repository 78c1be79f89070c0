"""What is counted of a client's connections."""

from pkafka.clients.admin import Admin
from pkafka.clients.connection import Address, Pending
from pkafka.clients.consumer import Consumer
from pkafka.clients.metrics import Metric, Metrics
from pkafka.clients.network_metrics import NetworkMetrics
from pkafka.clock import ManualClock
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.metadata import MetadataRequest
from tests.fakes.broker import FakeBroker

HERE, THERE = Address("h", 1), Address("h", 2)


def test_bytes_and_requests_are_counted_in_all_and_by_node() -> None:
    metrics = Metrics(ManualClock())
    network = NetworkMetrics(metrics, "producer", {HERE: 3, THERE: -1}.__getitem__)
    network.opened()
    network.opened()
    for address, size in ((HERE, 10), (HERE, 30), (THERE, 5)):
        pending = Pending(ApiKey.METADATA, MetadataRequest(), address=address, deadline_ms=0)
        network.sent(pending, size)
        network.received(pending, size * 2)
    network.ended()
    assert metrics.value("outgoing-byte-total", "producer-metrics") == 45
    assert metrics.value("incoming-byte-total", "producer-metrics") == 90
    assert metrics.value("network-io-total") == 6
    assert (metrics.value("connection-count"), metrics.value("connection-close-total")) == (1, 1)
    assert metrics.value("connection-creation-total") == 2
    group = "producer-node-metrics"
    assert metrics.value("request-total", group, node_id="node-3") == 2
    assert metrics.value("request-size-max", group, node_id="node-3") == 30
    assert metrics.value("incoming-byte-total", group, node_id="node--1") == 10
    assert metrics.value("request-latency-avg", group, node_id="node-3") >= 0


def test_a_consumer_counts_under_its_own_name() -> None:
    with FakeBroker({"t": 1}) as broker, Consumer({"bootstrap.servers": broker.bootstrap}) as consumer:
        consumer.partitions_for("t")
        found = {(name.group, name.name): each.value for name, each in consumer.metrics().items()}
    assert found["consumer-metrics", "request-total"] >= 2
    assert found["consumer-metrics", "select-total"] >= 1
    assert ("consumer-node-metrics", "outgoing-byte-total") in found


def test_an_admin_client_counts_and_tells_its_reporters() -> None:
    told: list[str] = []

    class Reporter:
        def init(self, metrics: list[Metric]) -> None:
            told.append(f"init {len(metrics)}")

        def metric_change(self, metric: Metric) -> None:
            told.append(metric.name.name)

        def metric_removal(self, metric: Metric) -> None:
            raise AssertionError

        def close(self) -> None:
            told.append("closed")

    with FakeBroker({"t": 1}) as broker:
        config = {"bootstrap.servers": broker.bootstrap, "metric.reporters": [Reporter(), "JmxReporter"]}
        with Admin(config) as admin:
            admin.cluster.refresh()
            found = {(name.group, name.name): each.value for name, each in admin.metrics().items()}
            tags = {name.tag("client-id") for name in admin.metrics()}
    assert found["admin-client-metrics", "response-total"] >= 2
    assert found["admin-client-metrics", "iotime-total"] > 0
    assert 0 < found["admin-client-metrics", "io-ratio"] < 1
    (tag,) = tags
    assert tag is not None
    assert tag.startswith("adminclient-")
    assert {"init 0", "io-ratio"} <= set(told)
    assert told[-1] == "closed"
