"""Elections of preferred leaders that are asked for in a node, as tools did before Kafka 2.2. Does not print.

The controller elects and removes the node, and says nothing of what became of it.
"""

import threading
from collections.abc import Collection, Iterator, Sequence

from pkafka.clients.admin.results import ElectionType, PartitionDescription
from pkafka.coordination.store import (
    REQUEST_BYTES_MAX,
    CreateOp,
    NodeExistsError,
    NoNodeError,
    Store,
    request_bytes,
)
from pkafka.coordination.znodes import (
    BROKER_IDS,
    TOPICS,
    PartitionState,
    PreferredReplicaElection,
    TopicAssignment,
)
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition
from pkafka.tools.elections.leader import Elected, Result, elected, foreseen

_MISSING = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")


class ElectionInProgressError(PkafkaError):
    """Another election was asked for, and the controller has not come to it."""


def plan(store: Store, partitions: Collection[TopicPartition] | None) -> list[Elected]:
    """What can be asked for: of partitions, or with None of all that there are.

    Raises:
        StoreError: the store failed.
    """
    return [
        Elected(each, Result.FAILED, _MISSING) if found is None else Elected(each, Result.ASKED)
        for each, found in _described(store, partitions).items()
    ]


def foresee(store: Store, partitions: Collection[TopicPartition] | None) -> list[Elected]:
    """What the controller would do now, as far as the nodes tell.

    Raises:
        StoreError: the store failed.
    """
    live = {int(name) for name in store.children(BROKER_IDS) if name.isdecimal()}
    return [
        elected(each, foreseen(ElectionType.PREFERRED, found, live))
        for each, found in _described(store, partitions).items()
    ]


def ask(
    store: Store, partitions: Sequence[TopicPartition], *, timeout_s: float
) -> Iterator[list[TopicPartition]]:
    """Ask the controller; more than a node can hold one after another, each when the one before is done.

    Args:
        timeout_s: how long to wait for the controller between two.

    Yields:
        What was asked for, each time.

    Raises:
        ElectionInProgressError: others have asked, or the controller does not come to it.
        StoreError: the store failed.
    """
    path = PreferredReplicaElection.path()
    for number, batch in enumerate(batches(partitions)):
        if number:
            _wait_until_gone(store, path, timeout_s)
        try:
            store.create(path, PreferredReplicaElection(tuple(batch)).encode())
        except NodeExistsError:
            raise ElectionInProgressError(_in_progress(store)) from None
        yield batch


def batches(
    partitions: Sequence[TopicPartition], bytes_max: int = REQUEST_BYTES_MAX
) -> list[list[TopicPartition]]:
    """Partitions in groups that one node can hold each."""
    path = PreferredReplicaElection.path()
    empty = request_bytes([CreateOp(path, PreferredReplicaElection(()).encode())])
    found: list[list[TopicPartition]] = []
    size = bytes_max
    for each in partitions:
        more = len(PreferredReplicaElection((each,)).encode())
        if size + more > bytes_max:
            found.append([])
            size = empty
        found[-1].append(each)
        size += more
    return found


def _in_progress(store: Store) -> str:
    path = PreferredReplicaElection.path()
    try:
        running = PreferredReplicaElection.decode(store.get(path)[0]).partitions
    except PkafkaError:  # it went meanwhile, or is none
        running = ()
    names = ",".join(map(str, running))
    return f"Preferred replica leader election currently in progress for {names}. Aborting operation"


def _wait_until_gone(store: Store, path: str, timeout_s: float) -> None:
    changed = threading.Event()
    watch = store.watch_data(path, lambda _: changed.set())
    try:
        while store.exists(path) is not None:
            if not changed.wait(timeout_s):
                raise ElectionInProgressError(f"the controller has not come to {path} in {timeout_s:.0f} s")
            changed.clear()
    finally:
        watch.unwatch()


def _described(
    store: Store, partitions: Collection[TopicPartition] | None
) -> dict[TopicPartition, PartitionDescription | None]:
    """What the nodes say of partitions, sorted; None of one that is not there."""
    names = store.children(TOPICS) if partitions is None else sorted({each.topic for each in partitions})
    found: dict[TopicPartition, PartitionDescription | None] = {}
    for name in names:
        try:
            assignments = TopicAssignment.decode(store.get(TopicAssignment.path(name))[0]).partitions
        except NoNodeError:
            assignments = {}
        wanted = [TopicPartition(name, number) for number in assignments]
        if partitions is not None:
            wanted = [each for each in partitions if each.topic == name]
        states = store.get_many([PartitionState.path(each) for each in wanted])
        for each, node in zip(wanted, states, strict=True):
            assignment = assignments.get(each.partition)
            if assignment is None:
                found[each] = None
                continue
            state = None if node is None else PartitionState.decode(node[0])
            found[each] = PartitionDescription(
                each.partition,
                None if state is None or state.leader < 0 else state.leader,
                assignment.replicas,
                () if state is None else state.isr,
            )
    return dict(sorted(found.items()))
