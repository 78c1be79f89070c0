"""What the admin client asks of topics, configurations and directories, item by item, on both systems."""

from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ElectionType,
    ResourceType,
)
from pkafka.clients.errors import ClientError, UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica
from tests.interop.conftest import System
from tests.talk import Talk, code_of, good, wait_for


def test_topics_are_deleted_by_id(talk: Talk, topic: str) -> None:
    talk.create(topic)
    topic_id, nobodys = talk.topic_id(topic), b"\x01" * 16
    outcomes = talk.admin.delete_topic_ids([topic_id, nobodys])
    assert outcomes[topic_id] is None
    assert code_of(outcomes[nobodys]) is ErrorCode.UNKNOWN_TOPIC_ID
    wait_for(lambda: topic not in {each.name for each in talk.admin.list_topics()})


def test_configurations_of_many_are_outcomes_of_each(talk: Talk, topic: str) -> None:
    talk.create(topic, retention_ms=5_000)
    mine = ConfigResource(ResourceType.TOPIC, topic)
    missing = ConfigResource(ResourceType.TOPIC, f"{topic}-nowhere")
    broker, away, nonsense = (ConfigResource(ResourceType.BROKER, each) for each in ("0", "77", "x"))
    asked = [mine, missing, broker, away, nonsense]
    found = talk.admin.describe_configs(
        asked, keys=["retention.ms", "log.dirs"], include_documentation=True, timeout_ms=20_000
    )
    assert set(found) == set(asked)
    (retention,) = good(found[mine])
    assert (retention.value, retention.source) == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert retention.type is ConfigType.LONG
    assert retention.documentation
    assert code_of(found[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.name for each in good(found[broker])] == ["log.dirs"]
    assert code_of(found[away]) is ErrorCode.BROKER_NOT_AVAILABLE
    assert code_of(found[nonsense]) is ErrorCode.INVALID_REQUEST
    change = [ConfigChange("retention.ms", AlterOp.SET, "6000")]
    altered = talk.admin.alter_configs({mine: change, missing: change, away: change})
    assert altered[mine] is None
    assert code_of(altered[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(altered[away]) is ErrorCode.BROKER_NOT_AVAILABLE


def test_elections_and_moves_of_single_partitions(talk: Talk, topic: str) -> None:
    talk.create(topic, 2)
    here, beyond = TopicPartition(topic, 1), TopicPartition(topic, 7)
    for kind in ElectionType:
        elected = talk.admin.elect_leaders(kind, [here, beyond])
        assert code_of(elected[here]) is ErrorCode.ELECTION_NOT_NEEDED
        assert code_of(elected[beyond]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert talk.admin.elect_leaders(kind) == {}
    begun = talk.admin.alter_partition_reassignments({here: [0], beyond: [0], TopicPartition(topic, 0): [77]})
    assert begun[here] is None
    assert code_of(begun[beyond]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = begun[TopicPartition(topic, 0)]
    assert code_of(refused) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "brokers that are not alive" in str(refused)
    wait_for(lambda: talk.admin.list_partition_reassignments([here, beyond]) == {})
    given_up = talk.admin.alter_partition_reassignments({here: None})
    assert code_of(given_up[here]) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_replicas_go_to_directories(talk: Talk, topic: str, system: System) -> None:
    """On Apache Kafka: pkafka does not serve that yet, and says so."""
    talk.create(topic)
    here, away = TopicPartitionReplica(topic, 0, 0), TopicPartitionReplica(topic, 0, 77)
    missing = TopicPartitionReplica(f"{topic}-nowhere", 0, 0)
    targets = {here: str(system.log_dir), away: "/d", missing: str(system.log_dir)}
    try:
        found = talk.admin.alter_replica_log_dirs(targets)
    except UnsupportedApiError:
        assert system.log_dir.parent.name.startswith("pkafka")
        return
    assert found[here] is None
    assert code_of(found[away]) is ErrorCode.BROKER_NOT_AVAILABLE
    assert code_of(found[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = talk.admin.alter_replica_log_dirs({here: "/nowhere"})
    assert code_of(nowhere[here]) is ErrorCode.LOG_DIR_NOT_FOUND


def test_directories_of_brokers_that_are_away(talk: Talk, topic: str) -> None:
    talk.create(topic)
    found = talk.admin.describe_log_dirs([0, 77])
    (directory,) = _directories(found[0])
    assert topic in {each.partition.topic for each in directory.replicas}
    away = found[77]
    assert isinstance(away, ApiError)
    assert away.code is ErrorCode.BROKER_NOT_AVAILABLE


def _directories(outcome: object) -> list:  # type: ignore[type-arg]
    assert not isinstance(outcome, ApiError | ClientError), outcome
    assert isinstance(outcome, list)
    return outcome
