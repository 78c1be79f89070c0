"""Throttles of moves: sets them so that a failure leaves none behind, and removes them from all brokers that answer."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ResourceType,
    raise_first,
)
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.tools.reassignment import plan
from pkafka.tools.reassignment.plan import Move, Wanted

BROKER_IS_AWAY: Final = (
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)
_DYNAMIC: Final = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)


class Throttled(NamedTuple):
    """Whose throttles are removed."""

    brokers: list[int]
    topics: list[str]


class Throttling:
    """Sets throttles one after another, and can put back what was there before.

    A broker that is not alive has no throttle: it sends and receives nothing, and only it could take the setting.

    Args:
        live: the brokers that are alive.
    """

    def __init__(self, admin: Admin, live: Collection[int]) -> None:
        self._admin = admin
        self._live = live
        self._before: dict[ConfigResource, list[ConfigChange]] = {}

    def replication(self, moved: Mapping[TopicPartition, Move], bytes_per_s: int) -> list[int]:
        """Let moves have no more than so much of a broker, each way.

        Returns:
            The brokers among them that are not alive.

        Raises:
            ApiError: a setting was refused.
        """
        self._set(
            {
                ConfigResource(ResourceType.TOPIC, topic): settings
                for topic, settings in plan.topic_throttles(moved).items()
            }
        )
        return self._set_rates(
            plan.moving_brokers(moved), (plan.LEADER_RATE, plan.FOLLOWER_RATE), bytes_per_s
        )

    def log_dirs(self, replicas: Iterable[TopicPartitionReplica], bytes_per_s: int) -> list[int]:
        """As :meth:`replication`, of moves between directories of a broker."""
        return self._set_rates({each.broker for each in replicas}, (plan.LOG_DIRS_RATE,), bytes_per_s)

    def undo(self) -> None:
        """Put back what was there before.

        Raises:
            PkafkaError: that is not possible.
        """
        if self._before:
            raise_first(self._admin.alter_configs(self._before))
        self._before = {}

    def _set_rates(self, brokers: Iterable[int], keys: Collection[str], bytes_per_s: int) -> list[int]:
        every = sorted(brokers)
        self._set(
            {
                ConfigResource(ResourceType.BROKER, str(broker)): dict.fromkeys(keys, str(bytes_per_s))
                for broker in every
                if broker in self._live
            }
        )
        return [broker for broker in every if broker not in self._live]

    def _set(self, wanted: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        if not wanted:
            return
        keys = {key for settings in wanted.values() for key in settings}
        for resource, entries in self._admin.describe_configs(wanted, keys=keys).items():
            if isinstance(entries, ApiError):
                raise entries
            set_before = {each.name: each.value for each in entries if each.source in _DYNAMIC}
            self._before.setdefault(resource, []).extend(
                ConfigChange(key, AlterOp.SET, set_before[key])
                if key in set_before
                else ConfigChange(key, AlterOp.DELETE)
                for key in wanted[resource]
            )
        raise_first(
            self._admin.alter_configs(
                {
                    resource: [ConfigChange(key, AlterOp.SET, value) for key, value in settings.items()]
                    for resource, settings in wanted.items()
                }
            )
        )


def throttled_by(admin: Admin, wanted: Wanted) -> Throttled:
    """The throttles that have to go after a reassignment: of all brokers, as its sources are not known any more."""
    brokers = {each.id for each in admin.describe_cluster().brokers}
    brokers.update(broker for _, replicas in wanted.partitions for broker in replicas)
    return Throttled(sorted(brokers), sorted({partition.topic for partition, _ in wanted.partitions}))


def clear_brokers(admin: Admin, brokers: Iterable[int]) -> dict[int, PkafkaError]:
    """Remove the rates of brokers.

    Returns:
        Those that are away and keep theirs, and what says so.

    Raises:
        ApiError: a broker refuses.
    """
    changes = [ConfigChange(key, AlterOp.DELETE) for key in plan.BROKER_THROTTLES]
    resources = {ConfigResource(ResourceType.BROKER, str(broker)): broker for broker in brokers}
    away: dict[int, PkafkaError] = {}
    refused: list[ApiError] = []
    for resource, outcome in admin.alter_configs(dict.fromkeys(resources, changes)).items():
        if isinstance(outcome, ApiError):
            if outcome.code in BROKER_IS_AWAY:
                away[resources[resource]] = outcome
            else:
                refused.append(outcome)
    raise_first(refused)
    return away


def clear_topics(admin: Admin, topics: Iterable[str]) -> None:
    """Remove the lists of throttled replicas.

    Raises:
        ApiError: they cannot be removed.
    """
    changes = [ConfigChange(key, AlterOp.DELETE) for key in plan.TOPIC_THROTTLES]
    raise_first(admin.alter_configs({ConfigResource(ResourceType.TOPIC, topic): changes for topic in topics}))
