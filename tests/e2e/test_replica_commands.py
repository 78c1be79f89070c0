"""pk-reassign-partitions and pk-leader-election at three brokers."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import KafkaCommand
from pkafka.cli.leader_election import main as leader_election
from pkafka.cli.reassign_partitions import main as reassign_partitions
from pkafka.clients.admin.results import ConfigResource, ResourceType
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.json_schemas import check
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.usefixtures("plain_environment")]

Run = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # Leaders change when a test says so.
    settings = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": 6_000}
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        yield started


def runner(main: KafkaCommand, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str, status: int = ExitStatus.OK) -> str:
        capsys.readouterr()
        found = main.run(["--bootstrap-server", cluster.bootstrap, *words])
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.out

    return run


@pytest.fixture
def reassign(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """``reassign(*words, status=0)``: standard output of the command."""
    return runner(reassign_partitions, cluster, capsys)


@pytest.fixture
def elect(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """``elect(*words, status=0)``: standard output of the command."""
    return runner(leader_election, cluster, capsys)


def plan_file(path: Path, assignments: dict[str, list[int]]) -> str:
    """A file that moves the first partition of each topic."""
    rows = [{"topic": topic, "partition": 0, "replicas": brokers} for topic, brokers in assignments.items()]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def replicas(cluster: Cluster, topic: str) -> list[list[int]]:
    with cluster.admin() as admin:
        return [list(each.replicas) for each in good(admin.describe_topics([topic])[topic]).partitions]


def throttles(cluster: Cluster, kind: ResourceType, name: str) -> dict[str, str | None]:
    resource = ConfigResource(kind, name)
    with cluster.admin() as admin:
        entries = good(admin.describe_configs([resource])[resource])
    return {each.name: each.value for each in entries if "throttled" in each.name and not each.is_default}


def test_a_topic_moves_as_proposed_and_back(cluster: Cluster, reassign: Run, tmp_path: Path) -> None:
    cluster.create_topic("wanders", assignment={0: (0, 1), 1: (1, 0), 2: (0, 1)})
    with cluster.producer() as producer:
        for number in range(300):
            producer.send("wanders", b"%d" % number, partition=number % 3)
        producer.flush()
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics":[{"topic":"wanders"}],"version":1}')
    generating = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2")
    shown = reassign(*generating).splitlines()
    assert [shown[0], shown[2], shown[3]] == [
        "Current partition replica assignment",
        "",
        "Proposed partition reassignment configuration",
    ]
    assert reassign(*generating).splitlines() == shown
    there, back = tmp_path / "there.json", tmp_path / "back.json"
    back.write_text(shown[1])
    there.write_text(shown[4])
    wanted = [row["replicas"] for row in json.loads(shown[4])["partitions"]]
    assert all(sorted(each) == [1, 2] for each in wanted)

    dry = reassign("--execute", "--reassignment-json-file", str(there), "--dry-run")
    assert f"Would move wanders-0 from 0,1 to {wanted[0][0]},{wanted[0][1]}." in dry
    assert replicas(cluster, "wanders") == [[0, 1], [1, 0], [0, 1]]

    executed = reassign("--execute", "--reassignment-json-file", str(there))
    assert executed == (
        f"Current partition replica assignment\n\n{shown[1]}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback\n"
        "Successfully started partition reassignments for wanders-0,wanders-1,wanders-2\n"
    )
    verified = reassign("--verify", "--reassignment-json-file", str(there), "--wait", "60s")
    wait_for(lambda: replicas(cluster, "wanders") == wanted, what="the brokers to hear of it")
    assert reassign("--list") == "No partition reassignments found.\n"
    assert verified == (
        "Status of partition reassignment:\n"
        "Reassignment of partition wanders-0 is completed.\n"
        "Reassignment of partition wanders-1 is completed.\n"
        "Reassignment of partition wanders-2 is completed.\n\n"
        "Clearing broker-level throttles on brokers 0,1,2\n"
        "Clearing topic-level throttles on topic wanders\n"
    )
    # The file that --execute and --generate showed leads back.
    reassign("--execute", "--reassignment-json-file", str(back))
    wait_for(lambda: replicas(cluster, "wanders") == [[0, 1], [1, 0], [0, 1]])


def test_throttles_are_set_and_removed(cluster: Cluster, reassign: Run, tmp_path: Path) -> None:
    cluster.create_topic("slow", assignment={0: (0, 1)})
    file = plan_file(tmp_path / "move.json", {"slow": [1, 2]})
    shown = reassign("--execute", "--reassignment-json-file", file, "--throttle", "50000")
    assert shown.splitlines()[-3:] == [
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is"
        " removed.",
        "The inter-broker throttle limit was set to 50000 B/s",
        "Successfully started partition reassignment for slow-0",
    ]
    assert throttles(cluster, ResourceType.TOPIC, "slow") == {
        "leader.replication.throttled.replicas": "0:0,0:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    for broker in ("0", "1", "2"):
        assert throttles(cluster, ResourceType.BROKER, broker) == {
            "leader.replication.throttled.rate": "50000",
            "follower.replication.throttled.rate": "50000",
        }
    wait_for(lambda: reassign("--list") == "No partition reassignments found.\n")
    kept = reassign("--verify", "--reassignment-json-file", file, "--preserve-throttles")
    assert "Clearing" not in kept
    assert throttles(cluster, ResourceType.TOPIC, "slow")
    assert "Clearing topic-level" in reassign("--verify", "--reassignment-json-file", file)
    assert throttles(cluster, ResourceType.TOPIC, "slow") == {}
    brokers = ("0", "1", "2")
    wait_for(lambda: not any(throttles(cluster, ResourceType.BROKER, broker) for broker in brokers))


def test_what_cannot_be_moved_is_said(cluster: Cluster, reassign: Run, tmp_path: Path) -> None:
    cluster.create_topic("stays", assignment={0: (0, 1)})

    def refused(content: object) -> str:
        file = tmp_path / "refused.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return reassign("--execute", "--reassignment-json-file", str(file), status=ExitStatus.FAILURE)

    def row(*brokers: int, topic: str = "stays", partition: int = 0) -> dict[str, object]:
        return {"topic": topic, "partition": partition, "replicas": brokers}

    assert refused({"partitions": [row(0, 9)]}) == "Error: Unknown broker id 9\n"
    missing = "Error: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    assert refused({"partitions": [row(0, topic="nobody")]}) == f"{missing}Topic nobody not found.\n"
    assert refused({"partitions": [row(0, partition=7)]}) == f"{missing}Unable to find partition: stays-7\n"
    assert refused({"partitions": []}) == "Error: Partition reassignment list cannot be empty\n"
    assert refused({"partitions": [row()]}) == "Error: Partition replica list cannot be empty\n"
    assert replicas(cluster, "stays") == [[0, 1]]


def test_leaders_come_back(cluster: Cluster, elect: Run, reassign: Run, tmp_path: Path) -> None:
    cluster.create_topic("led", assignment={0: (0, 1)})
    # Another order of the same brokers moves nothing, and the leader stays who it is.
    reassign("--execute", "--reassignment-json-file", plan_file(tmp_path / "turn.json", {"led": [1, 0]}))
    wait_for(lambda: replicas(cluster, "led") == [[1, 0]])
    assert cluster.leadership("led")[0][0] == 0
    one = ("--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert elect(*one, "--dry-run") == "Would elect a leader (PREFERRED) of led-0\n"
    assert elect(*one) == "Successfully completed leader election (PREFERRED) for partitions led-0\n"
    wait_for(lambda: cluster.leadership("led")[0][0] == 1)
    assert elect(*one) == "Valid replica already elected for partitions led-0\n"
    assert elect(*one, "--dry-run") == "Would leave the leader of led-0\n"
    file = tmp_path / "elect.json"
    file.write_text('{"partitions":[{"topic":"led","partition":0},{"topic":"led","partition":9}]}')
    from_file = ("--election-type", "UNCLEAN", "--path-to-json-file", str(file))
    assert elect(*from_file, status=ExitStatus.FAILURE) == (
        "Valid replica already elected for partitions led-0\n"
        "Error completing leader election (UNCLEAN) for partition: led-9: "
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: The partition does not exist.\n"
    )
    assert elect("--election-type", "unclean", "--all-topic-partitions") == ""


def test_moves_that_wait_are_shown_and_given_up(cluster: Cluster, reassign: Run, tmp_path: Path) -> None:
    """A move ends when all new replicas are in sync, so one that is to keep a dead broker waits for it."""
    start = {"grows": (0, 2), "shrinks": (0, 1, 2), "turns": (0, 2)}
    wanted = {"grows": [0, 2, 1], "shrinks": [0, 2], "turns": [2, 1]}
    for topic, brokers in start.items():
        cluster.create_topic(topic, assignment={0: brokers})
    cluster.brokers[2].kill()
    try:
        with cluster.admin() as admin:
            wait_for(lambda: len(admin.describe_cluster().brokers) == 2)
            begun = admin.alter_partition_reassignments(
                {TopicPartition(topic, 0): brokers for topic, brokers in wanted.items()}
            )
        assert set(begun.values()) == {None}
        assert reassign("--list") == (
            "Current partition reassignments:\n"
            "grows-0: replicas: 0,2,1. adding: 1.\n"
            "shrinks-0: replicas: 0,2,1. removing: 1.\n"
            "turns-0: replicas: 2,1,0. adding: 1. removing: 0.\n"
        )
        listed = json.loads(reassign("--list", "--output", "json"))
        check(listed, "pk-reassign-partitions.list")
        assert [row["adding"] for row in listed["partitions"]] == [[1], [], [1]]
        file = plan_file(tmp_path / "moves.json", wanted)
        verified = reassign("--verify", "--reassignment-json-file", file, status=ExitStatus.IN_PROGRESS)
        assert verified == (
            "Status of partition reassignment:\n"
            "Reassignment of partition grows-0 is still in progress.\n"
            "Reassignment of partition shrinks-0 is still in progress.\n"
            "Reassignment of partition turns-0 is still in progress.\n\n"
        )
        waiting = ("--verify", "--reassignment-json-file", file, "--wait", "300ms")
        assert reassign(*waiting, status=ExitStatus.IN_PROGRESS) == verified
        # Beside others nothing begins unasked.
        other = plan_file(tmp_path / "other.json", {"grows": [0, 1]})
        existing = reassign("--execute", "--reassignment-json-file", other, status=ExitStatus.FAILURE)
        assert existing.startswith("Cannot execute because there is an existing partition assignment.  Use ")
        cancelling = ("--cancel", "--reassignment-json-file", file, "--preserve-throttles")
        assert reassign(*cancelling, "--dry-run") == (
            "Would cancel partition reassignments for: grows-0,shrinks-0,turns-0\n"
        )
        document = json.loads(reassign(*cancelling, "--dry-run", "--output", "json"))
        check(document, "pk-reassign-partitions.cancel")
        assert [row["topic"] for row in document["partitions"]] == sorted(wanted)
        assert reassign(*cancelling) == (
            "Successfully cancelled partition reassignments for: grows-0,shrinks-0,turns-0\n"
            "None of the specified partition moves are active.\n"
        )
        assert reassign("--list") == "No partition reassignments found.\n"
        assert (
            reassign(*cancelling).splitlines()[0]
            == "None of the specified partition reassignments are active."
        )
    finally:
        cluster.brokers[2].start()
    wait_for(lambda: cluster.leadership("shrinks")[0][1] == [0, 1, 2])
    assert {topic: sorted(replicas(cluster, topic)[0]) for topic in start} == {
        topic: sorted(brokers) for topic, brokers in start.items()
    }
    assert "rather than 0,2,1." in reassign(
        "--verify", "--reassignment-json-file", file, status=ExitStatus.FAILURE
    )


def test_a_dead_broker_in_the_way(cluster: Cluster, reassign: Run, tmp_path: Path) -> None:
    """What is on a dead broker moves away, throttled, and the throttles go; only what that broker knows is unknown."""
    cluster.create_topic("leaves", assignment={0: (2, 0)})
    with cluster.producer() as producer:
        for _ in range(100):
            producer.send("leaves", b"x" * 1_000, partition=0)
        producer.flush()
    there = plan_file(tmp_path / "there.json", {"leaves": [0, 1]})
    cluster.brokers[2].kill()
    try:
        with cluster.admin() as admin:
            wait_for(lambda: len(admin.describe_cluster().brokers) == 2)
        wait_for(lambda: cluster.leadership("leaves")[0][0] == 0)
        execute = ("--execute", "--reassignment-json-file", there, "--throttle", "100000000")
        forecast = json.loads(reassign(*execute, "--dry-run", "--output", "json"))
        check(forecast, "pk-reassign-partitions.execute")
        size = forecast["total_bytes"]
        assert size > 100_000
        assert forecast["brokers"] == [
            {"broker": 0, "bytes_in": 0, "bytes_out": size},
            {"broker": 1, "bytes_in": size, "bytes_out": 0},
        ]
        assert throttles(cluster, ResourceType.TOPIC, "leaves") == {}
        assert "Successfully started partition reassignment for leaves-0" in reassign(*execute)
        assert throttles(cluster, ResourceType.BROKER, "1")
        back = tmp_path / "there.rollback.json"
        assert [row["replicas"] for row in json.loads(back.read_text())["partitions"]] == [[2, 0]]
        reassign("--verify", "--reassignment-json-file", there, "--preserve-throttles", "--wait", "60s")
        # The file that leads back names the dead broker: the others lose their throttles, and so does the topic.
        shown = reassign("--verify", "--reassignment-json-file", str(back), status=ExitStatus.FAILURE)
        assert shown.splitlines()[-2:] == [
            "Clearing broker-level throttles on brokers 0,1,2",
            "Clearing topic-level throttles on topic leaves",
        ]
        assert throttles(cluster, ResourceType.TOPIC, "leaves") == {}
        wait_for(lambda: not throttles(cluster, ResourceType.BROKER, "1"))
        # A directory of the dead broker: partitions are shown all the same, and nobody gives up before the time.
        row = {"topic": "leaves", "partition": 0, "replicas": [0, 2], "log_dirs": ["any", "/x"]}
        asked = tmp_path / "asked.json"
        asked.write_text(json.dumps({"version": 1, "partitions": [row]}))
        verify = ("--verify", "--reassignment-json-file", str(asked))
        gone = (
            "org.apache.kafka.common.errors.BrokerNotAvailableException: broker 2 is not part of the cluster"
        )
        expected = (
            "Status of partition reassignment:\n"
            "There is no active reassignment of partition leaves-0, but replica set is 0,1 rather than 0,2.\n"
            f"Error: {gone}\n"
        )
        assert reassign(*verify, status=ExitStatus.FAILURE) == expected
        begun_s = time.monotonic()
        assert reassign(*verify, "--wait", "1s", status=ExitStatus.FAILURE) == expected
        assert time.monotonic() - begun_s >= 1
        document = json.loads(reassign(*verify, "--output", "json", status=ExitStatus.FAILURE))
        check(document, "pk-reassign-partitions.verify")
        assert [each["state"] for each in document["log_dir_moves"]] == ["unknown"]
        assert document["throttles_cleared"] is False
    finally:
        cluster.brokers[2].start()


def test_a_move_that_goes_on_tells_how_far_it_is(
    cluster: Cluster, reassign: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("crawls", assignment={0: (0,)})
    # More than one fetch of a partition takes, as the throttle holds back only what comes after it.
    with cluster.producer() as producer:
        for _ in range(4_000):
            producer.send("crawls", b"x" * 1_000, partition=0)
        producer.flush()
    file = ("--reassignment-json-file", plan_file(tmp_path / "move.json", {"crawls": [1]}))
    reassign("--execute", *file, "--throttle", "1")
    documents = {
        "verify": json.loads(reassign("--verify", *file, "--output", "json", status=ExitStatus.IN_PROGRESS)),
        "list": json.loads(reassign("--list", "--output", "json")),
    }
    for action, document in documents.items():
        check(document, f"pk-reassign-partitions.{action}")
        (row,) = document["partitions"]
        assert 0 <= row["bytes_done"] < row["bytes_total"]
        assert row["bytes_total"] > 4_000_000
    capsys.readouterr()
    words = ["--bootstrap-server", cluster.bootstrap, "--verify", *file, "--wait", "300ms"]
    assert reassign_partitions.run(words) == ExitStatus.IN_PROGRESS
    printed = capsys.readouterr()
    assert printed.out == (
        "Status of partition reassignment:\nReassignment of partition crawls-0 is still in progress.\n\n"
    )
    assert printed.err.startswith("1 of 1 are not where they are to be yet; ")
    assert f" of {row['bytes_total']} bytes copied (" in printed.err
    reassign("--execute", *file, "--throttle", "100000000", "--additional")
    reassign("--verify", *file, "--wait", "60s")
