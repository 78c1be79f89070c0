"""Policies for new topics and for settings: how they are found, what they are asked, what clients are told."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pkafka.errors import ConfigError, ErrorCode
from pkafka.server.cluster.config_changes import ResourceChanges, change_all, incremental, replacing
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import Change, Operation, ResourceType
from pkafka.server.policies import (
    ALTER_CONFIG,
    CREATE_TOPIC,
    AlterConfigPolicy,
    ConfigChangeFacts,
    CreateTopicPolicy,
    NewTopicFacts,
    Policies,
    PolicyViolation,
)
from tests.fakes.config_context import FakeControl

HERE = __name__


class Named(CreateTopicPolicy):
    """Topics are called as the configuration says."""

    prefix = ""
    closed = False

    def configure(self, configs: Mapping[str, str]) -> None:
        self.prefix = configs["named.prefix"]

    def validate(self, request: NewTopicFacts) -> None:
        if not request.topic.startswith(self.prefix):
            raise PolicyViolation(f"not {self.prefix}...")

    def close(self) -> None:
        raise OSError("a policy may fail to close")


class Recorder(AlterConfigPolicy):
    """Allows what it has not seen before."""

    def __init__(self) -> None:
        self.seen: list[ConfigChangeFacts] = []

    def validate(self, request: ConfigChangeFacts) -> None:
        if request in self.seen:
            raise PolicyViolation("once is enough")
        if "boom" in str(request.configs):
            raise KeyError("boom")
        self.seen.append(request)


@pytest.mark.parametrize(
    ("key", "name", "part"),
    [
        (CREATE_TOPIC, "com.example.MyPolicy", "Class com.example.MyPolicy could not be found"),
        (CREATE_TOPIC, "MyPolicy", "could not be found"),
        (CREATE_TOPIC, f"{HERE}.Missing", "could not be found"),
        (CREATE_TOPIC, f"{HERE}.HERE", "is not an instance of pkafka.server.policies.CreateTopicPolicy"),
        (ALTER_CONFIG, f"{HERE}.Named", "is not an instance of pkafka.server.policies.AlterConfigPolicy"),
    ],
)
def test_what_is_no_policy_is_refused(key: str, name: str, part: str) -> None:
    for load in (Policies.check, Policies.of):
        with pytest.raises(ConfigError, match=part) as refused:
            load(BrokerConfig({key: name}))
        assert refused.value.key == key


def test_a_policy_that_cannot_be_configured_is_refused() -> None:
    config = BrokerConfig({CREATE_TOPIC: f"{HERE}.Named"})
    Policies.check(config)
    with pytest.raises(ConfigError, match=r"named\.prefix"):
        Policies.of(config)


def test_without_policies_all_is_allowed() -> None:
    policies = Policies.of(BrokerConfig({}))
    policies.check_new_topic(NewTopicFacts("t", 1, 1, None, {}))
    policies.check_config_change(ConfigChangeFacts(ResourceType.TOPIC, "t", {}))
    policies.close()


def test_a_policy_that_fails_to_close_stops_nobody() -> None:
    Policies.of(BrokerConfig({CREATE_TOPIC: f"{HERE}.Named", "named.prefix": "x"})).close()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[FakeControl]:
    control = FakeControl(tmp_path, BrokerConfig({"broker.id": "0"}), broker_id=0, topics=("t",))
    yield control
    control.close()


def test_changes_of_settings_are_asked_about_as_the_request_has_them(control: FakeControl) -> None:
    recorder = Recorder()
    control.policies = Policies(alter_config=recorder)
    sets, deletes = Operation.SET, Operation.DELETE
    topic = ResourceChanges(
        2, "t", [Change("retention.ms", sets, "5"), Change("cleanup.policy", deletes, None)]
    )
    brokers = ResourceChanges(4, "", [Change("log.retention.ms", sets, "7")])

    def change(*resources: ResourceChanges, validate_only: bool = False) -> list[tuple[int, str | None]]:
        results = asyncio.run(
            change_all(control, resources, incremental, denial=lambda _: None, validate_only=validate_only)
        )
        return [(int(result.code), result.message) for result in results]

    assert change(topic, brokers) == [(0, None), (0, None)]
    assert recorder.seen == [
        ConfigChangeFacts(ResourceType.TOPIC, "t", {"retention.ms": "5", "cleanup.policy": None}),
        ConfigChangeFacts(ResourceType.BROKER, "", {"log.retention.ms": "7"}),
    ]
    assert control.configs.topic("t") == {"retention.ms": "5"}
    violation = (int(ErrorCode.POLICY_VIOLATION), "once is enough")
    assert change(topic, brokers, validate_only=True) == [violation, violation]
    # What is wrong anyway is not even asked about; and a policy that breaks is a failure of the server.
    wrong = ResourceChanges(2, "t", [Change("retention.ms", sets, "boom")])
    assert change(wrong)[0][0] == ErrorCode.INVALID_CONFIG
    breaks = ResourceChanges(4, "0", [Change("my.boom", sets, "boom")])
    [(code, message)] = change(breaks)
    assert (code, "boom" in (message or "")) == (ErrorCode.UNKNOWN_SERVER_ERROR, False)
    results = asyncio.run(
        change_all(
            control,
            [ResourceChanges(2, "t", [Change("retention.ms", sets, "5")])],
            replacing,
            denial=lambda _: None,
            validate_only=False,
        )
    )
    assert [result.code for result in results] == [ErrorCode.NONE]
