"""Policies and filters that settings name: those that ship by Java's names, an operator's own by dotted ones."""

from typing import Any

import pytest

from pkafka.connect.errors import ConfigError
from pkafka.connect.mirror.classes import replication_policy
from pkafka.connect.mirror.filters import TopicFilter
from pkafka.connect.mirror.policies import IdentityReplicationPolicy, ReplicationPolicy, keeps_names
from pkafka.connect.mirror.settings import SOURCE_CONFIG, MirrorSettings, validate_source

JAVA = "org.apache.kafka.connect.mirror."
OWN = f"{__name__}."
CONFIGS = {"name": "n", "connector.class": "c", "source.cluster.alias": "A"}


class Suffixed(ReplicationPolicy):
    """Puts the alias behind the name."""

    def configure(self, configs: Any) -> None:
        """Take the separator."""
        self._sign = configs.get("replication.policy.separator", "@")

    def format_remote_topic(self, source: str, topic: str) -> str:
        """Name, sign, alias."""
        return f"{topic}{self._sign}{source}"

    def topic_source(self, topic: str) -> str | None:
        """What is behind the last sign."""
        name, sign, source = topic.rpartition(self._sign)
        return source if sign and name else None

    def upstream_topic(self, topic: str) -> str | None:
        """What is before it."""
        return topic.rpartition(self._sign)[0] or None


class Short(TopicFilter):
    """Takes topics with short names."""

    def takes_topic(self, topic: str) -> bool:
        """Whether it is short."""
        return len(topic) < 4


def test_an_operators_own_policy_names_topics() -> None:
    policy = replication_policy(
        {"replication.policy.class": f"{OWN}Suffixed", "replication.policy.separator": "~"}
    )
    assert policy.format_remote_topic("A", "t") == "t~A"
    assert (policy.topic_source("t~A"), policy.upstream_topic("t~A~B"), policy.original_topic("t~A~B")) == (
        "A",
        "t~A",
        "t",
    )
    assert policy.is_heartbeats_topic("heartbeats~A")
    assert not keeps_names(policy)


def test_an_operators_own_filter_chooses_topics() -> None:
    settings = MirrorSettings(SOURCE_CONFIG, {**CONFIGS, "topic.filter.class": f"{OWN}Short"})
    assert settings.topic_filter.takes_topic("t")
    assert not settings.topic_filter.takes_topic("topic")


def test_a_name_of_javas_stands_for_what_ships() -> None:
    policy = replication_policy({"replication.policy.class": f"{JAVA}IdentityReplicationPolicy"})
    assert isinstance(policy, IdentityReplicationPolicy)
    assert keeps_names(policy)


@pytest.mark.parametrize("name", ["Nope", "no.such.Class", f"{JAVA}Nope", f"{OWN}CONFIGS", "", "."])
def test_a_class_that_there_is_not_is_refused(name: str) -> None:
    key = "replication.policy.class"
    with pytest.raises(ConfigError, match="could not be found"):
        replication_policy({key: name})
    values = {each.name: each for each in validate_source({**CONFIGS, key: name})}
    assert [f"Class {name} could not be found." in each for each in values[key].errors] == [True]


def test_a_class_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not an instance of ReplicationPolicy"):
        replication_policy({"replication.policy.class": f"{OWN}Short"})
