"""The metadata cache: what one process of a broker knows about topics, leaders and live brokers.

Only UpdateMetadata requests change it: first a full one (:meth:`MetadataCache.snapshot` of another process, type 2),
then changes. Every process of a broker has its own; it belongs to one event loop and no other thread touches it. The
cache decides nothing: the controller elects leaders, and LeaderAndIsr tells a worker what it serves.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_LEADER, NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from pkafka.protocol.hot import NodeEndpoint
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

log = logging.getLogger(__name__)

LEADER_DURING_DELETE: Final = -2
"""The leader that UpdateMetadata and LeaderAndIsr name for a partition whose topic is being deleted."""

FULL_UPDATE: Final = 2
"""``type`` of an UpdateMetadata that replaces everything; a controller in ZooKeeper mode sends 0, changes only."""

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = MappingProxyType(
    {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
)


class Endpoint(NamedTuple):
    """An address at which a broker can be reached."""

    listener: str
    host: str
    port: int
    security_protocol: int = 0
    """Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class BrokerInfo(NamedTuple):
    """A live broker."""

    id: BrokerId
    rack: str | None
    endpoints: Mapping[str, Endpoint]
    """By listener name."""
    is_pkafka: bool = False
    """Whether its registration says so; UpdateMetadata does not."""


class PartitionInfo(NamedTuple):
    """Holds the controller's last word about a partition."""

    leader: BrokerId
    """-1 when there is none."""
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]
    partition_epoch: int
    """Version of the partition's state node."""
    controller_epoch: int


class TopicInfo:
    """A topic and its partitions, by number, in ascending order."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionInfo] = {}


class Departure(NamedTuple):
    """A broker that is not live any more."""

    broker: BrokerInfo
    led: frozenset[tuple[str, int]]
    """The partitions that it led when it departed, by topic and number."""


class MetadataChange(NamedTuple):
    """Holds the effect of one update."""

    changed: frozenset[str]
    """Topics with a new, changed or deleted partition."""
    deleted: tuple[TopicPartition, ...]
    brokers_changed: bool


class MetadataCache:
    """Holds what this process knows of topics, leaders and live brokers.

    Args:
        cluster_id: travels in no update, hence given at start; None until known.

    Attributes:
        version: grows by one with every update; results derived at a version are valid until the next one.
        controller_id: -1 when no controller is known.
        controller_epoch: of the newest controller that was heard of.
        topics: by name; read-only for others.
        brokers: the live ones by id, ascending; read-only for others.
        departed: those that were live a moment ago, until the worker forgets them; read-only for others.
        derived: results that readers keep and that hold for the present version only; every update empties it.
    """

    __slots__ = (
        "_callbacks",
        "_names",
        "brokers",
        "cluster_id",
        "controller_epoch",
        "controller_id",
        "departed",
        "derived",
        "topics",
        "version",
    )

    def __init__(self, cluster_id: str | None = None) -> None:
        self.cluster_id = cluster_id
        self.version = 0
        self.controller_id: BrokerId = -1
        self.controller_epoch = 0
        self.topics: dict[str, TopicInfo] = {}
        self.brokers: dict[BrokerId, BrokerInfo] = {}
        self.departed: Mapping[BrokerId, Departure] = {}
        self.derived: dict[object, object] = {}
        self._names: dict[TopicId, str] = {}
        self._callbacks: list[Callable[[MetadataChange], None]] = []

    # -- reading --

    def topic(self, name: str) -> TopicInfo | None:
        """The topic of this name."""
        return self.topics.get(name)

    def partitions(self) -> list[TopicPartition]:
        """Every partition that a controller has named and that is not deleted."""
        return [
            TopicPartition(topic.name, index) for topic in self.topics.values() for index in topic.partitions
        ]

    def topic_name(self, topic_id: TopicId) -> str | None:
        """The name of the topic with this id."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> TopicId:
        """The id of a topic; zeros when the topic is unknown or has none."""
        topic = self.topics.get(name)
        return topic.topic_id if topic is not None else NO_TOPIC_ID

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """What is known about a partition."""
        found = self.topics.get(topic)
        return found.partitions.get(partition) if found is not None else None

    def partition_count(self, topic: str) -> int:
        """Number of partitions; 0 when the topic is unknown."""
        found = self.topics.get(topic)
        return len(found.partitions) if found is not None else 0

    def leader_of(self, topic: str, partition: int) -> BrokerId:
        """The leader's broker id, -1 when there is none or the partition is unknown."""
        found = self.topics.get(topic)
        info = found.partitions.get(partition) if found is not None else None
        return info.leader if info is not None else NO_LEADER

    def has_leader(self, topic: str, partition: int) -> bool:
        """Whether the partition is known and led."""
        return self.leader_of(topic, partition) >= 0

    def endpoint(self, broker_id: BrokerId, listener: str) -> Endpoint | None:
        """Where a live broker listens under a listener's name."""
        broker = self.brokers.get(broker_id)
        return broker.endpoints.get(listener) if broker is not None else None

    def node_endpoints(self, broker_ids: Iterable[BrokerId], listener: str) -> list[NodeEndpoint]:
        """The addresses of the live ones of these brokers under a listener's name, for answers (KIP-951)."""
        found = []
        for broker_id in sorted(set(broker_ids)):
            broker = self.brokers.get(broker_id)
            endpoint = broker.endpoints.get(listener) if broker is not None else None
            if broker is not None and endpoint is not None:
                found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    # -- writing --

    def apply(self, request: UpdateMetadataRequest) -> MetadataChange:
        """Take over an update of any version.

        A partition with leader -2 is deleted, and a topic with its last partition. An update always names all live
        brokers.

        Raises:
            ApiError: STALE_CONTROLLER_EPOCH, a newer controller was heard of already.
        """
        if request.controller_epoch < self.controller_epoch:
            raise ApiError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"controller {request.controller_id} has epoch {request.controller_epoch}, the latest one is"
                f" {self.controller_epoch}",
            )
        self.controller_epoch = request.controller_epoch
        self.controller_id = max(request.controller_id, -1)
        self._note_departures({broker.id for broker in request.live_brokers})
        brokers_changed = self._apply_brokers(request.live_brokers)
        changed: set[str] = set()
        deleted: list[TopicPartition] = []
        if request.type == FULL_UPDATE:
            self._drop_missing(request.topic_states, changed, deleted)
        for topic_state in request.topic_states:
            self._apply_topic(
                topic_state.topic_name, topic_state.topic_id, topic_state.partition_states, changed, deleted
            )
        for state in request.ungrouped_partition_states:
            self._apply_topic(state.topic_name, NO_TOPIC_ID, (state,), changed, deleted)
        change = MetadataChange(frozenset(changed), tuple(deleted), brokers_changed)
        self._announce(change)
        return change

    def remove(self, partitions: Iterable[TopicPartition]) -> MetadataChange:
        """Forget partitions, and each topic with its last one."""
        changed: set[str] = set()
        deleted: list[TopicPartition] = []
        for name, partition in partitions:
            self._delete(name, partition, changed, deleted)
        change = MetadataChange(frozenset(changed), tuple(deleted), False)
        self._announce(change)
        return change

    def snapshot(self) -> UpdateMetadataRequest:
        """Return all metadata as an update (version 8) that brings another cache to this state."""
        return UpdateMetadataRequest(
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch,
            type=FULL_UPDATE,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=topic.name,
                    topic_id=topic.topic_id,
                    partition_states=[
                        UpdateMetadataPartitionState(
                            partition_index=number,
                            controller_epoch=info.controller_epoch,
                            leader=info.leader,
                            leader_epoch=info.leader_epoch,
                            isr=list(info.isr),
                            zk_version=info.partition_epoch,
                            replicas=list(info.replicas),
                            offline_replicas=list(info.offline_replicas),
                        )
                        for number, info in topic.partitions.items()
                    ],
                )
                for topic in self.topics.values()
            ],
            live_brokers=[live_broker(broker) for broker in self.brokers.values()],
        )

    def forget_departures(self, departures: Mapping[BrokerId, Departure]) -> None:
        """Forget departed brokers, except those that have departed once more since."""
        self.departed = {
            broker_id: one for broker_id, one in self.departed.items() if departures.get(broker_id) is not one
        }

    # -- waiting --

    def on_change(self, callback: Callable[[MetadataChange], None]) -> Callable[[], None]:
        """Call ``callback`` after every update, on the thread of the update; it must not wait.

        Returns:
            A function that ends this.
        """
        self._callbacks.append(callback)

        def forget() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return forget

    async def wait_until(self, condition: Callable[[], bool], *, timeout_s: float) -> bool:
        """Wait until ``condition`` holds, asked now and after every update.

        Returns:
            Whether it held before the time was over.
        """
        if condition():
            return True
        if timeout_s <= 0:
            return False
        met: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(_: MetadataChange) -> None:
            if not met.done() and condition():
                met.set_result(None)

        forget = self.on_change(look)
        try:
            await asyncio.wait_for(met, timeout_s)
        except TimeoutError:
            return condition()
        finally:
            forget()
        return True

    # -- inside --

    def _note_departures(self, live: Set[BrokerId]) -> None:
        """Note the brokers that are not live any more, before anything else of an update is taken over."""
        gone = self.brokers.keys() - live
        if not gone and not self.departed:
            return
        led: dict[BrokerId, list[tuple[str, int]]] = {broker_id: [] for broker_id in gone}
        for topic in self.topics.values() if gone else ():
            for number, info in topic.partitions.items():
                if info.leader in led:
                    led[info.leader].append((topic.name, number))
        self.departed = {
            **{broker_id: one for broker_id, one in self.departed.items() if broker_id not in live},
            **{
                broker_id: Departure(self.brokers[broker_id], frozenset(partitions))
                for broker_id, partitions in led.items()
            },
        }

    def _apply_brokers(self, live_brokers: Iterable[UpdateMetadataBroker]) -> bool:
        brokers = {broker.id: _broker_info(broker) for broker in sorted(live_brokers, key=lambda one: one.id)}
        if brokers == self.brokers:
            return False
        self.brokers = brokers
        return True

    def _apply_topic(
        self,
        name: str,
        topic_id: TopicId,
        states: Iterable[UpdateMetadataPartitionState],
        changed: set[str],
        deleted: list[TopicPartition],
    ) -> None:
        grown = False
        for state in states:
            if state.leader == LEADER_DURING_DELETE:
                self._delete(name, state.partition_index, changed, deleted)
                continue
            topic = self._topic_for(name, topic_id, changed)
            info = PartitionInfo(
                state.leader,
                state.leader_epoch,
                tuple(state.isr),
                tuple(state.replicas),
                tuple(state.offline_replicas),
                state.zk_version,
                state.controller_epoch,
            )
            grown = grown or state.partition_index not in topic.partitions
            if topic.partitions.get(state.partition_index) != info:
                topic.partitions[state.partition_index] = info
                changed.add(name)
        if grown:
            topic = self.topics[name]
            topic.partitions = dict(sorted(topic.partitions.items()))

    def _topic_for(self, name: str, topic_id: TopicId, changed: set[str]) -> TopicInfo:
        topic = self.topics.get(name)
        if topic is not None and topic_id not in (topic.topic_id, NO_TOPIC_ID):
            if topic.topic_id != NO_TOPIC_ID:
                # Another topic of the same name; the update that deleted the first one was lost.
                log.warning("topic %s has a new id; what was known of the old one is dropped", name)
                self._names.pop(topic.topic_id, None)
                topic = None
            else:
                topic.topic_id = topic_id
                self._names[topic_id] = name
            changed.add(name)
        if topic is None:
            topic = self.topics[name] = TopicInfo(name, topic_id)
            if topic_id != NO_TOPIC_ID:
                self._names[topic_id] = name
        return topic

    def _delete(self, name: str, partition: int, changed: set[str], deleted: list[TopicPartition]) -> None:
        topic = self.topics.get(name)
        if topic is None or topic.partitions.pop(partition, None) is None:
            return
        changed.add(name)
        deleted.append(TopicPartition(name, partition))
        if not topic.partitions:
            del self.topics[name]
            self._names.pop(topic.topic_id, None)

    def _drop_missing(
        self, states: Iterable[UpdateMetadataTopicState], changed: set[str], deleted: list[TopicPartition]
    ) -> None:
        kept = {
            (state.topic_name, partition.partition_index)
            for state in states
            for partition in state.partition_states
        }
        for name, topic in list(self.topics.items()):
            for partition in list(topic.partitions):
                if (name, partition) not in kept:
                    self._delete(name, partition, changed, deleted)

    def _announce(self, change: MetadataChange) -> None:
        self.version += 1
        self.derived.clear()
        for callback in tuple(self._callbacks):
            callback(change)


def live_broker(broker: BrokerInfo) -> UpdateMetadataBroker:
    """A broker as UpdateMetadata carries it."""
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                host=endpoint.host,
                port=endpoint.port,
                listener=endpoint.listener,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in broker.endpoints.values()
        ],
        rack=broker.rack,
    )


def _broker_info(broker: UpdateMetadataBroker) -> BrokerInfo:
    if broker.endpoints:
        endpoints = [
            # Before version 3 a listener had no name of its own; that of its security protocol stands for it.
            Endpoint(
                one.listener or _protocol_name(one.security_protocol),
                one.host,
                one.port,
                one.security_protocol,
            )
            for one in broker.endpoints
        ]
    else:
        endpoints = [Endpoint("PLAINTEXT", broker.v0_host, broker.v0_port)]
    return BrokerInfo(broker.id, broker.rack, {endpoint.listener: endpoint for endpoint in endpoints})


def _protocol_name(number: int) -> str:
    return next((name for name, known in SECURITY_PROTOCOL_IDS.items() if known == number), "PLAINTEXT")
