"""A Singer tap in a worker, as the documentation has it: its state as the offset, through kills and failures."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from pkafka.testing import Broker
from tests.connect_workers import ConnectWorker, standalone
from tests.connector_docs import example
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking, wait_for

TAP = Path(__file__).parents[1] / "singer_tap.py"


@pytest.fixture
def talk(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        yield talk


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    with standalone(tmp_path_factory.mktemp("connect"), broker.bootstrap) as worker:
        yield worker


def configs(topic: str, tmp_path: Path, **config: Any) -> dict[str, str]:
    """The documentation's connector, with the tests' tap; its records go to ``topic``."""
    catalog = tmp_path / "catalog.json"
    catalog.write_text(json.dumps({"streams": [{"tap_stream_id": topic.removeprefix("t-")}]}))
    return example(
        "numbers-in",
        {
            "name": topic,
            "tap.command": shlex.join([sys.executable, str(TAP)]),
            "tap.config": json.dumps(config),
            "tap.catalog.file": str(catalog),
            "topic.prefix": "t-",
            "tap.interval.ms": "200",
        },
    ) | {"tap.name": "tap-numbers", "value.converter.schemas.enable": "false"}


def numbers(talk: Talk, topic: str) -> list[int]:
    return [json.loads(each.value or b"")["payload"]["number"] for each in talk.read(topic)]


def offsets(worker: ConnectWorker, name: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = worker.rest.call("GET", f"/connectors/{name}/offsets").body["offsets"]
    return found


def state(number: int) -> list[Mapping[str, Any]]:
    return [
        {
            "partition": {"tap": "tap-numbers"},
            "offset": {"state": json.dumps({"number": number}, separators=(",", ":"))},
        }
    ]


@pytest.fixture
def topic(talk: Talk, worker: ConnectWorker) -> Iterator[str]:
    """A topic, and the name of the connector that writes to it."""
    name = f"t-{new_topic_name()}"
    talk.create(name)
    yield name
    worker.rest.call("DELETE", f"/connectors/{name}")


def test_the_example_counts_and_its_state_can_be_set(
    worker: ConnectWorker, talk: Talk, topic: str, tmp_path: Path
) -> None:
    whole = configs(topic, tmp_path, upto=3)
    checked = worker.rest.call("PUT", "/connector-plugins/SingerSource/config/validate", whole)
    assert checked.body["error_count"] == 0, checked.body
    worker.create(whole)
    wait_for(lambda: len(talk.read(topic)) == 3)
    first = talk.read(topic)[0]
    assert json.loads(first.key or b"")["payload"] == {"number": 1}
    assert json.loads(first.value or b"")["payload"] == {"number": 1, "note": "no 1"}
    wait_for(lambda: offsets(worker, topic) == state(3))
    worker.rest.call("PUT", f"/connectors/{topic}/stop")
    worker.rest.wait_until(topic, "STOPPED")
    refused = worker.rest.call(
        "PATCH", f"/connectors/{topic}/offsets", {"offsets": [{**state(3)[0], "offset": {"state": "{"}}]}
    )
    assert (refused.status, "The state is not JSON" in refused.body["message"]) == (500, True), refused
    answer = worker.rest.call("PATCH", f"/connectors/{topic}/offsets", {"offsets": state(1)})
    assert answer.status == 200, answer
    worker.rest.call("PUT", f"/connectors/{topic}/resume")
    wait_for(lambda: numbers(talk, topic) == [1, 2, 3, 2, 3])


def test_a_kill_loses_no_record_and_leaves_no_tap(
    worker: ConnectWorker, talk: Talk, topic: str, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    worker.create(configs(topic, tmp_path, upto=40, every=7, then="wait", pids=str(pids)))
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    taps = [psutil.Process(int(each)) for each in pids.read_text().split()]
    wait_for(lambda: offsets(worker, topic) == state(35))
    worker.kill()
    assert psutil.wait_procs(taps, timeout=60)[1] == []
    worker.start()
    worker.create(configs(topic, tmp_path, upto=50, every=7))
    wait_for(lambda: set(numbers(talk, topic)) == set(range(1, 51)))
    assert numbers(talk, topic)[39:44] == [36, 37, 38, 39, 40], "the one that was held was not sent before"


def test_a_tap_that_fails_is_a_task_that_fails_and_a_restart_goes_on(
    worker: ConnectWorker, talk: Talk, topic: str, tmp_path: Path
) -> None:
    worker.create(configs(topic, tmp_path, upto=2, then="fail"))
    worker.rest.wait_until(topic, "RUNNING", "FAILED")
    trace = worker.rest.call("GET", f"/connectors/{topic}/status").body["tasks"][0]["trace"]
    assert "The tap tap-numbers ended with status 1: the source is on fire" in trace.splitlines()[0]
    assert numbers(talk, topic) == [1, 2]
    worker.rest.call("PUT", f"/connectors/{topic}/config", configs(topic, tmp_path, upto=3))
    wait_for(lambda: numbers(talk, topic) == [1, 2, 3])
    worker.rest.wait_until(topic, "RUNNING", "RUNNING")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tap.command": "tap 'x"}, "the words cannot be told apart"),
        ({"tap.command": " "}, "a command is expected"),
        ({"tap.config": "{"}, "it is not JSON"),
        ({"tap.config": "[]"}, "an object of JSON is expected"),
        ({"tap.config.file": "x"}, "Either tap.config or tap.config.file can be set."),
        ({"tap.catalog.option": "--cat"}, "--properties"),
    ],
)
def test_settings_that_cannot_be_are_refused(changed: dict[str, str], said: str) -> None:
    from pkafka.connect.connectors.singer_source import SingerSourceConnector

    values = SingerSourceConnector().validate({"tap.command": "tap", "tap.config": "{}", **changed})
    errors = [error for each in values for error in each.errors]
    assert len(errors) == 1
    assert said in errors[0]
