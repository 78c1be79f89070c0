"""The page of metrics of a real broker names the producer that holds readers of committed records back."""

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pkafka.testing import Broker, running_broker
from tests.open_transactions import begin, ends, transactional_producer
from tests.talk import good, talking, wait_for

SETTINGS = {
    "pkafka.metrics.port": 0,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
LAG = "kafka_cluster_partition_laststableoffsetlag"
SILENCE = "pkafka_partition_opentransactionsilence_ms"


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("held"), SETTINGS) as broker:
        yield broker


def gauges(broker: Broker) -> dict[str, dict[str, float]]:
    """The two gauges of partition 0; of the silence by producer."""
    _, _, address = broker.log_file.read_text().rpartition("Metrics on ")
    with urllib.request.urlopen(address.split()[0], timeout=60) as page:
        families = text_string_to_metric_families(page.read().decode())
    found: dict[str, dict[str, float]] = {LAG: {}, SILENCE: {}}
    for sample in (one for family in families for one in family.samples):
        if sample.name in found and sample.labels["topic"] == "t":
            found[sample.name][sample.labels.get("producer_id", "")] = sample.value
    return found


def test_an_open_transaction_is_named_until_it_ends(broker: Broker) -> None:
    with talking(broker.bootstrap) as talk:
        talk.create("t")
        with transactional_producer(broker.bootstrap, "a") as writer:
            begin(writer, "t", 0)
            talk.send("t", b"behind")
            producer_id = str(good(talk.admin.describe_transactions(["a"])["a"]).producer_id)
            assert gauges(broker)[LAG] == {"": 2}
            before = gauges(broker)[SILENCE][producer_id]
            wait_for(lambda: gauges(broker)[SILENCE][producer_id] > before, what="time to pass")
            writer.commit_transaction()
            wait_for(lambda: ends(talk.admin, "t") == (3, 3), what="the marker")
            assert gauges(broker) == {LAG: {"": 0}, SILENCE: {}}
