"""Connectors that raise, hang and exit: each is its own worst problem, and the worker goes on with the others."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.testing import Broker
from tests.connect_workers import ConnectWorker, standalone
from tests.raw_client import new_topic_name
from tests.talk import wait_for

PLUGINS = """
import sys, threading
from pkafka.connect.connector import SourceConnector, SourceTask

class Task(SourceTask):
    def start(self, configs):
        self.how = configs["how"]
        self.act("task start")
    def poll(self):
        self.act("poll")
        return None if self.context.wait(0.05) else None
    def stop(self):
        self.act("task stop")
    def act(self, where):
        act(self.how, where)

class Misbehaving(SourceConnector):
    task_class = Task
    def start(self, configs):
        self.configs = dict(configs)
        act(configs["how"], "start")
    def task_configs(self, tasks_max):
        act(self.configs["how"], "task configs")
        count = tasks_max + 1 if self.configs["how"] == "too many tasks" else tasks_max
        return [self.configs] * count
    def stop(self):
        act(self.configs["how"], "stop")

def act(how, where):
    if how == f"raises in {where}":
        raise RuntimeError(f"an odd connector {where}")
    if how == f"exits in {where}":
        sys.exit(3)
    if how == f"hangs in {where}":
        threading.Event().wait()
"""


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    directory = tmp_path_factory.mktemp("plugins")
    (directory / "misbehaving.py").write_text(PLUGINS)
    (directory / "broken.py").write_text("import nothing_like_this\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{directory}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        settings = {"task.shutdown.graceful.timeout.ms": "300"}
        with standalone(tmp_path_factory.mktemp("connect"), broker.bootstrap, settings) as worker:
            yield worker


def configs(how: str, name: str | None = None) -> dict[str, str]:
    return {
        "name": name or new_topic_name(),
        "connector.class": "misbehaving.Misbehaving",
        "how": how,
    }


def put(worker: ConnectWorker, how: str) -> str:
    whole = configs(how)
    answer = worker.rest.call("POST", "/connectors", {"name": whole["name"], "config": whole})
    assert answer.status == 201, answer
    return whole["name"]


@pytest.mark.parametrize(
    ("how", "state", "task"),
    [
        ("raises in start", "FAILED", None),
        ("exits in start", "FAILED", None),
        ("raises in task configs", "FAILED", None),
        ("exits in task configs", "FAILED", None),
        ("too many tasks", "FAILED", None),
        ("raises in task start", "RUNNING", "FAILED"),
        ("exits in task start", "RUNNING", "FAILED"),
        ("raises in poll", "RUNNING", "FAILED"),
        ("exits in poll", "RUNNING", "FAILED"),
        ("raises in stop", "RUNNING", "RUNNING"),
        ("raises in task stop", "RUNNING", "RUNNING"),
        ("hangs in poll", "RUNNING", "RUNNING"),
        ("hangs in stop", "RUNNING", "RUNNING"),
        ("hangs in task stop", "RUNNING", "RUNNING"),
    ],
)
def test_what_a_connector_does_is_its_own_state(
    worker: ConnectWorker, how: str, state: str, task: str | None
) -> None:
    name = put(worker, how)
    worker.rest.wait_until(name, state, *([] if task is None else [task]))
    if "FAILED" in (state, task):
        status = worker.rest.call("GET", f"/connectors/{name}/status").body
        trace = (status["connector"] if task is None else status["tasks"][0])["trace"]
        said = {"raises": "an odd connector", "exits": "exit", "too": "greater than 1"}[how.split()[0]]
        assert said in trace.partition("\n")[0].lower() or "SystemExit" in trace
    assert worker.rest.call("DELETE", f"/connectors/{name}").status == 204
    assert worker.rest.call("GET", f"/connectors/{name}/status").status == 404


def test_one_that_hangs_holds_up_no_other(worker: ConnectWorker) -> None:
    hanging = configs("hangs in start")
    body = {"name": hanging["name"], "config": hanging}
    threading.Thread(target=lambda: _ignored(worker, body), daemon=True).start()
    wait_for(lambda: hanging["name"] in worker.rest.call("GET", "/connectors").body)
    began_s = time.monotonic()
    name = put(worker, "behaves")
    worker.rest.wait_until(name, "RUNNING", "RUNNING")
    assert (
        worker.rest.call("GET", f"/connectors/{hanging['name']}/status").body["connector"]["state"]
        == "UNASSIGNED"
    )
    assert worker.rest.call("DELETE", f"/connectors/{name}").status == 204
    assert time.monotonic() - began_s < 60


def _ignored(worker: ConnectWorker, body: object) -> None:
    with contextlib.suppress(OSError):  # the worker ends before it is answered
        worker.rest.call("POST", "/connectors", body)


def test_a_plug_in_that_cannot_be_imported_is_told(worker: ConnectWorker) -> None:
    body = {"name": "broken", "config": {"name": "broken", "connector.class": "broken.Connector"}}
    answer = worker.rest.call("POST", "/connectors", body)
    assert answer.status == 500
    assert answer.body["message"].startswith(
        "Failed to find any class that implements Connector and which name matches"
    )


def test_bodies_that_are_too_large_or_odd_are_refused(worker: ConnectWorker) -> None:
    # No more than shows it: who hears of it before all is sent hears of a connection that breaks.
    assert worker.rest.call("POST", "/connectors", raw=b" " * ((16 << 20) + 1)).status == 413
    for raw in (
        b"[" * 100_000,
        b'{"name": 1e999}',
        b"\xff\xfe",
        b'{"name":"x","config":{"a":{}}}',
        b'"text"',
    ):
        assert worker.rest.call("POST", "/connectors", raw=raw).status in (400, 500)
    assert worker.rest.call("GET", "/health").status == 200


def test_a_worker_with_connectors_that_hang_ends_all_the_same(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "misbehaving.py").write_text(PLUGINS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        settings = {"task.shutdown.graceful.timeout.ms": "300"}
        with standalone(tmp_path / "worker", broker.bootstrap, settings) as worker:
            for how in ("hangs in poll", "hangs in stop", "hangs in task stop", "behaves"):
                worker.rest.wait_until(put(worker, how), "RUNNING", "RUNNING")
            assert worker.end(signal.SIGTERM) == 0
