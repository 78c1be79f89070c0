"""Servers are found by their command lines; the family of a broker counts once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.tools import processes


class Machine:
    """A /proc with the processes that a test puts into it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        (root / "meminfo").write_text("not a process")
        (root / "self").mkdir()

    def runs(self, pid: int, *arguments: str, parent: int = 1, name: str = "python") -> None:
        folder = self._root / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in arguments))
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {pid} 0 -1")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    root = tmp_path / "proc"
    root.mkdir()
    monkeypatch.setattr(processes, "_PROC", root)
    return Machine(root)


def test_a_broker_is_its_supervisor_alone(machine: Machine) -> None:
    command = ("python3", "/bin/pk-server-start", "server.properties")
    machine.runs(10, *command, name="a (strange) name")
    machine.runs(11, *command, parent=10)
    machine.runs(12, *command, parent=10)
    machine.runs(20, "python3", "-m", "pkafka.cli.server_start")
    machine.runs(30, "vim", "a", "b", "c", "pk-server-start")
    machine.runs(31)  # a zombie
    assert processes.find_brokers() == [10, 20]


def test_a_broker_is_found_by_its_id_in_overrides_and_file(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "s.properties"
    file.write_text("# broker.id=1\nbroker.id = 4\n")
    machine.runs(10, "python3", "pk-server-start", str(file))
    machine.runs(20, "python3", "pk-server-start", str(file), "--override", "broker.id=5")
    machine.runs(30, "python3", "pk-server-start", "--override", "node.id=6")
    machine.runs(40, "python3", "pk-server-start", "gone.properties")
    found = {node: processes.find_brokers(node_id=node) for node in (1, 4, 5, 6)}
    assert found == {1: [], 4: [10], 5: [20], 6: [30]}


def test_a_zookeeper_is_found_by_its_main_class(machine: Machine) -> None:
    machine.runs(10, "java", "-cp", "x", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "z.properties")
    machine.runs(20, "java", "kafka.Kafka")
    assert processes.find_zookeepers() == [10]


def test_running_means_this_command_line(machine: Machine) -> None:
    machine.runs(10, "python3", "--ready-file", "/tmp/one/ready")
    machine.runs(11)
    assert processes.is_running(10, "/tmp/one")
    assert not processes.is_running(10, "/tmp/two")
    assert not processes.is_running(11, "/tmp/one")
    assert not processes.is_running(12, "/tmp/one")


def test_without_proc_a_process_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    assert processes.is_running(os.getpid(), "whatever")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert not processes.is_running(gone.pid, "whatever")


@pytest.mark.parametrize("name", ["TERM", "SIGTERM", "term", "15"])
def test_signals_have_the_names_of_kill(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        sent.append((pid, number))
        if pid == 7:
            raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    processes.send_signal([7, 8], name)
    assert sent == [(7, signal.SIGTERM), (8, signal.SIGTERM)]


def test_an_unknown_signal_is_refused() -> None:
    with pytest.raises(ValueError, match="no signal NOPE"):
        processes.send_signal([], "NOPE")
