"""The checker of the fault schedules finds what breaks each of its laws: nothing else says that it would."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.talk import good
from tests.workload import Place, Workload
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

PARTITIONS: Final = 2
_NUMBERS: Final = count()


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("laws"),
        zookeeper.connect,
        kinds="pp",
        overrides={
            # What a busy machine does to a session is no harm that is to be found.
            "zookeeper.session.timeout.ms": 10_000,
            "offsets.topic.replication.factor": 2,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 2,
            "transaction.state.log.min.isr": 1,
        },
    ) as started:
        yield started


class Loaded:
    """A topic after a load that nothing has disturbed."""

    def __init__(self, cluster: Cluster, members: int, *, copies: bool = False) -> None:
        self.cluster = cluster
        self.topic = f"laws-{next(_NUMBERS)}"
        self.copy = f"copy-of-{self.topic}" if copies else ""
        for topic in filter(None, (self.topic, self.copy)):
            cluster.create_topic(topic, PARTITIONS, replicas=2)
        with Workload(cluster, self.topic, PARTITIONS, members=members, copies=self.copy) as self.load:
            pass
        self.load.check()

    @property
    def reader(self) -> dict[Place, bytes]:
        found = self.load._reader
        assert found is not None
        return found.seen

    def write(self, *values: bytes) -> None:
        with self.cluster.producer() as producer:
            for value in values:
                producer.send(self.topic, value, partition=0).result(30)


def lose(done: Loaded) -> None:
    with done.cluster.admin() as admin:
        place = TopicPartition(done.topic, 0)
        good(admin.delete_records({place: 3})[place])


def repeat(done: Loaded) -> None:
    done.write(b"w0 0")


def invent(done: Loaded) -> None:
    done.write(b"w0 1000000")


def swap(done: Loaded) -> None:
    writer = done.load.writers[0]
    last = writer.sent + writer.sent % PARTITIONS
    done.write(b"w0 %d" % (last + PARTITIONS), b"w0 %d" % last)
    writer.sent = last + PARTITIONS + 1


def refuse(done: Loaded) -> None:
    writer = done.load.writers[0]
    del writer.acknowledged[0]
    writer.refused[0] = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)


def give_up(done: Loaded) -> None:
    done.load.writers[1].refused[10_000] = TimeoutError()


def move(done: Loaded) -> None:
    acknowledged = done.load.writers[0].acknowledged
    acknowledged[0] = acknowledged[2]


def tell_the_reader_something_else(done: Loaded) -> None:
    done.reader[Place(0, 0)] = b"w9 9"


def tell_the_reader_too_much(done: Loaded) -> None:
    done.reader[Place(0, 1_000_000)] = b"w0 0"


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lose, "acknowledged and lost"),
        (repeat, "something is there twice"),
        (invent, "nobody sent"),
        (swap, "is out of order in partition 0"),
        (refuse, "refused and there"),
        (give_up, "refused: "),
        (move, "acknowledged at .* and is at "),
        (tell_the_reader_something_else, "delivered, and then not there"),
        (tell_the_reader_too_much, "delivered, and then not there"),
    ],
)
def test_it_finds(cluster: Cluster, harm: Callable[[Loaded], None], found: str) -> None:
    done = Loaded(cluster, members=0)
    harm(done)
    with pytest.raises(AssertionError, match=found):
        done.load.check(errors_expected=harm is refuse)


def test_it_finds_what_a_group_missed(cluster: Cluster) -> None:
    done = Loaded(cluster, members=1)
    (member,) = done.load._members
    member.seen.discard(b"w0 0")
    with pytest.raises(AssertionError, match="the group has missed some"):
        done.load.check()


def test_it_finds_what_is_wrong_with_a_copy(cluster: Cluster) -> None:
    done = Loaded(cluster, members=0, copies=True)
    copier = done.load._copier
    assert copier is not None
    number = min(copier.committed)
    copier.aborted.add(number)
    with pytest.raises(AssertionError, match="aborted, and there"):
        done.load.check()
    copier.aborted.remove(number)
    with cluster.producer(**{"transactional.id": "stranger"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(done.copy, b"w0 0", b"0", partition=0).result(30)
        copier.patience_s = 1.0
        with pytest.raises(AssertionError, match="nothing open"):
            done.load.check()
        producer.commit_transaction()
    with pytest.raises(AssertionError, match=f"{done.copy}-0: "):
        done.load.check()


def test_it_finds_a_replica_that_differs(cluster: Cluster) -> None:
    done = Loaded(cluster, members=0)
    segment = cluster.brokers[1].log_dir / f"{done.topic}-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    assert not cluster.same_logs(done.topic)
