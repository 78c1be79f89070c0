"""What the admin client asks of topics, configurations and directories, item by item, on both systems."""

from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ResourceType,
)
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
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
