"""pk-reassign-partitions and pk-leader-election beside Kafka's tools, on three brokers of pkafka."""

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pkafka.model import TopicPartition
from pkafka.server.cluster.placement import place_replicas
from tests.cluster import Cluster
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.side_by_side import pk
from tests.talk import good, wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.timeout(300)]

REASSIGN = ("reassign_partitions", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand")
ELECT = ("leader_election", "org.apache.kafka.tools.LeaderElectionCommand")

Same = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # Leaders change when a test says so, not when a busy machine holds a broker up.
    settings = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": 10_000}
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        yield started


@pytest.fixture
def same(cluster: Cluster, java_tool: JavaTool, monkeypatch: pytest.MonkeyPatch) -> Same:
    """``same(REASSIGN, *words, code=0)``: both makes say the same and end the same; what they say."""
    monkeypatch.setenv("PK_COMPAT", "3.9")

    def run(
        names: tuple[str, str], *words: str, code: int = 0, before: Callable[[], None] | None = None
    ) -> str:
        module, java_class = names
        given = ("--bootstrap-server", cluster.brokers[0].bootstrap, *words)
        if before is not None:
            before()
        theirs = java_tool(java_class, *given)
        assert theirs.returncode == code, theirs
        if before is not None:
            before()
        ours = pk(module, *given, code=code)
        assert not first_difference(comparable(ours), comparable(theirs.stdout))
        return ours

    return run


def comparable(text: str) -> str:
    """Without stacks and a forgotten line end, and with sets in one order."""
    text = re.sub(r"^\w+(\.[\w$]+)+(: .*)?\n(.*\n)*", "", text.rstrip("\n") + "\n", flags=re.MULTILINE)

    def sorted_names(found: re.Match[str]) -> str:
        return found[1] + ", ".join(sorted(found[2].split(", ")))

    text = re.sub(r"(for partitions )(.+)", sorted_names, text)
    text = re.sub(
        r"(Error completing .*\n)+", lambda found: "\n".join(sorted(found[0].splitlines())) + "\n", text
    )
    return re.sub(r"(on topics )(.+)", lambda found: found[1] + ",".join(sorted(found[2].split(","))), text)


def plan_file(path: Path, assignments: Mapping[str, list[int]]) -> str:
    """A file that moves the first partition of each topic."""
    rows = [{"topic": topic, "partition": 0, "replicas": brokers} for topic, brokers in assignments.items()]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def replicas(cluster: Cluster, topic: str) -> list[int]:
    with cluster.admin() as admin:
        return list(good(admin.describe_topics([topic])[topic]).partitions[0].replicas)


def are_replicas(cluster: Cluster, wanted: Mapping[str, list[int]]) -> bool:
    """Whether all brokers that run say so of the first partitions: a tool may ask any of them."""
    for number in range(len(cluster.brokers)):
        try:
            told = cluster.told_by(number, *wanted)
        except ConnectionError:
            continue  # it is dead
        found = {topic.name: [one.replica_nodes for one in topic.partitions][:1] for topic in told.topics}
        if found != {topic: [brokers] for topic, brokers in wanted.items()}:
            return False
    return True


def create(cluster: Cluster, topic: str, partitions: int = 1, **options: Any) -> None:
    """Create a topic, and wait until every broker knows it."""
    cluster.create_topic(topic, partitions, **options)
    wait_for(
        lambda: all(
            len(cluster.told_by(number, topic).topics[0].partitions) == partitions
            for number in range(len(cluster.brokers))
        ),
        what=f"{topic} at every broker",
    )


def begin(cluster: Cluster, wanted: Mapping[str, list[int]]) -> None:
    with cluster.admin() as admin:
        found = admin.alter_partition_reassignments(
            {TopicPartition(topic, 0): brokers for topic, brokers in wanted.items()}
        )
    assert set(found.values()) == {None}


class Chosen(random.Random):
    """What is called chance begins with these."""

    def __init__(self, *values: int) -> None:
        super().__init__(0)
        self._values = list(values)

    def randrange(self, *_: object) -> int:
        return self._values.pop(0)


def kafka_might_propose(brokers: list[int], partitions: int, factor: int) -> list[list[list[int]]]:
    """Every proposal that comes of some start."""
    return [
        [
            list(each)
            for each in place_replicas(
                dict.fromkeys(brokers),
                partitions=partitions,
                replication_factor=factor,
                rng=Chosen(start, shift),
            ).values()
        ]
        for start in range(len(brokers))
        for shift in range(len(brokers))
    ]


def proposal(shown: str) -> list[list[int]]:
    return [row["replicas"] for row in json.loads(shown.splitlines()[4])["partitions"]]


@pytest.mark.parametrize(("brokers", "factor"), [([0, 1, 2], 1), ([0, 1, 2], 2), ([2, 0], 2), ([0, 1, 2], 3)])
def test_both_propose_what_kafkas_rules_allow(
    cluster: Cluster, java_tool: JavaTool, tmp_path: Path, brokers: list[int], factor: int
) -> None:
    topic = f"proposed-{factor}-of-{len(brokers)}"
    create(cluster, topic, 7, replicas=factor)
    file = tmp_path / "topics.json"
    file.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    words = (
        *("--bootstrap-server", cluster.bootstrap, "--generate"),
        *("--topics-to-move-json-file", str(file), "--broker-list", ",".join(map(str, brokers))),
    )
    theirs, ours = java_tool(REASSIGN[1], *words).stdout, pk(REASSIGN[0], *words)
    allowed = kafka_might_propose(brokers, 7, factor)
    assert proposal(theirs) in allowed
    assert proposal(ours) in allowed
    assert ours.splitlines()[:4] == theirs.splitlines()[:4]


def test_a_move(cluster: Cluster, same: Same, tmp_path: Path) -> None:
    create(cluster, "moved", assignment={0: (0, 1)})
    there, back = (
        plan_file(tmp_path / name, {"moved": brokers})
        for name, brokers in (("there.json", [1, 2]), ("back.json", [0, 1]))
    )

    def at_home() -> None:
        begin(cluster, {"moved": [0, 1]})
        wait_for(lambda: "moved" not in pk(REASSIGN[0], "--bootstrap-server", cluster.bootstrap, "--list"))
        wait_for(lambda: are_replicas(cluster, {"moved": [0, 1]}))

    executed = same(
        REASSIGN, "--execute", "--reassignment-json-file", there, "--throttle", "1000000", before=at_home
    )
    assert executed.endswith("Successfully started partition reassignment for moved-0\n")
    wait_for(lambda: are_replicas(cluster, {"moved": [1, 2]}))
    for topic_or_broker in (("--topic", "moved"), ("--broker", "0"), ("--broker", "2")):
        words = ("--bootstrap-server", cluster.bootstrap, "--describe", *topic_or_broker)
        wait_for(lambda: "throttled" in pk("configs", *words))  # noqa: B023 - called at once
    kept = same(REASSIGN, "--verify", "--reassignment-json-file", there, "--preserve-throttles")
    assert "Reassignment of partition moved-0 is completed." in kept
    assert "replica set is 1,2 rather than 0,1." in same(
        REASSIGN, "--verify", "--reassignment-json-file", back, "--preserve-throttles"
    )
    same(REASSIGN, "--verify", "--reassignment-json-file", there)


def test_a_move_that_kafkas_tool_throttles(cluster: Cluster, java_tool: JavaTool, tmp_path: Path) -> None:
    """24 MB at 4 MB a second: 6 seconds, but for what went before the brokers heard of it and knew the rate."""
    create(cluster, "heavy", assignment={0: (0, 1)})
    with cluster.producer() as producer:
        for _ in range(240):
            producer.send("heavy", bytes(100_000), partition=0)
        producer.flush()
    plan = ("--reassignment-json-file", plan_file(tmp_path / "there.json", {"heavy": [0, 2]}))

    def run(*words: str) -> str:
        done = java_tool(REASSIGN[1], "--bootstrap-server", cluster.brokers[0].bootstrap, *words)
        assert done.returncode == 0, done
        return done.stdout

    began_s = time.monotonic()
    assert "The inter-broker throttle limit was set to 4000000 B/s" in run(
        "--execute", *plan, "--throttle", "4000000"
    )
    with cluster.admin() as admin:
        wait_for(lambda: not admin.list_partition_reassignments(), timeout_s=60)
    assert time.monotonic() - began_s > 3
    wait_for(lambda: cluster.leadership("heavy")[0] == (0, [0, 2]))
    verified = run("--verify", *plan)
    assert "Reassignment of partition heavy-0 is completed." in verified
    assert "Clearing topic-level throttles on topic heavy" in verified


def test_moves_that_wait(cluster: Cluster, same: Same, tmp_path: Path) -> None:
    """What is to keep a broker that is dead waits for it."""
    start = {"less": (0, 1, 2), "other": (0, 2)}
    wanted = {"less": [0, 2], "other": [2, 1]}
    for topic, brokers in start.items():
        create(cluster, topic, assignment={0: brokers})
    cluster.brokers[2].kill()
    try:
        wait_for(lambda: all(len(cluster.told_by(number).brokers) == 2 for number in (0, 1)))
        file = plan_file(tmp_path / "wanted.json", wanted)
        one = plan_file(tmp_path / "one.json", {"less": [0, 1]})
        begin(cluster, wanted)
        listed = same(REASSIGN, "--list")
        assert listed.count("removing") == 2
        assert same(REASSIGN, "--verify", "--reassignment-json-file", file).count("still in progress") == 2
        assert "existing partition assignment" in same(
            REASSIGN, "--execute", "--reassignment-json-file", one, code=1
        )
        assert "Unknown broker id 2" in same(
            REASSIGN, "--execute", "--additional", "--reassignment-json-file", file, code=1
        )
        given_up = same(
            REASSIGN,
            "--cancel",
            "--reassignment-json-file",
            file,
            "--preserve-throttles",
            before=lambda: begin(cluster, wanted),
        )
        assert "Successfully cancelled partition reassignments for: less-0,other-0" in given_up
        both = tmp_path / "both.json"
        both.write_text(
            json.dumps({"partitions": [{"topic": topic, "partition": 0} for topic in ("less", "other")]})
        )
        # The first replica of one of them is dead.
        begin(cluster, {"less": [2, 0, 1]})
        wait_for(lambda: are_replicas(cluster, {"less": [2, 0, 1]}))
        refused = same(ELECT, "--election-type", "preferred", "--path-to-json-file", str(both), code=1)
        assert "PreferredLeaderNotAvailableException" in refused
    finally:
        cluster.brokers[2].start()
    wait_for(lambda: cluster.leadership("less")[0][1] == [0, 1, 2], timeout_s=60)


def test_elections(cluster: Cluster, same: Same) -> None:
    topics = ("first", "second")
    for topic in topics:
        create(cluster, topic, assignment={0: (0, 1)})

    def turn() -> None:
        """Every leader is the first replica, but of these topics."""
        server = ("--bootstrap-server", cluster.bootstrap)
        pk(ELECT[0], *server, "--election-type", "preferred", "--all-topic-partitions")
        wait_for(lambda: all(cluster.leadership(each)[0][0] == replicas(cluster, each)[0] for each in topics))
        turned = {topic: replicas(cluster, topic)[::-1] for topic in topics}
        begin(cluster, turned)
        wait_for(lambda: are_replicas(cluster, turned))

    words = ("--election-type", "preferred", "--topic", "first", "--partition", "0")
    elected = same(ELECT, *words, before=turn)
    assert elected == "Successfully completed leader election (PREFERRED) for partitions first-0\n"
    assert same(ELECT, *words) == "Valid replica already elected for partitions first-0\n"
    every = same(ELECT, "--election-type", "preferred", "--all-topic-partitions", before=turn)
    assert "first-0" in every
    assert "second-0" in every
    assert same(ELECT, "--election-type", "unclean", "--all-topic-partitions") == ""
