"""A pipeline as a connector, and by the command: both do the same, and either goes on where the other stopped."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.cli.pipeline import main
from pkafka.connect.errors import ConnectError
from pkafka.java.properties import parse_properties
from pkafka.pipeline.connect_connector import PipelineConnector
from pkafka.pipeline.connect_task import PipelineTask
from pkafka.tools.servers.local_broker import Broker, running_broker
from tests.connect_workers import ConnectWorker, our_command
from tests.e2e.pipeline.conftest import RunCommand
from tests.e2e.pipeline.test_pipeline_examples import EXAMPLES, PAGE
from tests.spark import END_S, Sessions, of_program
from tests.talk import Talk, talking, wait_for

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker with the topics that the example names."""
    with running_broker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def orders(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        talk.create("orders")
        talk.create("copied-orders")
        talk.send("orders", b"1", b"2")
        yield talk


@pytest.fixture
def configs(broker: Broker, tmp_path: Path) -> dict[str, str]:
    """The connector that the page shows, with the example's file."""
    file = tmp_path / "copy.yaml"
    file.write_text(EXAMPLES["copy"])
    text = PAGE.read_text("utf-8").partition("```properties\n")[2].partition("```")[0]
    found = parse_properties(text)
    assert found["pipeline.file"] == file.name
    replaced = {"pipeline.file": str(file), "pipeline.set.servers": broker.bootstrap}
    return {**found, **replaced, "pipeline.set.state": str(tmp_path / "state"), "pipeline.master": "local[1]"}


def copied(talk: Talk) -> list[bytes | None]:
    return [record.value for record in talk.read("copied-orders")]


class Context:
    """What a task asks of its worker."""

    configs: Any = None
    offset_reader: Any = None
    transactions = None

    def __init__(self) -> None:
        self.stopping = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        return self.stopping.wait(timeout_s)


def poll_until(task: PipelineTask, is_so: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + END_S
    while not is_so():
        assert time.monotonic() < ends_s
        task.poll()


def started(configs: dict[str, str]) -> PipelineTask:
    task = PipelineTask()
    task.initialize(Context())
    task.start(configs)
    return task


def stopped(task: PipelineTask) -> None:
    """End a task; on a busy machine its stream takes longer than the task waits."""
    run = task._run
    task.stop()
    assert run is None or run.over.wait(END_S)


def test_either_way_goes_on_where_the_other_stopped(
    run_command: RunCommand, orders: Talk, configs: dict[str, str]
) -> None:
    connector = PipelineConnector()
    assert not [each.errors for each in connector.validate(configs) if each.errors]
    sets = [
        f"--set={name.removeprefix('pipeline.set.')}={value}"
        for name, value in configs.items()
        if name.startswith("pipeline.set.")
    ]
    run_command(main, "run", configs["pipeline.file"], *sets)
    assert copied(orders) == [b"1", b"2"]
    assert connector.own_offsets(configs) == [({"source": 0}, {"orders": {"0": 2}})]
    orders.send("orders", b"3")
    task = started(configs)
    poll_until(task, lambda: task._is_done)
    stopped(task)
    assert copied(orders) == [b"1", b"2", b"3"]
    orders.send("orders", b"4")
    run_command(main, "run", configs["pipeline.file"], *sets)
    assert copied(orders) == [b"1", b"2", b"3", b"4"]
    assert connector.own_offsets(configs) == [({"source": 0}, {"orders": {"0": 4}})]


def test_a_stream_pauses_and_goes_on(run_command: RunCommand, orders: Talk, configs: dict[str, str]) -> None:
    file = Path(configs["pipeline.file"])
    file.write_text(EXAMPLES["copy"].replace("available-now", "100ms"))
    task = started(configs)
    poll_until(task, lambda: len(copied(orders)) == 2)
    task.pause()
    orders.send("orders", b"3")
    assert copied(orders) == [b"1", b"2"]
    poll_until(task, lambda: len(copied(orders)) == 3)
    stopped(task)
    assert copied(orders) == [b"1", b"2", b"3"]


def test_what_spark_does_not_understand_is_told(
    run_command: RunCommand, orders: Talk, configs: dict[str, str]
) -> None:
    file = Path(configs["pipeline.file"])
    file.write_text(EXAMPLES["copy"].replace("sink:", "steps: [{sql: select worth from source}]\nsink:"))
    (error,) = [text for each in PipelineConnector().validate(configs) for text in each.errors]
    assert "copy.yaml, line 13: " in error
    assert "`worth` cannot be resolved" in error
    task = started(configs)
    with pytest.raises(ConnectError, match="`worth` cannot be resolved"):
        poll_until(task, lambda: False)


@pytest.mark.nightly
def test_a_worker_runs_it(
    spark_sessions: Sessions, broker: Broker, orders: Talk, configs: dict[str, str], tmp_path: Path
) -> None:
    spark_sessions.end()
    file = Path(configs["pipeline.file"])
    file.write_text(EXAMPLES["copy"].replace("available-now", "100ms"))
    configs["connector.class"] = "pkafka.pipeline.connect_connector.PipelineConnector"
    worker = ConnectWorker(
        our_command(), tmp_path / "worker", broker.bootstrap, environment=of_program(tmp_path / "spark")
    )
    try:
        worker.start()
        wrong = {**configs, "pipeline.set.stat": "x"}
        refused = worker.rest.call("POST", "/connectors", {"name": "copy", "config": wrong})
        assert refused.status == 400
        assert "there is no parameter stat (did you mean state?)" in refused.body["message"]
        worker.create(configs)
        wait_for(lambda: len(copied(orders)) == 2, timeout_s=END_S)
        assert worker.rest.state("copy") == ("RUNNING", ("RUNNING",))
        worker.rest.call("PUT", "/connectors/copy/pause")
        wait_for(lambda: worker.rest.state("copy") == ("PAUSED", ("PAUSED",)), timeout_s=END_S)
        shown = worker.rest.call("GET", "/connectors/copy/offsets").body
        offset = {"partition": {"source": 0}, "offset": {"orders": {"0": 2}}}
        assert shown == {"offsets": [offset]}
        worker.rest.call("PUT", "/connectors/copy/stop")
        wait_for(lambda: worker.rest.state("copy") == ("STOPPED", ()), timeout_s=END_S)
        patched = worker.rest.call("PATCH", "/connectors/copy/offsets", shown)
        assert (patched.status, "but not set" in json.dumps(patched.body)) == (400, True)
        assert worker.rest.call("DELETE", "/connectors/copy/offsets").status == 200
        assert worker.rest.call("GET", "/connectors/copy/offsets").body == {"offsets": []}
        assert worker.stop() == 0
    finally:
        worker.close()
