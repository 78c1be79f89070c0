"""Workers of a Connect cluster on a pkafka broker: they share what there is to do, and take over what others leave."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.connect_fixtures import new_topic
from tests.connect_workers import ConnectWorker, distributed, line_sink, line_source
from tests.talk import Talk, wait_for

__all__ = ["new_topic"]


LASTING: Final = {"session.timeout.ms": "300000"}
"""Where no worker is killed: none is missed because the machine stands still, and who says that it goes is not waited
for."""


@pytest.fixture
def workers(broker: Broker, topic: str, tmp_path: Path) -> Iterator[list[ConnectWorker]]:
    with distributed(tmp_path, broker.bootstrap, f"{topic}-workers", 2, LASTING) as workers:
        yield workers


@pytest.fixture
def mortal_workers(broker: Broker, topic: str, tmp_path: Path) -> Iterator[list[ConnectWorker]]:
    """Those that are missed soon."""
    with distributed(tmp_path, broker.bootstrap, f"{topic}-workers", 2) as workers:
        yield workers


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values of the committed records."""
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        end = consumer.end_offsets([place])[place]
        found: list[bytes | None] = []
        while consumer.position(place) < end:
            found += [each.value for each in consumer.poll(1_000)]
        return found


def verifiable(topic: str, tasks: int) -> dict[str, str]:
    return {
        "name": f"{topic}-verifiable",
        "connector.class": "VerifiableSource",
        "tasks.max": str(tasks),
        "topic": topic,
        "throughput": "20",
    }


def owners(worker: ConnectWorker, connector: str) -> list[str]:
    """The workers that have the tasks, by number."""
    found = worker.rest.call("GET", f"/connectors/{connector}/status")
    return [each["worker_id"] for each in found.body["tasks"]] if found.status == 200 else []


def all_run(worker: ConnectWorker, connector: str, tasks: int) -> bool:
    return worker.rest.state(connector) == ("RUNNING", ("RUNNING",) * tasks)


def test_lines_come_in_and_go_out(workers: list[ConnectWorker], topic: str, tmp_path: Path) -> None:
    lines, found = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_text("a\nb\nc\n")
    first, second = workers
    first.create(line_source(topic, lines))
    second.create(line_sink(topic, found))  # whoever is asked, the leader writes it down
    wait_for(lambda: found.exists() and found.read_text() == "a\nb\nc\n")
    # What one of them writes down the other reads a moment later.
    for worker in workers:
        worker.rest.wait_until(f"{topic}-source", "RUNNING", "RUNNING")
        wait_for(partial(_says, worker, "/connectors", [f"{topic}-sink", f"{topic}-source"]))
        used = {f"{topic}-source": {"topics": [topic]}}
        wait_for(partial(_says, worker, f"/connectors/{topic}-source/topics", used))


def _says(worker: ConnectWorker, path: str, body: object) -> bool:
    found = worker.rest.call("GET", path).body
    return bool((sorted(found) if isinstance(found, list) else found) == body)


def test_tasks_are_shared_and_taken_over(mortal_workers: list[ConnectWorker], topic: str) -> None:
    first, second = mortal_workers
    name = f"{topic}-verifiable"
    first.create(verifiable(topic, 4))
    wait_for(lambda: all_run(second, name, 4))
    wait_for(lambda: len(set(owners(second, name))) == 2)
    first.kill()  # the leader
    survivor = f"127.0.0.1:{second.port}"
    wait_for(lambda: set(owners(second, name)) == {survivor} and all_run(second, name, 4))
    first.start()
    wait_for(lambda: len(set(owners(first, name))) == 2 and all_run(first, name, 4))


def test_a_worker_that_ends_in_order_is_missed_at_once(workers: list[ConnectWorker], topic: str) -> None:
    first, second = workers
    name = f"{topic}-verifiable"
    first.create(verifiable(topic, 2))
    wait_for(lambda: all_run(second, name, 2))
    assert first.stop() == 0
    survivor = f"127.0.0.1:{second.port}"
    wait_for(lambda: set(owners(second, name)) == {survivor} and all_run(second, name, 2))


def _has_records(talk: Talk, topic: str, at_least: int) -> bool:
    return len(talk.read(topic)) >= at_least


def _has_level(worker: ConnectWorker, logger: str, level: str) -> bool:
    return bool(worker.rest.call("GET", f"/admin/loggers/{logger}").body["level"] == level)


def _has_status(worker: ConnectWorker, call: tuple[str, str], status: int) -> bool:
    return worker.rest.call(*call).status == status


def test_whoever_is_asked_it_is_done_by_whom_it_concerns(
    workers: list[ConnectWorker], topic: str, tmp_path: Path
) -> None:
    name = f"{topic}-verifiable"
    workers[1].create(verifiable(topic, 2))
    wait_for(lambda: all_run(workers[0], name, 2))
    for worker in workers:
        for call, status in (
            (("POST", f"/connectors/{name}/restart"), 204),
            (("POST", f"/connectors/{name}/tasks/0/restart"), 204),
            (("POST", f"/connectors/{name}/tasks/1/restart"), 204),
            (("POST", f"/connectors/{name}/restart?includeTasks=true"), 202),
        ):
            # A restart that has begun a moment ago may have the group come together: 409 is the answer to try again.
            wait_for(partial(_has_status, worker, call, status))
        wait_for(partial(all_run, worker, name, 2))
    assert workers[0].rest.call("PUT", f"/connectors/{name}/pause").status == 202
    workers[1].rest.wait_until(name, "PAUSED", "PAUSED", "PAUSED")
    assert workers[1].rest.call("PUT", f"/connectors/{name}/resume").status == 202
    workers[0].rest.wait_until(name, "RUNNING", "RUNNING", "RUNNING")
    wait_for(lambda: workers[1].rest.call("PUT", f"/connectors/{name}/stop").status == 204)
    workers[0].rest.wait_until(name, "STOPPED")
    assert workers[0].rest.call("GET", f"/connectors/{name}/offsets").status == 200
    wait_for(lambda: workers[1].rest.call("DELETE", f"/connectors/{name}/offsets").status == 200)
    wait_for(lambda: workers[0].rest.call("DELETE", f"/connectors/{name}").status == 204)
    wait_for(lambda: workers[1].rest.call("GET", f"/connectors/{name}").status == 404)
    wait_for(lambda: workers[1].rest.call("GET", f"/connectors/{name}/status").status == 404)


def test_what_workers_ask_of_each_other_has_to_be_signed(workers: list[ConnectWorker], topic: str) -> None:
    worker, name = workers[0], f"{topic}-verifiable"
    worker.create(verifiable(topic, 1))
    wait_for(lambda: all_run(worker, name, 1))
    for path, method in ((f"/connectors/{name}/tasks", "POST"), (f"/connectors/{name}/fence", "PUT")):
        unsigned = worker.rest.call(method, path, [])
        assert (unsigned.status, unsigned.body["message"]) == (
            400,
            "Internal request missing required signature",
        )
    wrong = worker.rest.call(
        "POST",
        f"/connectors/{name}/tasks",
        [],
        headers={
            "X-Connect-Authorization": "AAAA",
            "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
        },
    )
    assert (wrong.status, wrong.body["message"]) == (403, "Internal request contained invalid signature.")


def test_lines_are_read_once_through_ends_of_workers(
    workers: list[ConnectWorker], talk: Talk, topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("".join(f"{number}\n" for number in range(500)))
    workers[0].create(line_source(topic, lines))
    wait_for(lambda: len(talk.read(topic)) >= 500)
    for round_, worker in enumerate(workers):
        assert worker.stop() == 0
        with lines.open("a") as file:
            file.writelines(f"{500 + round_ * 100 + number}\n" for number in range(100))
        wait_for(partial(_has_records, talk, topic, 600 + round_ * 100))
        worker.start()
    found = [each.value for each in talk.read(topic)]
    assert found == [str(number).encode() for number in range(700)]


def test_the_level_of_a_logger_is_set_in_all_workers(workers: list[ConnectWorker]) -> None:
    logger = "org.apache.kafka.connect.runtime.WorkerTask"
    answer = workers[0].rest.call("PUT", f"/admin/loggers/{logger}?scope=cluster", {"level": "DEBUG"})
    assert answer.status == 204
    for worker in workers:
        wait_for(partial(_has_level, worker, logger, "DEBUG"))


@pytest.mark.parametrize("boundary", ["poll", pytest.param("interval", marks=pytest.mark.nightly)])
def test_lines_are_in_kafka_exactly_once(
    broker: Broker, talk: Talk, topic: str, tmp_path: Path, boundary: str
) -> None:
    """Workers are killed between any two records; who reads committed records sees each line once, in order."""
    lines = tmp_path / "in.txt"
    lines.write_text("".join(f"{number}\n" for number in range(2_000)))
    settings = {"exactly.once.source.support": "enabled", "session.timeout.ms": "6000"}
    # For offsets in transactions there is no such limit: brokers that take long are no reason to fail.
    settings["offset.flush.timeout.ms"] = "1"
    with distributed(tmp_path, broker.bootstrap, f"{topic}-workers", 2, settings) as workers:
        workers[0].create(
            line_source(
                topic,
                lines,
                batch_size="50",
                exactly_once_support="required",
                transaction_boundary=boundary,
                transaction_boundary_interval_ms="20",
            )
        )
        for round_, worker in enumerate(workers):
            wait_for(lambda: committed(broker.bootstrap, topic))
            worker.kill()
            with lines.open("a") as file:
                file.writelines(f"{2_000 + round_ * 500 + number}\n" for number in range(500))
            worker.start()
        expected = [str(number).encode() for number in range(3_000)]
        wait_for(lambda: len(committed(broker.bootstrap, topic)) >= len(expected))
        assert committed(broker.bootstrap, topic) == expected


def test_what_cannot_be_exactly_once_is_refused(workers: list[ConnectWorker], topic: str) -> None:
    wanted = {**line_source(topic, Path("/nowhere"), exactly_once_support="required"), "name": topic}
    answer = workers[0].rest.call("POST", "/connectors", {"name": topic, "config": wanted})
    assert answer.status == 400
    assert "This worker does not have exactly-once source support enabled." in answer.body["message"]
    marked = {**line_source(topic, Path("/nowhere"), transaction_boundary="connector"), "name": topic}
    answer = workers[1].rest.call("POST", "/connectors", {"name": topic, "config": marked})
    assert answer.status == 400
    assert "does not support connector-defined transaction boundaries" in answer.body["message"]


def test_a_connector_keeps_offsets_in_a_topic_of_its_own(
    workers: list[ConnectWorker], talk: Talk, topic: str, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("a\nb\n")
    name = f"{topic}-source"
    workers[0].create(line_source(topic, lines, offsets_storage_topic=f"{topic}-own"))
    wait_for(lambda: len(talk.read(topic)) == 2)
    path = f"/connectors/{name}/offsets"
    wanted = {"offsets": [{"partition": {"filename": str(lines)}, "offset": {"position": 4}}]}
    wait_for(lambda: workers[1].rest.call("GET", path).body == wanted)
    assert any(talk.read(f"{topic}-own", partition) for partition in range(3))
    wait_for(partial(_has_status, workers[1], ("PUT", f"/connectors/{name}/stop"), 204))
    wait_for(partial(_has_status, workers[0], ("DELETE", path), 200))
    assert workers[1].rest.call("GET", path).body == {"offsets": []}
