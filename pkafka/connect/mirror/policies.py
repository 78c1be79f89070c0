"""How topics are named on the cluster that they are copied to: ``ReplicationPolicy`` (KIP-382).

An operator's own policy is a subclass of :class:`ReplicationPolicy` that ``replication.policy.class`` names, as in
``package.module.Class``.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from pkafka.connect.data.types import Value
from pkafka.java.text import parse_boolean

log = logging.getLogger("org.apache.kafka.connect.mirror.DefaultReplicationPolicy")

HEARTBEATS: Final = "heartbeats"
SEPARATOR: Final = "replication.policy.separator"
INTERNAL_SEPARATOR: Final = "replication.policy.internal.topic.separator.enabled"
SOURCE_ALIAS: Final = "source.cluster.alias"
_PACKAGE: Final = "org.apache.kafka.connect.mirror."


class ReplicationPolicy(ABC):
    """Names the topics that are copied from other clusters, and tells where a topic comes from."""

    JAVA_NAME: ClassVar[str | None] = None

    def configure(self, configs: Mapping[str, Value]) -> None:  # noqa: B027 - a policy may need none
        """Take the settings of a connector or a client; called once, first."""

    @abstractmethod
    def format_remote_topic(self, source: str, topic: str) -> str:
        """The name that a topic of the cluster ``source`` has where it is copied to."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that a topic was copied from; None: it is no copy."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name that a copy has on the cluster it was copied from; None: it is no copy."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + 1 :]

    def original_topic(self, topic: str) -> str:
        """The name of a topic where it was written, however many clusters it has passed."""
        seen = {topic}
        while (upstream := self.upstream_topic(topic)) is not None and upstream not in seen:
            seen.add(upstream)
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        """The topic that heartbeats are written to."""
        return HEARTBEATS

    def offset_syncs_topic(self, other: str) -> str:
        """The topic with pairs of offsets of both sides.

        Args:
            other: the alias of the cluster that the topic is not on.
        """
        return f"mm2-offset-syncs.{other}.internal"

    def checkpoints_topic(self, source: str) -> str:
        """The topic with the translated positions of the groups of the cluster ``source``."""
        return f"{source}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether heartbeats are in a topic, those of this cluster or copied ones."""
        return self.heartbeats_topic() == self.original_topic(topic)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether checkpoints are in a topic."""
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether a topic is MirrorMaker's own."""
        return topic.endswith(".internal")

    def is_internal_topic(self, topic: str) -> bool:
        """Whether a topic is never copied: MirrorMaker's, Connect's and Kafka's own."""
        return (
            self.is_mm2_internal_topic(topic)
            or topic.startswith(("__", "."))
            or topic.endswith(("-internal", ".internal"))
        )


class DefaultReplicationPolicy(ReplicationPolicy):
    """Puts the alias of the source before the name: ``us-west.orders``."""

    JAVA_NAME = _PACKAGE + "DefaultReplicationPolicy"

    def __init__(self) -> None:
        self._separator = "."
        self._internal = "."
        """Between the parts of the names of MirrorMaker's own topics (KIP-690, KAFKA-15102)."""

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Take ``replication.policy.separator``, and whether MirrorMaker's own topics have it too."""
        if SEPARATOR not in configs:
            return
        self._separator = self._internal = str(configs[SEPARATOR])
        log.info("Using custom remote topic separator: '%s'", self._separator)
        if INTERNAL_SEPARATOR in configs and not _is_true(configs[INTERNAL_SEPARATOR]):
            self._internal = "."
            log.warning(
                "Disabling custom topic separator for internal topics; will use '.' instead of '%s'",
                self._separator,
            )

    def format_remote_topic(self, source: str, topic: str) -> str:
        """Alias, separator, name."""
        return f"{source}{self._separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """What stands before the first separator; None: there is none, or nothing behind it."""
        source, separator, _ = topic.partition(self._separator)
        # Java splits the name, and drops empty parts at its end.
        if not separator or not topic[len(source) :].replace(self._separator, ""):
            return None
        return source

    def upstream_topic(self, topic: str) -> str | None:
        """What stands behind the first separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self._separator) :]

    def offset_syncs_topic(self, other: str) -> str:
        """``mm2-offset-syncs.B.internal``, with the separator."""
        return f"mm2-offset-syncs{self._internal}{other}{self._internal}internal"

    def checkpoints_topic(self, source: str) -> str:
        """``A.checkpoints.internal``, with the separator."""
        return source + self._checkpoints_end

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether the name ends as those of checkpoints do."""
        return topic.endswith(self._checkpoints_end)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether the name ends as those of MirrorMaker's own topics do."""
        return topic.endswith(f"{self._internal}internal")

    @property
    def _checkpoints_end(self) -> str:
        return f"{self._internal}checkpoints{self._internal}internal"


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Keeps names as they are, but for those of heartbeats (KIP-710); so it cannot see cycles."""

    JAVA_NAME = _PACKAGE + "IdentityReplicationPolicy"

    def __init__(self) -> None:
        super().__init__()
        self._source: str | None = None

    def configure(self, configs: Mapping[str, Value]) -> None:
        """Take ``source.cluster.alias`` as well: all topics that are no heartbeats count as that cluster's."""
        super().configure(configs)
        if SOURCE_ALIAS in configs:
            self._source = str(configs[SOURCE_ALIAS])
            log.info("Using source cluster alias `%s`.", self._source)

    def format_remote_topic(self, source: str, topic: str) -> str:
        """The same name; heartbeats get their source's alias."""
        return super().format_remote_topic(source, topic) if self._is_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """The configured source; that of heartbeats is in their name."""
        return super().topic_source(topic) if self._is_heartbeat(topic) else self._source

    def upstream_topic(self, topic: str) -> str | None:
        """The same name; heartbeats lose their source's alias."""
        return super().upstream_topic(topic) if self._is_heartbeat(topic) else topic

    def original_topic(self, topic: str) -> str:
        """The same name; heartbeats lose all aliases."""
        return super().original_topic(topic) if self._is_heartbeat(topic) else topic

    def _is_heartbeat(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())


def keeps_names(policy: ReplicationPolicy) -> bool:
    """Whether copies are named as what they are copies of, so that a topic may go round in circles."""
    return policy.format_remote_topic("a", "t") == policy.format_remote_topic("b", "t") == "t"


def _is_true(value: Value) -> bool:
    return value if isinstance(value, bool) else parse_boolean(str(value))
