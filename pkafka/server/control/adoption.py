"""Taking over the partitions that an Apache Kafka left in the log directories, into the embedded store (``--adopt``).

The content of the directories is written as the znodes that a ZooKeeper would hold: topics with their ids and
partitions, and leader epochs that go on. All else was in that ZooKeeper and is lost, above all the settings of topics.
Default settings could delete records that the owner wants to keep, so adopted topics keep everything until they get
settings; the internal topics get the settings that Kafka gives them. Each partition has this broker as its only
replica.

Adopting again does no harm, and takes over topics, and partitions of known topics, that came to the directories since.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.coordination.store import CreateOp, Op, SetOp, Store
from pkafka.coordination.znodes import EntityConfig, PartitionAssignment, PartitionState, TopicAssignment
from pkafka.errors import PkafkaError
from pkafka.model import BrokerId, LeaderEpoch, TopicId, TopicPartition, topic_id_text
from pkafka.server.cluster.internal_topics import shape_of
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.storage.files import OsFiles
from pkafka.storage.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from pkafka.storage.log_directory import DirectoryKind, LogDirectory
from pkafka.storage.partition_metadata import read_topic_id
from pkafka.topic_ids import new_topic_id

log = logging.getLogger(__name__)

KEEP_EVERYTHING: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}


class AdoptionRefused(PkafkaError):
    """The directories do not hold whole topics, or contradict the store; nothing was changed."""


class FoundTopic(NamedTuple):
    """A topic as the directories know it."""

    topic_id: TopicId | None
    """None: from before topics had ids."""
    epochs: Mapping[int, LeaderEpoch]
    """Of each partition the last leader epoch, 0 when it has none."""


def find_topics(directories: Iterable[LogDirectory]) -> dict[str, FoundTopic]:
    """What the log directories hold, all of them together.

    Raises:
        AdoptionRefused: a topic is not whole.
        StorageError: a directory cannot be read.
    """
    places: defaultdict[str, dict[int, Path]] = defaultdict(dict)
    for directory in directories:
        for found in directory.partitions():
            if found.kind is not DirectoryKind.LIVE:
                continue
            topic, number = found.topic_partition
            if number in places[topic]:
                raise AdoptionRefused(
                    f"{topic}-{number} is there twice, as {places[topic][number]} and {found.path}: move one away"
                )
            places[topic][number] = found.path
    return {topic: _found_topic(topic, places[topic]) for topic in sorted(places)}


def _found_topic(topic: str, paths: Mapping[int, Path]) -> FoundTopic:
    missing = sorted(set(range(max(paths) + 1)) - set(paths))
    if missing:
        raise AdoptionRefused(
            f"topic {topic} is not whole, {_missing(missing, max(paths) + 1)}: name all log directories of its broker"
            f" in log.dirs, or move the directories {topic}-* away"
        )
    files = OsFiles()
    ids = {read_topic_id(files, path) for path in paths.values()} - {None}
    if len(ids) > 1:
        raise AdoptionRefused(
            f"the partitions of topic {topic} belong to different topics of that name (their partition.metadata say"
            f" {', '.join(sorted(topic_id_text(one) for one in ids if one))}): move the directories of the older away"
        )
    epochs = {
        number: max(LeaderEpochs.load(path / LEADER_EPOCH_FILE, files).latest, 0)
        for number, path in sorted(paths.items())
    }
    return FoundTopic(next(iter(ids), None), epochs)


def _missing(numbers: Sequence[int], count: int) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    if len(numbers) == 1:
        return f"partition {shown} of {count} is missing"
    return f"partitions {shown} of {count} are missing"


def adopt(store: Store, found: Mapping[str, FoundTopic], broker_id: BrokerId, config: BrokerConfig) -> None:
    """Write the znodes of the topics found that the store does not have, each topic whole or not at all.

    Raises:
        AdoptionRefused: the store has another topic of the same name.
        StoreError: the store failed; adopt again.
    """
    nodes = store.get_many([TopicAssignment.path(topic) for topic in found])
    transactions: list[list[Op]] = []
    partitions = 0
    for (topic, one), node in zip(found.items(), nodes, strict=True):
        known = None if node is None else TopicAssignment.decode(node[0])
        if known is not None and one.topic_id is not None and known.topic_id not in (None, one.topic_id):
            raise AdoptionRefused(
                f"topic {topic} in the log directories is another than the one of that name in the store (ids"
                f" {topic_id_text(one.topic_id)} and {topic_id_text(known.topic_id)}): move its directories away, or"
                " remove the store to take over all that is in the directories"
            )
        new = [number for number in one.epochs if known is None or number not in known.partitions]
        if new:
            version = None if node is None else node[1].version
            transactions.append(_creation(topic, one, known, version, new, broker_id, config))
            partitions += len(new)
    for outcome in store.multi_many(transactions):
        if isinstance(outcome, Exception):
            raise outcome
    if transactions:
        log.warning(
            "Adopted %d partitions of %d topics. Their settings were in ZooKeeper: until you set them (pk-configs),"
            " they keep everything (%s)",
            partitions,
            len(transactions),
            ", ".join(f"{key}={text}" for key, text in KEEP_EVERYTHING.items()),
        )


def _creation(
    topic: str,
    found: FoundTopic,
    known: TopicAssignment | None,
    version: int | None,
    new: Sequence[int],
    broker_id: BrokerId,
    config: BrokerConfig,
) -> list[Op]:
    """The writes that make the ``new`` partitions, and the topic when it is not ``known``."""
    assigned = dict(known.partitions) if known is not None else {}
    assigned.update({number: PartitionAssignment((broker_id,)) for number in new})
    topic_id = (known and known.topic_id) or found.topic_id or new_topic_id()
    data = TopicAssignment(assigned, topic_id).encode()
    parent = PartitionState.partitions_path(topic)
    if known is None or version is None:
        settings = EntityConfig(settings_of(topic, config)).encode()
        ops: list[Op] = [
            CreateOp(EntityConfig.path("topics", topic), settings),
            CreateOp(TopicAssignment.path(topic), data),
            CreateOp(parent),
        ]
    else:
        ops = [SetOp(TopicAssignment.path(topic), data, version)]
    for number in new:
        path = PartitionState.path(TopicPartition(topic, number))
        state = PartitionState(broker_id, found.epochs[number], (broker_id,), controller_epoch=0)
        ops += [CreateOp(path.rpartition("/")[0]), CreateOp(path, state.encode())]
    return ops


def settings_of(topic: str, config: BrokerConfig) -> Mapping[str, str]:
    """The settings that an adopted topic begins with."""
    shape = shape_of(topic, config)
    return shape.settings if shape is not None else KEEP_EVERYTHING


def strangers(store: Store, directories: Iterable[LogDirectory]) -> int:
    """How many partitions lie in the directories that belong to no topic of the store.

    Raises:
        StoreError: the store failed.
        StorageError: a directory cannot be read.
    """
    found: defaultdict[str, set[int]] = defaultdict(set)
    for directory in directories:
        for one in directory.partitions():
            if one.kind is DirectoryKind.LIVE:
                found[one.topic_partition.topic].add(one.topic_partition.partition)
    nodes = store.get_many([TopicAssignment.path(topic) for topic in found])
    count = 0
    for numbers, node in zip(found.values(), nodes, strict=True):
        known = TopicAssignment.decode(node[0]).partitions if node is not None else {}
        count += len(numbers.difference(known))
    return count


def look_for_strangers(
    store: Store,
    directories: Sequence[LogDirectory],
    broker_id: BrokerId,
    config: BrokerConfig,
    *,
    takes_over: bool,
) -> None:
    """Take over the partitions that the embedded store does not know, or tell of them."""
    if takes_over:
        adopt(store, find_topics(directories), broker_id, config)
    elif count := strangers(store, directories):
        log.warning(
            "%d partitions in the log directories belong to no topic of this broker and are not served;"
            " start with --adopt to take them over",
            count,
        )
