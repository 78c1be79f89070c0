"""What is to move where: the files of kafka-reassign-partitions.sh, proposals, throttles. Knows no cluster."""

import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.clients.admin.results import Reassignment
from pkafka.errors import ApiError, PkafkaError
from pkafka.java.numbers import parse_int
from pkafka.java.text import split
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.server.cluster.placement import place_replicas
from pkafka.tools.json_input import (
    JsonInputError,
    field,
    json_list,
    list_field,
    parse_object,
    partition_of,
    scalar,
)

ANY_LOG_DIR: Final = "any"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
BROKER_THROTTLES: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
TOPIC_THROTTLES: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

Assignments: TypeAlias = dict[TopicPartition, tuple[int, ...]]


class ReassignmentError(PkafkaError):
    """What is asked for cannot be, or not like this.

    Args:
        message: one sentence.
        lines: what Kafka's tool prints; None where that is ``Error: `` and the message.
    """

    def __init__(self, message: str, lines: Sequence[str] | None = None) -> None:
        super().__init__(message)
        self.lines = lines


class Wanted(NamedTuple):
    """What a file of reassignments asks for.

    Args:
        partitions: in the order of the file, as often as they are there.
        log_dirs: of the replicas that are to lie in a directory by name.
    """

    partitions: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    log_dirs: Mapping[TopicPartitionReplica, str]


class Move(NamedTuple):
    """From which brokers a partition is copied, and to which."""

    sources: frozenset[int]
    destinations: frozenset[int]


class State(Enum):
    """How far a reassignment has come."""

    COMPLETED = "completed"
    IN_PROGRESS = "in_progress"
    OTHER_REPLICAS = "other_replicas"
    """Nothing moves, and the partition is elsewhere."""


class PartitionState(NamedTuple):
    """A partition as it is, beside what a file asks for; one that does not exist has no replicas."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    state: State


class LogDirState(Enum):
    """How far the move of a replica to another directory has come."""

    COMPLETED = "completed"
    IN_PROGRESS = "in_progress"
    OTHER_TARGET = "other_target"
    """It is being moved to yet another one."""
    NOT_MOVING = "not_moving"
    MISSING_LOG_DIR = "missing_log_dir"
    """No live directory of the broker has it."""
    UNKNOWN = "unknown"
    """Its broker does not say."""


class ReplicaState(NamedTuple):
    """A replica as it lies in a directory, beside the directory that a file asks for.

    Args:
        bytes_done, bytes_total: of the copy, while it is made.
    """

    replica: TopicPartitionReplica
    log_dir: str | None
    future_log_dir: str | None
    target: str
    state: LogDirState
    bytes_done: int | None = None
    bytes_total: int | None = None


# -- files ------------------------------------------------------------------------------------------------


def parse_topics(data: bytes) -> list[str]:
    """Read ``{"topics":[{"topic":"t"}],"version":1}``.

    Raises:
        JsonInputError: it is not of that form.
        ReassignmentError: a topic is there twice.
    """
    document = parse_object(data)
    _check_version(document)
    topics = [field(row, "topic", str) for row in json_list(document.get("topics", []))]
    if twice := _duplicates(topics):
        raise ReassignmentError(f"List of topics to reassign contains duplicate entries: {_java_list(twice)}")
    return topics


def parse_brokers(text: str) -> list[int]:
    """Read ``0,1,2``; commas at the end say nothing.

    Raises:
        ReassignmentError: it is not that, or a broker is there twice.
    """
    brokers = []
    for part in split(text, ","):
        try:
            brokers.append(parse_int(part))
        except ValueError as error:
            raise ReassignmentError(str(error)) from None
    if twice := _duplicates(brokers):
        raise ReassignmentError(f"Broker list contains duplicate entries: {_java_list(twice)}")
    return brokers


def parse_wanted(data: bytes) -> Wanted:
    """Read ``{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}``.

    Raises:
        JsonInputError: it is not of that form.
        ReassignmentError: there are more or fewer directories than replicas.
    """
    document = parse_object(data)
    _check_version(document)
    partitions: list[tuple[TopicPartition, tuple[int, ...]]] = []
    log_dirs: dict[TopicPartitionReplica, str] = {}
    for row in json_list(document.get("partitions", [])):
        partition = partition_of(row)
        replicas = list_field(row, "replicas", int)
        paths = list_field(row, "log_dirs", str) if "log_dirs" in row else [ANY_LOG_DIR] * len(replicas)
        if len(replicas) != len(paths):
            raise ReassignmentError(
                f"Size of replicas list {_java_list(replicas)} is different from size of log dirs list"
                f" {_java_list(paths)} for partition {partition}"
            )
        partitions.append((partition, tuple(replicas)))
        for broker, path in zip(replicas, paths, strict=True):
            if path != ANY_LOG_DIR:
                log_dirs[TopicPartitionReplica(*partition, broker)] = path
    return Wanted(tuple(partitions), log_dirs)


def checked(wanted: Wanted) -> Assignments:
    """What is to be carried out: each partition once, on brokers that are there once.

    Raises:
        ReassignmentError: it is not so, or nothing is asked for.
    """
    if not wanted.partitions:
        raise ReassignmentError("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in wanted.partitions):
        raise ReassignmentError("Partition replica list cannot be empty")
    if twice := _duplicates(partition for partition, _ in wanted.partitions):
        raise ReassignmentError(
            f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}"
        )
    repeated = [
        f"{partition} contains multiple entries for {','.join(map(str, same))}"
        for partition, replicas in wanted.partitions
        if (same := _duplicates(replicas))
    ]
    if repeated:
        raise ReassignmentError(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(repeated)}"
        )
    return dict(wanted.partitions)


def to_json(assignments: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A file of reassignments in one line, as Kafka's tool writes it."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(assignments[partition]),
            "log_dirs": [ANY_LOG_DIR] * len(assignments[partition]),
        }
        for partition in sorted(assignments)
    ]
    return json.dumps({"version": 1, "partitions": rows}, ensure_ascii=False, separators=(",", ":"))


# -- proposals --------------------------------------------------------------------------------------------


def propose(current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]) -> Assignments:
    """Where the partitions of whole topics would go, on other brokers: as Kafka places those of a new topic.

    Kafka begins at a broker by chance; here the name of the topic says at which, so that a plan is the same each time
    and topics of one partition do not all get the same broker.

    Args:
        racks: the brokers that take part, with their racks.

    Raises:
        ReassignmentError: some of them have a rack and some have none, or they are fewer than a topic has replicas.
    """
    known = [rack for rack in racks.values() if rack is not None]
    if known and len(known) < len(racks):
        raise ReassignmentError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica"
            " assignment without rack information."
        )
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(current):
        topics.setdefault(partition.topic, []).append(partition)
    proposed: Assignments = {}
    for topic, partitions in topics.items():
        try:
            placed = place_replicas(
                racks,
                partitions=len(partitions),
                replication_factor=len(current[partitions[0]]),
                rng=random.Random(topic),  # noqa: S311 - spreads load, guards nothing
            )
        except ApiError as error:
            raise ReassignmentError(error.message) from error
        proposed.update({TopicPartition(topic, number): brokers for number, brokers in placed.items()})
    return proposed


# -- states -----------------------------------------------------------------------------------------------


def state_of(
    partition: TopicPartition,
    target: tuple[int, ...],
    replicas: tuple[int, ...],
    moving: Mapping[TopicPartition, Reassignment],
) -> PartitionState:
    """How far a partition has come.

    Args:
        replicas: where it is, if it does not move.
        moving: the reassignments under way.
    """
    if partition in moving:
        return PartitionState(partition, moving[partition].replicas, target, State.IN_PROGRESS)
    state = State.COMPLETED if replicas == target else State.OTHER_REPLICAS
    return PartitionState(partition, replicas, target, state)


def replica_state(
    replica: TopicPartitionReplica, target: str, log_dir: str | None, future_log_dir: str | None
) -> ReplicaState:
    """How far a replica has come on its way to another directory.

    Args:
        log_dir: where it is; None where no live directory has it.
        future_log_dir: where it is being copied to.
    """
    if log_dir is None:
        state = LogDirState.MISSING_LOG_DIR
    elif future_log_dir is not None:
        state = LogDirState.IN_PROGRESS if future_log_dir == target else LogDirState.OTHER_TARGET
    else:
        state = LogDirState.COMPLETED if log_dir == target else LogDirState.NOT_MOVING
    return ReplicaState(replica, log_dir, future_log_dir, target, state)


# -- throttles --------------------------------------------------------------------------------------------


def moves(
    moving: Mapping[TopicPartition, Reassignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """All partitions that move, or will: those under way already, and those that are proposed.

    Args:
        current: where the proposed ones are.
    """
    found: dict[TopicPartition, Move] = {}
    for partition, one in moving.items():
        destinations = frozenset(one.adding)
        found[partition] = Move(frozenset(one.replicas) - destinations, destinations)
    for partition, replicas in proposed.items():
        before = found.get(partition)
        sources = before.sources if before is not None else frozenset(current[partition])
        found[partition] = Move(sources, frozenset(replicas) - sources)
    return found


def topic_throttles(moved: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """The replicas that are throttled, by topic and key: on leaders every source, on followers every destination."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, number), move in moved.items():
        leaders.setdefault(topic, set()).update(f"{number}:{broker}" for broker in move.sources)
        followers.setdefault(topic, set()).update(f"{number}:{broker}" for broker in move.destinations)
    return {
        topic: {
            LEADER_REPLICAS: ",".join(sorted(leaders[topic])),
            FOLLOWER_REPLICAS: ",".join(sorted(followers[topic])),
        }
        for topic in leaders
    }


def moving_brokers(moved: Mapping[TopicPartition, Move]) -> list[int]:
    """All brokers that copy from or to somewhere."""
    return sorted(frozenset[int]().union(*(move.sources | move.destinations for move in moved.values())))


# -- inside -----------------------------------------------------------------------------------------------


def _check_version(document: Mapping[str, Any]) -> None:
    version = scalar(document.get("version", 1), int)
    if version != 1:
        raise JsonInputError(f"Not supported version field value {version}")


def _duplicates(values: Iterable[Any]) -> list[Any]:
    every = list(values)
    return (
        [each for each in dict.fromkeys(every) if every.count(each) > 1]
        if len(set(every)) < len(every)
        else []
    )


def _java_list(values: Collection[object]) -> str:
    return f"[{', '.join(map(str, values))}]"
