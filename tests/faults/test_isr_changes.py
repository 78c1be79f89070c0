"""Workers of a leader die while its ISR shrinks and grows: their successors go on with the ISR that was agreed.

A LeaderAndIsr says who is in sync at an election. On what changes after it leader and controller agree between
themselves, so nobody but the leader's broker can tell the successor of its worker.
"""

import contextlib
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from pkafka.errors import ErrorCode
from pkafka.server.replicas.partitions import owner_of
from pkafka.tools.servers.local_broker import Broker
from tests.cluster import Cluster, ClusterBroker
from tests.faults.family import family, kill, replaced
from tests.faults.load import Writer
from tests.faults.wire import PRODUCE_VERSION, Wire, eventually, read_all, values_of
from tests.raw_client import batch, produce_request
from tests.talk import PASSING
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TOPIC: Final = "t"
LEADER: Final = 0
WORKERS: Final = 2
OWNER: Final = f"worker-{owner_of(TOPIC, 0, WORKERS)}"
SETTINGS: Final[Mapping[str, object]] = {
    "pkafka.workers": WORKERS,
    # A leader that a busy machine holds up is to stay it.
    "zookeeper.session.timeout.ms": 10_000,
    # Workers that stand still for the sake of a test are not to be killed for it.
    "pkafka.heartbeat.timeout.ms": 120_000,
}
SOON_BEHIND: Final[Mapping[str, object]] = {"replica.lag.time.max.ms": 1500, "replica.fetch.wait.max.ms": 300}
RECOVERED_S: Final = 60
PRODUCE_MAX_MS: Final = 2000


@pytest.fixture
def overrides() -> Mapping[str, object]:
    return {}


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path, overrides: Mapping[str, object]) -> Iterator[Cluster]:
    """Broker 0 leads the topic's partition; all three have it, and are in sync."""
    with Cluster(tmp_path, zookeeper.connect, overrides={**SETTINGS, **overrides}) as started:
        started.create_topic(TOPIC, assignment={0: (0, 1, 2)})
        becomes(started, 0, 1, 2)
        assert started.state(TOPIC).leader == LEADER
        yield started


def becomes(cluster: Cluster, *isr: int) -> None:
    """Wait until these are in sync."""
    eventually(lambda: sorted(cluster.state(TOPIC).isr) == list(isr), timeout_s=RECOVERED_S)


def processes_of(broker: ClusterBroker) -> Broker:
    assert isinstance(broker, Broker)
    return broker


def owner_dies(cluster: Cluster) -> None:
    """kill -9 of the process that leads the partition, which has a successor when this returns."""
    broker = processes_of(cluster.brokers[LEADER])
    replaced(broker, kill(broker, OWNER), OWNER)


@contextlib.contextmanager
def standing_still(broker: ClusterBroker) -> Iterator[None]:
    """A broker that fetches nothing, and is registered still."""
    members = [child for name, child in family(processes_of(broker)).items() if name.startswith("worker-")]
    for member in members:
        member.suspend()
    try:
        yield
    finally:
        for member in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.resume()


def goes_on(writer: Writer) -> None:
    """More is acknowledged than until now."""
    before = writer.acknowledged
    eventually(lambda: writer.acknowledged > before + 200, timeout_s=RECOVERED_S)


def laggard_of(cluster: Cluster) -> int:
    """A follower that can stand still: the controller has to answer."""
    return next(broker for broker in (1, 2) if broker != cluster.controller())


def check(cluster: Cluster, writer: Writer) -> None:
    """What was acknowledged is there, once and in order; and every replica has the same bytes."""
    writer.stop()
    assert writer.acknowledged
    writer.check()
    becomes(cluster, 0, 1, 2)
    eventually(lambda: cluster.same_logs(TOPIC), timeout_s=RECOVERED_S)


@pytest.mark.parametrize("overrides", [SOON_BEHIND])
def test_who_leaves_again_leaves_a_successor_too(cluster: Cluster) -> None:
    """Under the partition epoch of the election it would propose in vain, and wait for that replica for ever."""
    laggard = laggard_of(cluster)
    writer = Writer(cluster.brokers[LEADER].bootstrap, TOPIC, 0)
    with standing_still(cluster.brokers[laggard]):
        becomes(cluster, LEADER, 3 - laggard)
    becomes(cluster, 0, 1, 2)
    owner_dies(cluster)
    goes_on(writer)
    with standing_still(cluster.brokers[laggard]):
        becomes(cluster, LEADER, 3 - laggard)
        goes_on(writer)
    becomes(cluster, 0, 1, 2)
    check(cluster, writer)


def test_who_has_come_is_waited_for_by_a_successor(cluster: Cluster) -> None:
    """Any of them may be elected: what the leader alone has is lost then, and must not be acknowledged before."""
    followers = cluster.brokers[1:]
    for follower in followers:
        follower.kill()
    becomes(cluster, LEADER)  # as a LeaderAndIsr says, for those are dead
    for follower in followers:
        follower.start()
    becomes(cluster, 0, 1, 2)
    leader = cluster.brokers[LEADER]
    with Wire(leader.bootstrap) as wire:
        assert wire.produce(TOPIC, 0, [b"everywhere"])[0] is ErrorCode.NONE
    with standing_still(followers[0]), standing_still(followers[1]):
        owner_dies(cluster)
        assert produced_when_led(leader.bootstrap, b"here alone") is ErrorCode.REQUEST_TIMED_OUT
        assert sorted(cluster.state(TOPIC).isr) == [0, 1, 2]
        leader.kill()
    eventually(lambda: cluster.state(TOPIC).leader in (1, 2), timeout_s=RECOVERED_S)
    elected = cluster.brokers[cluster.state(TOPIC).leader]
    assert values_of(read_all(elected.bootstrap, TOPIC, 0)) == [b"everywhere"]


def produced_when_led(address: str, value: bytes) -> ErrorCode:
    """What a producer with acks=all hears from the successor of a worker."""

    codes: list[int] = []

    def is_led() -> bool:
        with Wire(address) as wire:
            request = produce_request({(TOPIC, 0): batch(value)})
            request.timeout_ms = PRODUCE_MAX_MS
            codes.append(wire.call(request, PRODUCE_VERSION).responses[0].partition_responses[0].error_code)
            return codes[-1] not in PASSING

    eventually(is_led)
    return ErrorCode(codes[-1])


@pytest.mark.parametrize("overrides", [SOON_BEHIND])
@pytest.mark.parametrize("seed", [1, 2])
def test_successors_in_the_middle_of_changes(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    writer = Writer(cluster.brokers[LEADER].bootstrap, TOPIC, 0)
    for _ in range(3):
        with standing_still(cluster.brokers[laggard_of(cluster)]):
            # Whether it has left by then, or leaves now, is up to chance; and so is how far it is on its way back.
            time.sleep(chance.uniform(1.0, 3.0))
            owner_dies(cluster)
        time.sleep(chance.uniform(0.0, 0.5))
        owner_dies(cluster)
        becomes(cluster, 0, 1, 2)
        goes_on(writer)
    check(cluster, writer)
