"""Replicas that move no faster than they may, beside replicas in sync that nobody slows down."""

import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from pkafka.cli.reassign_partitions import main as reassign_partitions
from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.e2e.test_replica_commands import runner
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.usefixtures("plain_environment")]

PARTITIONS: Final = 4
RECORD_BYTES: Final = 10_000
RECORDS: Final = 80
"""In each partition."""
RATE: Final = 500_000
LEAST_S: Final = 0.7 * PARTITIONS * RECORDS * RECORD_BYTES / RATE
"""How long a move lasts: 6.4 s, but for what goes in one go before the rate is known. Two workers that each had a
quota would need half of it, and without any it is done within a second."""
LONGEST_S: Final = 150


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "auto.leader.rebalance.enable": "false",
        "pkafka.metrics.port": 0,
        "pkafka.workers": 2,
        # Small steps: a quota is known to be used up only after the answer that used it up.
        "replica.fetch.max.bytes": 30_000,
        "replica.fetch.backoff.ms": 100,
        "replica.lag.time.max.ms": 3_000,
        "zookeeper.session.timeout.ms": 10_000,
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        yield started


def fill(cluster: Cluster, topic: str, **throttled: str) -> dict[TopicPartition, list[int]]:
    """A topic on brokers 0 and 1, and the move of it to brokers 0 and 2.

    Args:
        throttled: lists of throttled replicas, of leaders and followers.
    """
    configs = {f"{side}.replication.throttled.replicas": replicas for side, replicas in throttled.items()}
    cluster.create_topic(topic, assignment=dict.fromkeys(range(PARTITIONS), (0, 1)), configs=configs)
    with cluster.producer() as producer:
        for number in range(PARTITIONS * RECORDS):
            producer.send(topic, bytes(RECORD_BYTES), partition=number % PARTITIONS)
        producer.flush()
    return {TopicPartition(topic, index): [0, 2] for index in range(PARTITIONS)}


def limit(cluster: Cluster, brokers: Iterable[int], rate: int | None, *sides: str) -> None:
    """Set rates of brokers, and wait until these have heard of it."""
    value = None if rate is None else str(rate)
    changes = [
        ConfigChange(
            f"{side}.replication.throttled.rate", AlterOp.DELETE if rate is None else AlterOp.SET, value
        )
        for side in sides
    ]
    with cluster.admin() as admin:
        for number in brokers:
            broker = ConfigResource(ResourceType.BROKER, str(number))
            good(admin.alter_configs({broker: changes})[broker])

            def told(broker: ConfigResource = broker) -> set[str | None]:
                entries = {one.name: one.value for one in good(admin.describe_configs([broker])[broker])}
                return {entries.get(change.name) for change in changes}

            wait_for(lambda told=told: told() == {value})  # type: ignore[misc]


def is_moving(cluster: Cluster, topic: str) -> bool:
    with cluster.admin() as admin:
        return any(partition.topic == topic for partition in admin.list_partition_reassignments())


def seconds_of_move(
    cluster: Cluster,
    topic: str,
    begin: Callable[[], object],
    meanwhile: Callable[[], None] = lambda: None,
) -> float:
    began_s = time.monotonic()
    begin()
    meanwhile()
    wait_for(lambda: not is_moving(cluster, topic), timeout_s=LONGEST_S, what=f"the move of {topic}")
    took_s = time.monotonic() - began_s
    wait_for(lambda: all(isr == [0, 2] for _, isr in cluster.leadership(topic).values()), what=topic)
    return took_s


def move(cluster: Cluster, moves: Mapping[TopicPartition, list[int]]) -> None:
    with cluster.admin() as admin:
        assert set(admin.alter_partition_reassignments(moves).values()) == {None}


def byte_rate(cluster: Cluster, broker: int, name: str) -> float:
    _, _, address = cluster.brokers[broker].log_file.read_text().rpartition("Metrics on ")
    with urllib.request.urlopen(address.split()[0], timeout=60) as answer:
        rows = [line.split() for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return next((float(row[1]) for row in rows if row[0] == f"kafka_server_{name}_byte_rate"), 0.0)


@pytest.mark.parametrize("side", [pytest.param("leader", marks=pytest.mark.nightly), "follower"])
def test_a_move_takes_the_time_that_either_side_allows(cluster: Cluster, side: str) -> None:
    topic = f"by-{side}"
    moves = fill(cluster, topic, **{side: "*"})
    broker = 0 if side == "leader" else 2
    limit(cluster, [broker], RATE, side)

    def measure() -> None:
        wait_for(lambda: byte_rate(cluster, broker, f"{side}replication") > RATE / 2)

    assert LEAST_S < seconds_of_move(cluster, topic, partial(move, cluster, moves), measure) < LONGEST_S
    limit(cluster, [broker], None, side)


def test_replicas_that_are_not_named_and_rates_that_are_taken_back_slow_nothing_down(
    cluster: Cluster,
) -> None:
    moves = fill(cluster, "at-once", leader="0:1,1:2", follower="0:0")
    limit(cluster, (0, 2), 1000, "leader", "follower")
    # At that rate it would take most of an hour.
    assert seconds_of_move(cluster, "at-once", partial(move, cluster, moves)) < LONGEST_S

    slow = fill(cluster, "set-free", leader="*", follower="*")
    move(cluster, slow)
    wait_for(lambda: byte_rate(cluster, 0, "leaderreplication") > 1000)
    assert is_moving(cluster, "set-free")
    limit(cluster, (0, 2), None, "leader", "follower")
    wait_for(lambda: not is_moving(cluster, "set-free"), what="the move of set-free")


@pytest.mark.nightly
def test_a_throttled_reassignment_leaves_replicas_in_sync_alone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """All partitions of the topic are throttled, and the quota is used up: those in sync get what is new at once."""
    reassign = runner(reassign_partitions, cluster, capsys)
    moves = fill(cluster, "shared")
    lists = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
    cluster.create_topic("steady", configs={"min.insync.replicas": "3", **lists})
    plan = tmp_path / "plan.json"
    rows = ", ".join(
        f'{{"topic": "shared", "partition": {partition.partition}, "replicas": {brokers}}}'
        for partition, brokers in moves.items()
    )
    plan.write_text(f'{{"version": 1, "partitions": [{rows}]}}')
    waits_s: list[float] = []

    def produce() -> None:
        with cluster.producer(acks="all") as producer:
            while is_moving(cluster, "shared"):
                began_s = time.monotonic()
                producer.send("steady", bytes(1000)).result(120)
                waits_s.append(time.monotonic() - began_s)
                assert cluster.leadership("steady")[0][1] == [0, 1, 2]

    moving = ("--reassignment-json-file", str(plan))

    def begin() -> None:
        shown = reassign("--execute", *moving, "--throttle", str(RATE))
        assert f"The inter-broker throttle limit was set to {RATE} B/s" in shown

    assert LEAST_S < seconds_of_move(cluster, "shared", begin, produce) < LONGEST_S
    assert sorted(waits_s)[len(waits_s) // 2] < 0.2, waits_s
    assert "Clearing topic-level throttles on topic shared" in reassign("--verify", *moving)
