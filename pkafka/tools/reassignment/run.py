"""What moving partitions asks of a cluster: where they are, begin, look, give up; throttles set and removed."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import (
    AlterOp,
    ConfigChange,
    ConfigResource,
    Outcome,
    Reassignment,
    ResourceType,
    raise_first,
)
from pkafka.clients.errors import UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.tools.reassignment import plan
from pkafka.tools.reassignment.plan import (
    Assignments,
    PartitionState,
    ReassignmentError,
    ReplicaState,
    Wanted,
)

_AGAIN_S: Final = 0.1
EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and"
    " create a new partition assignment in addition to the existing one. The --additional flag can also be used"
    " to change the throttle by resubmitting the current reassignment."
)


class Proposal(NamedTuple):
    """Where topics are, and where they could be."""

    current: Assignments
    proposed: Assignments


class Prepared(NamedTuple):
    """A reassignment that may begin.

    Args:
        moving: what is under way already.
        log_dirs: as of :class:`plan.Wanted`.
    """

    current: Assignments
    proposed: Assignments
    moving: Mapping[TopicPartition, Reassignment]
    log_dirs: Mapping[TopicPartitionReplica, str]


class Verified(NamedTuple):
    """How far a reassignment has come.

    Args:
        others: whether anything else moves in the cluster.
    """

    partitions: list[PartitionState]
    replicas: list[ReplicaState]
    others: bool

    @property
    def is_ongoing(self) -> bool:
        """Whether something moves, or may: no throttle may go then."""
        done = (plan.LogDirState.COMPLETED, plan.LogDirState.NOT_MOVING)
        return self.others or any(each.state not in done for each in self.replicas)

    @property
    def left(self) -> int:
        """How many partitions and replicas are not where they are to be."""
        return sum(each.state is not plan.State.COMPLETED for each in self.partitions) + sum(
            each.state is not plan.LogDirState.COMPLETED for each in self.replicas
        )


class Throttled(NamedTuple):
    """Whose throttles are removed."""

    brokers: list[int]
    topics: list[str]


def generate(admin: Admin, topics: Collection[str], brokers: Collection[int], *, use_racks: bool) -> Proposal:
    """Where topics are, and where they could be on the given brokers.

    Raises:
        ApiError: there is no such topic.
        ReassignmentError: see :func:`plan.propose`.
    """
    current = _assignments(admin, topics)
    racks = {
        each.id: each.rack if use_racks else None
        for each in admin.describe_cluster().brokers
        if each.id in brokers
    }
    return Proposal(current, plan.propose(current, racks))


def prepare(admin: Admin, wanted: Wanted, *, additional: bool) -> Prepared:
    """Look whether a reassignment may begin.

    Args:
        additional: also beside others.

    Raises:
        ReassignmentError: another one is under way, a broker is unknown, or the file asks for what cannot be.
        ApiError: a topic or partition does not exist.
    """
    proposed = plan.checked(wanted)
    moving = admin.list_partition_reassignments()
    if moving and not additional:
        raise ReassignmentError(EXISTING, [EXISTING])
    known = {each.id for each in admin.describe_cluster().brokers}
    unknown = sorted({broker for replicas in proposed.values() for broker in replicas} - known)
    if unknown:
        raise ReassignmentError(f"Unknown broker id {unknown[0]}")
    current = _assignments(admin, {each.topic for each in proposed})
    missing = sorted(proposed.keys() - current.keys())
    if missing:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition: {', '.join(map(str, missing))}",
        )
    return Prepared({each: current[each] for each in proposed}, proposed, moving, wanted.log_dirs)


def throttle_replication(admin: Admin, prepared: Prepared, bytes_per_s: int) -> None:
    """Let the moves that are under way and those to come have no more than so much of a broker, each way.

    Raises:
        ApiError: a setting was refused.
    """
    moved = plan.moves(prepared.moving, prepared.proposed, prepared.current)
    _alter(
        admin,
        {
            ConfigResource(ResourceType.TOPIC, topic): [
                ConfigChange(key, AlterOp.SET, value) for key, value in settings.items()
            ]
            for topic, settings in plan.topic_throttles(moved).items()
        },
    )
    _set_rates(admin, plan.moving_brokers(moved), (plan.LEADER_RATE, plan.FOLLOWER_RATE), bytes_per_s)


def throttle_log_dirs(admin: Admin, prepared: Prepared, bytes_per_s: int) -> None:
    """Let moves between directories of a broker have no more than so much.

    Raises:
        ApiError: a setting was refused.
    """
    brokers = sorted({each.broker for each in prepared.log_dirs})
    _set_rates(admin, brokers, (plan.LOG_DIRS_RATE,), bytes_per_s)


def begin(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int
) -> dict[TopicPartition, Outcome[None]]:
    """Begin moves, or with None give them up.

    Raises:
        ApiError: none of them.
    """
    return admin.alter_partition_reassignments(targets, timeout_ms=timeout_ms)


def move_log_dirs(
    admin: Admin,
    targets: Mapping[TopicPartitionReplica, str],
    *,
    timeout_ms: int,
    begun: Callable[[TopicPartitionReplica, str], None],
) -> None:
    """Begin to move replicas to directories, as soon as their brokers have them.

    Args:
        begun: is told of each that has begun.

    Raises:
        ReassignmentError: a broker refuses, or has no such replica in time.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    left = dict(targets)
    while left:
        first = min(left, key=_by_broker)
        try:
            outcomes = admin.alter_replica_log_dirs(left, timeout_ms=timeout_ms)
        except UnsupportedApiError as error:
            raise _not_begun(first, error.message) from error
        for replica in sorted(left, key=_by_broker):
            outcome = outcomes.get(replica, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            if not isinstance(outcome, ApiError):
                begun(replica, left.pop(replica))
            elif outcome.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise _not_begun(replica, outcome.message)
        if left and time.monotonic() >= deadline:
            late = ",".join(str(each) for each in sorted(left, key=_by_broker))
            text = f"Timed out before log directory move{'s' if len(left) > 1 else ''} could be started for: {late}"
            raise ReassignmentError(text, [text])
        if left:
            time.sleep(_AGAIN_S)


def verify(admin: Admin, wanted: Wanted, *, timeout_ms: int) -> Verified:
    """How far the reassignment of a file has come.

    Raises:
        ApiError: metadata cannot be had.
    """
    moving = admin.list_partition_reassignments()
    targets = dict(wanted.partitions)
    idle = {each.topic for each in targets if each not in moving}
    current = _assignments(admin, idle, missing_is_empty=True)
    partitions = [
        plan.state_of(each, targets[each], current.get(each, ()), moving) for each in sorted(targets)
    ]
    return Verified(partitions, log_dir_states(admin, wanted.log_dirs, timeout_ms=timeout_ms), bool(moving))


def wait_until_complete(look: Callable[[], Verified], seconds: float) -> Verified:
    """The last look at a reassignment: when all is where it is to be, or when the time is over.

    What the controller knows as done, brokers may not have heard yet: a partition that is elsewhere is waited for too.

    Args:
        look: asks the cluster.
    """
    deadline = time.monotonic() + seconds
    found = look()
    while found.left and time.monotonic() < deadline:
        time.sleep(_AGAIN_S)
        found = look()
    return found


def log_dir_states(
    admin: Admin, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int
) -> list[ReplicaState]:
    """How far the moves of replicas to directories have come.

    Raises:
        PkafkaError: a broker did not say.
    """
    if not targets:
        return []
    described = admin.describe_log_dirs(sorted({each.broker for each in targets}), timeout_ms=timeout_ms)
    current: dict[TopicPartitionReplica, str] = {}
    future: dict[TopicPartitionReplica, str] = {}
    for broker, directories in described.items():
        if not isinstance(directories, list):
            raise directories
        for directory in directories:
            for row in directory.replicas:
                where = future if row.is_future else current
                where[TopicPartitionReplica(*row.partition, broker)] = directory.path
    return [
        plan.replica_state(each, targets[each], current.get(each), future.get(each))
        for each in sorted(targets, key=_by_broker)
    ]


def cancellable(admin: Admin, wanted: Wanted) -> list[TopicPartition]:
    """Those partitions of a file that move."""
    partitions = {partition for partition, _ in wanted.partitions}
    return sorted(admin.list_partition_reassignments(partitions)) if partitions else []


def throttled_by(admin: Admin, wanted: Wanted) -> Throttled:
    """Whose throttles have to go after a reassignment: nobody knows which brokers it came from, so of all."""
    brokers = {each.id for each in admin.describe_cluster().brokers}
    brokers.update(broker for _, replicas in wanted.partitions for broker in replicas)
    return Throttled(sorted(brokers), sorted({partition.topic for partition, _ in wanted.partitions}))


def clear_broker_throttles(admin: Admin, brokers: Iterable[int]) -> None:
    """Remove the rates of brokers.

    Raises:
        ApiError: a broker refuses, or is not there.
    """
    changes = [ConfigChange(key, AlterOp.DELETE) for key in plan.BROKER_THROTTLES]
    _alter(admin, {ConfigResource(ResourceType.BROKER, str(broker)): changes for broker in brokers})


def clear_topic_throttles(admin: Admin, topics: Iterable[str]) -> None:
    """Remove the lists of throttled replicas.

    Raises:
        ApiError: they cannot be removed.
    """
    changes = [ConfigChange(key, AlterOp.DELETE) for key in plan.TOPIC_THROTTLES]
    _alter(admin, {ConfigResource(ResourceType.TOPIC, topic): changes for topic in topics})


# -- inside -----------------------------------------------------------------------------------------------


def _not_begun(replica: TopicPartitionReplica, why: str) -> ReassignmentError:
    text = f"Failed to alter dir for {replica}"
    return ReassignmentError(f"{text}: {why}", [f"Error: {text}"])


def _by_broker(replica: TopicPartitionReplica) -> tuple[int, str, int]:
    return replica.broker, replica.topic, replica.partition


def _set_rates(admin: Admin, brokers: Iterable[int], keys: Iterable[str], bytes_per_s: int) -> None:
    changes = [ConfigChange(key, AlterOp.SET, str(bytes_per_s)) for key in keys]
    _alter(admin, {ConfigResource(ResourceType.BROKER, str(broker)): changes for broker in brokers})


def _alter(admin: Admin, changes: Mapping[ConfigResource, Iterable[ConfigChange]]) -> None:
    raise_first(admin.alter_configs(changes))


def _assignments(admin: Admin, topics: Collection[str], *, missing_is_empty: bool = False) -> Assignments:
    """Where the partitions of topics are.

    Raises:
        ApiError: in Kafka's words, if there is no such topic and that is not to be the same as no partition.
    """
    found: Assignments = {}
    for name, topic in admin.describe_topics(sorted(topics)).items() if topics else ():
        if not isinstance(topic, ApiError):
            found.update({TopicPartition(name, each.partition): each.replicas for each in topic.partitions})
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        elif not missing_is_empty:
            raise ApiError(topic.code, f"Topic {name} not found.")
    return found
