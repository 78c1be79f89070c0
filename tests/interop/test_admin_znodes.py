"""/admin/reassign_partitions and /admin/preferred_replica_election, as tools from before Kafka 2.4 write them.

One script on two brokers of Apache Kafka 3.9.1 and on two of pkafka; what it sees is the same.
"""

from collections.abc import Iterator, Mapping

import pytest

from pkafka.coordination import znodes as z
from pkafka.coordination.store import CreateOp, DeleteOp, NoNodeError
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.interop.conftest import EITHER
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

MOVES, ELECTION = z.REASSIGN_PARTITIONS, z.PREFERRED_REPLICA_ELECTION
NOBODY = 9


@pytest.fixture(scope="module", params=EITHER)
def cluster(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    if request.param == "kafka":
        request.getfixturevalue("kafka_classpath")
    settings = {
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.replication.factor": 1,
        "inter.broker.protocol.version": "3.9",
        "zookeeper.session.timeout.ms": 10_000,  # the longest here: who loses its session leads nothing any more
    }
    directory = tmp_path_factory.mktemp(request.param)
    with Cluster(directory, zookeeper.connect, overrides=settings, kinds=request.param[0] * 2) as started:
        wait_for(lambda: len(live(started)) == 2, what="both brokers")
        yield started


def live(cluster: Cluster) -> list[int]:
    with cluster.admin() as admin:
        return [one.id for one in admin.describe_cluster().brokers]


def write(cluster: Cluster, path: str, data: bytes) -> None:
    cluster.ask_store(lambda store: store.create(path, data))


def moves(**wanted: tuple[int, ...]) -> bytes:
    """``t_0=(1, 2)``: partition 0 of topic t is to go to brokers 1 and 2."""
    return z.Reassignments({partition(name): brokers for name, brokers in wanted.items()}).encode()


def elections(*names: str) -> bytes:
    return z.PreferredReplicaElection(tuple(map(partition, names))).encode()


def partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("_")
    return TopicPartition(topic, int(number))


def node(cluster: Cluster, path: str) -> bytes | None:
    try:
        return cluster.ask_store(lambda store: store.get(path))[0]
    except NoNodeError:
        return None


def goes(cluster: Cluster, path: str) -> None:
    wait_for(lambda: node(cluster, path) is None, what=f"the end of {path}")


def assignments(cluster: Cluster, topic: str) -> Mapping[int, z.PartitionAssignment]:
    data = node(cluster, z.TopicAssignment.path(topic))
    assert data is not None
    return z.TopicAssignment.decode(data).partitions


def replicas(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    return [one.replicas for _, one in sorted(assignments(cluster, topic).items())]


def leader(cluster: Cluster, name: str) -> int:
    one = partition(name)
    return cluster.state(one.topic, one.partition).leader


def begin(cluster: Cluster, name: str, brokers: list[int] | None) -> ApiError | None:
    one = partition(name)
    with cluster.admin() as admin:
        return admin.alter_partition_reassignments({one: brokers})[one]


def test_moves_and_elections(cluster: Cluster) -> None:
    cluster.create_topic("two", assignment={0: (0, 1)})
    cluster.create_topic("one", assignment={0: (0,)})
    write(cluster, MOVES, moves(two_0=(1, 0), one_0=(1,)))
    goes(cluster, MOVES)
    assert (replicas(cluster, "two"), replicas(cluster, "one")) == ([(1, 0)], [(1,)])
    assert (leader(cluster, "two_0"), leader(cluster, "one_0")) == (0, 1)
    # The second is noticed too, and what is so already.
    write(cluster, MOVES, moves(two_0=(1, 0), one_0=(0,)))
    goes(cluster, MOVES)
    assert (replicas(cluster, "two"), replicas(cluster, "one")) == ([(1, 0)], [(0,)])

    write(cluster, ELECTION, elections("two_0", "one_0", "one_7", "nobody_0"))
    goes(cluster, ELECTION)
    assert (leader(cluster, "two_0"), leader(cluster, "one_0")) == (1, 0)
    write(cluster, MOVES, moves(two_0=(0, 1)))
    goes(cluster, MOVES)
    write(cluster, ELECTION, elections("two_0"))
    goes(cluster, ELECTION)
    assert leader(cluster, "two_0") == 0


def test_partitions_that_are_not_there(cluster: Cluster) -> None:
    cluster.create_topic("few", assignment={0: (0,)})
    write(cluster, MOVES, moves(few_0=(1,), few_5=(1,), nobody_0=(1,)))
    goes(cluster, MOVES)
    assert replicas(cluster, "few") == [(1,)]


def test_moves_that_wait_and_what_takes_them_out(cluster: Cluster) -> None:
    cluster.create_topic("w", assignment={0: (0,), 1: (0,), 2: (0,)})
    wait = {"w_0": (0, NOBODY), "w_2": (0, NOBODY)}
    write(cluster, MOVES, moves(**wait, w_1=(1,)))
    # Who has arrived is taken out: what stays is written in the same bytes.
    wait_for(lambda: node(cluster, MOVES) == moves(**wait), what="the end of one move")
    assert replicas(cluster, "w")[1] == (1,)
    assert assignments(cluster, "w")[0] == z.PartitionAssignment((0, NOBODY), adding=(NOBODY,))
    # What the API asks for later counts; what it gives up is taken out too.
    assert begin(cluster, "w_0", [1]) is None
    wait_for(lambda: replicas(cluster, "w")[0] == (1,))
    assert node(cluster, MOVES) == moves(w_2=(0, NOBODY))
    assert begin(cluster, "w_2", None) is None
    goes(cluster, MOVES)
    assert replicas(cluster, "w") == [(1,), (1,), (0,)]
    # And what is written later counts too.
    assert begin(cluster, "w_2", [1]) is None
    write(cluster, MOVES, moves(w_2=(0,)))
    goes(cluster, MOVES)
    assert replicas(cluster, "w")[2] == (0,)


def test_a_preferred_leader_that_is_not_there(cluster: Cluster) -> None:
    cluster.create_topic("e", assignment={0: (0,)})
    write(cluster, MOVES, moves(e_0=(NOBODY, 0)))
    wait_for(lambda: assignments(cluster, "e")[0].adding == (NOBODY,))
    write(cluster, ELECTION, elections("e_0"))
    goes(cluster, ELECTION)
    assert leader(cluster, "e_0") == 0
    assert begin(cluster, "e_0", None) is None
    goes(cluster, MOVES)


def test_a_controller_that_begins_finds_what_was_written(cluster: Cluster) -> None:
    cluster.create_topic("c", assignment={0: (0, 1), 1: (0, 1)})
    write(cluster, MOVES, moves(c_0=(1, 0)))
    goes(cluster, MOVES)
    epoch = node(cluster, z.ControllerEpoch.path())
    wishes = [CreateOp(MOVES, moves(c_1=(1,))), CreateOp(ELECTION, elections("c_0"))]
    cluster.ask_store(lambda store: store.multi([DeleteOp(z.Controller.path()), *wishes]))
    goes(cluster, MOVES)
    goes(cluster, ELECTION)
    assert replicas(cluster, "c") == [(1, 0), (1,)]
    wait_for(lambda: leader(cluster, "c_0") == 1)
    assert node(cluster, z.ControllerEpoch.path()) != epoch


def test_what_cannot_be_read(cluster: Cluster) -> None:
    cluster.create_topic("b", assignment={0: (0,)})
    write(cluster, ELECTION, b"no json")
    goes(cluster, ELECTION)
    write(cluster, MOVES, b"no json")
    # An event later it is still there: topics are made by events, in their turn.
    cluster.create_topic("later", assignment={0: (0,)})
    assert node(cluster, MOVES) == b"no json"
    assert begin(cluster, "b_0", [1]) is None
    goes(cluster, MOVES)
    wait_for(lambda: replicas(cluster, "b") == [(1,)])
    # And the next one counts.
    write(cluster, MOVES, moves(b_0=(0,)))
    goes(cluster, MOVES)
    assert replicas(cluster, "b") == [(0,)]
