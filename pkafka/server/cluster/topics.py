"""Creating, growing and deleting topics: the checks and writes that the requests of an operator or a client lead to.

This module only writes the nodes; the controller watches them, elects leaders and tells the brokers. Everything runs on
the controller thread, one request after the other. Texts are those of Kafka 3.9.1 in ZooKeeper mode.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from pkafka.coordination.store import (
    REQUEST_BYTES_MAX,
    CreateOp,
    DataTooLargeError,
    NodeExistsError,
    NoNodeError,
    Op,
    SetOp,
    Store,
)
from pkafka.coordination.znodes import (
    DELETE_TOPICS,
    TOPICS,
    BrokerRegistration,
    DeletedTopic,
    EntityConfig,
    PartitionAssignment,
    TopicAssignment,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import BrokerId, TopicId, topic_name_problem, topic_names_collide
from pkafka.server.cluster.placement import place_replicas
from pkafka.topic_ids import new_topic_id

Assignments = Mapping[int, tuple[BrokerId, ...]]

UNSET: Final = -1
"""A number of partitions or replicas that the client leaves to the broker (KIP-464)."""

_PARTITIONS_MAX: Final = REQUEST_BYTES_MAX // len('"0":[0],')
"""More partitions do not fit into a topic's node, which needs at least these bytes for each."""


def check_new_topic(store: Store, name: str, assignments: Assignments) -> None:
    """Check that a topic of this name and shape can be created.

    Raises:
        ApiError: it cannot.
        StoreError: the store failed.
    """
    problem = topic_name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if store.exists(DeletedTopic.path(name)) is not None:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if store.exists(TopicAssignment.path(name)) is not None:
        raise already_exists(name)
    if "." in name or "_" in name:
        existing = store.children(TOPICS)
        if name in existing:
            # Another broker has created the same topic since the check above; a topic does not collide with itself.
            raise already_exists(name)
        colliding = [other for other in existing if topic_names_collide(name, other)]
        if colliding:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
            )
    _check_shape(assignments)


def _check_shape(assignments: Assignments) -> None:
    if len({len(replicas) for replicas in assignments.values()}) != 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas"
        )
    if not all(assignments.values()):
        # Kafka creates such a topic, which then can never have a leader.
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        )
    if any(len(replicas) != len(set(replicas)) for replicas in assignments.values()):
        text = ", ".join(f"{number} -> {_list(replicas)}" for number, replicas in assignments.items())
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Duplicate replica assignment found: HashMap({text})"
        )
    if sorted(assignments) != list(range(len(assignments))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )


def check_count(partitions: int) -> None:
    """Refuse more partitions than a node can hold: placing them would take all memory before the store refuses.

    Raises:
        ApiError: there are too many.
    """
    if partitions > _PARTITIONS_MAX:
        raise _too_many(partitions)


def _too_many(partitions: int) -> ApiError:
    text = f"{partitions} partitions are more than the coordination store can hold for one topic."
    return ApiError(ErrorCode.INVALID_PARTITIONS, text)


def create_topic(store: Store, name: str, assignments: Assignments, configs: Mapping[str, str]) -> TopicId:
    """Write a checked topic with its settings, both or neither.

    Raises:
        ApiError: another client created it meanwhile, or it is larger than a node can be.
        StoreError: the store failed.
    """
    topic_id = new_topic_id()
    nodes = {number: PartitionAssignment(replicas) for number, replicas in assignments.items()}
    config_path, config = EntityConfig.path("topics", name), EntityConfig(configs).encode()
    # Settings may be left from a topic whose creation or deletion stopped half way.
    exists = store.exists(config_path) is not None
    ops: list[Op] = [
        SetOp(config_path, config) if exists else CreateOp(config_path, config),
        CreateOp(TopicAssignment.path(name), TopicAssignment(nodes, topic_id).encode()),
    ]
    try:
        store.multi(ops)
    except NodeExistsError:
        raise already_exists(name) from None
    except DataTooLargeError:
        raise _too_many(len(assignments)) from None
    return topic_id


def already_exists(name: str) -> ApiError:
    """The refusal of a topic that exists."""
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def mark_for_deletion(store: Store, name: str) -> None:
    """Ask the controller to delete a topic; asking twice is fine.

    Raises:
        ApiError: UNKNOWN_TOPIC_OR_PARTITION.
        StoreError: the store failed.
    """
    if store.exists(TopicAssignment.path(name)) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic `{name}` to delete does not exist")
    try:
        store.create(DeletedTopic.path(name), b"", make_parents=True)
    except NodeExistsError:
        return


def is_marked_for_deletion(store: Store, name: str) -> bool:
    """Whether a topic waits for its deletion."""
    return store.exists(f"{DELETE_TOPICS}/{name}") is not None


def existing(store: Store, partitions: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Those of some partitions that the cluster has, without those of topics that wait for their deletion.

    Raises:
        StoreError: the store failed.
        ZnodeFormatError: the node of a topic cannot be read.
    """
    found: dict[str, Collection[int]] = {}
    partitions = list(partitions)
    for name in {topic for topic, _index in partitions}:
        found[name] = ()
        if not is_marked_for_deletion(store, name):
            with contextlib.suppress(NoNodeError):
                data, _stat = store.get(TopicAssignment.path(name))
                found[name] = TopicAssignment.decode(data).partitions.keys()
    return [(topic, index) for topic, index in partitions if index in found[topic]]


def grow_topic(
    store: Store,
    name: str,
    count: int,
    assignments: Sequence[tuple[BrokerId, ...]] | None,
    *,
    accept: Callable[[int], None] | None,
) -> int:
    """Add partitions to a topic.

    Args:
        store: of the cluster.
        name: of the topic.
        count: of partitions that it shall have.
        assignments: replicas of the added ones in order; None to have them placed.
        accept: called with how many are added before they are written, and may raise; None only checks.

    Returns:
        How many partitions it has then (or would have).

    Raises:
        ApiError: it cannot.
        StoreError: the store failed.
    """
    try:
        data, stat = store.get(TopicAssignment.path(name))
    except NoNodeError:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.") from None
    topic = TopicAssignment.decode(data)
    if any(one.adding or one.removing for one in topic.partitions.values()):
        raise ApiError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{name}'.",
        )
    added = count - len(topic.partitions)
    _check_growth(len(topic.partitions), count)
    check_count(count)
    racks = live_racks(store)
    replication_factor = len(topic.partitions[0].replicas)
    first = len(topic.partitions)
    if assignments is None:
        new = place_replicas(
            racks,
            partitions=added,
            replication_factor=replication_factor,
            fixed_start=_index_from(sorted(racks), topic.partitions[0].replicas[0]),
            first_partition=first,
        )
    else:
        new = {first + index: replicas for index, replicas in enumerate(assignments)}
        _check_added(new, added, replication_factor, racks)
    if accept is not None:
        accept(added)
        grown = {
            **topic.partitions,
            **{number: PartitionAssignment(replicas) for number, replicas in new.items()},
        }
        value = TopicAssignment(grown, topic.topic_id).encode()
        try:
            # Written at the version read, so that two requests for the same topic do not undo each other.
            store.set(TopicAssignment.path(name), value, version=stat.version)
        except DataTooLargeError:
            raise _too_many(count) from None
    return count


def _check_growth(now: int, wanted: int) -> None:
    if wanted < now:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {now} partitions, which is higher than the requested {wanted}.",
        )
    if wanted == now:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partitions.")


def _check_added(
    new: Assignments, added: int, replication_factor: int, racks: Mapping[BrokerId, str | None]
) -> None:
    def refuse(text: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)

    unknown = {broker for replicas in new.values() for broker in replicas} - racks.keys()
    if unknown:
        raise refuse(f"Unknown broker(s) in replica assignment: {', '.join(map(str, sorted(unknown)))}.")
    if len(new) != added:
        raise refuse(f"Increasing the number of partitions by {added} but {len(new)} assignments provided.")
    for number, replicas in new.items():
        if not replicas:
            raise refuse(f"Cannot have replication factor of 0 for partition id {number}.")
        if len(replicas) != len(set(replicas)):
            raise refuse(
                "Duplicate brokers not allowed in replica assignment:"
                f" {', '.join(map(str, replicas))} for partition id {number}."
            )
    odd = {number: len(replicas) for number, replicas in new.items() if len(replicas) != replication_factor}
    if odd:
        raise refuse(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while"
            f" partitions [{', '.join(map(str, odd))}] have replication factors"
            f" [{', '.join(map(str, odd.values()))}], respectively."
        )


def live_racks(store: Store) -> dict[BrokerId, str | None]:
    """The live brokers with their racks."""
    ids = [int(name) for name in store.children("/brokers/ids") if name.isdecimal()]
    found = store.get_many([BrokerRegistration.path(one) for one in ids])
    return {
        one: BrokerRegistration.decode(node[0]).rack
        for one, node in zip(ids, found, strict=True)
        if node is not None
    }


def _index_from(brokers: Sequence[BrokerId], first: BrokerId) -> int:
    return next((index for index, broker in enumerate(brokers) if broker >= first), 0)


def _list(replicas: Sequence[BrokerId]) -> str:
    return f"ArrayBuffer({', '.join(map(str, replicas))})"
