"""The controller's reads and writes of the coordination store. They decide nothing.

Every write checks /controller_epoch in the same transaction, so that a controller that was replaced without noticing
cannot write any more (split brain). Blocking; owned by the controller thread.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, ParamSpec, TypeVar

from pkafka.coordination.store import (
    BadVersionError,
    CheckOp,
    ConnectionLossError,
    CreateOp,
    DeleteOp,
    MultiOutcome,
    NodeExistsError,
    NoNodeError,
    Op,
    SessionExpiredError,
    SetOp,
    Stat,
    Store,
    StoreClosedError,
    StoreError,
)
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import Features
from pkafka.errors import PkafkaError
from pkafka.model import BrokerEpoch, BrokerId, TopicId, TopicPartition
from pkafka.server.cluster.metadata import BrokerInfo
from pkafka.server.controller import nodes
from pkafka.server.controller.context import Assignment, Leadership

log = logging.getLogger("kafka.controller.StateStore")

P = ParamSpec("P")
T = TypeVar("T")

_NO_CONTROLLER: Final = -1


class ControllerMovedError(PkafkaError):
    """Another broker became the controller; the write was refused."""


class Topic(NamedTuple):
    """Holds the content of a topic's node; the id is zeros when an old Kafka wrote none."""

    topic_id: TopicId
    assignments: Mapping[int, Assignment]


class Outcome(NamedTuple):
    """Holds the outcome of writing the leadership of several partitions."""

    written: dict[TopicPartition, Leadership]
    conflicts: list[TopicPartition]
    """Partitions whose node had another version than expected: read them and decide again."""
    failed: dict[TopicPartition, StoreError]


class StateStore:
    """Reads and writes the coordination store for a controller.

    Args:
        store: of the present session.
        epoch: of this controller.
        epoch_version: version of /controller_epoch at that epoch.
    """

    def __init__(self, store: Store, *, epoch: int, epoch_version: int) -> None:
        self._store = store
        self._epoch = epoch
        self._fence = CheckOp(nodes.CONTROLLER_EPOCH, epoch_version)

    # -- reading --

    def read_brokers(self) -> dict[BrokerId, tuple[BrokerInfo, int]]:
        """The live brokers with their epochs."""
        ids = [int(name) for name in self.children(nodes.BROKER_IDS) if name.isdecimal()]
        found = self._store.get_many([nodes.broker(one) for one in ids])
        brokers = {}
        for broker, node in zip(ids, found, strict=True):
            if node is not None:
                info = _readable(nodes.broker(broker), nodes.decode_broker, broker, node[0])
                if info is not None:
                    brokers[broker] = info, node[1].czxid
        return brokers

    def read_topic_names(self) -> list[str]:
        """All topics, sorted."""
        return self.children(nodes.TOPICS)

    def read_topics(self, names: Sequence[str]) -> dict[str, Topic]:
        """Ids and assignments of those topics that exist."""
        found = self._store.get_many([nodes.topic(name) for name in names])
        topics = {}
        for name, node in zip(names, found, strict=True):
            if node is not None:
                topic = _readable(nodes.topic(name), nodes.decode_topic, node[0])
                if topic is not None:
                    topics[name] = Topic(*topic)
        return topics

    def read_leadership(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leadership]:
        """The state nodes of those partitions that have one which can be read."""
        paths = [nodes.partition_state(one) for one in partitions]
        states = {}
        for partition, path, node in zip(partitions, paths, self._store.get_many(paths), strict=True):
            if node is not None:
                state = _readable(path, nodes.decode_leadership, node[0], node[1].version)
                if state is not None:
                    states[partition] = state
        return states

    def read_topic_configs(self, names: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """The settings of topics; empty for topics without any."""
        paths = [nodes.topic_config(name) for name in names]
        configs: dict[str, Mapping[str, str]] = {name: {} for name in names}
        for name, path, node in zip(names, paths, self._store.get_many(paths), strict=True):
            if node is not None:
                configs[name] = _readable(path, nodes.decode_config, node[0]) or {}
        return configs

    def read_deletions(self) -> list[str]:
        """The topics that are to be deleted."""
        return self.children(nodes.DELETE_TOPICS)

    def read_isr_notifications(self) -> tuple[list[str], list[TopicPartition]]:
        """Names of the notifications and the partitions in them."""
        names, found = self._read_notifications(nodes.ISR_NOTIFICATIONS, nodes.decode_partitions)
        return names, list(dict.fromkeys(one for partitions in found for one in partitions))

    def read_log_dir_notifications(self) -> tuple[list[str], list[BrokerId]]:
        """Names of the notifications and the brokers that wrote them."""
        names, brokers = self._read_notifications(nodes.LOG_DIR_NOTIFICATIONS, nodes.decode_log_dir_event)
        return names, sorted(set(brokers))

    def _read_notifications(self, parent: str, decode: Callable[[bytes], T]) -> tuple[list[str], list[T]]:
        names = self.children(parent)
        paths = [f"{parent}/{name}" for name in names]
        read = [
            _readable(path, decode, node[0])
            for path, node in zip(paths, self._store.get_many(paths), strict=True)
            if node is not None
        ]
        return names, [one for one in read if one is not None]

    def read_wish(self, path: str) -> tuple[bytes, int] | None:
        """Read a node in which a tool asks the controller for something.

        Returns:
            Its content and version; None when there is no such node.
        """
        try:
            data, stat = self._store.get(path)
        except NoNodeError:
            return None
        return data, stat.version

    def children(self, path: str) -> list[str]:
        """Names of the children, sorted; none when there is no such node."""
        try:
            return sorted(self._store.children(path))
        except NoNodeError:
            return []

    # -- writing --

    def create_leadership(self, wanted: Mapping[TopicPartition, Leadership]) -> Outcome:
        """Write the first state of partitions, with the nodes above it."""
        topics = sorted({partition.topic for partition in wanted})
        for path, outcome in zip(
            topics, self._fenced([[CreateOp(nodes.partitions(one))] for one in topics]), strict=True
        ):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError | NoNodeError):
                log.warning("the partitions node of topic %s could not be made: %s", path, outcome)
        states = {
            partition: CreateOp(nodes.partition_state(partition), nodes.encode_leadership(leadership))
            for partition, leadership in wanted.items()
        }
        result = Outcome({}, [], {})
        retried: dict[TopicPartition, Sequence[Op]] = {}
        transactions = {one: [CreateOp(nodes.partition(one)), state] for one, state in states.items()}
        for partition, outcome in self._each(transactions):
            if isinstance(outcome, NodeExistsError):
                # A controller that stopped half way left the partition's node.
                retried[partition] = [states[partition]]
            else:
                _sort_in(result, partition, wanted[partition], outcome)
        for partition, outcome in self._each(retried):
            _sort_in(result, partition, wanted[partition], outcome)
        return result

    def update_leadership(self, wanted: Mapping[TopicPartition, Leadership]) -> Outcome:
        """Replace the state of partitions that are still at the ``partition_epoch`` given."""
        result = Outcome({}, [], {})
        transactions = {
            partition: [
                SetOp(
                    nodes.partition_state(partition),
                    nodes.encode_leadership(leadership),
                    leadership.partition_epoch,
                )
            ]
            for partition, leadership in wanted.items()
        }
        for partition, outcome in self._each(transactions):
            _sort_in(result, partition, wanted[partition], outcome)
        return result

    def enable_features(self) -> None:
        """Write /feature where it is missing or disabled: features are enabled, and none is finalized (KIP-584)."""
        try:
            data, stat = self._store.get(Features.path())
        except NoNodeError:
            self._one([CreateOp(Features.path(), Features().encode())])
            return
        found = Features.decode(data)
        if not found.enabled:
            self._one([SetOp(Features.path(), Features(found.max_levels).encode(), stat.version)])

    def write_topic(self, name: str, topic: Topic) -> None:
        """Replace a topic's node."""
        self._one([SetOp(nodes.topic(name), nodes.encode_topic(topic.topic_id, topic.assignments))])

    def answer_wish(self, path: str, left: bytes | None, version: int) -> None:
        """Write what is left to do of a request in a node, or remove the node. A node that has changed stays as it is.

        Args:
            path: of the node.
            left: the new content; None removes the node.
            version: at which the node was read.
        """
        op = DeleteOp(path, version) if left is None else SetOp(path, left, version)
        (outcome,) = self._fenced([[op]])
        if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError | BadVersionError):
            raise outcome

    def delete_topic(self, name: str) -> None:
        """Remove a topic, its settings and, at last, the node that asks for its deletion. May be repeated."""
        for path in (nodes.topic(name), nodes.topic_config(name)):
            self._delete_tree(path)
        self.delete_children(nodes.DELETE_TOPICS, [name])

    def delete_registration(self, broker: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """Remove the registration of a dead broker; a registration with another epoch stays."""
        stat = self._store.exists(nodes.broker(broker))
        if stat is not None and stat.czxid == broker_epoch:
            (outcome,) = self._fenced([[DeleteOp(nodes.broker(broker), stat.version)]])
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError | BadVersionError):
                raise outcome

    def delete_children(self, parent: str, names: Iterable[str]) -> None:
        """Remove nodes without children; it does not matter when some are gone already."""
        outcomes = self._fenced([[DeleteOp(f"{parent}/{name}")] for name in names])
        for outcome in outcomes:
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError):
                raise outcome

    def _delete_tree(self, path: str) -> None:
        # Each level is one step that checks the epoch; Store.delete_recursive checks none.
        levels = [[path]]
        while levels[-1]:
            levels.append([f"{parent}/{name}" for parent in levels[-1] for name in self.children(parent)])
        for level in reversed(levels):
            for outcome in self._fenced([[DeleteOp(one)] for one in level]):
                if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError):
                    raise outcome

    def _one(self, ops: Sequence[Op]) -> None:
        (outcome,) = self._fenced([ops])
        if isinstance(outcome, StoreError):
            raise outcome

    def _each(
        self, transactions: Mapping[TopicPartition, Sequence[Op]]
    ) -> Iterable[tuple[TopicPartition, MultiOutcome]]:
        return zip(transactions, self._fenced(list(transactions.values())), strict=True)

    def _fenced(self, transactions: Sequence[Sequence[Op]]) -> list[MultiOutcome]:
        if not transactions:
            return []
        outcomes = self._store.multi_many([[self._fence, *ops] for ops in transactions])
        for outcome in outcomes:
            if isinstance(outcome, ConnectionLossError | SessionExpiredError | StoreClosedError):
                raise outcome
            if isinstance(outcome, StoreError) and outcome.failed_index == 0:
                raise ControllerMovedError(
                    f"epoch {self._epoch} is over: {nodes.CONTROLLER_EPOCH} was changed"
                )
        return outcomes


def _readable(path: str, decode: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Decode a node; None when it is damaged, so that one damaged node does not stop everything else."""
    try:
        return decode(*args, **kwargs)
    except ZnodeFormatError as error:
        log.error("%s is left out, it cannot be read: %s", path, error)
        return None


def _sort_in(result: Outcome, partition: TopicPartition, wanted: Leadership, outcome: MultiOutcome) -> None:
    if not isinstance(outcome, StoreError):
        written = outcome[-1]
        version = written.version if isinstance(written, Stat) else 0
        result.written[partition] = wanted._replace(partition_epoch=version)
    elif isinstance(outcome, BadVersionError | NodeExistsError):
        result.conflicts.append(partition)
    else:
        result.failed[partition] = outcome


class Won(NamedTuple):
    """Holds the epoch of an election won."""

    epoch: int
    epoch_version: int


def active_controller(store: Store) -> BrokerId:
    """The broker named by /controller, -1 when there is none."""
    try:
        data, _ = store.get(nodes.CONTROLLER)
    except NoNodeError:
        return _NO_CONTROLLER
    return nodes.decode_controller(data)


def remove_dead_controller(store: Store, broker_id: BrokerId, czxid: int) -> None:
    """Remove /controller of a dead broker; a node of another term of office stays.

    Raises:
        StoreError: the store failed.
    """
    try:
        data, stat = store.get(nodes.CONTROLLER)
        if nodes.decode_controller(data) == broker_id and stat.czxid == czxid:
            store.delete(nodes.CONTROLLER, version=stat.version)
    except (NoNodeError, BadVersionError):
        log.debug("%s changed hands meanwhile", nodes.CONTROLLER)


def stand_for_election(
    store: Store, broker_id: BrokerId, now_ms: int, *, previous_session_id: int | None = None
) -> Won | None:
    """Try to become the controller: take /controller and raise /controller_epoch in one step.

    Args:
        previous_session_id: of this broker's dead former run, whose /controller may be replaced.

    Returns:
        The epoch won; None when another broker has the role or wins it.
    """
    ops: list[Op] = []
    try:
        data, stat = store.get(nodes.CONTROLLER)
    except NoNodeError:
        pass
    else:
        own = (store.session_id, previous_session_id)
        if nodes.decode_controller(data) != broker_id or stat.ephemeral_owner not in own:
            return None
        # This broker's former control process left the node, in the session that this one goes on with: begin a new
        # epoch.
        ops.append(DeleteOp(nodes.CONTROLLER, stat.version))
    epoch, version = _read_epoch(store)
    ops += [
        CreateOp(nodes.CONTROLLER, nodes.encode_controller(broker_id, now_ms), ephemeral=True),
        SetOp(nodes.CONTROLLER_EPOCH, str(epoch + 1).encode(), version),
    ]
    try:
        store.multi(ops)
    except (NoNodeError, NodeExistsError, BadVersionError, ConnectionLossError):
        # Perhaps this broker won, and the answer was lost: look which broker the nodes name.
        return _won_after_all(store, broker_id, epoch + 1)
    return Won(epoch + 1, version + 1)


def _won_after_all(store: Store, broker_id: BrokerId, epoch: int) -> Won | None:
    try:
        data, stat = store.get(nodes.CONTROLLER)
    except NoNodeError:
        return None
    now_epoch, now_version = _read_epoch(store)
    ours = nodes.decode_controller(data) == broker_id and stat.ephemeral_owner == store.session_id
    return Won(now_epoch, now_version) if ours and now_epoch == epoch else None


def _read_epoch(store: Store) -> tuple[int, int]:
    try:
        data, stat = store.get(nodes.CONTROLLER_EPOCH)
    except NoNodeError:
        try:
            store.create(nodes.CONTROLLER_EPOCH, b"0")
        except NodeExistsError:
            log.debug("another broker made %s first", nodes.CONTROLLER_EPOCH)
        data, stat = store.get(nodes.CONTROLLER_EPOCH)
    return int(data), stat.version


def resign(store: Store, epoch_version: int) -> None:
    """Give /controller up, if this is still the same election.

    Raises:
        StoreError: another broker is the controller now.
    """
    store.multi([CheckOp(nodes.CONTROLLER_EPOCH, epoch_version), DeleteOp(nodes.CONTROLLER)])
