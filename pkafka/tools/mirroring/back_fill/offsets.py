"""Stores how far topics were copied where MirrorMaker 2's source connector looks when it starts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.connect.storage.offset_store import ConnectorOffsets, OffsetFile, OffsetStore
from pkafka.connect.storage.offset_topic import PURPOSE, OffsetTopic
from pkafka.connect.storage.topic_log import LogClients, LogTopic
from pkafka.model import TopicPartition

_SETTING: Final = "offset.storage.topic"
_PARTITIONS: Final = 25
"""``offset.storage.partitions`` of a worker."""


class Keeper(NamedTuple):
    """Whose offsets they are.

    Args:
        connector: the name of the source connector.
        source: the alias of the source.
    """

    connector: str
    source: str

    def store(self, store: OffsetStore, offsets: Mapping[TopicPartition, int]) -> None:
        """Store the offset of the last record that was copied of each partition, as the connector's task does.

        Raises:
            ConnectError: they cannot be stored.
        """
        ConnectorOffsets(store, self.connector).store(
            (
                {"cluster": self.source, "partition": each.partition, "topic": each.topic},
                {"offset": offset},
            )
            for each, offset in offsets.items()
        )


def store_in_file(keeper: Keeper, offsets: Mapping[TopicPartition, int], path: Path) -> None:
    """Store offsets in the file of a standalone worker, which must not run.

    Raises:
        ConnectError: it cannot be read or written.
    """
    keeper.store(OffsetFile(path), offsets)


def store_in_topic(
    keeper: Keeper,
    offsets: Mapping[TopicPartition, int],
    name: str,
    settings: Mapping[str, object],
    *,
    replicas: int,
    timeout_ms: int,
) -> None:
    """Store offsets in the topic of distributed workers, or of MirrorMaker 2; it is created where there is none.

    Args:
        name: of the topic.
        settings: of clients of the target.
        replicas: of a new topic; -1: as many as the brokers give.
        timeout_ms: how long it may take until all are acknowledged.

    Raises:
        ConfigError: the topic is not compacted.
        ConnectError, ClientError: it cannot be read or written.
    """
    texts = {key: str(value) for key, value in settings.items() if not key.startswith("group.")}
    topic = LogTopic(name, _SETTING, PURPOSE, _PARTITIONS, replicas)
    store = OffsetTopic(topic, LogClients(texts, texts, texts), timeout_ms / 1_000)
    store.start(waits_for_transactions=False)
    try:
        keeper.store(store, offsets)
    finally:
        store.stop()
