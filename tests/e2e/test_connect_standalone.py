"""A standalone worker of Kafka Connect on a pkafka broker: lines in, lines out, through errors, kills and restarts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from pkafka.testing import Broker
from tests.connect_fixtures import new_topic, waiting_worker
from tests.connect_workers import TEXT, ConnectWorker, connector_file, line_sink, line_source, standalone
from tests.talk import Talk, wait_for

__all__ = ["new_topic", "waiting_worker"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "connector"


def values(talk: Talk, topic: str) -> list[bytes | None]:
    return [each.value for each in talk.read(topic)]


def has_records(talk: Talk, topic: str, at_least: int) -> bool:
    return len(talk.read(topic)) >= at_least


def has_lines(path: Path, count: int) -> bool:
    return path.exists() and len(path.read_text().split()) == count


def create(worker: ConnectWorker, configs: Mapping[str, str]) -> None:
    answer = worker.rest.call("POST", "/connectors", {"name": configs["name"], "config": configs})
    assert answer.status == 201, answer


def test_lines_go_through_a_topic_into_another_file(
    worker: ConnectWorker, topic: str, tmp_path: Path
) -> None:
    lines, copy = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_text("one\ntwo\n")
    files = [
        connector_file(tmp_path / "source.properties", line_source(topic, lines)),
        connector_file(tmp_path / "sink.properties", line_sink(topic, copy)),
    ]
    worker.start(*files)
    wait_for(lambda: copy.exists() and copy.read_text() == "one\ntwo\n")
    with lines.open("a") as file:
        file.write("three\n")
    wait_for(lambda: copy.read_text() == "one\ntwo\nthree\n")
    assert worker.stop() == 0


def test_transforms_are_for_records_of_which_a_predicate_is_true(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("a\nb\n")
    transforms = "org.apache.kafka.connect.transforms."
    configs = line_source(
        topic,
        lines,
        transforms="hoist,never,where",
        transforms_hoist_type=f"{transforms}HoistField$Value",
        transforms_hoist_field="line",
        transforms_never_type=f"{transforms}Filter",
        transforms_never_predicate="other",
        transforms_where_type=f"{transforms}InsertField$Value",
        predicates="other",
        predicates_other_type=f"{transforms}predicates.TopicNameMatches",
        predicates_other_pattern="other-.*",
    )
    configs |= {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms.where.static.field": "from",
        "transforms.where.static.value": "here",
    }
    worker.start()
    create(worker, configs)
    wait_for(lambda: len(values(talk, topic)) == 2)
    assert [json.loads(value or b"") for value in values(talk, topic)] == [
        {"line": "a", "from": "here"},
        {"line": "b", "from": "here"},
    ]


def test_records_that_cannot_be_read_are_dead_letters(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    talk.send(topic, b'{"a":1}', b"no json", b'{"a":2}')
    copy, dead = tmp_path / "out.txt", f"{topic}-dead"
    configs = line_sink(topic, copy, errors_tolerance="all") | {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    worker.start()
    create(worker, configs)
    wait_for(lambda: copy.exists() and copy.read_text() == "{a=1}\n{a=2}\n")
    wait_for(lambda: len(values(talk, dead)) == 1)
    (letter,) = talk.read(dead)
    assert letter.value == b"no json"
    headers = dict(letter.headers)
    assert headers["__connect.errors.topic"] == topic.encode()
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert (
        headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    )


def test_a_record_that_is_not_tolerated_ends_its_task_until_it_is_restarted(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    talk.send(topic, b"no json")
    configs = line_sink(topic, tmp_path / "out.txt") | {"value.converter": "JsonConverter"}
    worker.start()
    create(worker, configs)
    name = configs["name"]
    worker.rest.wait_until(name, "RUNNING", "FAILED")
    trace = worker.rest.call("GET", f"/connectors/{name}/tasks/0/status").body["trace"]
    assert trace.startswith(
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
    )
    assert "Caused by: org.apache.kafka.connect.errors.DataException" in trace
    worker.rest.call("PUT", f"/connectors/{name}/config", {**configs, "value.converter": TEXT})
    worker.rest.wait_until(name, "RUNNING", "RUNNING")
    wait_for(lambda: (tmp_path / "out.txt").read_text() == "no json\n")


def test_kills_between_any_two_records_lose_none(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    lines, copy = tmp_path / "in.txt", tmp_path / "out.txt"
    files = [
        connector_file(tmp_path / "source.properties", line_source(topic, lines, batch_size="10")),
        # Members that were killed leave the group after this time.
        connector_file(
            tmp_path / "sink.properties",
            line_sink(topic, copy) | {"consumer.override.session.timeout.ms": "6000"},
        ),
    ]
    written: list[str] = []

    def write(count: int) -> None:
        fresh = [f"line-{len(written) + number}" for number in range(count)]
        written.extend(fresh)
        with lines.open("a") as file:
            file.write("".join(f"{each}\n" for each in fresh))

    for round_number in range(4):
        write(2_000)
        before = len(talk.read(topic))
        worker.start(*files[: 1 + round_number // 3])
        # In the middle of what it has to read, or a little later each time.
        wait_for(partial(has_records, talk, topic, before + 100 * round_number + 1))
        worker.kill()
    worker.start(*files)
    wait_for(lambda: copy.exists() and set(copy.read_text().split()) == set(written))
    sent = [(each.value or b"").decode() for each in talk.read(topic)]
    assert list(dict.fromkeys(sent)) == written
    assert worker.stop() == 0
    # What was acknowledged is not read again.
    known = len(talk.read(topic))
    write(1)
    worker.start(*files)
    wait_for(lambda: written[-1] in copy.read_text())
    assert len(talk.read(topic)) == known + 1


def test_a_sink_that_stops_has_committed_all_that_it_took(
    broker: Broker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    copy, sent = tmp_path / "out.txt", 0
    configs = line_sink(topic, copy)
    name = configs["name"]
    with standalone(tmp_path / "rare", broker.bootstrap, {"offset.flush.interval.ms": "600000"}) as worker:
        create(worker, configs)
        for _ in range(4):
            talk.send(topic, *(b"%d" % (sent + number) for number in range(100)))
            sent += 100
            wait_for(partial(has_lines, copy, sent))
            assert worker.rest.call("PUT", f"/connectors/{name}/stop").status == 204
            (row,) = worker.rest.call("GET", f"/connectors/{name}/offsets").body["offsets"]
            assert row["offset"] == {"kafka_offset": sent}
            worker.rest.call("PUT", f"/connectors/{name}/resume")
    assert copy.read_text().split() == [str(number) for number in range(sent)]


def test_two_connectors_of_many_tasks_count(worker: ConnectWorker, topic: str, talk: Talk) -> None:
    worker.start()
    create(
        worker,
        {
            "name": f"{topic}-count",
            "connector.class": "VerifiableSource",
            "tasks.max": "3",
            "topic": topic,
            "throughput": "500",
        },
    )
    worker.rest.wait_until(f"{topic}-count", "RUNNING", "RUNNING", "RUNNING", "RUNNING")
    wait_for(lambda: len(talk.read(topic)) >= 300)
    worker.rest.call("PUT", f"/connectors/{topic}-count/stop")
    by_task: dict[int, list[int]] = {}
    for each in talk.read(topic):
        key, value = json.loads(each.key or b""), json.loads(each.value or b"")
        by_task.setdefault(key["payload"], []).append(value["payload"])
    assert set(by_task) == {0, 1, 2}
    assert all(numbers == list(range(len(numbers))) for numbers in by_task.values())


def test_the_page_of_metrics_counts_records(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    talk.send(topic, b"1", b"no json", b"2")
    copy = tmp_path / "out.txt"
    configs = line_sink(topic, copy, errors_tolerance="all") | {
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    worker.start()
    create(worker, configs)
    wait_for(lambda: copy.exists() and copy.read_text() == "1\n2\n")
    labels = f'{{connector="{configs["name"]}",task="0"}}'
    status = f'kafka_connect_connector_metrics_status{{connector="{configs["name"]}",status="running"}} 1.0'
    wanted = {
        f"kafka_connect_sink_task_metrics_sink_record_read_total{labels} 3.0",
        f"kafka_connect_sink_task_metrics_sink_record_send_total{labels} 2.0",
        f"kafka_connect_task_error_metrics_total_records_skipped_total{labels} 1.0",
        "kafka_connect_connect_worker_metrics_task_count 1.0",
        status,
    }

    def lacking() -> set[str]:
        return wanted - {*str(worker.rest.call("GET", "/metrics").body).splitlines()}

    # Records are counted when the file has them.
    wait_for(lambda: not lacking(), what="counts")


def test_topics_are_created_as_a_group_says(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    lines, name = tmp_path / "in.txt", f"{topic}-made"
    lines.write_text("a\n")
    worker.start()
    create(
        worker,
        line_source(
            name,
            lines,
            topic_creation_groups="made",
            topic_creation_default_partitions="1",
            topic_creation_default_replication_factor="1",
            topic_creation_made_include=".*-made",
            topic_creation_made_partitions="3",
            topic_creation_made_retention_ms="12345",
        )
        | {"topic.creation.made.retention.ms": "12345"},
    )
    wait_for(
        lambda: (
            worker.rest.call("GET", f"/connectors/{name}-source/topics").body[f"{name}-source"]["topics"]
            == [name]
        )
    )
    assert len(talk.admin.describe_topics([name])[name].partitions) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "bootstrap.servers=127.0.0.1:1\nkey.converter=JsonConverter\n",
            'Missing required configuration "value.converter"',
        ),
        (
            "key.converter=Nope\nvalue.converter=JsonConverter\noffset.storage.file.filename=x\n",
            "Class Nope could not be found",
        ),
        (
            "key.converter=JsonConverter\nvalue.converter=JsonConverter\noffset.storage.file.filename=x\nlisteners=ftp://a:1\n",
            "a listener is http://host:port",
        ),
    ],
)
def test_a_worker_that_cannot_start_says_what_to_mend(tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "worker.properties"
    path.write_text(lines)
    done = _run(str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_files_that_are_not_there_are_told(tmp_path: Path, broker: Broker) -> None:
    assert "none.properties" in _run(str(tmp_path / "none.properties")).stderr
    worker = tmp_path / "worker.properties"
    worker.write_text(
        "key.converter=JsonConverter\nvalue.converter=JsonConverter\noffset.storage.file.filename=x\n"
    )
    odd = tmp_path / "odd.json"
    for text, said in (
        ("{", "is no JSON"),
        ("[]", "has no JSON object"),
        ("{}", "has no name of a connector"),
    ):
        odd.write_text(text)
        done = _run(str(worker), str(odd))
        assert (done.returncode, said in done.stderr) == (2, True), done


def test_a_port_that_is_taken_is_told(broker: Broker, tmp_path: Path) -> None:
    with standalone(tmp_path / "one", broker.bootstrap) as one:
        done = _run(str(one.properties))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            "pk-connect-standalone: The REST API cannot listen at http://127.0.0.1:"
        )


def test_the_example_of_a_connector_counts_on_after_a_restart(
    broker: Broker, topic: str, talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    file = connector_file(
        tmp_path / "counter.properties",
        {
            "name": f"{topic}-counter",
            "connector.class": "counter_connector.CounterConnector",
            "topic": topic,
            "interval.ms": "20",
        },
    )
    with standalone(tmp_path / "worker", broker.bootstrap, starts=False) as worker:
        for wanted in (5, 15):
            worker.start(file)
            wait_for(partial(has_records, talk, topic, wanted))
            assert worker.stop() == 0
    numbers = [json.loads(value or b"")["payload"] for value in values(talk, topic)]
    assert numbers == list(range(len(numbers)))


def test_an_interrupt_ends_it_and_keeps_the_offsets(
    worker: ConnectWorker, topic: str, talk: Talk, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("a\n")
    file = connector_file(tmp_path / "source.properties", line_source(topic, lines))
    worker.start(file)
    wait_for(lambda: values(talk, topic) == [b"a"])
    assert worker.end(signal.SIGINT) == 0
    assert str(lines).encode() in worker.offsets.read_bytes()


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from pkafka.cli.connect_standalone import main; main()", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
    )
