"""Quotas of replication: which replicas are throttled, and when they have to wait."""

import pytest

from pkafka.clock import Clock
from pkafka.errors import ConfigError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.limits.replication_quota import (
    UNLIMITED,
    ReplicationQuota,
    ReplicationQuotas,
    SharedReplicationRates,
    throttled_partitions,
)

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class SetClock(Clock):
    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms


@pytest.mark.parametrize(
    ("text", "partitions"),
    [
        ("", frozenset()),
        (" * ", None),
        ("0:7", frozenset({0})),
        ("0:7,1:8,12:7", frozenset({0, 12})),
        ("0:7, 3:7 ,", frozenset({0, 3})),
        ("0:77", frozenset()),
    ],
)
def test_a_list_names_partitions_of_a_broker(text: str, partitions: frozenset[int] | None) -> None:
    assert throttled_partitions(text, 7) == partitions


@pytest.mark.parametrize("text", ["0", "0:", ":7", "a:7", "0:7:1", "-1:7", "*,0:7", "²:7"])
def test_what_is_no_such_list_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        throttled_partitions(text, 7)


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def quotas(clock: SetClock) -> ReplicationQuotas:
    quotas = ReplicationQuotas(SharedReplicationRates(samples=11, window_ms=1000), clock)
    quotas.set_rates({"leader.replication.throttled.rate": "1000"})
    quotas.set_topic_configs({"t": {LEADER_REPLICAS: "0:7,1:8", FOLLOWER_REPLICAS: "*"}}, 7)
    return quotas


def throttled(quota: ReplicationQuota, topic: str = "t") -> list[int]:
    return [partition for partition in range(3) if quota.throttles(topic, partition)]


def test_lists_are_taken_from_the_settings_of_topics(quotas: ReplicationQuotas) -> None:
    assert (throttled(quotas.leader), throttled(quotas.follower)) == ([0], [0, 1, 2])
    assert (throttled(quotas.leader, "u"), throttled(quotas.follower, "u")) == ([], [])
    quotas.set_topic_configs({"t": {LEADER_REPLICAS: "2:7"}}, 7)
    assert (throttled(quotas.leader), quotas.follower.throttles_any) == ([2], False)
    quotas.set_topic_configs({"t": {LEADER_REPLICAS: "nonsense"}}, 7)
    assert not quotas.leader.throttles_any


def test_topics_without_settings_have_no_throttled_replicas(quotas: ReplicationQuotas) -> None:
    quotas.set_every_topic_config({"u": {LEADER_REPLICAS: "1:7"}, "v": {"retention.ms": "1"}}, 7)
    assert (throttled(quotas.leader), throttled(quotas.leader, "u")) == ([], [1])
    assert not quotas.follower.throttles_any


def test_a_rate_that_is_not_set_any_more_is_unlimited(quotas: ReplicationQuotas) -> None:
    assert (quotas.leader.bytes_per_second, quotas.follower.bytes_per_second) == (1000, UNLIMITED)
    quotas.set_rates({"follower.replication.throttled.rate": "5", "leader.replication.throttled.rate": None})
    assert (quotas.leader.bytes_per_second, quotas.follower.bytes_per_second) == (UNLIMITED, 5)


def test_a_quota_is_used_up_until_time_has_made_the_rate_right(
    quotas: ReplicationQuotas, clock: SetClock
) -> None:
    quota = quotas.leader
    assert not quota.is_exceeded()
    quota.record(5000)
    waited_ms = 0
    while quota.is_exceeded():
        clock.ms += 100
        waited_ms += 100
    assert waited_ms == 5000
    assert quota.byte_rate == 1000


def test_nobody_waits_where_nothing_is_throttled_or_limited(
    quotas: ReplicationQuotas, clock: SetClock
) -> None:
    quotas.leader.record(10**6)
    assert quotas.leader.is_exceeded()
    quotas.set_rates({})
    assert not quotas.leader.is_exceeded()
    quotas.set_rates({"leader.replication.throttled.rate": "0"})
    assert quotas.leader.is_exceeded()
    quotas.set_every_topic_config({}, 7)
    assert not quotas.leader.is_exceeded()


@pytest.mark.parametrize(("num", "seconds", "waits_ms"), [(11, 1, 5000), (2, 1, 2000), (2, 2, 4000)])
def test_the_windows_in_which_a_rate_is_measured(
    clock: SetClock, num: int, seconds: int, waits_ms: int
) -> None:
    """What is older than all windows is forgotten."""
    windows = {"replication.quota.window.num": num, "replication.quota.window.size.seconds": seconds}
    config = BrokerConfig.load(None, {name: str(value) for name, value in windows.items()})
    quotas = ReplicationQuotas(SharedReplicationRates.of(config), clock)
    quotas.set_rates({"leader.replication.throttled.rate": "1000"})
    quotas.set_topic_configs({"t": {LEADER_REPLICAS: "*"}}, 7)
    quotas.leader.record(5000)
    clock.ms += waits_ms - 1
    assert quotas.leader.is_exceeded()
    clock.ms += 1
    assert not quotas.leader.is_exceeded()


def test_workers_use_up_one_quota_together(clock: SetClock) -> None:
    rates = SharedReplicationRates()
    workers = [ReplicationQuotas(rates, clock) for _ in range(2)]
    for one in workers:
        one.set_rates({"follower.replication.throttled.rate": "1000"})
        one.set_topic_configs({"t": {FOLLOWER_REPLICAS: "*"}}, 7)
        assert one.byte_rates() == {}
    workers[0].follower.record(600)
    assert not workers[0].follower.is_exceeded()
    workers[1].follower.record(600)
    assert [one.follower.is_exceeded() for one in workers] == [True, True]
    assert [one.byte_rates() for one in workers] == [{"FollowerReplication": 1200}] * 2
