"""Beans of replication: an Apache Kafka and a broker of pkafka that follow each other, and have the same to do."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pkafka.model import TopicPartition
from pkafka.tools.cluster.broker_traffic import MetricsPages
from pkafka.tools.cluster.overview import Look, look, overview
from tests.cluster import ClusterBroker
from tests.interop.conftest import JavaTool
from tests.interop.kafka import KafkaBroker, jars
from tests.interop.side_by_side import pk
from tests.interop.test_metrics import JMX_TOOL, MISSING, MISSING_SOMETIMES, attributes_by_family, values_of
from tests.interop.test_mixed_cluster import KAFKA, PKAFKA, Mixed
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

RECORDS: Final = 20
"""Of this size, so that an answer ends where a batch does."""
RECORD: Final = bytes(1000)


COMPARED: Final = (
    *("kafka.server:type=BrokerTopicMetrics,*", "kafka.server:type=ReplicaManager,*"),
    *("kafka.server:type=ReplicaFetcherManager,*", "kafka.cluster:type=Partition,*"),
)
MISSING_OF_FOLLOWERS: Final = {
    *(
        f"kafka.server:type=FetcherStats,{name}PerSec [brokerHost] [brokerPort] [clientId]"
        for name in ("Bytes", "Requests")
    ),
    "kafka.server:type=replica-fetcher-metrics [broker-id] [fetcher-id]",
    "kafka.server:type=LeaderReplication",  # here only while replicas are throttled; there it is 0 then
}
ISR_CHANGES: Final = "kafka.server:type=ReplicaManager,name=Isr{}PerSec"
EASILY_IN_SYNC_MS: Final = 60_000
"""A follower that a busy machine keeps waiting does not leave the ISR, which its leader would count."""
SOMETIMES: Final = {
    # A follower that was told of a partition before its leader.
    "kafka.server:type=BrokerTopicMetrics,FailedFetchRequestsPerSec [topic]",
}


class Sides(NamedTuple):
    cluster: Mixed
    tool: JavaTool
    jmx: str

    def beans(self, broker: int, *patterns: str) -> Mapping[tuple[str, str], str]:
        """Values by bean and attribute."""
        return values_of(self.text(broker, *patterns))

    def text(self, broker: int, *patterns: str) -> str:
        words = ["--one-time", "--report-format", "tsv"]
        for pattern in patterns:
            words += ["--object-name", pattern]
        if broker == KAFKA:
            done = self.tool(JMX_TOOL, "--jmx-url", self.jmx, *words)
            assert done.returncode == 0, done
            return done.stdout
        return pk("metrics", "--url", self.page(), *words)

    def page(self) -> str:
        """Where pkafka's broker serves its metrics."""
        log = self.cluster.brokers[PKAFKA].log_file.read_text()
        found: list[str] = re.findall(r"Metrics on (http://\S+)/metrics", log)
        return found[-1]


class Watched(Mixed):
    """With beans of both."""

    def __init__(self, directory: Path, zookeeper: str, jmx_port: int) -> None:
        self._jmx_port = jmx_port
        super().__init__(directory, zookeeper, PKAFKA)

    def make_broker(self, kind: str, directory: Path, settings: Mapping[str, object]) -> ClusterBroker:
        settings = {**settings, "replica.lag.time.max.ms": EASILY_IN_SYNC_MS}
        if kind != "kafka":
            return super().make_broker(kind, directory, {**settings, "pkafka.metrics.port": 0})
        flags = [
            f"-Dcom.sun.management.jmxremote.{key}"
            for key in (f"port={self._jmx_port}", "authenticate=false", "ssl=false", "host=127.0.0.1")
        ]
        flags.append("-Djava.rmi.server.hostname=127.0.0.1")
        plain = {key: value for key, value in settings.items() if not key.startswith("pkafka.")}
        return KafkaBroker(jars("kafka"), self.zookeeper_connect, directory, overrides=plain, jvm_flags=flags)


@pytest.fixture(scope="module")
def sides(
    zookeeper: ZooKeeper, java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sides]:
    port = free_port()
    with Watched(tmp_path_factory.mktemp("mixed"), zookeeper.connect, port) as cluster:
        for broker in (KAFKA, PKAFKA):
            use(cluster, broker)
        yield Sides(cluster, java_tool, f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi")


def use(cluster: Mixed, broker: int) -> None:
    """A topic that a broker leads and the other follows, and one that moves to the other, too."""
    cluster.create_topic(f"led-{broker}", assignment={0: (broker, 1 - broker)})
    cluster.wait_for_isr(f"led-{broker}", KAFKA, PKAFKA)
    cluster.create_topic(f"grows-{broker}", assignment={0: (broker,)})
    with cluster.producer() as producer:
        for topic in (f"led-{broker}", f"grows-{broker}"):
            for _ in range(RECORDS):
                producer.send(topic, RECORD, partition=0).result(30)
    moves = {TopicPartition(f"grows-{broker}", 0): [broker, 1 - broker]}
    with cluster.admin() as admin:
        assert set(admin.alter_partition_reassignments(moves).values()) == {None}
        wait_for(lambda: not admin.list_partition_reassignments())
    for topic in (f"led-{broker}", f"grows-{broker}"):
        cluster.wait_for_isr(topic, KAFKA, PKAFKA)
        wait_for(lambda topic=topic: cluster.same_logs(topic))  # type: ignore[misc]


def at_rest(sides: Sides, broker: int) -> dict[tuple[str, str], str]:
    """What a broker has counted and measures, when two looks in a row find the same.

    The ISR is whole in the metadata before its leader has heard so, and a follower's answer is counted after it wrote.
    """
    looks: list[dict[tuple[str, str], str]] = [{}]

    def is_at_rest() -> bool:
        looks.append(
            {
                (name, attribute): value
                for (name, attribute), value in sides.beans(broker, *COMPARED).items()
                if attribute in ("Count", "Value")
                and not re.search("FetchRequests|MinFetchRate|clientId=.*Fetcher", name)
            }
        )
        return looks[-1] == looks[-2]

    wait_for(is_at_rest, timeout_s=120, what="counters at rest")
    return looks[-1]


def swapped(name: str) -> str:
    """What the one broker calls a topic that has the part of this one at the other."""
    return re.sub("topic=(led|grows)-([01])", lambda found: f"topic={found[1]}-{1 - int(found[2])}", name)


def test_beans_of_brokers_that_follow_each_other_have_kafkas_names_and_attributes(sides: Sides) -> None:
    theirs, ours = (attributes_by_family(sides.text(broker)) for broker in (KAFKA, PKAFKA))
    assert ours.keys() - theirs.keys() <= SOMETIMES
    lacking = {
        each
        for each in theirs.keys() - ours.keys()
        if not any(re.fullmatch(f"{one}( .*)?", each) for one in MISSING + MISSING_SOMETIMES)
    }
    assert lacking <= MISSING_OF_FOLLOWERS
    followed = {each for each in ours if "FetcherLagMetrics" in each or "ReplicaFetcherManager" in each}
    assert len(followed) == 5
    compared = (each for each in ours.keys() & theirs.keys() if "socket-server-metrics" not in each)
    assert {each: ours[each] ^ theirs[each] for each in compared if ours[each] != theirs[each]} == {}


def test_brokers_that_do_the_same_for_each_other_measure_the_same(sides: Sides) -> None:
    theirs, ours = (at_rest(sides, broker) for broker in (KAFKA, PKAFKA))
    for one in (theirs, ours):
        # The move ends with LeaderAndIsr. Where that overtakes the answer to the leader's own proposal, the leader,
        # Apache Kafka's too, has the larger ISR from the controller and counts no expansion of its own.
        assert one.pop((ISR_CHANGES.format("Expands"), "Count")) in ("0", "1")
        assert one[ISR_CHANGES.format("Shrinks"), "Count"] == "0"
    wanted = {(swapped(name), attribute): value for (name, attribute), value in theirs.items()}
    shared = wanted.keys() & ours.keys()
    assert len(shared) > 50
    assert {key: ours[key] for key in shared} == {key: wanted[key] for key in shared}
    replicated = "kafka.server:type=BrokerTopicMetrics,name={}PerSec"
    assert int(ours[replicated.format("ReplicationBytesIn"), "Count"]) > 2 * RECORDS * len(RECORD)
    assert int(ours[replicated.format("ReassignmentBytesOut"), "Count"]) > RECORDS * len(RECORD)
    assert ours[replicated.format("BytesOut"), "Count"] == "0"


def test_bytes_in_of_a_broker_by_its_leaders_logs_are_what_it_counts(sides: Sides) -> None:
    """Apache Kafka's broker has no page of metrics: what the logs that it leads grew by is the same number."""
    pages = MetricsPages([sides.page()], timeout_s=60)
    with sides.cluster.admin() as admin, sides.cluster.producer() as producer:
        before = look(admin, timeout_ms=60_000, pages=pages)
        for broker in (KAFKA, PKAFKA):
            for _ in range(RECORDS):
                producer.send(f"led-{broker}", RECORD, partition=0).result(30)
        now = look(admin, timeout_ms=60_000, pages=pages)
    theirs, ours = overview(at(10.0, now), at(0.0, before)).brokers
    assert (theirs.bytes_from, theirs.bytes_out_per_s) == ("sizes", None)
    assert (ours.bytes_from, ours.bytes_out_per_s) == ("metrics", 0)
    assert theirs.bytes_in_per_s == ours.bytes_in_per_s
    assert ours.bytes_in_per_s is not None
    assert ours.bytes_in_per_s * 10 > RECORDS * len(RECORD)


def at(seconds: float, found: Look) -> Look:
    """As if all of it had been told at one moment."""
    brokers = [
        each._replace(traffic=None if each.traffic is None else each.traffic._replace(at_s=seconds))
        for each in found.brokers
    ]
    return found._replace(at_s=seconds, sizes_at_s=seconds, brokers=tuple(brokers))


def test_fetches_are_those_of_followers(sides: Sides) -> None:
    times = "kafka.network:type=RequestMetrics,name=TotalTimeMs,request={}"

    def agree(broker: int) -> bool:
        counts = {
            name: int(value)
            for (name, attribute), value in sides.beans(broker, times.format("Fetch*")).items()
            if attribute == "Count"
        }
        assert counts[times.format("FetchConsumer")] == 0
        return counts[times.format("FetchFollower")] == counts[times.format("Fetch")] > 0

    # Between two beans that Kafka's tool reads, one after the other, a follower may fetch.
    for broker in (KAFKA, PKAFKA):
        wait_for(partial(agree, broker), timeout_s=60, what="the same count of both")
