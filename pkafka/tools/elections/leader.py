"""Electing leaders of partitions, and what an election would come to. Does not print."""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from pkafka.clients.admin.results import ElectionType, Outcome, PartitionDescription
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.tools.json_input import JsonInputError, json_list, parse_object, partition_of

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


class Result(Enum):
    """What became of a partition, or would."""

    ELECTED = "elected"
    NOT_NEEDED = "not_needed"
    FAILED = "failed"
    ASKED = "asked"
    """The controller was asked in a way that gives no answer."""


class Elected(NamedTuple):
    """One partition after an election, or as it would be.

    Args:
        error: why there is no leader.
    """

    partition: TopicPartition
    result: Result
    error: ApiError | None = None


def parse_partitions(data: bytes) -> list[TopicPartition]:
    """Read ``{"partitions":[{"topic":"t","partition":0}]}``.

    Raises:
        JsonInputError: it is not of that form, or names a partition twice.
    """
    document = parse_object(data, empty="Replica election data is empty")
    if "partitions" not in document:
        raise JsonInputError('Replica election data is missing "partitions" field')
    partitions = [partition_of(row) for row in json_list(document["partitions"])]
    twice = [each for each in dict.fromkeys(partitions) if partitions.count(each) > 1]
    if twice:
        names = ", ".join(map(str, twice))
        raise JsonInputError(f"Replica election data contains duplicate partitions: [{names}]")
    return partitions


def elect(
    admin: "Admin", kind: ElectionType, partitions: Iterable[TopicPartition] | None, *, timeout_ms: int
) -> list[Elected]:
    """Elect leaders, of all partitions where None is given.

    Raises:
        ApiError, ClientError: nothing was elected.
    """
    return _sorted(admin.elect_leaders(kind, partitions, timeout_ms=timeout_ms))


def foresee(
    admin: "Admin", kind: ElectionType, partitions: Collection[TopicPartition] | None
) -> list[Elected]:
    """What :func:`elect` would do now, as far as metadata tell.

    Raises:
        ApiError, ClientError: metadata cannot be had.
    """
    topics = (
        {each.topic for each in partitions}
        if partitions is not None
        else {each.name for each in admin.list_topics()}
    )
    described = admin.describe_topics(sorted(topics))
    live = {each.id for each in admin.describe_cluster().brokers}
    found: dict[TopicPartition, PartitionDescription] = {}
    refused: dict[TopicPartition, ApiError] = {}
    for name, topic in described.items():
        if not isinstance(topic, ApiError):
            found.update({TopicPartition(name, each.partition): each for each in topic.partitions})
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            refused.update({each: topic for each in partitions or () if each.topic == name})
    wanted = sorted(found) if partitions is None else partitions
    outcomes: dict[TopicPartition, Outcome[None]] = {
        each: refused.get(each) or foreseen(kind, found.get(each), live) for each in wanted
    }
    if partitions is None:
        # As the brokers answer: of all that there are, only those where something happens.
        outcomes = {each: outcome for each, outcome in outcomes.items() if not _is_not_needed(outcome)}
    return _sorted(outcomes)


def foreseen(
    kind: ElectionType, partition: PartitionDescription | None, live: Collection[int]
) -> Outcome[None]:
    """What an election in one partition would come to.

    Args:
        partition: None where it does not exist.
        live: the brokers that are there.
    """
    if partition is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if kind is ElectionType.PREFERRED:
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        if preferred in partition.isr and preferred in live:
            return None
        return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if partition.leader is not None:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    if any(broker in live for broker in partition.replicas):
        return None
    return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def _sorted(outcomes: Mapping[TopicPartition, Outcome[None]]) -> list[Elected]:
    return [elected(partition, outcomes[partition]) for partition in sorted(outcomes)]


def elected(partition: TopicPartition, outcome: Outcome[Any]) -> Elected:
    """What became of a partition, by what the controller answered."""
    if not isinstance(outcome, ApiError):
        return Elected(partition, Result.ELECTED)
    if _is_not_needed(outcome):
        return Elected(partition, Result.NOT_NEEDED)
    return Elected(partition, Result.FAILED, outcome)


def _is_not_needed(outcome: Outcome[Any]) -> bool:
    return isinstance(outcome, ApiError) and outcome.code is ErrorCode.ELECTION_NOT_NEEDED
