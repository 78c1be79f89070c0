"""Throttles: whose are set, what is left of them after a failure, and who keeps one."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.tools.reassignment import plan, throttling
from pkafka.tools.reassignment.plan import Move
from pkafka.tools.reassignment.throttling import Throttling

MOVED = {TopicPartition("t", 0): Move(frozenset({0, 2}), frozenset({1}))}
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKERS = [ConfigResource(ResourceType.BROKER, str(each)) for each in range(3)]
RATES = (plan.LEADER_RATE, plan.FOLLOWER_RATE)


class FakeAdmin:
    """Configurations of topics and brokers.

    Args:
        errors: what a change of a resource ends with.
    """

    def __init__(self, errors: Mapping[ConfigResource, ErrorCode] = {}) -> None:
        self.errors = errors
        self.settings: dict[ConfigResource, dict[str, str]] = {TOPIC: {}, **{each: {} for each in BROKERS}}
        self.changed: list[ConfigResource] = []

    def describe_configs(self, resources: Iterable[ConfigResource], *, keys: Any) -> Any:
        source = {
            ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
            ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
        }
        return {
            each: [
                ConfigEntry(key, self.settings[each].get(key, "default"), found, False, False)
                for key in keys
                for found in (
                    source[each.type] if key in self.settings[each] else ConfigSource.DEFAULT_CONFIG,
                )
            ]
            for each in resources
        }

    def alter_configs(self, changes: Mapping[ConfigResource, Iterable[ConfigChange]]) -> Any:
        found: dict[ConfigResource, ApiError | None] = {}
        for resource, each in changes.items():
            self.changed.append(resource)
            found[resource] = ApiError(self.errors[resource]) if resource in self.errors else None
            for change in each if found[resource] is None else ():
                if change.op is AlterOp.SET:
                    assert change.value is not None
                    self.settings[resource][change.name] = change.value
                else:
                    self.settings[resource].pop(change.name, None)
        return found


def test_a_dead_broker_costs_the_others_nothing() -> None:
    admin: Any = FakeAdmin()
    assert Throttling(admin, {0, 1}).replication(MOVED, 5) == [2]
    assert admin.settings[TOPIC] == {plan.LEADER_REPLICAS: "0:0,0:2", plan.FOLLOWER_REPLICAS: "0:1"}
    assert [admin.settings[each] for each in BROKERS] == [
        dict.fromkeys(RATES, "5"),
        dict.fromkeys(RATES, "5"),
        {},
    ]
    replicas = [TopicPartitionReplica("t", 0, each) for each in (1, 2)]
    assert Throttling(admin, {0, 1}).log_dirs(replicas, 7) == [2]
    assert admin.settings[BROKERS[1]][plan.LOG_DIRS_RATE] == "7"
    assert BROKERS[2] not in admin.changed


def test_what_was_set_is_taken_back_to_what_was_there_before() -> None:
    admin: Any = FakeAdmin({BROKERS[1]: ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
    admin.settings[BROKERS[0]] = {plan.LEADER_RATE: "99"}
    admin.settings[TOPIC] = {plan.LEADER_REPLICAS: "*"}
    setting = Throttling(admin, {0, 1, 2})
    with pytest.raises(ApiError):
        setting.replication(MOVED, 5)
    assert admin.settings[TOPIC] != {plan.LEADER_REPLICAS: "*"}
    admin.errors = {}
    setting.undo()
    assert admin.settings[TOPIC] == {plan.LEADER_REPLICAS: "*"}
    assert [admin.settings[each] for each in BROKERS] == [{plan.LEADER_RATE: "99"}, {}, {}]
    admin.changed.clear()
    setting.undo()
    assert admin.changed == []


@pytest.mark.parametrize(
    "code", [ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT]
)
def test_a_broker_that_is_away_keeps_its_throttle_and_is_told(code: ErrorCode) -> None:
    admin: Any = FakeAdmin({BROKERS[1]: code})
    for each in BROKERS:
        admin.settings[each] = dict.fromkeys(RATES, "5")
    away = throttling.clear_brokers(admin, range(3))
    assert list(away) == [1]
    assert [bool(admin.settings[each]) for each in BROKERS] == [False, True, False]


def test_a_broker_that_refuses_is_an_error_after_the_others() -> None:
    admin: Any = FakeAdmin({BROKERS[0]: ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
    with pytest.raises(ApiError) as caught:
        throttling.clear_brokers(admin, range(3))
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert admin.changed == BROKERS
