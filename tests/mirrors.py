"""Clusters A and B with a worker of Connect on B, and connectors of MirrorMaker 2 between them."""

from collections.abc import Mapping
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.model import LATEST, TopicPartition
from tests.talk import good, wait_for

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
PACKAGE: Final = "org.apache.kafka.connect.mirror."
SYNCS: Final = "mm2-offset-syncs.B.internal"
CHECKPOINTS: Final = "A.checkpoints.internal"
HEARTBEATS: Final = "heartbeats"
WORKER: Final = {"key.converter": BYTES, "value.converter": BYTES, "header.converter": BYTES}
"""Settings of a worker that copies bytes."""


def connector(
    kind: str, source: str, target: str, more: Mapping[str, object] | None = None
) -> dict[str, str]:
    """The settings of a connector that looks often.

    Args:
        kind: ``Source``, ``Checkpoint`` or ``Heartbeat``.
        source, target: ``host:port``.
        more: settings.
    """
    name = f"Mirror{kind}Connector"
    found: dict[str, object] = {
        "name": name,
        "connector.class": f"{PACKAGE}{name}",
        "tasks.max": 1,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        "replication.factor": 1,
        "offset-syncs.topic.replication.factor": 1,
        "checkpoints.topic.replication.factor": 1,
        "heartbeats.topic.replication.factor": 1,
        "refresh.topics.interval.seconds": 1,
        "refresh.groups.interval.seconds": 1,
        "sync.topic.configs.interval.seconds": 1,
        "sync.topic.acls.interval.seconds": 1,
        "emit.checkpoints.interval.seconds": 1,
        "emit.heartbeats.interval.seconds": 1,
        "sync.group.offsets.interval.seconds": 1,
        "consumer.poll.timeout.ms": 100,
        **(more or {}),
    }
    return {key: str(value) for key, value in found.items()}


def wait_for_transactions(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Wait until every transaction of a topic has its marker: producers do not."""
    wanted = {TopicPartition(topic, number): LATEST for number in range(partitions)}

    def ends(*, read_committed: bool) -> list[int]:
        found = admin.list_offsets(wanted, read_committed=read_committed)
        return [good(found[each]).offset for each in wanted]

    with Admin({"bootstrap.servers": bootstrap}) as admin:
        wait_for(lambda: ends(read_committed=True) == ends(read_committed=False), timeout_s=60)
