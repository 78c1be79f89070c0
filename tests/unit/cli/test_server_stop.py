"""Which servers pk-server-stop and pk-zookeeper-server-stop signal, on a machine of the test's own."""

import os
import signal
from pathlib import Path

import pytest

from pkafka.cli.server_stop import main, zookeeper_main
from tests.fakes.machine import Machine, machine

__all__ = ["machine"]

PYTHON = ("python3", "pk-server-start")
ZOOKEEPER = ("java", "-cp", "x", "org.apache.zookeeper.server.quorum.QuorumPeerMain")
FOREIGN = 66


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The signals that were sent; process 66 belongs to somebody else."""
    signals: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        if pid == FOREIGN:
            raise PermissionError
        if number:
            signals.append((pid, number))

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.delenv("SIGNAL", raising=False)
    monkeypatch.delenv("PK_COMPAT", raising=False)
    return signals


@pytest.fixture
def homes(tmp_path: Path) -> list[Path]:
    """Two directories that have a server.properties each, with the ids 4 and 5."""
    made = []
    for node in (4, 5):
        home = tmp_path / f"home-{node}"
        home.mkdir()
        (home / "server.properties").write_text(f"# broker.id=1\nbroker.id = {node}\n")
        made.append(home)
    return made


def stop(*args: str) -> int:
    return main.run(list(args))


def test_a_relative_file_is_that_of_the_broker_not_of_the_caller(
    machine: Machine,
    homes: list[Path],
    sent: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    machine.runs(10, *PYTHON, "server.properties", cwd=homes[0])
    monkeypatch.chdir(homes[1])
    assert stop("--node-id", "5") == 1
    assert (sent, capfd.readouterr().out) == ([], "No kafka server to stop\n")
    assert stop("--node-id", "4") == 0
    assert sent == [(10, signal.SIGTERM)]


def test_the_id_is_that_of_the_command_line_as_the_broker_reads_it(
    machine: Machine, homes: list[Path], sent: list[tuple[int, int]]
) -> None:
    file = str(homes[0] / "server.properties")
    machine.runs(10, *PYTHON, "--ready-file", "other.properties", file)
    machine.runs(20, *PYTHON, file, "--override", "broker.id=25")
    machine.runs(30, *PYTHON, "-override=node.id= +26")
    machine.runs(40, *PYTHON, "gone.properties", "--override", "broker.id=27", "--unknown", cwd=homes[0])
    machine.runs(50, *PYTHON)
    machine.runs(60, *PYTHON, "gone.properties", cwd=homes[0])
    machine.runs(70, *PYTHON, file, "--override", "node.id=-1")
    for node in ("4", "25", "26", "27", "0", "-1"):
        assert stop("--node-id", node) == (node == "-1")
    assert [pid for pid, _ in sent] == [10, 20, 30, 40, 50]


def test_what_the_data_directories_say_counts_first(
    machine: Machine, homes: list[Path], sent: list[tuple[int, int]]
) -> None:
    (homes[1] / "meta.properties").write_text("version=0\nbroker.id=1001\n")
    machine.runs(10, *PYTHON, "server.properties", cwd=homes[0], holds=[homes[1] / ".lock"])
    assert stop("--node-id", "4") == 1
    assert stop("--node-id", "1001") == 0
    assert sent == [(10, signal.SIGTERM)]


@pytest.mark.parametrize("args", [(), ("--node-id", "4")])
def test_of_several_none_is_stopped_without_all(
    machine: Machine,
    homes: list[Path],
    sent: list[tuple[int, int]],
    capfd: pytest.CaptureFixture[str],
    args: tuple[str, ...],
) -> None:
    machine.runs(10, *PYTHON, "server.properties", cwd=homes[0])
    machine.runs(20, *PYTHON, "--override", "broker.id=4", cwd=homes[1], holds=[homes[1] / ".lock"])
    assert stop(*args) == 1
    said = capfd.readouterr()
    assert (sent, said.out) == ([], "")
    assert said.err == (
        f"pk-server-stop: 2 brokers {'with id 4 ' if args else ''}run here, none was stopped:"
        f" pid 10 (id 4, server.properties, runs in {homes[0]});"
        f" pid 20 (id 4, no file, data in {homes[1]}, runs in {homes[1]})"
        " (--all stops them all, kill PID one of them)\n"
    )
    assert stop(*args, "--all") == 0
    assert sent == [(10, signal.SIGTERM), (20, signal.SIGTERM)]


def test_with_the_statuses_of_kafka_several_are_stopped_as_by_kafka(
    machine: Machine, sent: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.runs(10, *PYTHON)
    machine.runs(20, *PYTHON)
    monkeypatch.setenv("PK_COMPAT", "3.9")
    monkeypatch.setenv("SIGNAL", "INT")
    assert stop() == 0
    assert sent == [(10, signal.SIGINT), (20, signal.SIGINT)]


def test_another_users_broker_is_none_to_stop(
    machine: Machine, sent: list[tuple[int, int]], capfd: pytest.CaptureFixture[str]
) -> None:
    machine.runs(FOREIGN, *PYTHON)
    assert stop() == 1
    said = capfd.readouterr()
    assert said.out == "No kafka server to stop\n"
    assert said.err == "another user's, which only that user or root can stop: pid 66\n"
    machine.runs(10, *PYTHON)
    assert stop() == 0
    assert sent == [(10, signal.SIGTERM)]


def test_no_broker_is_a_controller_alone(machine: Machine, sent: list[tuple[int, int]]) -> None:
    machine.runs(10, *PYTHON)
    assert stop("--process-role", "controller") == 1
    assert stop("--process-role", "broker") == 0
    assert sent == [(10, signal.SIGTERM)]


def test_an_empty_signal_is_that_of_nobody(
    machine: Machine, sent: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.runs(10, *PYTHON)
    monkeypatch.setenv("SIGNAL", "")
    assert stop() == 0
    assert sent == [(10, signal.SIGTERM)]
    monkeypatch.setenv("SIGNAL", "NOPE")
    assert stop() == 1


def test_without_proc_it_says_where_the_id_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pkafka.tools.servers.processes._PROC", tmp_path / "none")
    assert stop() == 1
    assert "no /proc to find servers in (pkafka.pid in the first log directory" in capfd.readouterr().err


def test_zookeepers_are_stopped_alike(
    machine: Machine, homes: list[Path], sent: list[tuple[int, int]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert zookeeper_main.run([]) == 1
    assert capfd.readouterr().out == "No zookeeper server to stop\n"
    machine.runs(10, *ZOOKEEPER, "zookeeper.properties", cwd=homes[0])
    assert zookeeper_main.run([]) == 0
    machine.runs(20, *ZOOKEEPER, "zookeeper.properties", cwd=homes[1])
    assert zookeeper_main.run([]) == 1
    assert capfd.readouterr().err == (
        "pk-zookeeper-server-stop: 2 ZooKeeper servers run here, none was stopped:"
        f" pid 10 (zookeeper.properties, runs in {homes[0]});"
        f" pid 20 (zookeeper.properties, runs in {homes[1]}) (--all stops them all, kill PID one of them)\n"
    )
    assert zookeeper_main.run(["--all"]) == 0
    assert [pid for pid, _ in sent] == [10, 10, 20]
