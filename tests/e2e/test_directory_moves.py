"""Replicas move to another log directory of their broker, as pk-reassign-partitions asks and pk-log-dirs shows."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.log_dirs import main as log_dirs
from pkafka.cli.reassign_partitions import main as reassign_partitions
from pkafka.model import TopicPartition, TopicPartitionReplica
from pkafka.testing import Broker, running_broker
from tests.json_schemas import check
from tests.talk import Talk, good, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.usefixtures("plain_environment")]

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
WINDOW_S = 1
BATCHES = 100
"""One goes in a window, so that a move that is held back is not over before it was looked at."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    root = tmp_path_factory.mktemp("two-homes")
    settings: dict[str, object] = {
        "log.dirs": f"{root / 'home-0'},{root / 'home-1'}",
        "log.segment.delete.delay.ms": 0,
        "pkafka.workers": 2,
        # Whoever has copied too much waits until it is forgotten: one window here, eleven by default.
        "alter.log.dirs.replication.quota.window.num": 1,
        "alter.log.dirs.replication.quota.window.size.seconds": WINDOW_S,
    }
    with running_broker(root, settings) as started:
        yield started


@pytest.fixture
def talk(broker: Broker) -> Iterator[Talk]:
    with closing(Talk(broker.bootstrap)) as found:
        yield found


def home_of(talk: Talk, topic: str) -> str:
    """Where the replica of partition 0 is that is served."""
    (home,) = (
        directory.path
        for directory in good(talk.admin.describe_log_dirs([0])[0])
        for each in directory.replicas
        if each.partition == TopicPartition(topic, 0) and not each.is_future
    )
    return home


def other_home(talk: Talk, home: str) -> str:
    (other,) = {directory.path for directory in good(talk.admin.describe_log_dirs([0])[0])} - {home}
    return other


def test_a_move_from_the_plan_to_its_end(
    broker: Broker, talk: Talk, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str, status: int = ExitStatus.OK) -> str:
        capsys.readouterr()
        main = log_dirs if words[0] == "--describe" else reassign_partitions
        assert main.run(["--bootstrap-server", broker.bootstrap, *words]) == status
        return capsys.readouterr().out

    talk.create(topic)
    wait_for(lambda: talk.ends(topic) == (0, 0))
    for number in range(BATCHES):
        talk.send(topic, b"%d" % number)
    here = home_of(talk, topic)
    there = other_home(talk, here)
    plan = tmp_path / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": [0], "log_dirs": [there]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    file = ("--reassignment-json-file", str(plan))
    begun = run("--execute", *file, "--replica-alter-log-dirs-throttle", "1")
    assert (
        f"Successfully started moving log directory to {there} for replica {topic}-0 with broker 0" in begun
    )
    verified = run("--verify", *file, "--preserve-throttles", status=ExitStatus.IN_PROGRESS)
    assert f"Reassignment of replica {topic}-0-0 is still in progress." in verified
    described = json.loads(run("--describe", "--topic-list", topic).splitlines()[-1])
    places = {each["logDir"]: each["partitions"] for each in described["brokers"][0]["logDirs"]}
    assert [each["isFuture"] for each in places[here]] == [False]
    (future,) = places[there]
    assert future["isFuture"]
    assert future["offsetLag"] > 0
    talk.set_broker(**{RATE: None})
    verified = run("--verify", *file, "--wait", "60s")
    assert f"Reassignment of replica {topic}-0-0 completed successfully." in verified
    assert home_of(talk, topic) == there
    assert [record.value for record in talk.read(topic)] == [b"%d" % number for number in range(BATCHES)]
    wait_for(lambda: not list(Path(here).glob(f"{topic}-*")), what="the old files to go")
    broker.restart()
    with closing(Talk(broker.bootstrap)) as again:
        assert [record.value for record in again.read(topic)] == [b"%d" % number for number in range(BATCHES)]
        assert home_of(again, topic) == there


def test_a_move_that_is_given_up_is_told_in_json(
    broker: Broker, talk: Talk, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str, status: int = ExitStatus.OK) -> Any:
        capsys.readouterr()
        assert (
            reassign_partitions.run(["--bootstrap-server", broker.bootstrap, *words, "--output", "json"])
            == status
        )
        document = json.loads(capsys.readouterr().out)
        check(document, f"pk-reassign-partitions.{words[0].removeprefix('--')}")
        return document

    talk.create(topic)
    wait_for(lambda: talk.ends(topic) == (0, 0))
    for _ in range(BATCHES):
        talk.send(topic, b"x" * 1_000)
    here = home_of(talk, topic)
    there = other_home(talk, here)
    plan = tmp_path / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": [0], "log_dirs": [there]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    file = ("--reassignment-json-file", str(plan))
    (planned,) = run("--execute", *file, "--dry-run")["log_dir_moves"]
    assert planned["bytes"] > 30_000
    run("--execute", *file, "--replica-alter-log-dirs-throttle", "1")
    (moving,) = run("--verify", *file, status=ExitStatus.IN_PROGRESS)["log_dir_moves"]
    assert (moving["state"], moving["bytes_total"]) == ("in_progress", planned["bytes"])
    assert 0 <= moving["bytes_done"] < moving["bytes_total"]
    given_up = {"topic": topic, "partition": 0, "broker": 0, "log_dir": here, "future_log_dir": there}
    for more, stopped in ((("--dry-run",), False), ((), True)):
        found = run("--cancel", *file, *more)
        assert found["log_dir_moves"] == [{**given_up, "stopped": stopped}]
    assert home_of(talk, topic) == here
    assert run("--cancel", *file)["log_dir_moves"] == []


def test_the_windows_in_which_copying_is_measured(broker: Broker, topic: str) -> None:
    with closing(Talk(broker.bootstrap)) as talk:
        talk.create(topic)
        wait_for(lambda: talk.ends(topic) == (0, 0))
        for _ in range(4):
            talk.send(topic, b"x" * 100)
        there = other_home(talk, home_of(talk, topic))
        talk.set_broker(**{RATE: 1})
        replica = TopicPartitionReplica(topic, 0, 0)
        assert good(talk.admin.alter_replica_log_dirs({replica: there})[replica]) is None
        # A batch in each window of a second; with Kafka's eleven windows three would wait for eleven seconds each.
        wait_for(lambda: home_of(talk, topic) == there, timeout_s=30 * WINDOW_S, what="four batches")
        talk.set_broker(**{RATE: None})
