"""Processes of one broker die and hang while a producer works in transactions over all of its workers."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.faults.family import family, kill, replaced
from tests.transaction_load import TransactionLoad
from tests.zookeeper import ZooKeeper

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "pkafka.workers": 3,
    "zookeeper.session.timeout.ms": 10_000,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
PLACES = [TopicPartition("t", partition) for partition in range(6)]


@pytest.fixture
def silent_ms() -> int:
    """How long a worker may be silent: as long as workers do that a busy machine holds up."""
    return 60_000


@pytest.fixture
def alone(zookeeper: ZooKeeper, tmp_path: Path, silent_ms: int) -> Iterator[Cluster]:
    """A broker of three workers."""
    settings = {**SETTINGS, "pkafka.heartbeat.timeout.ms": silent_ms}
    with Cluster(tmp_path, zookeeper.connect, size=1, overrides=settings) as cluster:
        cluster.create_topic("t", len(PLACES), replicas=1)
        yield cluster


@pytest.mark.parametrize("transactional_id", ["a", "b", "c"])
def test_every_worker_dies(alone: Cluster, transactional_id: str) -> None:
    """The three ids belong to different workers: the coordinator, leaders that ask it, and leaders beside it die."""
    [broker] = alone.brokers
    with TransactionLoad(alone, PLACES, transactional_id) as load:
        for name in ("worker-0", "worker-1", "worker-2", "control"):
            victim = kill(broker, name)
            replaced(broker, victim, name)
            load.goes_on()
    load.wait_for_end()
    load.check()


@pytest.mark.parametrize("silent_ms", [4_000])
@pytest.mark.parametrize("name", ["worker-0", "worker-1", "worker-2"])
def test_a_worker_hangs(alone: Cluster, name: str) -> None:
    """It is replaced after a while; what it does when it goes on for a moment must not count."""
    [broker] = alone.brokers
    with TransactionLoad(alone, PLACES, "hung") as load:
        victim = family(broker)[name]
        victim.send_signal(signal.SIGSTOP)
        load.goes_on(timeout_s=90)
        replaced(broker, victim, name)
        load.goes_on()
    load.wait_for_end()
    load.check()
