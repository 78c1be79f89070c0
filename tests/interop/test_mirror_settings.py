"""MirrorMaker 2's connectors have the settings of Java's, and refuse what Java's refuse: settings, and offsets."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pkafka.connect.config_types import config_text
from pkafka.connect.connector import SourceConnector
from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.checkpoint_connector import MirrorCheckpointConnector
from pkafka.connect.mirror.heartbeat import MirrorHeartbeatConnector
from pkafka.connect.mirror.maker_config import MirrorMakerConfig
from pkafka.connect.mirror.source_connector import MirrorSourceConnector
from tests.interop.mirror_oracle import MirrorOracle, mirror_oracle

MUCH = settings(
    max_examples=200,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CONNECTORS: Final[dict[str, type[SourceConnector]]] = {
    "MirrorSourceConnector": MirrorSourceConnector,
    "MirrorCheckpointConnector": MirrorCheckpointConnector,
    "MirrorHeartbeatConnector": MirrorHeartbeatConnector,
}


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[MirrorOracle]:
    with mirror_oracle(kafka_classpath) as started:
        yield started


@pytest.mark.parametrize("name", CONNECTORS)
def test_connectors_have_the_same_settings(java: MirrorOracle, name: str) -> None:
    found = [
        {
            "name": key.name,
            "type": str(key.type),
            "importance": key.importance.name,
            "hasDefault": key.has_default,
            "default": config_text(key.default, key.type) if key.has_default else None,
            "order": key.order_in_group,
            "group": key.group,
            "width": key.width.name,
            "shown": key.display_name,
        }
        for key in CONNECTORS[name]().config().keys.values()
    ]
    assert found == java.ask("definitions", name)


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("n"),
        "connector.class": st.just("x"),
        "source.cluster.alias": st.just("A"),
        "enabled": st.sampled_from(["true", "false", "x"]),
        "emit.checkpoints.enabled": st.sampled_from(["true", "false", "FALSE", "x"]),
        "emit.offset-syncs.enabled": st.sampled_from(["true", "false", "x"]),
        "sync.group.offsets.enabled": st.sampled_from(["true", "false"]),
        "offset-syncs.topic.location": st.sampled_from(["source", "target", "x"]),
        "offset-syncs-source-producer.x": st.just("1"),
        "exactly.once.support": st.sampled_from(["required", "requested"]),
        "source.consumer.isolation.level": st.sampled_from(["read_committed", "read_uncommitted"]),
        "consumer.isolation.level": st.just("read_committed"),
        "replication.policy.class": st.sampled_from(
            ["org.apache.kafka.connect.mirror.IdentityReplicationPolicy", "no.Such"]
        ),
        "offset.lag.max": st.sampled_from(["-1", "0", "x"]),
        "use.incremental.alter.configs": st.sampled_from(["never", "x"]),
        "security.protocol": st.sampled_from(["ssl", "x"]),
        "tasks.max": st.sampled_from(["0", "2"]),
        "topics": st.sampled_from(["", "a,b", "["]),
    },
)


@MUCH
@given(name=st.sampled_from(sorted(CONNECTORS)), configs=SETTINGS)
def test_the_same_settings_are_refused(java: MirrorOracle, name: str, configs: dict[str, str]) -> None:
    theirs = java.ask("validate", name, configs=configs)
    found = {each.name: each.errors for each in CONNECTORS[name]().validate(configs)}
    assert found == theirs


PLACES = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "cluster": st.sampled_from(["A", 1, None]),
            "group": st.sampled_from(["g", 1]),
            "topic": st.sampled_from(["t", 1]),
            "sourceClusterAlias": st.just("A"),
            "targetClusterAlias": st.sampled_from(["B", 1]),
            "partition": st.sampled_from([0, 3, -1, "0", None, 1.5]),
        },
    ),
)


@MUCH
@given(
    name=st.sampled_from(sorted(CONNECTORS)),
    partition=PLACES,
    offset=st.one_of(
        st.none(), st.just({}), st.fixed_dictionaries({"offset": st.sampled_from([0, 7, -1, "1", None])})
    ),
)
def test_the_same_offsets_may_be_set(java: MirrorOracle, name: str, partition: Any, offset: Any) -> None:
    theirs = java.ask("offsets", name, partition=partition, offset=offset)
    assert _altered(CONNECTORS[name](), partition, offset) == theirs


def _altered(connector: SourceConnector, partition: Any, offset: Any) -> Any:
    try:
        return connector.alter_offsets({}, {0: (partition, offset)})
    except ConnectError as error:
        return {"error": error.JAVA_NAME, "message": str(error)}


# -- the one file of clusters and flows ------------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        *("bootstrap.servers", "security.protocol", "ssl.truststore.location", "sasl.mechanism", "client.id"),
        *(
            "group.id",
            "topics",
            "groups",
            "enabled",
            "emit.heartbeats.enabled",
            "tasks.max",
            "offset.lag.max",
        ),
        *("replication.policy.separator", "replication.policy.class", "replication.factor", "name"),
        *("offset.storage.topic", "config.storage.replication.factor", "status.storage.topic", "listeners"),
        *("key.converter", "value.converter.x", "header.converter", "task.shutdown.graceful.timeout.ms"),
        *(
            "worker.x",
            "worker",
            "producer.linger.ms",
            "consumer.max.poll.records",
            "admin.retries",
            "producer",
        ),
        *(
            "producer.ssl.truststore.location",
            "source.cluster.alias",
            "source.consumer.x",
            "x.y",
            "transforms",
        ),
        *(
            "emit.checkpoints.interval.seconds",
            "metric.reporters",
            "administrator",
            "consumer.poll.timeout.ms",
        ),
    ]
)
OF = st.sampled_from(["", "A.", "B.", "A->B.", "B->A.", "B->C.", "C.", "a."])
PROPERTIES = st.dictionaries(
    st.builds(lambda of, name: of + name, OF, NAMES),
    st.sampled_from(["true", "false", "TRUE", "x", "1", ""]),
    max_size=25,
)


@settings(MUCH, max_examples=100)
@given(clusters=st.sampled_from(["A, B", "A,B,C", "A", " B , A,A"]), properties=PROPERTIES)
def test_workers_and_connectors_are_given_the_same(
    java: MirrorOracle, clusters: str, properties: dict[str, str]
) -> None:
    properties = {**properties, "clusters": clusters}
    properties.pop("security.protocol", None)  # its value is checked by the clients
    theirs = java.ask("maker", configs=properties)
    config = MirrorMakerConfig(properties)
    found = {
        str(pair): {
            "worker": config.worker(pair),
            **{
                kind: config.connector(pair, f"Mirror{kind}Connector")
                for kind in ("Source", "Checkpoint", "Heartbeat")
            },
        }
        for pair in config.pairs()
    }
    assert found == theirs
