"""Workers of a Connect cluster that are killed, stopped and cut off, and the laws that must hold all the while.

The tasks of a source count; each record says which number it is and which run of the task wrote it, so that the topic
tells who had a task when.
"""

import contextlib
import itertools
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from pkafka.clients.consumer import Consumer, ConsumerRecord
from pkafka.model import TopicPartition
from tests.connect_workers import TEXT, ConnectWorker, cluster_settings, our_distributed_command
from tests.talk import wait_for

PLUGINS: Final = """
import os, uuid
from pkafka.connect.connector import SourceConnector, SourceTask
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema

class Task(SourceTask):
    def start(self, configs):
        self.number = int(configs["task.number"])
        self.topic = configs["topic"]
        stored = self.context.offset_reader.offset({"task": self.number})
        self.next = 0 if stored is None else stored["next"]
        self.run = f'{os.environ["HERD_WORKER"]}-{uuid.uuid4().hex}'

    def poll(self):
        if self.context.wait(0.02):
            return None
        records = []
        for _ in range(3):
            value = f"{self.next} {self.run}"
            self.next += 1
            records.append(SourceRecord(
                self.topic, self.number, None, None, Schema.STRING, value,
                source_partition={"task": self.number}, source_offset={"next": self.next},
            ))
        return records

    def stop(self):
        pass

class Counting(SourceConnector):
    task_class = Task

    def start(self, configs):
        self.configs = dict(configs)

    def task_configs(self, tasks_max):
        return [{**self.configs, "task.number": str(number)} for number in range(tasks_max)]

    def supports_exactly_once(self, configs):
        return True
"""

_LEADER: Final = re.compile(r'_leader_name\{leader_name="http://127\.0\.0\.1:(\d+)/?"\}')
SETTLED_S: Final = 90.0
"""How long to wait for the truth on a busy machine; alone it is there within 10 s after a session has ended."""
COMPACTED: Final = {
    f"{kind}.storage.{name}": value
    for kind in ("config", "offset", "status")
    for name, value in (
        ("segment.bytes", "1500"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("delete.retention.ms", "0"),
        ("max.compaction.lag.ms", "1000"),
    )
}
"""Internal topics in many small segments, which the cleaner goes over again and again."""
CLEANING: Final = {"log.cleaner.backoff.ms": 200, "log.retention.check.interval.ms": 1_000}
"""Settings of brokers for that."""


class Gate:
    """A way to a broker that can be shut: what is on its way then arrives when it is opened again.

    Args:
        port: of the broker.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._begin(self._accept)

    def shut(self) -> None:
        """Let nothing through."""
        self._open.clear()

    def open(self) -> None:
        """Let everything through."""
        self._open.set()

    def _begin(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._sockets.append(client)
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                self._sockets.append(broker)
                self._begin(self._pass, client, broker)
                self._begin(self._pass, broker, client)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._open.wait()
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections."""
        self._open.set()
        for one in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Written(NamedTuple):
    """A record of a counting task."""

    number: int
    run: str
    """Of the task: ``port-id``, the port that of the worker."""

    @property
    def worker_id(self) -> str:
        return f"127.0.0.1:{self.run.partition('-')[0]}"


class Topic:
    """Reads what the tasks have written, each its own partition.

    Args:
        bootstrap: of the brokers.
        name: of the topic.
        partitions: as many as tasks.
        isolation: ``isolation.level`` of the reader.
    """

    def __init__(self, bootstrap: str, name: str, partitions: int, isolation: str) -> None:
        self.written: list[list[Written]] = [[] for _ in range(partitions)]
        """By task, in the order of the log."""
        self._places = [TopicPartition(name, number) for number in range(partitions)]
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": isolation})
        self._consumer.assign(self._places)
        self._consumer.seek_to_beginning(self._places)

    def read(self) -> None:
        """Read to the end, as it is by now."""
        ends = self._consumer.end_offsets(self._places)
        while any(self._consumer.position(place) < end for place, end in ends.items()):
            for record in self._consumer.poll(500):
                number, _, run = (record.value or b"").decode().partition(" ")
                self.written[record.partition].append(Written(int(number), run))

    def close(self) -> None:
        self._consumer.close()


def latest(bootstrap: str, topic: str) -> dict[bytes | None, bytes | None]:
    """The last value of each key of a topic."""
    return {each.key: each.value for each in _all(bootstrap, topic)[0]}


def _counted(bootstrap: str, topic: str) -> tuple[int, int]:
    """How many records a topic has, and how many offsets."""
    records, offsets = _all(bootstrap, topic)
    return len(records), offsets


def _all(bootstrap: str, topic: str) -> tuple[list[ConsumerRecord], int]:
    """The records of a topic, partition by partition, and how many offsets it has."""
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        places = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic).partitions]
        consumer.assign(places)
        consumer.seek_to_beginning(places)
        ends = consumer.end_offsets(places)
        found: list[ConsumerRecord] = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += consumer.poll(500)
    return found, sum(ends.values())


class Herd:
    """Workers, the connectors that they run, and what is known of both.

    Args:
        directory: gets files.
        bootstraps: of each worker, by which it reaches the brokers.
        group: of the workers.
        topic: that the source writes; its partitions are as many as its tasks.
        tasks: of the source.
        settings: of the workers.
    """

    def __init__(
        self,
        directory: Path,
        bootstraps: Sequence[str],
        group: str,
        topic: str,
        tasks: int,
        settings: Mapping[str, str],
    ) -> None:
        self.group = group
        self.source, self.sink = f"{topic}-source", f"{topic}-sink"
        self.lines = directory / "lines.txt"
        self.is_exact = settings.get("exactly.once.source.support") == "enabled"
        self.sure = bootstraps[0]
        """Brokers as the tests reach them."""
        self.tasks = tasks
        self._topic = topic
        self._revision = itertools.count()
        directory.joinpath("counting.py").write_text(PLUGINS)
        self.workers: list[ConnectWorker] = []
        for number, bootstrap in enumerate(bootstraps):
            worker = ConnectWorker(
                our_distributed_command(),
                directory / f"worker-{number}",
                bootstrap,
                {**cluster_settings(group), **settings},
                {"PYTHONPATH": f"{directory}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
            )
            worker.set_variable("HERD_WORKER", str(worker.port))
            self.workers.append(worker)
        self.seen: Topic

    def start(self) -> None:
        """Start the workers, the first one to lead, and the connectors."""
        for worker in self.workers:
            worker.start()
        self.seen = Topic(
            self.sure,
            self._topic,
            self.tasks,
            "read_committed" if self.is_exact else "read_uncommitted",
        )
        self._create(self.workers[0], self.source_configs())
        self._create(
            self.workers[-1],
            {
                "name": self.sink,
                "connector.class": "FileStreamSink",
                "file": str(self.lines),
                "topics": self._topic,
                "value.converter": TEXT,
                "consumer.override.isolation.level": "read_committed",
                "consumer.override.auto.offset.reset": "earliest",
                "consumer.override.session.timeout.ms": "6000",
                "consumer.override.heartbeat.interval.ms": "300",
                "tasks.max": "2",
            },
        )

    def _create(self, worker: ConnectWorker, configs: Mapping[str, str]) -> None:
        """Have a connector made, which is refused while the group comes together."""
        self._ask(worker, "PUT", f"/connectors/{configs['name']}/config", dict(configs), (200, 201))

    def source_configs(self) -> dict[str, str]:
        """Of the source; other ones each time."""
        return {
            "name": self.source,
            "connector.class": "counting.Counting",
            "topic": self._topic,
            "tasks.max": str(self.tasks),
            "value.converter": TEXT,
            "revision": str(next(self._revision)),
            **({"exactly.once.support": "required"} if self.is_exact else {}),
        }

    def close(self) -> None:
        """End all of it."""
        for worker in self.workers:
            worker.close()
        if hasattr(self, "seen"):
            self.seen.close()

    def said(self) -> str:
        """What the workers have logged."""
        return "\n".join(f"--- {each.port}\n{each.log.read_text()[-30_000:]}" for each in self.workers)

    # -- who is who --

    def leader(self) -> ConnectWorker:
        """The worker that all say leads the group."""
        wait_for(lambda: len(self._leaders()) == 1, timeout_s=SETTLED_S, what="one leader")
        (port,) = self._leaders()
        return next(each for each in self.workers if str(each.port) == port)

    def _leaders(self) -> set[str]:
        found = set()
        for worker in self.workers:
            named = _LEADER.search(str(worker.rest.call("GET", "/metrics").body))
            found.add("" if named is None else named[1])
        return found

    def shown(self, worker: ConnectWorker, connector: str) -> dict[str, Any] | None:
        """The status of a connector as a worker tells it; None: it does not, just now."""
        try:
            found = worker.rest.call("GET", f"/connectors/{connector}/status")
        except OSError:
            return None
        return found.body if found.status == 200 else None

    # -- what happens to it --

    def hang(self, worker: ConnectWorker) -> None:
        """Have all processes of a worker stand still."""
        for each in _processes(worker):
            each.suspend()

    def go_on(self, worker: ConnectWorker) -> None:
        """Have them go on."""
        for each in _processes(worker):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()

    def is_without(self, gone: ConnectWorker) -> bool:
        """Whether the others have taken over all that a worker had."""
        return all(
            self._is_shared(other, connector, without=gone)
            for other in self.workers
            if other is not gone
            for connector in (self.source, self.sink)
        )

    def _is_shared(self, teller: ConnectWorker, connector: str, without: ConnectWorker) -> bool:
        shown = self.shown(teller, connector)
        return shown is not None and all(
            each["state"] == "RUNNING" and each["worker_id"] != without.worker_id
            for each in (shown["connector"], *shown["tasks"])
        )

    def reconfigure(self, worker: ConnectWorker) -> None:
        """Give the source another configuration, by any worker."""
        configs = self.source_configs()
        self._ask(worker, "PUT", f"/connectors/{self.source}/config", configs, (200, 201))

    def pause_and_resume(self, worker: ConnectWorker) -> None:
        """Pause the sink, and have it go on."""
        self._ask(worker, "PUT", f"/connectors/{self.sink}/pause", None, (202,))
        self._ask(worker, "PUT", f"/connectors/{self.sink}/resume", None, (202,))

    def restart(self, worker: ConnectWorker) -> None:
        """Start the source anew, with its tasks."""
        self._ask(worker, "POST", f"/connectors/{self.source}/restart?includeTasks=true", None, (202, 204))

    def _ask(
        self, worker: ConnectWorker, method: str, path: str, body: object, statuses: Sequence[int]
    ) -> None:
        """Ask until it is done: while the group comes together the answer is 409, and 500 when a broker is away."""
        wait_for(
            lambda: worker.rest.call(method, path, body).status in statuses,
            timeout_s=SETTLED_S,
            what=f"{method} {path}",
        )

    # -- laws --

    def settles(self) -> None:
        """Wait until everybody says the same, and it is the truth: who is said to run a task writes its records."""
        self.seen.read()
        marks = [len(each) for each in self.seen.written]
        try:
            wait_for(lambda: self._untruth(marks) == "", timeout_s=SETTLED_S)
        except AssertionError as error:
            raise AssertionError(f"not true within {SETTLED_S:.0f} s: {self._untruth(marks)}") from error

    def _untruth(self, marks: Sequence[int]) -> str:
        """What is wrong with what the workers say; empty: nothing."""
        for connector, tasks in ((self.source, self.tasks), (self.sink, 2)):
            said = [self.shown(worker, connector) for worker in self.workers]
            if any(each != said[0] for each in said) or not self._runs(said[0], tasks):
                return f"{connector} is said to be {said}"
        self.seen.read()
        source = self.shown(self.workers[0], self.source)
        if source is None:
            return "not known"
        for mark, written, task in zip(marks, self.seen.written, source["tasks"], strict=True):
            if len(written) == mark or written[-1].worker_id != task["worker_id"]:
                return f"{task}, but since {mark} of {len(written)} there is {written[-3:]}"
        return ""

    def _runs(self, shown: dict[str, Any] | None, tasks: int) -> bool:
        ids = {each.worker_id for each in self.workers}
        return (
            shown is not None
            and len(shown["tasks"]) == tasks
            and all(
                each["state"] == "RUNNING" and each["worker_id"] in ids
                for each in (shown["connector"], *shown["tasks"])
            )
        )

    def check(self) -> None:
        """Nothing is lost; exactly once, no run of a task writes after its successor, and each number is there once."""
        self.seen.read()
        for task, written in enumerate(self.seen.written):
            numbers = [each.number for each in written]
            assert sorted(set(numbers)) == list(range(max(numbers) + 1)), f"task {task} has lost numbers"
            if self.is_exact:
                assert numbers == list(range(len(numbers))), f"task {task} has written numbers twice"
                runs = [run for run, _ in itertools.groupby(each.run for each in written)]
                assert len(runs) == len(set(runs)), f"task {task} had two owners at a time: {runs}"

    def is_compacted(self) -> bool:
        """Whether records of each internal topic have been cleaned away."""
        return all(
            count < end
            for kind in ("configs", "status", "offsets")
            for count, end in [_counted(self.sure, f"{self.group}-{kind}")]
        )

    def all_came_out(self) -> bool:
        """Whether the sink has got all that is in the topic."""
        wanted = {f"{each.number} {each.run}" for written in self.seen.written for each in written}
        return self.lines.exists() and wanted <= set(self.lines.read_text().splitlines())

    def ends(self) -> None:
        """Delete the connectors, and see that nothing is left of them."""
        for connector in (self.source, self.sink):
            self._ask(self.workers[0], "DELETE", f"/connectors/{connector}", None, (204, 404))
        wait_for(self.is_clean, timeout_s=SETTLED_S, what="nothing left")

    def is_clean(self) -> bool:
        """Whether no worker runs or tells anything, and nothing is in the topics but offsets, which stay."""
        for worker in self.workers:
            if worker.rest.call("GET", "/connectors").body != []:
                return False
            if any(
                worker.rest.call("GET", f"/connectors/{each}/status").status != 404
                for each in (self.source, self.sink)
            ):
                return False
            page = worker.rest.call("GET", "/metrics").body
            if "kafka_connect_connect_worker_metrics_task_count 0.0" not in page:
                return False
        return not self.leftovers()

    def leftovers(self) -> list[bytes]:
        """Keys of the status and configuration topics about connectors that are no more."""
        found = latest(self.sure, f"{self.group}-status") | latest(self.sure, f"{self.group}-configs")
        names = (self.source.encode(), self.sink.encode())
        return [
            key
            for key, value in found.items()
            if value is not None
            and key is not None
            and any(name in key for name in names)
            and not key.startswith((b"task-", b"commit-", b"tasks-fencing-", b"restart-connector-"))
        ]


@contextlib.contextmanager
def herd(
    directory: Path,
    bootstraps: Sequence[str],
    topic: str,
    tasks: int,
    settings: Mapping[str, str],
) -> Iterator[Herd]:
    """A :class:`Herd` that is started, and ended on leaving."""
    found = Herd(directory, bootstraps, f"{topic}-herd", topic, tasks, settings)
    try:
        found.start()
        yield found
    finally:
        found.close()
        print(found.said())  # shown when the test fails


def _processes(worker: ConnectWorker) -> list[psutil.Process]:
    parent = psutil.Process(worker.pid)
    return [parent, *parent.children(recursive=True)]
