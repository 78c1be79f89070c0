"""Topics that a source connector creates before it writes (KIP-158): by the first group of settings that fits."""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Self

from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.connect.connector_config import ConnectorSettings
from pkafka.connect.errors import ConnectError
from pkafka.connect.plugins import prefixed
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.pattern import compile_pattern

log = logging.getLogger(__name__)

_OWN: Final = frozenset({"include", "exclude", "partitions", "replication.factor"})
_DEFAULT: Final = "default"


class TopicGroup(NamedTuple):
    """The settings of some topics."""

    name: str
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    partitions: int
    replicas: int
    configs: Mapping[str, str]

    def has(self, topic: str) -> bool:
        """Whether a topic is of this group."""
        if self.name == _DEFAULT:
            return True
        return any(each.fullmatch(topic) for each in self.include) and not any(
            each.fullmatch(topic) for each in self.exclude
        )


def topic_groups(settings: ConnectorSettings) -> list[TopicGroup]:
    """The groups of a connector, ``default`` last; none: topics are not created."""
    if "topic.creation.default.partitions" not in settings.parsed:
        return []
    parsed = settings.parsed
    names = [each for each in parsed["topic.creation.groups"] if each != _DEFAULT] + [_DEFAULT]
    default = f"topic.creation.{_DEFAULT}."
    found = []
    for name in names:
        prefix = f"topic.creation.{name}."
        partitions, replicas = parsed.get(f"{prefix}partitions"), parsed.get(f"{prefix}replication.factor")
        configs = {k: v for k, v in prefixed(settings.configs, prefix).items() if k not in _OWN}
        found.append(
            TopicGroup(
                name,
                tuple(compile_pattern(each) for each in parsed.get(f"{prefix}include") or ()),
                tuple(compile_pattern(each) for each in parsed.get(f"{prefix}exclude") or ()),
                parsed[f"{default}partitions"] if partitions is None else partitions,
                parsed[f"{default}replication.factor"] if replicas is None else replicas,
                configs,
            )
        )
    return found


class TopicCreation:
    """Creates the topics of one task before their first record.

    Args:
        groups: of the connector.
        open_admin: makes the client that creates them, when the first one is needed.
    """

    def __init__(self, groups: list[TopicGroup], open_admin: Callable[[], Admin]) -> None:
        self._groups = groups
        self._open_admin = open_admin
        self._admin: Admin | None = None
        self._known: set[str] = set()

    @classmethod
    def of_one(cls, replicas: int, open_admin: Callable[[], Admin]) -> Self:
        """One for a topic of one partition, such as that of dead letters."""
        return cls([TopicGroup(_DEFAULT, (), (), 1, replicas, {})], open_admin)

    def see_to(self, topic: str) -> None:
        """Create a topic unless it is there.

        Raises:
            ConnectError: it cannot be created.
        """
        if not self._groups or topic in self._known:
            return
        if self._admin is None:
            self._admin = self._open_admin()
        described = self._admin.describe_topics([topic])[topic]
        if isinstance(described, ApiError):
            if described.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise ConnectError(f"The topic {topic} cannot be looked up: {described}") from described
            self._create(topic, self._admin)
        self._known.add(topic)

    def _create(self, topic: str, admin: Admin) -> None:
        group = next(each for each in self._groups if each.has(topic))
        new = NewTopic(topic, group.partitions, group.replicas, configs=dict(group.configs))
        outcome = admin.create_topics([new])[topic]
        if isinstance(outcome, ApiError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ConnectError(
                f"The topic {topic} cannot be created by the group {group.name}: {outcome}"
            ) from outcome
        log.info("Created topic '%s' using creation group %s", topic, group.name)

    def close(self) -> None:
        """Let go of the client."""
        if self._admin is not None:
            self._admin.close()
