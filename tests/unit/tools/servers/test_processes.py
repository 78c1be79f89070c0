"""Servers are found by the programs that run, and asked about themselves; the family of a broker counts once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.tools.servers import processes
from tests.fakes.machine import Machine, machine

__all__ = ["machine"]

GOOD = "#\n#Mon Jan 01 00:00:00 UTC 2024\nbroker.id=1007\nversion=0\ncluster.id=x\n"


def brokers() -> list[int]:
    return [each.pid for each in processes.find_brokers()]


def test_a_broker_is_its_supervisor_alone(machine: Machine) -> None:
    command = ("python3", "/bin/pk-server-start", "server.properties")
    machine.runs(10, *command, name="a (strange) name")
    machine.runs(11, *command, parent=10)
    machine.runs(12, *command, parent=10)
    machine.runs(20, "python3", "-m", "pkafka.cli.server_start")
    machine.runs(31)  # a zombie
    assert brokers() == [10, 20]


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("/venv/bin/python3 /venv/bin/pk-server-start s.properties", ("s.properties",)),
        ("pypy3 -I -Xdev -W error -um pkafka.cli.server_start --daemon", ("--daemon",)),
        ("python3 -mpkafka.cli.server_start a b", ("a", "b")),
        ("python3 --check-hash-based-pycs=never pk-server-start", ()),
        ("/opt/pk-server-start s.properties", ("s.properties",)),
        ("vim pk-server-start", None),
        ("man pk-server-start", None),
        ("timeout 60 pk-server-start", None),
        ("python3 -c pk-server-start", None),
        ("python3 -m pytest pk-server-start", None),
        ("python3 backup.py pk-server-start", None),
        ("python3 my-pk-server-start", None),
        ("python3", None),
        ("python3 -X", None),
    ],
)
def test_a_broker_is_known_by_the_program_that_runs(
    machine: Machine, words: str, arguments: tuple[str, ...] | None
) -> None:
    machine.runs(10, *words.split())
    assert [each.arguments for each in processes.find_brokers()] == ([] if arguments is None else [arguments])


def test_who_waits_for_a_daemon_is_no_broker(machine: Machine) -> None:
    command = ("python3", "pk-server-start", "--daemon", "--wait")
    machine.runs(10, *command, session=5)
    machine.runs(11, *command, parent=10, session=11)
    machine.runs(12, *command, parent=11, session=11)
    assert brokers() == [11]


def test_what_a_container_runs_is_not_of_this_machine(machine: Machine) -> None:
    machine.runs(10, "python3", "pk-server-start", container="pid:[2]")
    machine.runs(11, "python3", "pk-server-start")
    assert brokers() == [11]


def test_files_are_read_as_the_broker_would(machine: Machine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "s.properties").write_text("of home")
    machine.runs(10, "python3", "pk-server-start", "s.properties", cwd=home)
    (broker,) = processes.find_brokers()
    assert broker.directory == str(home)
    assert broker.read("s.properties") == broker.read(home / "s.properties") == b"of home"
    with pytest.raises(FileNotFoundError):
        broker.read("t.properties")


def test_the_id_is_that_of_the_directories_that_it_has_locked(machine: Machine, tmp_path: Path) -> None:
    for name, text in (("a", None), ("b", "version=9"), ("c", "version=0\nbroker.id=-1"), ("d", GOOD)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "meta.properties").write_text(text)
    locks = [tmp_path / name / ".lock" for name in "abcd"]
    machine.runs(10, "python3", "pk-server-start", holds=[Path("socket:[5]"), Path("/dev/null"), *locks])
    machine.runs(11, "python3", "pk-server-start", holds=locks[:3])
    machine.runs(12, "python3", "pk-server-start")
    found = processes.find_brokers()
    assert found[0].log_directories() == [str(tmp_path / name) for name in "abcd"]
    assert [each.stored_broker_id() for each in found] == [1007, None, None]


def test_a_zookeeper_is_found_by_its_main_class(machine: Machine) -> None:
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    machine.runs(10, "/usr/bin/java", "-cp", "x", main, "z.properties")
    machine.runs(20, "java", "kafka.Kafka")
    machine.runs(30, "grep", main)
    assert [(each.pid, each.arguments) for each in processes.find_zookeepers()] == [(10, ("z.properties",))]


def test_a_server_of_another_user_cannot_be_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(pid: int, _number: int) -> None:
        if pid == 1:
            raise PermissionError
        if pid == 2:
            raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    servers = [processes.Server(pid, (), None) for pid in (1, 2, 3)]
    assert [each.may_be_signalled for each in servers] == [False, True, True]


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
