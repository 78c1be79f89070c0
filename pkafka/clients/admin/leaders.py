"""Requests that the leader of a partition serves: which broker that is, and asking again while leaders move."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from pkafka.clients.admin.outcomes import Outcome, error_outcome
from pkafka.clients.cluster import Cluster, TopicView
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.schema import Message

R = TypeVar("R", bound=Message)
V = TypeVar("V")

# A leader may be on its way: these pass with fresh metadata.
_MOVING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def at_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    response_type: type[R],
    ask: Callable[[list[TopicPartition]], Message],
    read: Callable[[R], dict[TopicPartition, Outcome[V]]],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Outcome[V]]:
    """Ask the leader of every partition, again while leaders move, until the time-out.

    Args:
        ask: the request for the partitions that one broker leads.
        read: what its answer says of each of them.

    Raises:
        ClientError: no broker can be asked at all, or a broker is too old for the request.
    """
    wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms
    left = list(partitions)
    outcomes: dict[TopicPartition, Outcome[V]] = {}
    attempt = 0
    while left:
        left_ms = max(1, deadline_ms - cluster.clock.monotonic_ms())
        view = cluster.refresh({each.topic for each in left}, timeout_ms=left_ms)
        groups: dict[int, list[TopicPartition]] = {}
        for partition in left:
            leader = view.leader(partition)
            if leader is None:
                outcomes[partition] = _without_leader(view.topics.get(partition.topic), partition)
            else:
                groups.setdefault(leader.id, []).append(partition)
        messages = {node: ask(group) for node, group in groups.items()}
        answers = cluster.request_each(messages, response_type, timeout_ms=left_ms)
        for node, answer in answers.items():
            if isinstance(answer, ClientError):
                outcomes.update(dict.fromkeys(groups[node], error_outcome(answer)))
            else:
                outcomes.update(read(answer))
        left = [each for each in left if _may_pass(outcomes[each])]
        if cluster.clock.monotonic_ms() >= deadline_ms:
            break
        if left:
            cluster.pause(attempt, deadline_ms)
            attempt += 1
    return outcomes


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def _may_pass(outcome: object) -> bool:
    return isinstance(outcome, ApiError) and outcome.code in _MOVING


def _without_leader(topic: TopicView | None, partition: TopicPartition) -> ApiError:
    """Why a partition has no leader: a topic or partition that does not exist is final, an election is not."""
    if topic is not None and topic.error and topic.error is not ErrorCode.LEADER_NOT_AVAILABLE:
        return ApiError(topic.error)
    if topic is None or all(each.partition != partition.partition for each in topic.partitions):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
