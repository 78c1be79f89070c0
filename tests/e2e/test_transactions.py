"""Transactions on real processes: what is committed is read, and nothing else, however many workers and brokers there
are."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from pkafka.clients.admin.coordinators import CoordinatorType, find_coordinators
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.errors import ApiError
from pkafka.model import TRANSACTION_STATE_TOPIC, TopicPartition
from pkafka.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from pkafka.testing import Broker, running_broker
from tests.cluster import Cluster
from tests.talk import Talk, talking, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PARTITIONS = 6
EACH = 12
"""Records of a transaction."""
SETTINGS = {
    "transaction.state.log.num.partitions": 8,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.num.partitions": 3,
}


@pytest.fixture(scope="module", params=[1, 2, 4])
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of one, two and four workers."""
    settings = {**SETTINGS, "pkafka.workers": request.param}
    with running_broker(tmp_path_factory.mktemp("alone"), settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of two workers each."""
    settings = {
        **SETTINGS,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "pkafka.workers": 2,
        # Nobody dies here, so nobody has to be missed soon.
        "zookeeper.session.timeout.ms": 10_000,
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        yield started


def values(
    bootstrap: str, topic: str, *, partitions: int = PARTITIONS, isolation: str = "read_committed"
) -> list[bytes]:
    """What a reader that begins now finds, in order of the values."""
    keys = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    found: list[bytes] = []
    with Consumer(keys) as consumer:
        for partition in [TopicPartition(topic, number) for number in range(partitions)]:
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            while consumer.position(partition) < end:
                found += [record.value or b"" for record in consumer.poll(1_000)]
    return sorted(found)


def transact(
    bootstrap: str, topic: str, transactional_id: str, count: int
) -> tuple[list[bytes], list[bytes]]:
    """Transactions of one producer, every third of them aborted; the values of those and of the others."""
    committed: list[bytes] = []
    aborted: list[bytes] = []
    keys = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 2}
    with Producer(keys) as producer:
        producer.init_transactions()
        for number in range(count):
            mine = [b"%s-%d-%d" % (transactional_id.encode(), number, each) for each in range(EACH)]
            producer.begin_transaction()
            for place, value in enumerate(mine):
                producer.send(topic, value, partition=(number + place) % PARTITIONS)
            if number % 2:
                producer.flush(120)
            if number % 3 == 2:
                producer.flush(120)
                producer.abort_transaction()
                aborted += mine
            else:
                producer.commit_transaction()
                committed += mine
    return sorted(committed), sorted(aborted)


def ended(talk: Talk, *transactional_ids: str) -> None:
    """Wait until all markers are written: a commit has an answer before that."""
    cluster = talk.admin.cluster

    def is_over(transactional_id: str) -> bool:
        found = find_coordinators(cluster, [transactional_id], CoordinatorType.TRANSACTION)[transactional_id]
        if isinstance(found, ApiError):
            return False
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = cluster.request(request, DescribeTransactionsResponse, to=found.id)
        return answer.transaction_states[0].transaction_state in ("CompleteCommit", "CompleteAbort", "Empty")

    for each in transactional_ids:
        wait_for(partial(is_over, each), what=f"the end of {each}")


def test_what_is_committed_is_read_and_nothing_else(alone: Broker, topic: str) -> None:
    with talking(alone.bootstrap) as talk:
        talk.create(topic, PARTITIONS)
        committed, aborted = transact(alone.bootstrap, topic, topic, 30)
        ended(talk, topic)
    assert values(alone.bootstrap, topic) == committed
    assert values(alone.bootstrap, topic, isolation="read_uncommitted") == sorted(committed + aborted)


def test_many_producers_at_once(alone: Broker, topic: str) -> None:
    outcomes: dict[str, tuple[list[bytes], list[bytes]]] = {}

    def work(name: str) -> None:
        outcomes[name] = transact(alone.bootstrap, topic, name, 12)

    with talking(alone.bootstrap) as talk:
        talk.create(topic, PARTITIONS)
        names = [f"{topic}-{number}" for number in range(6)]
        threads = [threading.Thread(target=work, args=[name]) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended(talk, *names)
    assert set(outcomes) == set(names)
    assert values(alone.bootstrap, topic) == sorted(
        value for committed, _aborted in outcomes.values() for value in committed
    )


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_an_open_transaction_outlives_its_broker(alone: Broker, topic: str, how: str) -> None:
    """Its records stay unread until it ends, and it needs no second question after the start."""
    with talking(alone.bootstrap) as talk:
        talk.create(topic, 2)
    keys = {
        "bootstrap.servers": alone.bootstrap,
        "transactional.id": topic,
        "transaction.timeout.ms": 600_000,
    }
    with Producer(keys) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"before", partition=0).result(120)
        if how == "restart":
            alone.restart()
        else:
            alone.kill()
            alone.start()
        with talking(alone.bootstrap) as talk:
            talk.send(topic, b"plain", partition=0)
            assert values(alone.bootstrap, topic, partitions=2) == []
            producer.send(topic, b"behind", partition=0).result(120)
            producer.send(topic, b"beside", partition=1).result(120)
            producer.commit_transaction()
            ended(talk, topic)
    assert values(alone.bootstrap, topic, partitions=2) == [b"before", b"behind", b"beside", b"plain"]


def test_a_cluster_verifies_and_marks_across_its_brokers(cluster: Cluster) -> None:
    """Every broker leads partitions and coordinates ids, so most questions and markers go from one to another."""
    cluster.create_topic("across", PARTITIONS)
    outcomes: dict[str, tuple[list[bytes], list[bytes]]] = {}

    def work(name: str) -> None:
        outcomes[name] = transact(cluster.bootstrap, "across", name, 9)

    names = [f"across-{number}" for number in range(6)]
    threads = [threading.Thread(target=work, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) == set(names)
    with talking(cluster.brokers[0].bootstrap) as talk:
        ended(talk, *names)
    committed = sorted(value for done, _aborted in outcomes.values() for value in done)
    assert values(cluster.bootstrap, "across") == committed
    leaders = {leader for leader, _ in cluster.leadership(TRANSACTION_STATE_TOPIC).values()}
    assert leaders == {leader for leader, _ in cluster.leadership("across").values()} == {0, 1, 2}


def test_transactions_go_on_while_leaders_move(cluster: Cluster) -> None:
    """A broker stops and comes back in the middle: it coordinates, leads and follows."""
    cluster.create_topic("moving", PARTITIONS, configs={"min.insync.replicas": "2"})
    committed: list[bytes] = []
    errors: list[Exception] = []
    stop = threading.Event()

    def work() -> None:
        try:
            number = 0
            keys = {"transactional.id": "mover", "linger.ms": 2, "acks": "all"}
            with cluster.producer(**keys) as producer:
                producer.init_transactions()
                while not stop.is_set():
                    mine = [b"%d-%d" % (number, each) for each in range(EACH)]
                    with producer.transaction():
                        for place, value in enumerate(mine):
                            producer.send("moving", value, partition=place % PARTITIONS)
                    committed.extend(mine)
                    number += 1
        except Exception as error:  # noqa: BLE001 - told by the test
            errors.append(error)

    def more_come() -> None:
        before = len(committed)
        wait_for(lambda: errors or len(committed) > before + 200)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for broker in (1, 0):
            more_come()
            cluster.brokers[broker].stop()
            more_come()
            cluster.brokers[broker].start()
    finally:
        stop.set()
        thread.join(150)
    assert errors == []
    with talking(cluster.brokers[0].bootstrap) as talk:
        ended(talk, "mover")
    assert values(cluster.bootstrap, "moving") == sorted(committed)
    for partition in range(PARTITIONS):
        wait_for(partial(cluster.same_logs, "moving", partition))
