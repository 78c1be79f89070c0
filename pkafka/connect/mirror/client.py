"""What programs ask about copies that MirrorMaker made: where from, how fresh, where a group goes on.

>>> with MirrorClient({"bootstrap.servers": "b1:9092"}) as client:      # doctest: +SKIP
...     client.upstream_clusters()
...     client.remote_consumer_offsets("billing", "A")
{'A'}
{TopicPartition(topic='A.orders', partition=0): OffsetAndMetadata(offset=1200, metadata='', leader_epoch=None)}
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self, TypeVar

from pkafka.clients.admin import Admin
from pkafka.clients.consumer import ConsumerRecord
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.errors import ConnectError
from pkafka.connect.mirror.classes import replication_policy
from pkafka.connect.mirror.policies import ReplicationPolicy
from pkafka.connect.mirror.records import Checkpoint, Heartbeat, RecordFormatError
from pkafka.connect.mirror.topic_reading import TopicReader
from pkafka.model import TopicPartition

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorClient")

TIMEOUT_MS: Final = 30_000
_KINDS: Final = ("admin", "consumer", "producer")
_OWN: Final = ("replication.policy.", "forwarding.admin.class")
RecordT = TypeVar("RecordT", Checkpoint, Heartbeat)


class MirrorClient:
    """Reads MirrorMaker's topics on one cluster, that of the copies.

    Args:
        configs: of the cluster, as ``bootstrap.servers``; of one kind of client with ``admin.`` or ``consumer.``
            before; ``replication.policy.class`` and the policy's settings.

    Raises:
        ConfigError: a setting is refused.
    """

    def __init__(self, configs: Mapping[str, Any]) -> None:
        self.policy: ReplicationPolicy = replication_policy(configs)
        self._consumer_configs = _of_kind(configs, "consumer")
        self._admin = Admin(_of_kind(configs, "admin"))

    def close(self) -> None:
        """Let go of the connections."""
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- topics --

    def heartbeat_topics(self) -> set[str]:
        """The topics with heartbeats: this cluster's own, and copies."""
        return {each for each in self._topics() if self.policy.is_heartbeats_topic(each)}

    def checkpoint_topics(self) -> set[str]:
        """The topics with checkpoints."""
        return {each for each in self._topics() if self.policy.is_checkpoints_topic(each)}

    def remote_topics(self, source: str | None = None) -> set[str]:
        """The topics that are copies, without MirrorMaker's own.

        Args:
            source: only those that were copied straight from this cluster.
        """
        found = set()
        for topic in self._topics():
            alias = None if self.policy.is_internal_topic(topic) else self.policy.topic_source(topic)
            if alias is not None and source in (None, alias):
                found.add(topic)
        return found

    def upstream_clusters(self) -> set[str]:
        """The aliases of the clusters that heartbeats come from, straight or through others."""
        return {source for topic in self.heartbeat_topics() for source in self._sources(topic)}

    def replication_hops(self, upstream: str) -> int | None:
        """Over how many clusters records come from another, at least; None: none come from there.

        Args:
            upstream: its alias.
        """
        found = []
        for topic in self.heartbeat_topics():
            sources = list(self._sources(topic))
            if upstream in sources:
                found.append(sources.index(upstream) + 1)
        return min(found, default=None)

    def _sources(self, topic: str) -> Iterator[str]:
        """The clusters that a topic has passed, the last first."""
        seen: set[str] = set()
        current: str | None = topic
        while current is not None:
            source = self.policy.topic_source(current)
            # A policy that keeps names finds the same source for ever.
            if source is None or source in seen:
                return
            seen.add(source)
            yield source
            current = self.policy.upstream_topic(current)

    def _topics(self) -> list[str]:
        return [each.name for each in self._admin.list_topics()]

    # -- records --

    def remote_consumer_offsets(
        self, group: str, source: str, *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where a group goes on here that has read at another cluster: it misses nothing, and may read some twice.

        Args:
            group: its id.
            source: the alias of the other cluster.
            timeout_ms: for reading all checkpoints.

        Raises:
            ConnectError: there are no checkpoints of that cluster here.
            ClientTimeoutError: they were not read in time.
            ClientError, ApiError: they cannot be read.
        """
        found = self.checkpoints(source, timeout_ms=timeout_ms)
        return {each.partition: each.position for each in found if each.group == group}

    def checkpoints(self, source: str, *, timeout_ms: int = TIMEOUT_MS) -> list[Checkpoint]:
        """The last checkpoint of every group and partition that was copied from a cluster.

        Args, Raises: as of :meth:`remote_consumer_offsets`.
        """
        last: dict[tuple[str, TopicPartition], Checkpoint] = {}
        for each in self._read(Checkpoint, self.policy.checkpoints_topic(source), timeout_ms):
            last[each.group, each.partition] = each
        return list(last.values())

    def heartbeats(self, topic: str, *, timeout_ms: int = TIMEOUT_MS) -> dict[tuple[str, str], int]:
        """When each flow that has written to a topic of heartbeats was alive last.

        Args:
            topic: one of :meth:`heartbeat_topics`.
            timeout_ms: for reading all of it.

        Returns:
            By source and target, milliseconds since 1970.

        Raises:
            ConnectError: there is no such topic.
            ClientTimeoutError, ClientError, ApiError: as of :meth:`remote_consumer_offsets`.
        """
        return {
            (each.source, each.target): each.timestamp_ms for each in self._read(Heartbeat, topic, timeout_ms)
        }

    def _read(self, kind: type[RecordT], topic: str, timeout_ms: int) -> list[RecordT]:
        if topic not in self._topics():
            raise ConnectError(f"There is no topic {topic}")
        found: list[RecordT] = []

        def take(record: ConsumerRecord) -> None:
            try:
                found.append(kind.of(record.key, record.value))
            except RecordFormatError as error:
                log.info(
                    "Could not read the record at offset %d of %s. Skipping. %s", record.offset, topic, error
                )

        with TopicReader(self._consumer_configs, topic, take) as reader:
            reader.read_to_end(timeout_ms)
        log.info("Consumed %d records from %s.", len(found), topic)
        return found


def _of_kind(configs: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The settings of one kind of client: those of all, and over them those with the kind before their names."""
    prefixes = tuple(f"{each}." for each in _KINDS)
    of_all = {
        name: value
        for name, value in configs.items()
        if not name.startswith(prefixes) and not name.startswith(_OWN)
    }
    own = {
        name.removeprefix(f"{kind}."): value for name, value in configs.items() if name.startswith(f"{kind}.")
    }
    return {**of_all, **own}
