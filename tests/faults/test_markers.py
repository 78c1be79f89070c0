"""Processes and brokers die between the decision of a transaction and its markers: no id stays in a Prepare state."""

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.cluster import Cluster, hanging, kill_all_processes
from tests.faults.conftest import MakeBroker
from tests.faults.family import family, holder, kill, replaced
from tests.faults.wire import eventually
from tests.raw_client import (
    ClosedByBroker,
    RawClient,
    ask_offsets,
    batch,
    create_topic,
    new_topic_name,
    produce_request,
)
from tests.talk import wait_for
from tests.transaction_client import Identity, TransactionClient
from tests.zookeeper import ZooKeeper

PARTITIONS: Final = 4
"""Of __transaction_state."""
SOON_S: Final = 60.0
SERVED: Final = (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
FIRST, SECOND = "worker-0", "worker-1"


def name_of(worker: int) -> str:
    """A transactional id of a worker."""
    return next(
        name
        for name in (f"x{number}" for number in range(100))
        if owner_of(TRANSACTION_STATE_TOPIC, partition_of(name, PARTITIONS), 2) == worker
    )


def partition_of_worker(topic: str, worker: int) -> int:
    """A partition of a worker."""
    return next(index for index in range(2) if owner_of(topic, index, 2) == worker)


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    """A broker of two workers, of which none is killed for its silence."""
    broker = make_broker(
        **{
            "transaction.state.log.num.partitions": PARTITIONS,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "pkafka.heartbeat.timeout.ms": 120_000,
        }
    )
    broker.start()
    return broker


def client_of(broker: Broker, worker: str) -> TransactionClient:
    """A client that is connected to a worker."""
    while True:
        client = TransactionClient(broker.bootstrap)
        if eventually(lambda: holder(broker, client.client.port)) == worker:  # noqa: B023 - called at once
            return client
        client.close()


def ends_in(broker: Broker, name: str, state: str) -> None:
    """Wait until an id is in a state, whichever worker dies meanwhile."""

    def is_there() -> bool:
        try:
            with TransactionClient(broker.bootstrap) as client:
                return client.state(name) == state
        except (ClosedByBroker, ConnectionError):
            return False

    wait_for(is_there, timeout_s=SOON_S, what=f"{name} in {state}")


def produce(client: RawClient, name: str, producer: Identity, topic: str, index: int, sequence: int) -> int:
    """Write a record of a transaction to a partition; returns its offset."""
    data = batch(
        b"v",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    request = produce_request({(topic, index): data})
    request.transactional_id = name

    def answered() -> tuple[int, int]:
        [found] = client.call(request, 9).responses[0].partition_responses
        return found.error_code, found.base_offset

    answers = [answered()]
    while answers[-1][0] in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        answers.append(answered())
    assert answers[-1][0] == ErrorCode.NONE
    return answers[-1][1]


def ends(client: RawClient, topic: str, index: int) -> tuple[int, int]:
    """The last stable offset of a partition, and its end."""
    key = topic, index
    wait_for(lambda: ask_offsets(client, {key: -1})[key][0] == 0, what="the leader")
    stable, end = (ask_offsets(client, {key: -1}, isolation_level=level)[key][1] for level in (1, 0))
    return stable, end


@pytest.mark.parametrize(
    "victims",
    [
        [FIRST],
        [SECOND],
        ["control"],
        [FIRST, SECOND],
        ["control", SECOND, FIRST],
    ],
    ids=lambda names: "+".join(names),
)
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_processes_die_between_decision_and_marker(
    broker: Broker, victims: list[str], *, commit: bool
) -> None:
    """The first worker has the id, the second one the partition; that one stands still until others are dead."""
    topic, name = create_topic(broker.bootstrap, 2), name_of(0)
    marked = partition_of_worker(topic, 1)
    with client_of(broker, FIRST) as client:
        client.coordinate(PARTITIONS)
        producer = client.init(name)
        client.add(name, producer, [(topic, [0, 1])])
        # By a connection of its own, as one that produces for a worker moves there.
        with RawClient(broker.bootstrap) as raw:
            for index in range(2):
                produce(raw, name, producer, topic, index, 0)
        owner = family(broker)[SECOND]
        owner.suspend()
        assert client.end(name, producer, commit=commit).error_code == ErrorCode.NONE
        assert client.state(name) == ("PrepareCommit" if commit else "PrepareAbort")
    for victim in victims:
        replaced(broker, kill(broker, victim), victim)
    if SECOND not in victims:
        owner.resume()
    ends_in(broker, name, "CompleteCommit" if commit else "CompleteAbort")
    with TransactionClient(broker.bootstrap) as client:
        for index in range(2):
            stable, end = ends(client.client, topic, index)
            assert stable == end
        # A marker of the first transaction that came late would end the next one, which has the same epoch.
        client.add(name, producer, [(topic, [marked])])
        offset = produce(client.client, name, producer, topic, marked, 1)
        for _ in range(10):
            assert ends(client.client, topic, marked) == (offset, offset + 1)
        assert client.end(name, producer).error_code == ErrorCode.NONE
        client.wait_for_state(name, "CompleteCommit")
        assert ends(client.client, topic, marked) == (offset + 2, offset + 2)


class Committer(threading.Thread):
    """Commits and aborts transactions of one record in each partition, by an id of its own, until it is told to end."""

    def __init__(self, broker: Broker, name: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._name = name
        self._topic = topic
        self.ended = threading.Event()
        self.decided = 0

    def run(self) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(OSError, AssertionError):
                self._work()

    def _work(self) -> None:
        """Go on with a new identity until something fails."""
        with TransactionClient(self._broker.bootstrap) as client, RawClient(self._broker.bootstrap) as raw:
            producer = self._identity(client)
            for number in itertools.count():
                if self.ended.is_set():
                    break
                self._add(client, producer)
                for index in range(2):
                    produce(raw, self._name, producer, self._topic, index, number)
                commit = number % 3 > 0
                assert not client.end(self._name, producer, commit=commit).error_code
                self.decided += 1

    def _identity(self, client: TransactionClient) -> Identity:
        found = Identity()
        while found.producer_id < 0 and not self.ended.is_set():
            found = client.init(self._name)
        return found

    def _add(self, client: TransactionClient, producer: Identity) -> None:
        codes = {int(ErrorCode.CONCURRENT_TRANSACTIONS)}
        while ErrorCode.CONCURRENT_TRANSACTIONS in codes:
            answer = client.add(self._name, producer, [(self._topic, [0, 1])])
            [topic] = answer.results_by_topic_v3_and_below
            codes = {one.partition_error_code for one in topic.results_by_partition}
        assert codes == {0}

    def over(self) -> bool:
        """Fence what is open; whether no transaction of the id is left."""
        with contextlib.suppress(OSError), TransactionClient(self._broker.bootstrap) as client:
            return client.init(self._name).producer_id >= 0
        return False


def go_on(committers: Sequence[Committer]) -> None:
    """Wait until each has decided some more transactions."""
    wanted = [one.decided + 20 for one in committers]
    wait_for(
        lambda: all(one.decided >= count for one, count in zip(committers, wanted, strict=True)),
        timeout_s=SOON_S,
        what="more transactions of each",
    )


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_nothing_stays_open_when_processes_die_again_and_again(broker: Broker) -> None:
    topic = create_topic(broker.bootstrap, 2)
    with TransactionClient(broker.bootstrap) as client:
        client.coordinate(PARTITIONS)
    committers = [Committer(broker, f"c{number}", topic) for number in range(4)]
    for committer in committers:
        committer.start()
    try:
        # A broker of which seven processes die in half a minute stops.
        for victim in (FIRST, SECOND, "control", SECOND, FIRST):
            go_on(committers)
            replaced(broker, kill(broker, victim), victim)
        go_on(committers)
    finally:
        for committer in committers:
            committer.ended.set()
        for committer in committers:
            committer.join()
    for committer in committers:
        wait_for(committer.over, timeout_s=SOON_S, what="the end of the last transaction")
    with RawClient(broker.bootstrap) as client:
        for index in range(2):
            stable, end = ends(client, topic, index)
            assert stable == end


STATE: Final = {
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
    "pkafka.workers": 2,
    "pkafka.heartbeat.timeout.ms": 120_000,
}


class Members:
    """A cluster of three, and an id whose coordinator is another broker than the leader of the topic."""

    def __init__(self, cluster: Cluster, *, replicas: int) -> None:
        self.cluster = cluster
        with RawClient(cluster.brokers[0].bootstrap) as client:
            find = FindCoordinatorRequest(key="x", key_type=1)
            wait_for(lambda: not client.call(find, 1).error_code, timeout_s=SOON_S, what="the topic of ids")
        self.name = "x"
        self.coordinator = self._coordinator()
        self.leader = (self.coordinator + 1) % 3
        self.topic = new_topic_name("marked")
        others = [number for number in range(3) if number != self.leader]
        cluster.create_topic(self.topic, assignment={0: (self.leader, *others)[:replicas]})
        self.producer = self._begun()

    def _coordinator(self) -> int:
        return self.cluster.state(TRANSACTION_STATE_TOPIC, partition_of(self.name, 3)).leader

    @contextlib.contextmanager
    def asked(self) -> Iterator[TransactionClient]:
        """A connection to the coordinator, once it serves the id."""
        while True:
            wait_for(lambda: self._coordinator() >= 0, what="a coordinator")
            with contextlib.suppress(ConnectionError, ClosedByBroker), contextlib.ExitStack() as stack:
                client = TransactionClient(self.cluster.brokers[self._coordinator()].bootstrap)
                stack.enter_context(client)
                if client.describe(self.name).transaction_states[0].error_code in SERVED:
                    yield client
                    return

    def _begun(self) -> Identity:
        producer = Identity()
        with self.asked() as client:
            while producer.producer_id < 0:
                producer = client.init(self.name)
        return producer

    def write(self, sequence: int) -> int:
        """Begin a transaction with a record; returns its offset."""
        with self.asked() as client:
            codes = [-1]
            while any(codes):
                answer = client.add(self.name, self.producer, [(self.topic, [0])])
                [found] = answer.results_by_topic_v3_and_below
                codes = [one.partition_error_code for one in found.results_by_partition]
        with self.led() as raw:
            return produce(raw, self.name, self.producer, self.topic, 0, sequence)

    @contextlib.contextmanager
    def led(self) -> Iterator[RawClient]:
        """A connection to the broker that leads the topic now."""
        leader = self.cluster.state(self.topic).leader
        with RawClient(self.cluster.brokers[leader].bootstrap) as client:
            yield client

    def decide(self) -> None:
        """Commit; the markers are not written yet."""
        with self.asked() as client:
            assert client.end(self.name, self.producer).error_code == ErrorCode.NONE
            assert client.state(self.name) == "PrepareCommit"

    def is_complete(self) -> bool:
        with self.asked() as client:
            return client.state(self.name) == "CompleteCommit"

    def check(self, sequence: int) -> None:
        """The transaction is over, and no late marker ends the next one."""
        wait_for(self.is_complete, timeout_s=SOON_S, what="the end of the transaction")
        with self.led() as raw:
            stable, end = ends(raw, self.topic, 0)
        assert stable == end
        offset = self.write(sequence)
        with self.led() as raw:
            for _ in range(30):
                assert ends(raw, self.topic, 0) == (offset, offset + 1)
        self.decide_and_end()

    def decide_and_end(self) -> None:
        with self.asked() as client:
            assert client.end(self.name, self.producer).error_code == ErrorCode.NONE
        wait_for(self.is_complete, timeout_s=SOON_S, what="the end of the next transaction")


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, zookeeper.connect, overrides=STATE) as started:
        yield started


@pytest.mark.faults
@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dies", ["leader", "coordinator", "both", "all"])
def test_brokers_die_between_decision_and_marker(cluster: Cluster, dies: str) -> None:
    """The only replica of the topic is on a broker that stands still when the transaction is decided."""
    members = Members(cluster, replicas=1)
    members.write(0)
    leader, coordinator = members.leader, members.coordinator
    victims = {
        "leader": [leader],
        "coordinator": [coordinator],
        "both": [coordinator, leader],
        "all": [0, 1, 2],
    }
    with hanging(cluster.brokers[leader]):
        members.decide()
        for victim in victims[dies]:
            kill_all_processes(cluster.brokers[victim])
    for victim in victims[dies]:
        cluster.brokers[victim].start()
    wait_for(lambda: cluster.state(members.topic).leader == leader, timeout_s=SOON_S, what="the leader")
    members.check(1)


@pytest.mark.faults
@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_leader_that_hangs_is_replaced_and_ends_no_later_transaction(cluster: Cluster) -> None:
    """It has the request in hand when it stops, and another broker leads when it goes on."""
    members = Members(cluster, replicas=3)
    members.write(0)
    with hanging(cluster.brokers[members.leader]):
        members.decide()
        wait_for(
            lambda: cluster.state(members.topic).leader != members.leader, timeout_s=SOON_S, what="a leader"
        )
        wait_for(members.is_complete, timeout_s=SOON_S, what="the end of the transaction")
    members.check(1)
