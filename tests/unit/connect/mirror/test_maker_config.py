"""The one file of clusters and flows: which flows there are, what goes to whom, and flows in circles."""

import pytest

from pkafka.connect.errors import ConfigError
from pkafka.connect.mirror.maker_config import MirrorMakerConfig, Pair
from pkafka.connect.mirror.settings import SOURCE_CONFIG, MirrorSettings, client_settings
from pkafka.connect.mirror.source_connector import MirrorSourceConnector

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
FILE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A.producer.linger.ms": "5",
    "ssl.truststore.location": "/t",
    "A->B.enabled": "true",
    "A->B.topics": "orders",
    "topics": "none",
    "offset.lag.max": "7",
}


def test_each_pair_has_a_worker_for_heartbeats() -> None:
    assert MirrorMakerConfig(FILE).pairs() == [Pair("A", "B"), Pair("B", "A")]
    assert MirrorMakerConfig({**FILE, "emit.heartbeats.enabled": "false"}).pairs() == [Pair("A", "B")]
    assert MirrorMakerConfig({**FILE, "B->A.emit.heartbeats.enabled": "false"}).pairs() == [Pair("A", "B")]


def test_settings_of_all_of_clusters_and_of_flows_reach_a_connector() -> None:
    config = MirrorMakerConfig(FILE)
    there = config.connector(Pair("A", "B"), "MirrorSourceConnector")
    back = config.connector(Pair("B", "A"), "MirrorSourceConnector")
    assert (there["topics"], back["topics"], there["enabled"], back["enabled"]) == (
        "orders",
        "none",
        "true",
        "false",
    )
    assert (there["offset.lag.max"], there["source.cluster.bootstrap.servers"]) == ("7", "a:1")
    consumer = client_settings(there, "source", "consumer")
    assert consumer["bootstrap.servers"] == "a:1"
    assert consumer["ssl.truststore.location"] == "/t"
    assert (consumer["enable.auto.commit"], consumer["auto.offset.reset"]) == ("false", "earliest")
    assert client_settings(there, "source", "producer")["linger.ms"] == "5"
    assert "linger.ms" not in client_settings(there, "target", "producer")


def test_a_producer_of_syncs_gathers_them_unless_told_otherwise() -> None:
    def linger_ms(**more: str) -> str | None:
        configs = {**MirrorMakerConfig(FILE).connector(Pair("A", "B"), "MirrorSourceConnector"), **more}
        return MirrorSettings(SOURCE_CONFIG, configs).sync_client("producer").get("linger.ms")

    assert linger_ms() == "5"  # the file's, of A, where the syncs are
    assert linger_ms(**{"offset-syncs.topic.location": "target"}) == "10"
    assert linger_ms(**{"offset-syncs.topic.location": "target", "producer.linger.ms": "0"}) == "0"


def test_a_source_is_copied_exactly_once_when_only_committed_records_are_read() -> None:
    connector = MirrorSourceConnector()
    assert not connector.supports_exactly_once({})
    assert connector.supports_exactly_once({"source.consumer.isolation.level": "read_committed"})
    assert not connector.supports_exactly_once(
        {"consumer.isolation.level": "read_committed", "source.consumer.isolation.level": "read_uncommitted"}
    )


def test_a_worker_is_of_the_targets_cluster() -> None:
    worker = MirrorMakerConfig({**FILE, "offset.storage.partitions": "3"}).worker(Pair("A", "B"))
    assert (worker["bootstrap.servers"], worker["group.id"]) == ("b:1", "A-mm2")
    assert (worker["offset.storage.topic"], worker["offset.storage.partitions"]) == (
        "mm2-offsets.A.internal",
        "3",
    )


def test_a_client_is_given_its_cluster_and_the_policy() -> None:
    found = MirrorMakerConfig({**FILE, "replication.policy.separator": "_"}).client("B")
    assert (found["bootstrap.servers"], found["replication.policy.separator"]) == ("b:1", "_")


def test_a_file_without_clusters_is_refused() -> None:
    with pytest.raises(ConfigError, match='"clusters"'):
        MirrorMakerConfig({})


@pytest.mark.parametrize(
    ("there", "back", "topic"),
    [
        *[(".*", ".*", "topic"), ("orders", ".*", "orders"), ("a-.*", "a-b", "a-b"), ("a.*", "x,ab.*", "ab")],
        *[("orders", "bills", None), ("a-.*", "b-.*", None)],
    ],
)
def test_flows_by_which_a_topic_goes_round_in_circles_are_refused(
    there: str, back: str, topic: str | None
) -> None:
    both = {**FILE, "B->A.enabled": "true", "A->B.topics": there, "B->A.topics": back}
    MirrorMakerConfig(both).check()  # names with aliases tell where a topic comes from
    same_names = MirrorMakerConfig({**both, "replication.policy.class": IDENTITY})
    if topic is None:
        same_names.check()
    else:
        with pytest.raises(ConfigError, match=f"A->B and B->A both copy topics such as '{topic}"):
            same_names.check()
    MirrorMakerConfig({**both, "replication.policy.class": IDENTITY, "B->A.enabled": "false"}).check()
