"""What moving partitions asks of a cluster: where they are, how much that is, begin, look, give up."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import Outcome, PartitionDescription, Reassignment
from pkafka.clients.errors import ClientError, UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.tools.reassignment import disk, plan
from pkafka.tools.reassignment.disk import Copies
from pkafka.tools.reassignment.plan import (
    Assignments,
    PartitionState,
    ReassignmentError,
    ReplicaState,
    Wanted,
)
from pkafka.tools.reassignment.throttling import BROKER_IS_AWAY

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
        leaders: of the partitions, where they have one.
        live: the brokers that are alive.
    """

    current: Assignments
    proposed: Assignments
    moving: Mapping[TopicPartition, Reassignment]
    log_dirs: Mapping[TopicPartitionReplica, str]
    leaders: Mapping[TopicPartition, int | None]
    live: frozenset[int]

    @property
    def moves(self) -> dict[TopicPartition, plan.Move]:
        """Those that are under way and those to come."""
        return plan.moves(self.moving, self.proposed, self.current)


class Verified(NamedTuple):
    """How far a reassignment has come.

    Args:
        moving: all that moves in the cluster.
        silent: why it is not known how far some of the replicas are.
    """

    partitions: list[PartitionState]
    replicas: list[ReplicaState]
    moving: Mapping[TopicPartition, Reassignment]
    silent: PkafkaError | None = None

    @property
    def is_ongoing(self) -> bool:
        """Whether something moves, or may: no throttle may go then."""
        done = (plan.LogDirState.COMPLETED, plan.LogDirState.NOT_MOVING)
        return bool(self.moving) or any(each.state not in done for each in self.replicas)

    @property
    def will_arrive(self) -> bool:
        """Whether all that is not where it is to be is on the way there."""
        partitions = (plan.State.COMPLETED, plan.State.IN_PROGRESS)
        replicas = (plan.LogDirState.COMPLETED, plan.LogDirState.IN_PROGRESS)
        return all(each.state in partitions for each in self.partitions) and all(
            each.state in replicas for each in self.replicas
        )

    @property
    def asked(self) -> int:
        """How many partitions and replicas are asked about."""
        return len(self.partitions) + len(self.replicas)

    @property
    def left(self) -> int:
        """How many partitions and replicas are not where they are to be."""
        return sum(each.state is not plan.State.COMPLETED for each in self.partitions) + sum(
            each.state is not plan.LogDirState.COMPLETED for each in self.replicas
        )


class Foreseen(NamedTuple):
    """What a reassignment would copy.

    Args:
        partitions: from broker to broker.
        replicas: bytes from directory to directory of a broker; None where it does not say.
    """

    partitions: Mapping[TopicPartition, Copies]
    replicas: Mapping[TopicPartitionReplica, int | None]


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
    live = frozenset(each.id for each in admin.describe_cluster().brokers)
    unknown = sorted({broker for replicas in proposed.values() for broker in replicas} - live)
    if unknown:
        raise ReassignmentError(f"Unknown broker id {unknown[0]}")
    current = _described(admin, {each.topic for each in proposed})
    missing = sorted(proposed.keys() - current.keys())
    if missing:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition: {', '.join(map(str, missing))}",
        )
    return Prepared(
        {each: current[each].replicas for each in proposed},
        proposed,
        moving,
        wanted.log_dirs,
        {each: current[each].leader for each in proposed},
        live,
    )


def foresee(admin: Admin, prepared: Prepared, *, timeout_ms: int) -> Foreseen:
    """What would be copied, by what lies in the directories of the brokers now."""
    moved = {each: prepared.moves[each] for each in prepared.proposed}
    brokers = {broker for each in moved.values() for broker in each.sources | each.destinations}
    brokers.update(each.broker for each in prepared.log_dirs)
    found = disk.look(admin, brokers, timeout_ms=timeout_ms)
    copies = {
        each: _copies(each, move.sources, move.destinations, prepared.leaders[each], found)
        for each, move in moved.items()
    }
    return Foreseen(
        copies, {each: _log_dir_bytes(each, prepared.log_dirs[each], found) for each in prepared.log_dirs}
    )


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
    replicas, silent = log_dir_states(admin, wanted.log_dirs, timeout_ms=timeout_ms)
    return Verified(partitions, replicas, moving, silent)


def progress(
    admin: Admin, moving: Mapping[TopicPartition, Reassignment], *, timeout_ms: int
) -> dict[TopicPartition, Copies]:
    """How much of partitions that move is copied.

    Raises:
        ApiError: metadata cannot be had.
    """
    described = _described(admin, {each.topic for each in moving}, missing_is_empty=True)
    brokers = {broker for each in moving.values() for broker in each.replicas}
    found = disk.look(admin, brokers, timeout_ms=timeout_ms)
    return {
        each: _copies(
            each,
            frozenset(one.replicas).difference(one.adding),
            one.adding,
            described[each].leader if each in described else None,
            found,
        )
        for each, one in moving.items()
    }


def wait_until_complete(
    look: Callable[[], Verified], seconds: float, tell: Callable[[Verified | None, str], None]
) -> Verified:
    """The last look at a reassignment: when all is where it is to be, or when the time is over.

    Brokers may not have heard yet what the controller knows as done. So this waits for partitions that brokers still
    have elsewhere, and for brokers that are away.

    Args:
        look: asks the cluster.
        tell: is told of every look that was not the last; of None, and why, where no broker answered.

    Raises:
        PkafkaError: no broker answered at the end, or trying again cannot help.
    """
    deadline = time.monotonic() + seconds
    while True:
        is_last = time.monotonic() >= deadline
        try:
            found = look()
        except PkafkaError as error:
            if is_last or not _may_pass(error):
                raise
            tell(None, str(error))
        else:
            if is_last or not found.left or not (found.silent is None or _may_pass(found.silent)):
                return found
            tell(found, "" if found.silent is None else str(found.silent))
        time.sleep(_AGAIN_S)


def log_dir_states(
    admin: Admin, targets: Mapping[TopicPartitionReplica, str], *, timeout_ms: int
) -> tuple[list[ReplicaState], PkafkaError | None]:
    """How far the moves of replicas to directories have come; and why that is unknown of some, if it is."""
    found = disk.look(admin, {each.broker for each in targets}, timeout_ms=timeout_ms)
    states = []
    for each in sorted(targets, key=_by_broker):
        if each.broker in found.silent:
            states.append(ReplicaState(each, None, None, targets[each], plan.LogDirState.UNKNOWN))
            continue
        here, there = found.current.get(each), found.future.get(each)
        state = plan.replica_state(each, targets[each], here and here.log_dir, there and there.log_dir)
        if here is not None and there is not None:
            size = here.size_bytes
            state = state._replace(bytes_done=min(there.size_bytes, size), bytes_total=size)
        states.append(state)
    return states, next((found.silent[broker] for broker in sorted(found.silent)), None)


def cancellable(admin: Admin, wanted: Wanted) -> list[TopicPartition]:
    """Those partitions of a file that move."""
    partitions = {partition for partition, _ in wanted.partitions}
    return sorted(admin.list_partition_reassignments(partitions)) if partitions else []


# -- inside -----------------------------------------------------------------------------------------------


def _not_begun(replica: TopicPartitionReplica, why: str) -> ReassignmentError:
    text = f"Failed to alter dir for {replica}"
    return ReassignmentError(f"{text}: {why}", [f"Error: {text}"])


def _by_broker(replica: TopicPartitionReplica) -> tuple[int, str, int]:
    return replica.broker, replica.topic, replica.partition


def _copies(
    partition: TopicPartition,
    sources: Collection[int],
    destinations: Collection[int],
    leader: int | None,
    found: disk.OnDisk,
) -> Copies:
    size = found.size(partition, sources, leader)
    there = {broker: found.there(partition, broker) for broker in sorted(destinations)}
    return Copies(leader, size, there)


def _log_dir_bytes(replica: TopicPartitionReplica, target: str, found: disk.OnDisk) -> int | None:
    """What a move to a directory copies; nothing of a replica that its broker has yet to get."""
    if replica.broker in found.silent:
        return None
    lying = found.current.get(replica)
    return 0 if lying is None or lying.log_dir == target else lying.size_bytes


def _may_pass(error: PkafkaError) -> bool:
    """Whether an error is that of a broker which is away, and may come back."""
    if isinstance(error, ClientError):
        return error.retriable
    return isinstance(error, ApiError) and error.code in BROKER_IS_AWAY


def _assignments(admin: Admin, topics: Collection[str], *, missing_is_empty: bool = False) -> Assignments:
    """Where the partitions of topics are; as :func:`_described`."""
    described = _described(admin, topics, missing_is_empty=missing_is_empty)
    return {partition: each.replicas for partition, each in described.items()}


def _described(
    admin: Admin, topics: Collection[str], *, missing_is_empty: bool = False
) -> dict[TopicPartition, PartitionDescription]:
    """The partitions of topics.

    Raises:
        ApiError: in Kafka's words, if there is no such topic and that is not to be the same as no partition.
    """
    found: dict[TopicPartition, PartitionDescription] = {}
    for name, topic in admin.describe_topics(sorted(topics)).items() if topics else ():
        if not isinstance(topic, ApiError):
            found.update({TopicPartition(name, each.partition): each for each in topic.partitions})
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
        elif not missing_is_empty:
            raise ApiError(topic.code, f"Topic {name} not found.")
    return found
