"""pk-replica-verification beside Kafka's tool, on the same two brokers of either kind."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.records.batch import CRC_POSITION
from tests.cluster import Cluster
from tests.interop.conftest import EITHER
from tests.interop.kafka import java_program
from tests.interop.side_by_side import pk
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOOL = "org.apache.kafka.tools.ReplicaVerificationTool"
LINES_MAX = 200


@pytest.fixture(scope="module", params=EITHER)
def cluster(
    request: pytest.FixtureRequest, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    if request.param == "kafka":
        request.getfixturevalue("kafka_classpath")
    settings = {
        "offsets.topic.replication.factor": 1,
        "inter.broker.protocol.version": "3.9",
        "zookeeper.session.timeout.ms": 10_000,
    }
    directory = tmp_path_factory.mktemp(request.param)
    with Cluster(directory, zookeeper.connect, overrides=settings, kinds=request.param[0] * 2) as started:
        yield started


def first_lines(command: list[str], wanted: str) -> list[str]:
    """What a program that does not end prints, up to the first line that contains ``wanted``."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or wanted not in lines[-1]:
                line = process.stdout.readline().decode()
                assert line, f"it ended: {lines}"
                assert len(lines) < LINES_MAX, lines
                lines.append(re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", "TIME: ", line))
            return lines
        finally:
            process.kill()


def both(cluster: Cluster, kafka_classpath: str, topic: str, wanted: str) -> list[list[str]]:
    """What Kafka's tool and ours print of a topic, from its beginning."""
    words = ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--time", "-2"]
    words += ["--report-interval-ms", "300", "--max-wait-ms", "100"]
    programs = (
        [java_program("java"), "-Xmx128m", "-cp", kafka_classpath, TOOL],
        [sys.executable, "-m", "pkafka.cli.replica_verification"],
    )
    return [first_lines([*program, *words], wanted) for program in programs]


def fill(cluster: Cluster, topic: str, count: int = 5) -> None:
    """Batches of one record each, on all replicas."""
    with cluster.producer(acks="all") as producer:
        for number in range(count):
            producer.send(topic, b"value-%d" % number, partition=0).result(30)


def segment(cluster: Cluster, broker: int, topic: str) -> Path:
    return cluster.brokers[broker].log_dir / f"{topic}-0" / f"{0:020}.log"


@contextlib.contextmanager
def stopped(cluster: Cluster, broker: int, topic: str) -> Iterator[Path]:
    """The segment of a broker that is away; afterwards it is back and in sync."""
    cluster.brokers[broker].stop()
    yield segment(cluster, broker, topic)
    cluster.brokers[broker].start()
    wait_for(lambda: cluster.leadership(topic)[0][1] == [0, 1], timeout_s=60, what=f"{topic} in sync")


def test_replicas_that_are_the_same(cluster: Cluster, kafka_classpath: str) -> None:
    cluster.create_topic("same", assignment={0: (0, 1)})
    fill(cluster, "same")
    theirs, ours = both(cluster, kafka_classpath, "same", "max lag is 0 for partition same-0 at offset 5")
    assert theirs[0] == ours[0] == "TIME: verification process is started\n"
    assert (
        theirs[-1] == ours[-1] == "TIME: max lag is 0 for partition same-0 at offset 5 among 1 partitions\n"
    )
    shown = pk(
        "replica_verification", "--bootstrap-server", cluster.bootstrap, "--topics-include", "same", "--once"
    )
    assert shown.splitlines()[-1].endswith("max lag is 0 for partition same-0 at offset 5 among 1 partitions")
    assert len(shown.splitlines()) == 2


def test_a_replica_with_another_checksum(cluster: Cluster, kafka_classpath: str) -> None:
    cluster.create_topic("damaged", assignment={0: (0, 1)})
    fill(cluster, "damaged")
    with stopped(cluster, 1, "damaged") as path:
        data = bytearray(path.read_bytes())
        data[CRC_POSITION] ^= 0xFF
        path.write_bytes(data)
    theirs, ours = both(cluster, kafka_classpath, "damaged", "max lag is 0")
    assert "has unmatched checksum at offset 0; replica" in theirs[1]
    # Kafka's compares in the order of a hash map.
    assert sorted(re.findall(r"replica \d's checksum \d+", ours[1])) == sorted(
        re.findall(r"replica \d's checksum \d+", theirs[1])
    )
    assert ours[1].split(";")[0] == theirs[1].split(";")[0]
    assert ours[-1] == theirs[-1]
    words = ("--bootstrap-server", cluster.bootstrap, "--topics-include", "damaged", "--once")
    found = json.loads(pk("replica_verification", *words, "--output", "json", code=1))
    assert [each["event"] for each in found["events"]] == ["started", "difference", "report"]
    assert found["events"][1]["difference"]["kind"] == "checksum"


def test_bytes_that_changed_under_the_right_checksum(cluster: Cluster) -> None:
    cluster.create_topic("rotten", assignment={0: (0, 1)})
    fill(cluster, "rotten")
    with stopped(cluster, 1, "rotten") as path:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    words = ("--bootstrap-server", cluster.bootstrap, "--topics-include", "rotten", "--once")
    assert "has unmatched checksum at offset 4; replica 0's checksum" in pk(
        "replica_verification", *words, code=1
    )


def test_a_replica_that_is_away(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("away", assignment={0: (0, 1)}, configs={"min.insync.replicas": "1"})
    fill(cluster, "away", 3)
    words = ("--bootstrap-server", cluster.brokers[0].bootstrap, "--topics-include", "away", "--once")
    with stopped(cluster, 1, "away"):
        shown = pk("replica_verification", *words, "--timeout", "8s", code=1)
        assert shown.splitlines()[-1].endswith(
            "max lag is 3 for partition away-0 at offset 0 among 1 partitions"
        )
    assert (
        pk("replica_verification", *words)
        .splitlines()[-1]
        .endswith("max lag is 0 for partition away-0 at offset 3 among 1 partitions")
    )
