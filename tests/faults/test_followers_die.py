"""A follower dies or stands still, and whoever waits at the leader until all in sync have something hears no error.

The controller raises the leader epoch when it takes a dead broker out of the ISR. The leader goes on leading, so it
answers when what is left of the ISR has the records: to a client without idempotence an error would be a duplicate.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.cluster import Cluster, hanging, kill_all_processes
from tests.faults.wire import PRODUCE_VERSION, Wire, eventually, read_all
from tests.interop.kafka import OracleUnavailableError, jars
from tests.raw_client import batch, produce_request
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TOPIC: Final = "t"
WAITS_MS: Final = 60_000
SETTINGS: Final[Mapping[str, object]] = {
    "min.insync.replicas": 1,
    # A busy machine is slower than the two seconds of other tests; and Kafka, which waits for this, starts slowly.
    "zookeeper.session.timeout.ms": 10_000,
    "auto.leader.rebalance.enable": "false",
    "offsets.commit.timeout.ms": WAITS_MS,
    "inter.broker.protocol.version": "3.9",
}
EITHER: Final = ("ppp", pytest.param("kkk", marks=pytest.mark.nightly))


@pytest.fixture
def cluster(kinds: str, zookeeper: ZooKeeper, tmp_path: Path) -> Iterator[Cluster]:
    if "k" in kinds:
        try:
            jars("kafka")
        except OracleUnavailableError as missing:
            pytest.skip(str(missing))
    with Cluster(tmp_path, zookeeper.connect, kinds=kinds, overrides=SETTINGS) as started:
        yield started


def roles(cluster: Cluster) -> tuple[int, int, int]:
    """A leader, a follower that stays, and one that is going to die, which is not the controller."""
    leader = cluster.controller()
    return leader, (leader + 1) % 3, (leader + 2) % 3


def wire(cluster: Cluster, broker: int) -> Wire:
    return Wire(cluster.brokers[broker].bootstrap, timeout_s=2 * WAITS_MS / 1000)


def produce(cluster: Cluster, broker: int) -> ErrorCode:
    request = produce_request({(TOPIC, 0): batch(b"waits")})
    request.timeout_ms = WAITS_MS
    with wire(cluster, broker) as client:
        return ErrorCode(client.call(request, PRODUCE_VERSION).responses[0].partition_responses[0].error_code)


def delete_records(cluster: Cluster, broker: int, before: int) -> ErrorCode:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=WAITS_MS
    )
    with wire(cluster, broker) as client:
        return ErrorCode(client.call(request, 2).topics[0].partitions[0].error_code)


def commit(cluster: Cluster, broker: int, group: str) -> ErrorCode:
    topic = OffsetCommitRequestTopic(
        name=TOPIC, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
    with wire(cluster, broker) as client:
        return ErrorCode(client.call(request, 8).topics[0].partitions[0].error_code)


def group_of(cluster: Cluster, broker: int) -> str:
    """A group that this broker coordinates."""
    with wire(cluster, broker) as client:

        def found() -> str | None:
            for number in range(50):
                name = f"g{number}"
                answer: Any = client.call(FindCoordinatorRequest(key=name, key_type=0), 3)
                if answer.error_code == ErrorCode.NONE and answer.node_id == broker:
                    return name
            return None

        return eventually(found, timeout_s=60)


@pytest.mark.parametrize("kinds", EITHER)
@pytest.mark.parametrize("end", ["kill -9", "SIGSTOP"])
def test_whoever_waits_for_a_follower_that_dies_hears_no_error(cluster: Cluster, end: str) -> None:
    leader, stays, victim = roles(cluster)
    cluster.create_topic(TOPIC, assignment={0: (leader, stays, victim)})
    wait_for(lambda: len(cluster.state(TOPIC).isr) == 3)
    group = group_of(cluster, leader)
    eventually(lambda: commit(cluster, leader, group) is ErrorCode.NONE, timeout_s=60)
    assert produce(cluster, leader) is ErrorCode.NONE
    epoch = cluster.state(TOPIC).leader_epoch
    with hanging(cluster.brokers[victim]), ThreadPoolExecutor(3) as threads:
        waiting: dict[str, Future[ErrorCode]] = {
            "produce": threads.submit(produce, cluster, leader),
            "delete records": threads.submit(delete_records, cluster, leader, 1),
            "commit": threads.submit(commit, cluster, leader, group),
        }
        time.sleep(0.5)
        assert not any(one.done() for one in waiting.values()), "all wait for the follower that stands still"
        if end == "kill -9":
            kill_all_processes(cluster.brokers[victim])
        answers = {name: one.result(WAITS_MS / 1000) for name, one in waiting.items()}
    assert cluster.state(TOPIC).leader == leader
    assert cluster.state(TOPIC).leader_epoch > epoch
    assert answers == dict.fromkeys(waiting, ErrorCode.NONE)


@pytest.mark.parametrize("kinds", EITHER)
def test_a_producer_without_idempotence_writes_no_record_twice(cluster: Cluster) -> None:
    leader, stays, victim = roles(cluster)
    cluster.create_topic(TOPIC, assignment={0: (leader, stays, victim)})
    wait_for(lambda: len(cluster.state(TOPIC).isr) == 3)
    settings = {"acks": "all", "enable.idempotence": "false", "linger.ms": 1, "request.timeout.ms": WAITS_MS}
    sent = 0
    with cluster.producer(**settings) as producer:

        def send_for(seconds: float) -> None:
            nonlocal sent
            ends_s = time.monotonic() + seconds
            while time.monotonic() < ends_s:
                outcomes.append(producer.send(TOPIC, b"%d" % sent, partition=0))
                sent += 1
                time.sleep(0.001)

        outcomes: list[Any] = []
        send_for(0.5)
        with hanging(cluster.brokers[victim]):
            wait_for(lambda: sends(send_for, cluster, victim), timeout_s=60)
            send_for(0.5)
        wait_for(lambda: sends(send_for, cluster, victim, back=True), timeout_s=60)
        kill_all_processes(cluster.brokers[victim])
        wait_for(lambda: sends(send_for, cluster, victim), timeout_s=60)
        for outcome in outcomes:
            outcome.result(60)
    values = [int(one.value or b"-1") for one in read_all(cluster.brokers[leader].bootstrap, TOPIC, 0)]
    assert values == list(range(sent))


def sends(send_for: Any, cluster: Cluster, victim: int, *, back: bool = False) -> bool:
    """Whether a broker is out of the ISR, or in it again, after sending a little more."""
    send_for(0.2)
    return (victim in cluster.state(TOPIC).isr) is back
