"""pk-metadata at three brokers: what is well, what is amiss, and where ZooKeeper has something else."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.metadata import main
from pkafka.coordination.znodes import ControllerEpoch, PartitionState
from pkafka.model import TopicPartition
from tests.cluster import Cluster
from tests.json_schemas import check
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.usefixtures("plain_environment")]

Run = Callable[..., str]
Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": "false", "zookeeper.session.timeout.ms": 6_000}
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.connect, overrides=settings) as started:
        wait_for(lambda: len(alive(started)) == 3, what="all brokers")
        started.create_topic("t", assignment={0: (0, 1, 2), 1: (1, 2, 0)})
        yield started


def alive(cluster: Cluster) -> list[int]:
    with cluster.admin() as admin:
        return [each.id for each in admin.describe_cluster().brokers]


@pytest.fixture
def run(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run(verb, *words, status=0)``: standard output of the command."""

    def run(verb: str, *words: str, status: int = ExitStatus.OK) -> str:
        capsys.readouterr()
        found = main.run([verb, "--bootstrap-server", cluster.bootstrap, *words])
        printed = capsys.readouterr()
        assert found == status, printed
        return printed.out

    return run


@pytest.fixture
def rows(run: Run) -> Rows:
    """The rows of JSON, which are as promised."""

    def rows(verb: str, *words: str, status: int = ExitStatus.OK) -> list[dict[str, Any]]:
        found = json.loads(run(verb, *words, "--output", "json", status=status))
        check(found, f"pk-metadata.{verb}")
        return next(each for each in found.values() if isinstance(each, list))

    return rows


def test_all_is_well(cluster: Cluster, run: Run, rows: Rows) -> None:
    by_node = ("--zookeeper", cluster.zookeeper_connect)
    for words in ((), by_node):
        for verb in ("brokers", "controller", "topics", "partitions", "isr", "epochs"):
            assert run(verb, *words, "--check", "--problems") == ""
    assert run("log-dirs", "--check", "--problems") == ""
    found = rows("brokers", *by_node)
    assert [(each["broker"], each["alive"]) for each in found] == [(0, True), (1, True), (2, True)]
    assert sum(each["controller"] for each in found) == 1
    assert all(each["epoch"] > 0 for each in found)
    (row,) = (each for each in rows("partitions", "--topic", "t") if each["partition"] == 1)
    assert (row["leader"], row["preferred"], row["state"], row["replicas"]) == (1, 1, "ok", [1, 2, 0])
    controller, epoch = (
        cluster.controller(),
        cluster.ask_store(lambda store: store.get(ControllerEpoch.path())),
    )
    assert rows("controller", *by_node) == [
        *({"source": f"broker {each}", "controller": controller, "epoch": None} for each in range(3)),
        {"source": "zookeeper", "controller": controller, "epoch": int(epoch[0])},
    ]
    cluster.create_topic("young", assignment={0: (0, 1, 2)})  # others may have seen a broker die
    (written,) = rows("epochs", *by_node, "--topic", "young")
    assert (written["leader_epoch"], written["written_leader_epoch"], written["partition_epoch"]) == (0, 0, 0)
    text = run("brokers").splitlines()
    assert text[0].split()[:3] == ["BROKER", "ADDRESS", "ALIVE"]
    assert len(text) == 4


def test_a_broker_that_is_dead(cluster: Cluster, run: Run, rows: Rows) -> None:
    cluster.brokers[2].kill()
    try:
        wait_for(lambda: cluster.leadership("t")[1] == (1, [0, 1]))
        wait_for(lambda: cluster.leadership("t")[0] == (0, [0, 1]))
        (dead,) = (
            each for each in rows("brokers", "--check", status=ExitStatus.FAILURE) if not each["alive"]
        )
        assert (dead["broker"], dead["address"], dead["out_of_sync"] >= 2) == (2, None, True)
        lacking = rows("isr", "--topic", "t", "--check", status=ExitStatus.FAILURE)
        assert [(each["partition"], each["missing"], each["dead"]) for each in lacking] == [
            (0, [2], [2]),
            (1, [2], [2]),
        ]
        (topic,) = rows("topics", "--topic", "t", "--problems")
        assert (topic["under_replicated"], topic["offline"]) == (2, 0)
        assert "under_replicated" in run("partitions", "--topic", "t")
        assert "something is amiss" not in run("partitions", "--topic", "t")
        (row,) = rows("log-dirs", "--check", "--problems", status=ExitStatus.FAILURE)
        assert (row["broker"], row["log_dir"]) == (2, None)
        assert "broker 2 is not part of the cluster" in str(row["error"])
    finally:
        cluster.brokers[2].start()
    wait_for(lambda: all(isr == [0, 1, 2] for _, isr in cluster.leadership("t").values()))


def test_zookeeper_has_something_else(cluster: Cluster, run: Run, rows: Rows) -> None:
    cluster.create_topic("edited", assignment={0: (0, 1)})
    path = PartitionState.path(TopicPartition("edited", 0))
    right = cluster.ask_store(lambda store: store.get(path))[0]
    wrong = PartitionState(leader=1, leader_epoch=0, isr=(1,), controller_epoch=1)
    cluster.ask_store(lambda store: store.set(path, wrong.encode()))
    by_node = ("--zookeeper", cluster.zookeeper_connect)
    try:
        (row,) = rows("partitions", *by_node, "--topic", "edited", "--check", status=ExitStatus.FAILURE)
        assert row["difference"] == "leader 1, isr 1"
        (topic,) = rows("topics", *by_node, "--topic", "edited")
        assert topic["differences"] == 1
        assert rows("partitions", "--topic", "edited", "--check")[0]["difference"] is None
    finally:
        cluster.ask_store(lambda store: store.set(path, right))


def test_who_is_not_there(cluster: Cluster, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["brokers", "--bootstrap-server", cluster.bootstrap, "--zookeeper"]
    nowhere = [*words, f"127.0.0.1:{free_port()}", "--timeout", "3s"]
    assert main.run(nowhere) == ExitStatus.UNREACHABLE
    assert "is a ZooKeeper server running there?" in capsys.readouterr().err
    elsewhere = f"{cluster.zookeeper_connect.partition('/')[0]}/nothing-here"
    assert main.run([*words, elsewhere]) == ExitStatus.FAILURE
    assert "zookeeper.connect" in capsys.readouterr().err
    assert main.run([*words, "/"]) == ExitStatus.USAGE
