"""The cluster's metadata as every broker tells it, and as the nodes in ZooKeeper have it, side by side.

Brokers serve metadata from caches that the controller fills. Of their answers about a partition, the one with the
highest leader epoch is the newest. A broker that answers something else is stale, and so is a broker that does not know
a live broker or the controller. While something changes, answers differ for a moment: only what differs twice counts.
As for Kafka, replicas that a reassignment is still adding are not missing: they are not in sync before they have copied
everything.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.clients.cluster import PartitionView, TopicView, topic_view
from pkafka.clients.errors import ClientError
from pkafka.errors import ErrorCode, PkafkaError
from pkafka.model import NO_LEADER, TopicId, TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.coordination.store import Store

_PAUSE_MS: Final = 1_000
_MOVES_MAX_MS: Final = 5_000
"""A controller that does not say in this time what moves is not waited for: what is amiss there is to be seen, too."""
OFFLINE: Final = "offline"
UNDER_REPLICATED: Final = "under_replicated"
NOT_PREFERRED: Final = "not_preferred"
GOOD: Final = "ok"


class Told(NamedTuple):
    """What one broker answers."""

    controller: int
    brokers: Mapping[int, tuple[str, str | None]]
    """Those that are alive: address and rack."""
    topics: Mapping[str, TopicView]


class Written(NamedTuple):
    """The state of a partition as its node has it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int


class Nodes(NamedTuple):
    """What ZooKeeper has."""

    controller: int
    controller_epoch: int | None
    broker_epochs: Mapping[int, int]
    """Of the brokers that are registered."""
    topic_ids: Mapping[str, TopicId | None]
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    states: Mapping[TopicPartition, Written]


class Partition(NamedTuple):
    """A partition as the newest answer has it.

    Args:
        leader: None when no broker leads it.
        adding: those of the replicas that a reassignment is still adding.
    """

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: Collection[int] = frozenset()

    @property
    def missing(self) -> tuple[int, ...]:
        """The replicas that are not in sync, when they are fewer than the partition is to have."""
        if not is_under_replicated(self.replicas, self.isr, self.adding):
            return ()
        return tuple(each for each in self.replicas if each not in self.isr and each not in self.adding)

    @property
    def state(self) -> str:
        """The worst that is true of it."""
        if self.leader is None:
            return OFFLINE
        if self.missing:
            return UNDER_REPLICATED
        return GOOD if self.leader == self.replicas[0] else NOT_PREFERRED


class Look(NamedTuple):
    """One look at all brokers.

    Args:
        told: what each live broker answers, or why it does not.
        nodes: None where they were not looked at.
        partitions: as the newest answers have them.
        topics: likewise, by name.
        stale: the partitions of which each broker does not tell the newest.
        behind: what else each broker does not know, in words.
        differences: of partitions, how the nodes differ from the newest answer, in words.
    """

    cluster_id: str | None
    controller: int
    told: Mapping[int, Told | ClientError]
    nodes: Nodes | None
    partitions: Mapping[TopicPartition, Partition]
    topics: Mapping[str, TopicView]
    stale: Mapping[int, frozenset[TopicPartition]]
    behind: Mapping[int, frozenset[str]]
    differences: Mapping[TopicPartition, str]

    @property
    def alive(self) -> Collection[int]:
        """The brokers that any of them takes for alive."""
        return {broker for told in self.told.values() if isinstance(told, Told) for broker in told.brokers}

    def stale_brokers(self, partition: TopicPartition) -> list[int]:
        """The brokers that do not tell the newest of a partition."""
        return sorted(broker for broker, partitions in self.stale.items() if partition in partitions)


def is_under_replicated(replicas: Collection[int], isr: Collection[int], adding: Collection[int]) -> bool:
    """Whether fewer are in sync than the partition has replicas, without those that are being added.

    Kafka counts so (OngoingReassignmentState.replicationFactor): a reassignment that goes well raises no alarm.
    """
    return len(isr) < len(set(replicas).difference(adding))


def replicas_being_added(
    admin: "Admin", *, timeout_ms: int | None = None
) -> dict[TopicPartition, tuple[int, ...]]:
    """Of the partitions that move, the replicas that they get; none where the controller cannot or does not say."""
    patience_ms = _MOVES_MAX_MS if timeout_ms is None else min(timeout_ms, _MOVES_MAX_MS)
    try:
        moves = admin.list_partition_reassignments(timeout_ms=patience_ms)
    except PkafkaError:
        return {}
    return {partition: move.adding for partition, move in moves.items() if move.adding}


def observe(
    admin: "Admin", store: "Store | None", *, pause_ms: int = _PAUSE_MS, timeout_ms: int | None = None
) -> Look:
    """Look, and where not all tell the same, look again after a moment: what differs only once was under way.

    Args:
        store: has the nodes; None to leave them out.

    Raises:
        ClientError: no broker can be asked.
        StoreError: the nodes cannot be read.
        ZnodeFormatError: one of them is not what it should be.
    """
    first = _look(admin, store, timeout_ms)
    if not (any(first.stale.values()) or any(first.behind.values()) or first.differences):
        return first
    cluster = admin.cluster
    end_ms = cluster.clock.monotonic_ms() + pause_ms
    while cluster.clock.monotonic_ms() < end_ms:
        cluster.pause(0, end_ms)
    second = _look(admin, store, timeout_ms)
    return second._replace(
        stale={node: each & first.stale.get(node, frozenset()) for node, each in second.stale.items()},
        behind={node: each & first.behind.get(node, frozenset()) for node, each in second.behind.items()},
        differences={
            each: words for each, words in second.differences.items() if first.differences.get(each) == words
        },
    )


def _look(admin: "Admin", store: "Store | None", timeout_ms: int | None) -> Look:
    from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse

    cluster = admin.cluster
    view = cluster.refresh(timeout_ms=timeout_ms)
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answers = cluster.request_each(
        dict.fromkeys(view.brokers, request), MetadataResponse, timeout_ms=timeout_ms
    )
    told: dict[int, Told | ClientError] = {
        node: answer if isinstance(answer, ClientError) else _told(answer) for node, answer in answers.items()
    }
    # The nodes after the brokers: what they have and a broker has not was there before.
    nodes = None if store is None else read_nodes(store)
    look = compare(view.cluster_id, told, nodes)
    if look.controller < 0 or not any(one.missing for one in look.partitions.values()):
        return look
    return with_adding(look, replicas_being_added(admin, timeout_ms=timeout_ms))


def with_adding(look: Look, adding: Mapping[TopicPartition, Collection[int]]) -> Look:
    """The same, where these replicas of partitions are only being added."""
    return look._replace(
        partitions={
            each: one._replace(adding=adding.get(each, one.adding)) for each, one in look.partitions.items()
        }
    )


def _told(answer: "object") -> Told:
    from pkafka.protocol.messages.metadata import MetadataResponse

    assert isinstance(answer, MetadataResponse)
    return Told(
        answer.controller_id,
        {each.node_id: (f"{each.host}:{each.port}", each.rack) for each in answer.brokers},
        {each.name: topic_view(each) for each in answer.topics if each.name is not None},
    )


def compare(cluster_id: str | None, told: Mapping[int, Told | ClientError], nodes: Nodes | None) -> Look:
    """Find the newest of everything, and the brokers that have something else."""
    answers = {node: each for node, each in told.items() if isinstance(each, Told)}
    controller = _controller(answers.values())
    ranked = sorted(answers.items(), key=lambda each: (each[0] == controller, each[0]))
    newest: dict[TopicPartition, PartitionView] = {}
    topics: dict[str, TopicView] = {}
    for _, answer in ranked:
        for name, topic in answer.topics.items():
            topics[name] = topic
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition)
                if partition not in newest or one.leader_epoch >= newest[partition].leader_epoch:
                    newest[partition] = one
    alive = {broker for answer in answers.values() for broker in answer.brokers}
    stale, behind = {}, {}
    for node, answer in answers.items():
        own = {
            TopicPartition(name, one.partition): one
            for name, topic in answer.topics.items()
            for one in topic.partitions
        }
        stale[node] = frozenset(each for each, one in newest.items() if not _is_same(own.get(each), one))
        behind[node] = frozenset(_behind(answer, alive, controller))
    partitions = {each: _partition(one) for each, one in sorted(newest.items())}
    differences = {} if nodes is None else dict(_differences(partitions, nodes))
    return Look(cluster_id, controller, told, nodes, partitions, topics, stale, behind, differences)


def _controller(answers: Iterable[Told]) -> int:
    """The broker that most take for the controller."""
    said = [each.controller for each in answers if each.controller >= 0]
    return max(sorted(set(said)), key=said.count, default=-1)


def _is_same(one: PartitionView | None, other: PartitionView) -> bool:
    return one is not None and (one.leader, one.leader_epoch, sorted(one.isr), one.replicas) == (
        other.leader,
        other.leader_epoch,
        sorted(other.isr),
        other.replicas,
    )


def _behind(answer: Told, alive: Collection[int], controller: int) -> Iterable[str]:
    if answer.controller != controller:
        yield f"takes {_broker_text(answer.controller)} for the controller"
    missing = sorted(alive - answer.brokers.keys())
    if missing:
        yield f"does not know {', '.join(map(_broker_text, missing))}"


def _broker_text(broker: int) -> str:
    return f"broker {broker}" if broker >= 0 else "no broker"


def _partition(one: PartitionView) -> Partition:
    is_led = one.leader != NO_LEADER and one.error is not ErrorCode.LEADER_NOT_AVAILABLE
    return Partition(
        one.leader if is_led else None, one.leader_epoch, tuple(one.replicas), tuple(sorted(one.isr))
    )


def _differences(
    partitions: Mapping[TopicPartition, Partition], nodes: Nodes
) -> Iterable[tuple[TopicPartition, str]]:
    for partition in sorted(partitions.keys() | nodes.replicas.keys()):
        one, state = partitions.get(partition), nodes.states.get(partition)
        words = []
        if one is None:
            words.append("no broker knows it")
        elif partition not in nodes.replicas:
            words.append("ZooKeeper does not know it")
        elif state is None:
            words.append("it has no state")
        else:
            if (one.leader if one.leader is not None else NO_LEADER) != state.leader:
                words.append(f"leader {state.leader if state.leader >= 0 else 'none'}")
            if one.leader_epoch >= 0 and one.leader_epoch != state.leader_epoch:
                words.append(f"leader epoch {state.leader_epoch}")
            if one.isr != tuple(sorted(state.isr)):
                words.append(f"isr {_joined(sorted(state.isr))}")
            if one.replicas != nodes.replicas[partition]:
                words.append(f"replicas {_joined(nodes.replicas[partition])}")
        if words:
            yield partition, ", ".join(words)


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def read_nodes(store: "Store") -> Nodes:
    """What the nodes of a cluster have.

    Raises:
        StoreError: they cannot be read.
        ZnodeFormatError: one of them is not what it should be.
    """
    from pkafka.coordination import znodes

    found = store.get_many([znodes.CONTROLLER, znodes.CONTROLLER_EPOCH])
    controller = -1 if found[0] is None else znodes.Controller.decode(found[0][0]).broker_id
    epoch = None if found[1] is None else int(found[1][0])
    ids = [int(name) for name in _children(store, znodes.BROKER_IDS) if name.isdecimal()]
    registrations = store.get_many([znodes.BrokerRegistration.path(each) for each in ids])
    names = _children(store, znodes.TOPICS)
    topic_nodes = store.get_many([znodes.TopicAssignment.path(name) for name in names])
    topic_ids: dict[str, TopicId | None] = {}
    replicas: dict[TopicPartition, tuple[int, ...]] = {}
    for name, node in zip(names, topic_nodes, strict=True):
        if node is not None:
            topic = znodes.TopicAssignment.decode(node[0])
            topic_ids[name] = topic.topic_id
            replicas.update(
                {TopicPartition(name, number): one.replicas for number, one in topic.partitions.items()}
            )
    states: dict[TopicPartition, Written] = {}
    for partition, node in zip(
        replicas, store.get_many([znodes.PartitionState.path(each) for each in replicas]), strict=True
    ):
        if node is not None:
            state = znodes.PartitionState.decode(node[0])
            states[partition] = Written(
                state.leader, state.leader_epoch, state.isr, state.controller_epoch, node[1].version
            )
    epochs = {each: node[1].czxid for each, node in zip(ids, registrations, strict=True) if node is not None}
    return Nodes(controller, epoch, epochs, topic_ids, replicas, states)


def _children(store: "Store", path: str) -> list[str]:
    from pkafka.coordination.store import NoNodeError

    try:
        return store.children(path)
    except NoNodeError:
        return []


def chosen(look: Look, is_included: Callable[[str], object]) -> Look:
    """The same of some topics alone, by name."""

    def keep(partition: TopicPartition) -> bool:
        return bool(is_included(partition.topic))

    return look._replace(
        partitions={each: one for each, one in look.partitions.items() if keep(each)},
        topics={name: topic for name, topic in look.topics.items() if is_included(name)},
        stale={node: frozenset(filter(keep, some)) for node, some in look.stale.items()},
        differences={each: words for each, words in look.differences.items() if keep(each)},
    )
