"""Taps as child processes: what they write is read, what they do wrong is told, and nothing of them is left behind."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from pkafka.connect.connectors import tap_guard, tap_process
from pkafka.connect.connectors.singer_source import SingerSourceTask
from pkafka.connect.connectors.tap_process import TapProcess
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.errors import ConnectError
from tests.talk import wait_for

TAP = Path(__file__).parents[1] / "singer_tap.py"
COMMAND = shlex.join([sys.executable, str(TAP)])


def until(condition: Callable[[], bool]) -> None:
    """Ask until it is so; each time waits for the tap."""
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s


def read_on(tap: TapProcess) -> None:
    """Read to the end."""
    while tap.status is None:
        tap.read(60)


class Setting:
    """A task with its worker's part played here."""

    def __init__(self, state: object, configs: Mapping[str, str]) -> None:
        self.now_s = 1_000.0
        self.waits: list[float] = []
        self.task = SingerSourceTask(lambda: self.now_s)
        stored = None if state is None else {"state": json.dumps(state)}
        reader = SimpleNamespace(offset=lambda partition: stored if partition == {"tap": "numbers"} else None)
        self.task.initialize(cast(Any, SimpleNamespace(offset_reader=reader, wait=self._wait)))
        self.task.start({"tap.command": COMMAND, "tap.name": "numbers", **configs})

    def _wait(self, timeout_s: float) -> bool:
        self.waits.append(timeout_s)
        self.now_s += timeout_s
        return False

    def poll_until(self, count: int) -> list[SourceRecord]:
        """So many records, however many polls they take."""
        found: list[SourceRecord] = []

        def polled() -> bool:
            found.extend(self.task.poll() or ())
            return len(found) >= count

        until(polled)
        return found

    def fail(self) -> str:
        """What the task says when it fails."""
        said: list[str] = []

        def failed() -> bool:
            try:
                self.task.poll()
            except ConnectError as error:
                said.append(str(error))
            return bool(said)

        until(failed)
        return said[0]


@pytest.fixture
def setting() -> Iterator[Callable[..., Setting]]:
    made: list[Setting] = []

    def make(state: object = None, configs: Mapping[str, str] | None = None, **config: Any) -> Setting:
        made.append(Setting(state, {"tap.config": json.dumps(config), **(configs or {})}))
        return made[-1]

    yield make
    for each in made:
        each.task.stop()
        assert each.task._tap is None


def numbers(records: list[SourceRecord]) -> list[tuple[int, str | None]]:
    return [
        (each.value.get("number"), None if each.source_offset is None else str(each.source_offset["state"]))
        for each in records
    ]


def test_a_tap_is_run_again_from_the_state_that_it_said_last(setting: Callable[..., Setting]) -> None:
    found = setting(upto=3, every=2)
    assert numbers(found.poll_until(3)) == [(1, None), (2, '{"number":2}'), (3, '{"number":2}')]
    began_s = found.now_s
    assert numbers(found.poll_until(1)) == [(3, '{"number":2}')]
    assert found.now_s - began_s == pytest.approx(300)


def test_a_tap_begins_with_the_state_that_is_stored(setting: Callable[..., Setting]) -> None:
    assert numbers(setting({"number": 7}, upto=8).poll_until(1)) == [(8, '{"number":8}')]


def test_a_tap_gets_its_files(setting: Callable[..., Setting], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"upto": 1}')
    (tmp_path / "catalog.json").write_text('{"streams": [{"tap_stream_id": "other"}]}')
    found = setting(
        configs={
            "tap.config": '{"upto": 1}',
            "tap.catalog.file": str(tmp_path / "catalog.json"),
            "topic.prefix": "from-",
        }
    )
    assert found.poll_until(1)[0].topic == "from-other"


def test_many_records_come_through(setting: Callable[..., Setting]) -> None:
    found = setting(upto=5_000, every=100)
    assert [number for number, _state in numbers(found.poll_until(5_000))] == list(range(1, 5_001))


def test_a_tap_that_fails_is_told_with_its_last_words_once_its_records_are_sent(
    setting: Callable[..., Setting],
) -> None:
    found = setting(upto=2, then="fail")
    assert len(found.poll_until(2)) == 2
    assert found.fail() == "The tap numbers ended with status 1: the source is on fire"
    assert found.fail().startswith("The tap numbers ended"), "until the task is restarted"


def test_a_tap_that_is_killed_is_told(setting: Callable[..., Setting]) -> None:
    assert "ended with status 137" in setting(upto=0, then="crash").fail()


def test_a_tap_that_babbles_is_ended(setting: Callable[..., Setting]) -> None:
    found = setting(upto=1, then="babble")
    assert "what is no message of Singer: Traceback (most recent call last):" in found.fail()
    assert found.task._tap is None


def test_a_tap_that_says_nothing_is_ended_with_its_children(
    setting: Callable[..., Setting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap_process, "GRACE_S", 0.1)
    pids = tmp_path / "pids"
    found = setting(upto=0, then="hang", pids=str(pids), configs={"tap.silence.max.ms": "60000"})
    until(lambda: found.task.poll() is None and _written(pids))
    children = [psutil.Process(int(each)) for each in pids.read_text().split()]
    assert found.task._tap is not None
    found.task._tap.silent_s = 60.0
    assert "wrote nothing for 60000 ms" in found.fail()
    assert psutil.wait_procs(children, timeout=60)[1] == []


def _written(path: Path) -> bool:
    return path.exists() and len(path.read_text().split()) == 2


def test_waiting_for_a_tap_is_what_counts_as_its_silence(tmp_path: Path) -> None:
    now = iter([0.0, 5.0, 10.0, 17.0])
    tap = TapProcess("t", ["sleep", "3600"], {}, lambda: next(now))
    try:
        tap.read(0)
        tap.read(0)
        assert tap.silent_s == 12.0, "not the time between two reads"
    finally:
        tap.end()


def test_what_a_tap_leaves_behind_is_ended_too(setting: Callable[..., Setting], tmp_path: Path) -> None:
    mark = f"left by {tmp_path}"
    found = setting(upto=1, then="leave", mark=mark)
    found.poll_until(1)
    until(lambda: found.task.poll() is None and found.task._tap is None)
    wait_for(
        lambda: (
            not any(mark in " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"]))
        )
    )


def test_a_command_that_there_is_not_is_told(setting: Callable[..., Setting]) -> None:
    found = setting(configs={"tap.command": "no-such-tap --fast"})
    with pytest.raises(ConnectError, match="no command no-such-tap"):
        found.task.poll()


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap_process, "LINE_MAX", 100_000)
    tap = TapProcess("t", [sys.executable, "-c", "print('x' * 1000000)"], {})
    try:
        with pytest.raises(ConnectError, match="a line of more than 100000 bytes"):
            read_on(tap)
    finally:
        tap.end()


def test_settings_of_a_tap_are_removed_with_it_and_seen_by_nobody_else(tmp_path: Path) -> None:
    shown = "import os, sys; print(sys.argv[-1]); print(oct(os.stat(os.path.dirname(sys.argv[-1])).st_mode & 0o777))"
    tap = TapProcess("t", [sys.executable, "-c", shown], {"--config": "{}"})
    lines: list[bytes] = []
    while tap.status is None:
        lines += tap.read(60)
    tap.end()
    path, mode = lines
    assert (tap.status, mode) == (0, b"0o700")
    assert not Path(path.decode()).parent.exists()


HOLDER = """
import sys, time
from pkafka.connect.connectors import tap_guard, tap_process
tap_process.GRACE_S = 0.1
tap = tap_process.TapProcess("t", [sys.executable, *sys.argv[1:]], {"--config": sys.stdin.read()})
while True:
    tap.read(1)
"""


def test_a_worker_that_is_killed_leaves_no_tap_behind(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    config = json.dumps({"upto": 0, "then": "hang", "pids": str(pids)})
    worker = subprocess.Popen([sys.executable, "-c", HOLDER, str(TAP)], stdin=subprocess.PIPE)
    assert worker.stdin is not None
    worker.stdin.write(config.encode())
    worker.stdin.close()
    try:
        wait_for(lambda: _written(pids))
        processes = [psutil.Process(int(each)) for each in pids.read_text().split()]
        (directory,) = {Path(each).parent for each in processes[0].cmdline() if each.endswith("config.json")}
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(60)
    assert psutil.wait_procs(processes, timeout=60)[1] == []
    wait_for(lambda: not directory.exists())


def test_a_tap_begins_when_its_group_is_known(tmp_path: Path) -> None:
    """Otherwise a guard that is killed just then would leave it behind."""
    own = tmp_path / "own"
    own.mkdir()
    guard = [sys.executable, "-I", "-S", tap_guard.__file__, str(own), "1"]
    tap = ["sh", "-c", f"echo $$ && cat {own / tap_guard.PID}"]
    with subprocess.Popen(
        [*guard, *tap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, group = process.stdout.read().split("\n", 1)
    assert group == pid


def test_a_guard_that_is_killed_leaves_no_tap_behind(setting: Callable[..., Setting], tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    found = setting(upto=0, then="hang", pids=str(pids))
    until(lambda: found.task.poll() is None and _written(pids))
    taps = [psutil.Process(int(each)) for each in pids.read_text().split()]
    assert found.task._tap is not None
    os.kill(found.task._tap._process.pid, signal.SIGKILL)
    found.task.stop()
    assert psutil.wait_procs(taps, timeout=60)[1] == []
