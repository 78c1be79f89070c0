"""Processes in which a worker's connectors and tasks run: whatever ends one of them, nothing else ends."""

import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.connect_workers import START_TIMEOUT_S, ConnectWorker, distributed, line_sink, line_source
from tests.raw_client import new_topic_name
from tests.talk import wait_for

PATIENCE_S = START_TIMEOUT_S
PLUGINS = """
import ctypes, os, threading
from pkafka.connect.connector import SourceConnector, SourceTask

class Task(SourceTask):
    def start(self, configs):
        self.how = configs["how"]
        if self.how == "exits":
            os._exit(3)
        if self.how == "crashes":
            ctypes.string_at(0)
    def poll(self):
        if self.how == "hangs":
            threading.Event().wait()
        if self.how == "computes":
            sum(range(1_000_000))
            return None
        return None if self.context.wait(0.05) else None
    def stop(self):
        pass

class Misbehaving(SourceConnector):
    task_class = Task
    def start(self, configs):
        self.configs = dict(configs)
    def task_configs(self, tasks_max):
        return [self.configs] * tasks_max
    def stop(self):
        pass
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers find the plug-ins from now on."""
    directory = tmp_path_factory.mktemp("plugins")
    (directory / "misbehaving_host.py").write_text(PLUGINS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{directory}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield


@pytest.fixture(scope="module")
def worker(
    broker: Broker, plugins: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectWorker]:
    settings = {"task.shutdown.graceful.timeout.ms": "1000"}
    group = f"{new_topic_name()}-hosts"
    with distributed(tmp_path_factory.mktemp("connect"), broker.bootstrap, group, 1, settings) as workers:
        yield workers[0]


def hosts(worker: ConnectWorker) -> list[psutil.Process]:
    """The processes of a worker's tasks."""
    found = []
    for process in psutil.Process(worker.pid).children(recursive=True):
        try:
            if process.name() == "pk-connect-host" and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def put(worker: ConnectWorker, how: str, tasks: int = 1) -> str:
    name = new_topic_name()
    worker.create(
        {
            "name": name,
            "connector.class": "misbehaving_host.Misbehaving",
            "tasks.max": str(tasks),
            "how": how,
        }
    )
    return name


def delete(worker: ConnectWorker, *names: str) -> None:
    for name in names:
        wait_for(partial(answers, worker, "DELETE", f"/connectors/{name}", 204), timeout_s=PATIENCE_S)
        wait_for(partial(answers, worker, "GET", f"/connectors/{name}/status", 404), timeout_s=PATIENCE_S)


def answers(worker: ConnectWorker, method: str, path: str, status: int) -> bool:
    return worker.rest.call(method, path).status == status


def trace(worker: ConnectWorker, name: str) -> str:
    return str(worker.rest.call("GET", f"/connectors/{name}/status").body["tasks"][0]["trace"])


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values of the committed records."""
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        end = consumer.end_offsets([place])[place]
        found: list[bytes | None] = []
        while consumer.position(place) < end:
            found += [each.value for each in consumer.poll(1_000)]
        return found


def has_hosts(worker: ConnectWorker, count: int) -> bool:
    return len(hosts(worker)) == count


def has_records(broker: Broker, topic: str, least: int) -> bool:
    return len(committed(broker.bootstrap, topic)) >= least


def has_line(path: Path, line: str) -> bool:
    return path.exists() and line in path.read_text().splitlines()


@pytest.mark.parametrize(
    ("how", "said"),
    [("exits", "has ended with exit code 3"), ("crashes", "was ended by signal 11 (SIGSEGV)")],
)
def test_a_task_that_ends_its_process_fails_and_harms_no_other(
    worker: ConnectWorker, how: str, said: str
) -> None:
    innocent = put(worker, "behaves", 3)
    worker.rest.wait_until(innocent, "RUNNING", *["RUNNING"] * 3)
    culprit = put(worker, how)
    wait_for(lambda: worker.rest.state(culprit) == ("RUNNING", ("FAILED",)), timeout_s=PATIENCE_S)
    assert trace(worker, culprit).startswith(
        f"org.apache.kafka.connect.errors.ConnectException: The process in which this ran {said}. It was started"
        " again 3 times in 10 minutes (pkafka.connect.restart.max)"
    )
    worker.rest.wait_until(innocent, "RUNNING", *["RUNNING"] * 3)
    restarted = worker.rest.call("POST", f"/connectors/{culprit}/tasks/0/restart")
    assert restarted.status == 204, restarted  # it may try again, and ends again
    wait_for(lambda: worker.rest.state(culprit) == ("RUNNING", ("FAILED",)), timeout_s=PATIENCE_S)
    delete(worker, culprit)
    worker.rest.wait_until(innocent, "RUNNING", *["RUNNING"] * 3)
    delete(worker, innocent)
    assert ("Fatal Python error: Segmentation fault" in worker.log.read_text()) >= (how == "crashes")


def test_a_task_that_ignores_its_end_is_killed_with_its_process(worker: ConnectWorker) -> None:
    hanging = put(worker, "hangs", 2)
    worker.rest.wait_until(hanging, "RUNNING", "RUNNING", "RUNNING")
    neighbours = put(worker, "behaves", 4)
    worker.rest.wait_until(neighbours, "RUNNING", *["RUNNING"] * 4)
    delete(worker, hanging)
    assert worker.rest.state(neighbours) == ("RUNNING", ("RUNNING",) * 4)
    spoiled = {
        int(found) for found in re.findall(r"process (\d+) takes no more work", worker.log.read_text())
    }
    assert spoiled
    again = put(worker, "behaves")
    worker.rest.wait_until(again, "RUNNING", "RUNNING")
    delete(worker, neighbours, again)
    wait_for(lambda: spoiled.isdisjoint(process.pid for process in hosts(worker)), timeout_s=PATIENCE_S)
    assert worker.rest.call("GET", f"/connectors/{hanging}/status").status == 404


def test_no_line_is_lost_when_processes_are_killed(
    worker: ConnectWorker, broker: Broker, tmp_path: Path
) -> None:
    topic, lines = new_topic_name(), tmp_path / "in.txt"
    expected = [str(number).encode() for number in range(6_000)]
    lines.write_bytes(b"".join(line + b"\n" for line in expected[:3_000]))
    worker.create(line_source(topic, lines, batch_size="20"))
    for kill in range(2):
        wait_for(partial(has_records, broker, topic, 3_000 * kill + 20), timeout_s=PATIENCE_S)
        for process in hosts(worker):
            process.kill()
        if not kill:
            with lines.open("ab") as file:
                file.writelines(line + b"\n" for line in expected[3_000:])
    wait_for(lambda: set(committed(broker.bootstrap, topic)) == set(expected), timeout_s=PATIENCE_S)
    worker.rest.wait_until(f"{topic}-source", "RUNNING", "RUNNING")
    labels = f'{{connector="{topic}-source",task="0"}}'
    page = str(worker.rest.call("GET", "/metrics").body)
    assert f"kafka_connect_source_task_metrics_source_record_write_total{labels}" in page
    assert worker.rest.call("GET", f"/connectors/{topic}-source/topics").body[f"{topic}-source"] == {
        "topics": [topic]
    }
    delete(worker, f"{topic}-source")


@pytest.mark.nightly
def test_a_sink_goes_on_when_processes_are_killed(
    worker: ConnectWorker, broker: Broker, tmp_path: Path
) -> None:
    topic, lines, found = new_topic_name(), tmp_path / "in.txt", tmp_path / "out.txt"
    expected = [str(number) for number in range(6_000)]
    lines.write_text("".join(f"{line}\n" for line in expected[:2_000]))
    worker.create(line_source(topic, lines, batch_size="20"))
    # The group misses the consumer of a task that was killed only when its session is over.
    worker.create(line_sink(topic, found, consumer_override_session_timeout_ms="6000"))
    for kill in range(2):
        wait_for(partial(has_line, found, expected[2_000 * kill + 10]), timeout_s=PATIENCE_S)
        for process in hosts(worker):
            process.kill()
        with lines.open("a") as file:
            file.writelines(f"{line}\n" for line in expected[2_000 * (kill + 1) : 2_000 * (kill + 2)])
    wait_for(lambda: set(expected) <= set(found.read_text().splitlines()), timeout_s=PATIENCE_S)
    worker.rest.wait_until(f"{topic}-sink", "RUNNING", "RUNNING")
    delete(worker, f"{topic}-source", f"{topic}-sink")


@pytest.mark.nightly  # it takes two looks of five seconds, and cores that are free
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one process at most")
def test_tasks_of_a_busy_process_move_to_another_one_and_no_line_is_lost_or_doubled(
    broker: Broker, plugins: None, tmp_path: Path
) -> None:
    topics = [new_topic_name() for _ in range(2)]
    expected = [str(number).encode() for number in range(20_000)]
    with distributed(tmp_path, broker.bootstrap, f"{topics[0]}-busy", 1) as (worker,):
        for topic in topics:
            (tmp_path / topic).touch()
            worker.create(line_source(topic, tmp_path / topic, batch_size="20"))
        busy = put(worker, "computes", 2)
        worker.rest.wait_until(busy, "RUNNING", "RUNNING", "RUNNING")
        assert len(hosts(worker)) == 1
        files = [(tmp_path / topic).open("ab", buffering=0) for topic in topics]
        for start in range(0, len(expected), 100):
            for file in files:
                file.write(b"".join(line + b"\n" for line in expected[start : start + 100]))
            if start == len(expected) // 2:
                wait_for(lambda: len(hosts(worker)) == 2, timeout_s=PATIENCE_S)
        for file in files:
            file.close()
        for topic in topics:
            wait_for(partial(has_records, broker, topic, len(expected)), timeout_s=PATIENCE_S)
            assert committed(broker.bootstrap, topic) == expected
            worker.rest.wait_until(f"{topic}-source", "RUNNING", "RUNNING")
        worker.rest.wait_until(busy, "RUNNING", "RUNNING", "RUNNING")
        delete(worker, busy)


def test_levels_of_loggers_reach_processes_that_come_later(worker: ConnectWorker) -> None:
    logger = "org.apache.kafka.connect.runtime.WorkerTask"
    assert worker.rest.call("PUT", f"/admin/loggers/{logger}", {"level": "DEBUG"}).status == 200
    for process in hosts(worker):
        process.kill()
    name = put(worker, "behaves")
    worker.rest.wait_until(name, "RUNNING", "RUNNING")
    delete(worker, name)
    assert worker.rest.call("PUT", f"/admin/loggers/{logger}", {"level": "INFO"}).status == 200


def test_processes_end_with_a_worker_that_is_killed(broker: Broker, tmp_path: Path) -> None:
    topic = new_topic_name()
    (tmp_path / "in.txt").write_text("a\n")
    with distributed(tmp_path, broker.bootstrap, topic, 1) as workers:
        worker = workers[0]
        worker.create(line_source(topic, tmp_path / "in.txt"))
        worker.rest.wait_until(f"{topic}-source", "RUNNING", "RUNNING")
        children = psutil.Process(worker.pid).children(recursive=True)
        assert hosts(worker)
        worker.kill()
        gone, alive = psutil.wait_procs(children, timeout=60)
        assert (len(gone), alive) == (len(children), [])


@pytest.mark.nightly
def test_a_worker_that_can_make_no_more_processes_ends(broker: Broker, tmp_path: Path) -> None:
    with distributed(tmp_path, broker.bootstrap, new_topic_name(), 1) as workers:
        worker = workers[0]
        (maker,) = psutil.Process(worker.pid).children()
        maker.kill()
        wait_for(lambda: not psutil.pid_exists(maker.pid) or maker.status() == psutil.STATUS_ZOMBIE)
        assert worker.wait() == 1
        assert "The process that makes those of connectors and tasks has ended" in worker.log.read_text()


def test_there_are_no_processes_where_none_are_wanted(broker: Broker, tmp_path: Path) -> None:
    topic = new_topic_name()
    (tmp_path / "in.txt").write_text("a\n")
    with distributed(tmp_path, broker.bootstrap, topic, 1, {"pkafka.connect.hosts": "0"}) as workers:
        worker = workers[0]
        worker.create(line_source(topic, tmp_path / "in.txt"))
        worker.rest.wait_until(f"{topic}-source", "RUNNING", "RUNNING")
        assert psutil.Process(worker.pid).children(recursive=True) == []


def test_lines_are_in_kafka_exactly_once_when_processes_are_killed(broker: Broker, tmp_path: Path) -> None:
    topic, lines = new_topic_name(), tmp_path / "in.txt"
    expected = [str(number).encode() for number in range(1_500)]

    def more(first: int, behind: int) -> None:
        with lines.open("ab") as file:
            file.writelines(line + b"\n" for line in expected[first:behind])

    settings = {"exactly.once.source.support": "enabled", "pkafka.connect.hosts": "1"}
    more(0, 500)
    with distributed(tmp_path, broker.bootstrap, topic, 1, settings) as workers:
        worker = workers[0]
        worker.create(line_source(topic, lines, batch_size="20", exactly_once_support="required"))
        for kill in range(2):
            wait_for(partial(has_records, broker, topic, 500 * kill + 20), timeout_s=PATIENCE_S)
            # Suspects are parted: the connector and its task.
            wait_for(partial(has_hosts, worker, 2 if kill else 1), timeout_s=PATIENCE_S)
            for process in hosts(worker):
                process.kill()
            more(500 * (kill + 1), 500 * (kill + 2))
        wait_for(partial(has_records, broker, topic, len(expected)), timeout_s=PATIENCE_S)
        assert committed(broker.bootstrap, topic) == expected
        for process in hosts(worker):  # as a terminal does, which sends it to all
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        worker.rest.wait_until(f"{topic}-source", "RUNNING", "RUNNING")
        children = psutil.Process(worker.pid).children(recursive=True)
        assert worker.stop() == 0
        assert psutil.wait_procs(children, timeout=60)[1] == []
        assert "takes no more work" not in worker.log.read_text()
