"""What clients hear, and how long they cannot write, when all processes of a leader's broker are killed at once."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import ElectionType
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.cluster import Cluster, kill_all_processes
from tests.faults.family import family, kill, replaced
from tests.faults.steady import Java, Librdkafka, Steady, java_class_path, longest_gap_s, writing
from tests.faults.test_isr_changes import processes_of
from tests.faults.wire import Wire
from tests.talk import wait_for
from tests.zookeeper import running_zookeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TOPIC: Final = "t"
METADATA_VERSION: Final = 12
KILLS: Final = 10
MEDIAN_S: Final = 0.4
WORST_S: Final = 0.8


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """With the session time-out that is the default: nothing here waits for its end."""
    overrides = {"zookeeper.session.timeout.ms": 18_000, "pkafka.workers": 2}
    with (
        running_zookeeper(tick_time_ms=3000) as zookeeper,
        Cluster(tmp_path, zookeeper.connect, overrides=overrides) as started,
    ):
        yield started


def is_whole(cluster: Cluster) -> bool:
    return len(cluster.state(TOPIC).isr) == 3


def knows_topic(wire: Wire) -> bool:
    """Whether the broker has heard of the topic: the store has its ISR a moment earlier."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    answer = wire.call(request, METADATA_VERSION)
    assert isinstance(answer, MetadataResponse)
    return bool(answer.topics[0].partitions)


def leaders_told(wire: Wire) -> tuple[int, ErrorCode, list[int]]:
    """The leader of the partition as one answer has it, its error, and the brokers that are told of."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    answer = wire.call(request, METADATA_VERSION)
    assert isinstance(answer, MetadataResponse)
    [partition] = answer.topics[0].partitions
    brokers = [broker.node_id for broker in answer.brokers]
    return partition.leader_id, ErrorCode(partition.error_code), brokers


# A worker waits a tenth of a second for a sign of life, and a refusal counts for three: a busy machine may take either.
# In each change tests/unit/server/cluster/test_pulses.py has it with times of its own.
@pytest.mark.nightly
def test_nobody_is_sent_to_a_leader_that_is_dead(cluster: Cluster) -> None:
    """Also while the controller says nothing: here its process stands still."""
    controller = cluster.controller()
    victim, asked = (controller + 1) % 3, (controller + 2) % 3
    cluster.create_topic(TOPIC, assignment={0: (victim, asked, controller)})
    wait_for(lambda: is_whole(cluster))
    with Wire(cluster.brokers[asked].bootstrap) as wire:
        wait_for(lambda: knows_topic(wire))
        assert leaders_told(wire)[:2] == (victim, ErrorCode.NONE)
        office = family(processes_of(cluster.brokers[controller]))["control"]
        office.suspend()
        try:
            kill_all_processes(cluster.brokers[victim])
            assert leaders_told(wire) == (-1, ErrorCode.LEADER_NOT_AVAILABLE, [0, 1, 2])
            began_s = time.monotonic()
            assert leaders_told(wire)[:2] == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
            assert time.monotonic() - began_s > 0.1, "it waits for the controller"
        finally:
            office.resume()
        wait_for(lambda: leaders_told(wire)[:2] in {(asked, ErrorCode.NONE), (controller, ErrorCode.NONE)})
        assert leaders_told(wire)[2] == sorted({asked, controller})
        # When it is back and leads again, it is named again.
        cluster.brokers[victim].start()
        wait_for(lambda: is_whole(cluster), timeout_s=60)
        with cluster.admin() as admin:
            admin.elect_leaders(ElectionType.PREFERRED)
        wait_for(lambda: leaders_told(wire)[:2] == (victim, ErrorCode.NONE))


def test_a_leader_one_of_whose_processes_dies_is_still_the_leader(cluster: Cluster) -> None:
    """Its workers and its control process are started again; its listeners never refuse."""
    leader = cluster.controller()
    cluster.create_topic(TOPIC, assignment={0: (leader, (leader + 1) % 3, (leader + 2) % 3)})
    wait_for(lambda: is_whole(cluster))
    broker = processes_of(cluster.brokers[leader])
    with Wire(cluster.brokers[(leader + 1) % 3].bootstrap) as wire, ThreadPoolExecutor(1) as threads:
        wait_for(lambda: knows_topic(wire))
        done = False

        def ask() -> set[int]:
            told = set()
            while not done:
                told.add(leaders_told(wire)[0])
            return told

        told = threads.submit(ask)
        try:
            for name in ("worker-0", "worker-1", "cleaner"):
                replaced(broker, kill(broker, name), name)
        finally:
            done = True
        assert told.result(30) == {leader}


CLIENTS: Final = (
    pytest.param("librdkafka", id="librdkafka"),
    pytest.param("kafka", id="java-3.9.1"),
    pytest.param("clients", id="java-4.1.0"),
)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", CLIENTS)
def test_producers_of_other_makers_write_again_soon(cluster: Cluster, tmp_path: Path, client: str) -> None:
    cluster.create_topic(TOPIC)
    wait_for(lambda: is_whole(cluster))
    start: Callable[[], Steady]
    if client == "librdkafka":
        pytest.importorskip("confluent_kafka")
        start = lambda: Librdkafka(cluster.bootstrap, TOPIC)  # noqa: E731
    else:
        class_path = java_class_path(client, tmp_path / "classes")
        start = lambda: Java(class_path, cluster.bootstrap, TOPIC)  # noqa: E731
    gaps = []
    with writing(start) as producer:
        for _ in range(KILLS):
            wait_for(lambda: is_whole(cluster), timeout_s=60)
            time.sleep(1)  # whatever the client still has to do about the fail-over before
            victim = cluster.state(TOPIC).leader
            began_s = time.monotonic()
            kill_all_processes(cluster.brokers[victim])
            time.sleep(3)  # longer than any gap that is allowed
            producer.goes_on()
            gaps.append(longest_gap_s(producer.times_s, began_s))
            cluster.brokers[victim].start()
    found = f"median {statistics.median(gaps):.3f} s, worst {max(gaps):.3f} s of {[round(gap, 3) for gap in gaps]}"
    print(f"{client}: {found}")
    assert producer.errors == []
    assert statistics.median(gaps) <= MEDIAN_S, found
    assert max(gaps) <= WORST_S, found
