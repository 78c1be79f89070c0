"""pk-topics --describe."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from pkafka.cli.kit.held_partitions import row as held_row
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import Table, View
from pkafka.cli.topics.flags import PARTITION_FILTERS, Flags
from pkafka.cli.topics.held_back import cells, held_back
from pkafka.cli.topics.held_back import table as held_table
from pkafka.cli.topics.names import existing
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_TOPIC_ID, TopicPartition, parse_topic_id, topic_id_text

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import (
        ConfigEntry,
        PartitionDescription,
        Reassignment,
        TopicDescription,
    )
    from pkafka.tools.transactions.holders import HeldPartition

_TOPIC_COLUMNS: Final = ("name", "id", "partition_count", "replication_factor", "configs")
_PARTITION_COLUMNS: Final = ("name", "partition", "leader", "replicas", "isr")


def described(admin: "Admin", flags: Flags) -> View:
    """The topics and partitions that are asked for."""
    from pkafka.clients.admin.results import ConfigResource, ResourceType

    topics = _topics_to_describe(admin, flags)
    show_partitions = not flags.topics_with_overrides
    values = flags._asdict()
    show_topics = not any(values[name] for name in PARTITION_FILTERS)
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    needs_configs = show_topics or flags.under_min_isr_partitions or flags.at_min_isr_partitions
    configs = admin.describe_configs(resources) if needs_configs and resources else {}
    live = set(admin.cluster.view.brokers)
    moving = _reassignments(admin)
    held = held_back(admin, topics) if flags.held_back_partitions else {}
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for topic in topics:
        entries = configs.get(ConfigResource(ResourceType.TOPIC, topic.name), [])
        if isinstance(entries, ApiError):
            raise entries
        overrides = {each.name: each.value for each in entries if not each.is_default}
        if flags.topics_with_overrides and not overrides:
            continue
        shown = [
            each
            for each in topic.partitions
            if show_partitions and _is_wanted(flags, topic.name, each, entries, live, moving, held)
        ]
        if show_topics:
            lines.append(_topic_line(topic, overrides, moving))
        elif not shown:
            continue
        lines += [_partition_line(topic.name, each, moving, held) for each in shown]
        rows.append(_topic_row(topic, overrides, shown, moving, held))
    tables = [Table(rows, _TOPIC_COLUMNS)] if show_topics else []
    if flags.held_back_partitions:
        tables.append(held_table(held))
    elif show_partitions:
        tables.append(Table(_partition_rows(rows), _PARTITION_COLUMNS))
    return View("topics", lines, rows, tables=tables)


def _topics_to_describe(admin: "Admin", flags: Flags) -> "list[TopicDescription]":
    if flags.topic_id:
        try:
            topic_id = parse_topic_id(flags.topic_id)
        except ValueError as error:
            raise click.UsageError(f"--topic-id: {error}") from error
        found = admin.describe_topic_id(topic_id)
        if isinstance(found, ApiError):
            if flags.if_exists:
                return []
            raise CommandError(f"TopicId '{flags.topic_id}' does not exist as expected")
        return [found]
    names = existing(admin, flags, required=not flags.if_exists)
    described = admin.describe_topics(names, partitions_per_response=flags.partition_size_limit_per_response)
    topics: list[TopicDescription] = []
    for name in names:
        outcome = described[name]
        if isinstance(outcome, ApiError):
            # Deleted between the list and the description.
            if outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise outcome
        topics.append(outcome)
    return topics


def _reassignments(admin: "Admin") -> "dict[TopicPartition, Reassignment]":
    from pkafka.clients.errors import UnsupportedApiError

    try:
        return admin.list_partition_reassignments()
    except UnsupportedApiError:
        return {}
    except ApiError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise


def _is_wanted(
    flags: Flags,
    topic: str,
    partition: "PartitionDescription",
    entries: "Sequence[ConfigEntry]",
    live: set[int],
    moving: "Mapping[TopicPartition, Reassignment]",
    held: "Mapping[TopicPartition, HeldPartition]",
) -> bool:
    isr = len(partition.isr)
    if flags.under_replicated_partitions:
        from pkafka.tools.cluster.metadata_view import is_under_replicated

        move = moving.get(TopicPartition(topic, partition.partition))
        return is_under_replicated(partition.replicas, partition.isr, move.adding if move else ())
    if flags.unavailable_partitions:
        return partition.leader is None or partition.leader not in live
    if flags.under_min_isr_partitions or flags.at_min_isr_partitions:
        least = next((int(each.value or 1) for each in entries if each.name == "min.insync.replicas"), 1)
        if flags.at_min_isr_partitions:
            return isr == least
        # Without a leader no producer can write, however many replicas are in sync.
        return partition.leader is None or isr < least
    return not flags.held_back_partitions or TopicPartition(topic, partition.partition) in held


def _replication_factor(
    topic: str, partition: "PartitionDescription", moving: "Mapping[TopicPartition, Reassignment]"
) -> int:
    """The number of replicas, without those that a reassignment is only adding."""
    move = moving.get(TopicPartition(topic, partition.partition))
    if move is None or not move.adding:
        return len(partition.replicas)
    return len(set(partition.replicas) - set(move.adding))


def _move(
    topic: str, partition: "PartitionDescription", moving: "Mapping[TopicPartition, Reassignment]"
) -> "Reassignment":
    """What a reassignment does to a partition: nothing where none is under way."""
    from pkafka.clients.admin.results import Reassignment

    none = Reassignment(partition.replicas, (), ())
    return moving.get(TopicPartition(topic, partition.partition), none)


def _topic_line(
    topic: "TopicDescription",
    overrides: Mapping[str, str | None],
    moving: "Mapping[TopicPartition, Reassignment]",
) -> str:
    factor = _replication_factor(topic.name, topic.partitions[0], moving) if topic.partitions else 0
    cells = [f"Topic: {topic.name}"]
    if topic.topic_id != NO_TOPIC_ID:
        cells.append(f"TopicId: {topic_id_text(topic.topic_id)}")
    cells.append(f"PartitionCount: {len(topic.partitions)}")
    cells.append(f"ReplicationFactor: {factor}")
    cells.append("Configs: " + ",".join(f"{key}={value}" for key, value in overrides.items()))
    return "\t".join(cells)


def _partition_line(
    topic: str,
    partition: "PartitionDescription",
    moving: "Mapping[TopicPartition, Reassignment]",
    held: "Mapping[TopicPartition, HeldPartition]",
) -> str:
    leader = "none" if partition.leader is None else partition.leader
    found = [
        "",
        f"Topic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {leader}",
        f"Replicas: {_joined(partition.replicas)}",
        f"Isr: {_joined(partition.isr)}",
    ]
    move = moving.get(TopicPartition(topic, partition.partition))
    if move is not None:
        found.append(f"Adding Replicas: {_joined(move.adding)}")
        found.append(f"Removing Replicas: {_joined(move.removing)}")
    found.append("Elr: " + ("N/A" if partition.elr is None else _joined(partition.elr)))
    last = partition.last_known_elr
    found.append("LastKnownElr: " + ("N/A" if last is None else _joined(last)))
    holder = held.get(TopicPartition(topic, partition.partition))
    return "\t".join([*found, *(cells(holder) if holder else ())])


def _topic_row(
    topic: "TopicDescription",
    overrides: Mapping[str, str | None],
    shown: "Sequence[PartitionDescription]",
    moving: "Mapping[TopicPartition, Reassignment]",
    held: "Mapping[TopicPartition, HeldPartition]",
) -> dict[str, object]:
    factor = _replication_factor(topic.name, topic.partitions[0], moving) if topic.partitions else 0
    return {
        "name": topic.name,
        "id": topic_id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": factor,
        "configs": dict(overrides),
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "replicas": each.replicas,
                "isr": each.isr,
                "adding_replicas": _move(topic.name, each, moving).adding,
                "removing_replicas": _move(topic.name, each, moving).removing,
                "elr": each.elr,
                "last_known_elr": each.last_known_elr,
                "held_back": _held_row(held.get(TopicPartition(topic.name, each.partition))),
            }
            for each in shown
        ],
    }


def _held_row(held: "HeldPartition | None") -> dict[str, object] | None:
    return None if held is None else held_row(held)


def _partition_rows(topics: "Sequence[Mapping[str, Any]]") -> list[dict[str, object]]:
    """One row per partition, with what it has from its topic: without rows inside rows, for a table."""
    return [
        {
            "name": topic["name"],
            "id": topic["id"],
            "partition": each["partition"],
            "leader": each["leader"],
            "replicas": each["replicas"],
            "isr": each["isr"],
            "configs": topic["configs"],
        }
        for topic in topics
        for each in topic["partitions"]
    ]


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(str(broker) for broker in brokers)
