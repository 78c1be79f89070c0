"""Requests to brokers that do not lead, or with epochs of other times: two brokers of Apache Kafka 3.9.1 and two of
pkafka answer the same bytes, but for ports and topic ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any, Final

import pytest

from pkafka.clients.admin.results import ElectionType
from pkafka.errors import ApiError
from pkafka.model import TopicId, TopicPartition
from pkafka.protocol.codec import encode
from pkafka.protocol.headers import decode_response
from pkafka.protocol.messages import fetch, list_offsets, offset_for_leader_epoch, produce
from pkafka.protocol.schema import Message
from tests.cluster import SETTINGS, Cluster
from tests.raw_client import RawClient, batch, produce_request, produce_to
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

COMMON: Final[Mapping[str, object]] = {
    **SETTINGS,
    "inter.broker.protocol.version": "3.9",
    "offsets.topic.replication.factor": 2,
    "auto.leader.rebalance.enable": "false",
    "broker.rack": "r",
    # Nobody dies here, and a JVM that starts on a busy machine may be silent for longer than the others' two seconds.
    "zookeeper.session.timeout.ms": 18_000,
    # The records are of a time that is long past.
    "log.retention.ms": -1,
}
BOTH: Final = "both"
ALONE: Final = "alone"
ASSIGNMENTS: Final[Mapping[str, Mapping[int, tuple[int, ...]]]] = {
    BOTH: {0: (0, 1), 1: (1, 0)},
    ALONE: {0: (0,)},
}
PLACES: Final = ((BOTH, 0), (BOTH, 1), (ALONE, 0), (ALONE, 9), ("nobody", 0))
"""Those that nobody has come last, as Kafka has them in its answers to fetches wherever they are asked for."""
EPOCHS: Final = (-1, 0, 1, 2, 3, 4)
OTHER_REPLICA: Final = 7
DEBUGGING_REPLICA: Final = -2


class Prepared:
    """A cluster in which partition 0 of a topic was led by broker 0, and now is by broker 1."""

    def __init__(self, cluster: Cluster) -> None:
        self.addresses = [broker.bootstrap.partition(",")[0] for broker in cluster.brokers]
        self._ports = {
            int(address.rpartition(":")[2]): number for number, address in enumerate(self.addresses)
        }
        for topic, assignment in ASSIGNMENTS.items():
            cluster.create_topic(topic, assignment=assignment)
        self._ids: dict[str, TopicId] = {}
        with cluster.admin() as admin:

            def are_known() -> bool:
                found = admin.describe_topics(list(ASSIGNMENTS))
                self._ids = {
                    topic: one.topic_id for topic, one in found.items() if not isinstance(one, ApiError)
                }
                return self._ids.keys() == ASSIGNMENTS.keys()

            wait_for(are_known)
        self._produce(0, BOTH, 0, b"a", b"b")
        self._produce(1, BOTH, 1, b"c")
        self._produce(0, ALONE, 0, b"d")
        first = TopicPartition(BOTH, 0)
        with cluster.admin() as admin:
            assert set(admin.alter_partition_reassignments({first: [1, 0]}).values()) == {None}
            wait_for(lambda: not admin.list_partition_reassignments())
            assert admin.elect_leaders(ElectionType.PREFERRED, [first]) == {first: None}
        wait_for(lambda: cluster.leadership(BOTH)[0] == (1, [0, 1]))
        self._produce(1, BOTH, 0, b"e")
        # Both have heard of the leader and of all that is committed.
        for number, _ in enumerate(self.addresses):
            wait_for(partial(self._has_all, number))

    def _produce(self, broker: int, topic: str, partition: int, *values: bytes) -> None:
        data = batch(*values, timestamp=1_700_000_000_000)

        def accepted() -> bool:
            with RawClient(self.addresses[broker]) as client:
                return produce_to(client, topic, data, partition)[0] == 0

        wait_for(accepted)

    def _has_all(self, broker: int) -> bool:
        response, _ = self.ask(broker, fetch_request(12, [(BOTH, 0)], -1, offset=3), 12)
        assert isinstance(response, fetch.FetchResponse)
        return response.responses[0].partitions[0].high_watermark == 3

    def ask(self, broker: int, message: Message, version: int) -> tuple[Message, bytes]:
        """The answer with this cluster's own ports and ids made those of all, and its bytes."""
        if isinstance(message, fetch.FetchRequest):
            for topic in message.topics:
                topic.topic_id = self._ids.get(topic.topic, b"x" * 16)
        assert message.__api_key__ is not None
        with RawClient(self.addresses[broker]) as client:
            client.send(message, version)
            frame = client.read_frame()
        _, response = decode_response(message.__api_key__, version, frame)
        assert frame.endswith(encode(response, version))
        for endpoint in getattr(response, "node_endpoints", ()):
            endpoint.port = self._ports[endpoint.port]
        if isinstance(response, fetch.FetchResponse):
            for answered in response.responses:
                names = [topic for topic, known in self._ids.items() if known == answered.topic_id]
                answered.topic_id = names[0].encode().ljust(16) if names else answered.topic_id
                for part in answered.partitions:
                    part.records = None if part.records is None else bytes(part.records)
        return response, encode(response, version)


@pytest.fixture(scope="module")
def clusters(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Prepared]]:
    def make(kind: str) -> Cluster:
        overrides = {**COMMON, **({"pkafka.workers": 2} if kind == "p" else {})}
        return Cluster(
            tmp_path_factory.mktemp(f"cluster-{kind}"), zookeeper.connect, overrides=overrides, kinds=kind * 2
        )

    with make("k") as theirs, make("p") as ours, ThreadPoolExecutor(2) as threads:
        yield dict(zip(("kafka", "pkafka"), threads.map(Prepared, (theirs, ours)), strict=True))


def by_topic(places: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics


def fetch_request(
    version: int,
    places: Sequence[tuple[str, int]],
    epoch: int,
    *,
    offset: int = 0,
    replica_id: int = -1,
) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        replica_id=replica_id if version < 15 else -1,
        replica_state=fetch.ReplicaState(replica_id=replica_id if version >= 15 else -1),
        max_wait_ms=0,
        max_bytes=1_000_000,
        topics=[
            fetch.FetchTopic(
                topic=topic,
                partitions=[
                    fetch.FetchPartition(
                        partition=partition,
                        current_leader_epoch=epoch if version >= 9 else -1,
                        fetch_offset=offset,
                        partition_max_bytes=100_000,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in by_topic(places).items()
        ],
    )


def list_offsets_request(version: int, epoch: int, replica_id: int) -> list_offsets.ListOffsetsRequest:
    return list_offsets.ListOffsetsRequest(
        replica_id=replica_id,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(
                        partition_index=partition,
                        current_leader_epoch=epoch if version >= 4 else -1,
                        timestamp=-1,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in by_topic(PLACES).items()
        ],
    )


def epochs_request(
    version: int, epoch: int, leader_epoch: int, replica_id: int
) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=replica_id if version >= 3 else -2,
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    offset_for_leader_epoch.OffsetForLeaderPartition(
                        partition=partition,
                        current_leader_epoch=epoch if version >= 2 else -1,
                        leader_epoch=leader_epoch,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in by_topic(PLACES).items()
        ],
    )


def lines_of(response: Any) -> list[str]:
    topics = response.responses if isinstance(response, fetch.FetchResponse) else response.topics
    lines = [f"{partition}" for topic in topics for partition in topic.partitions]
    return lines + [f"{endpoint}" for endpoint in getattr(response, "node_endpoints", ())]


def same(clusters: Mapping[str, Prepared], make: Callable[[], Message], version: int) -> list[Any]:
    """Ask each broker of both; returns what pkafka's said."""
    answers = []
    for broker in range(2):
        (theirs, their_bytes), (ours, our_bytes) = (
            clusters[name].ask(broker, make(), version) for name in ("kafka", "pkafka")
        )
        assert lines_of(ours) == lines_of(theirs), broker
        assert our_bytes == their_bytes, broker
        answers.append(ours)
    return answers


@pytest.mark.parametrize("version", [9, 10, 11])
def test_produce(clusters: dict[str, Prepared], version: int) -> None:
    # Only to where it does not lead, so that nothing is written.
    for broker, places in ((0, [(BOTH, 0), (BOTH, 1), (BOTH, 9)]), (1, [(ALONE, 0), ("nobody", 0)])):
        theirs, ours = (refused(clusters[name], broker, places, version) for name in ("kafka", "pkafka"))
        assert encode(ours, version) == encode(theirs, version)
        assert bool(ours.node_endpoints) == (version >= 10)


def refused(
    cluster: Prepared, broker: int, places: Sequence[tuple[str, int]], version: int
) -> produce.ProduceResponse:
    data = batch(b"x", timestamp=1_700_000_000_000)
    request = produce_request(dict.fromkeys(places, data))
    response, _ = cluster.ask(broker, request, version)
    assert isinstance(response, produce.ProduceResponse)
    # Kafka has the partitions of an answer in an order of its own.
    for topic in response.responses:
        topic.partition_responses.sort(key=lambda one: one.index)
    response.responses.sort(key=lambda one: one.name)
    return response


@pytest.mark.parametrize("version", range(9, 18))
@pytest.mark.parametrize("replica_id", [-1, OTHER_REPLICA])
def test_fetch(clusters: dict[str, Prepared], version: int, replica_id: int) -> None:
    # One that nobody has at a time: Kafka has unknown topics before unknown partitions, in some versions.
    for epoch, missing in product(EPOCHS, PLACES[3:]):
        places = (*PLACES[:3], missing)
        answers = same(
            clusters, partial(fetch_request, version, places, epoch, replica_id=replica_id), version
        )
        if version >= 16 and epoch == 0:
            assert [one.node_id for one in answers[0].node_endpoints] == [1]


@pytest.mark.parametrize("version", range(1, 10))
def test_list_offsets(clusters: dict[str, Prepared], version: int) -> None:
    for epoch in EPOCHS if version >= 4 else (-1,):
        for replica_id in (-1, DEBUGGING_REPLICA):
            same(clusters, partial(list_offsets_request, version, epoch, replica_id), version)


@pytest.mark.parametrize("version", range(5))
def test_offsets_for_leader_epochs(clusters: dict[str, Prepared], version: int) -> None:
    """As replicas of old brokers ask, who cannot see in the answer to a fetch where logs part, and consumers."""
    for epoch in EPOCHS if version >= 2 else (-1,):
        for leader_epoch in EPOCHS:
            for replica_id in (-1, -2, 0, 1):
                same(clusters, partial(epochs_request, version, epoch, leader_epoch, replica_id), version)
