"""pk-connect dlq: letters are shown, and go back to where they came from, once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pkafka.cli.connect import main
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.records.builder import build_batch
from pkafka.testing import Broker
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def talk(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        yield talk


class Dead:
    """A topic of dead letters, with the topic that they came from."""

    def __init__(self, broker: Broker, talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker, self._talk, self._capsys = broker, talk, capsys
        self.name, self.origin = new_topic_name(), new_topic_name()
        for name, partitions in ((self.name, 1), (self.origin, 2)):
            talk.create(name, partitions, retention_ms=-1)  # the letters are years old

    def add(self, value: bytes, connector: str = "a", error: str = "DataException", **more: Any) -> None:
        reasons = {
            "topic": self.origin,
            "partition": "1",
            "offset": "7",
            "connector.name": connector,
            "exception.class.name": f"org.apache.kafka.connect.errors.{error}",
            "exception.message": "no good",
        }
        headers = [
            ("own", b"1"),
            *(("__connect.errors." + name, text.encode()) for name, text in reasons.items()),
        ]
        record = (more.get("timestamp", 1_000_000), b"key", value, () if more.get("bare") else headers)
        self._talk.produce(self.name, bytes(build_batch([record])))

    def run(self, action: str, *words: str, status: int = ExitStatus.OK) -> Any:
        """The document that the command prints."""
        self._capsys.readouterr()
        line = [
            "--output",
            "json",
            "dlq",
            action,
            self.name,
            "--bootstrap-server",
            self._broker.bootstrap,
            *words,
        ]
        found = main.run(line)
        printed = self._capsys.readouterr()
        assert found == status, printed.err
        return json.loads(printed.out)

    def values(self, action: str, *words: str) -> list[str]:
        return [each["value"] for each in self.run(action, *words)["letters"]]

    def back(self, topic: str | None = None, partition: int = 1) -> list[bytes | None]:
        """The values that came back, in their order."""
        return [each.value for each in self._talk.read(topic or self.origin, partition) if each.key == b"key"]


@pytest.fixture
def dead(broker: Broker, talk: Talk, capsys: pytest.CaptureFixture[str]) -> Dead:
    return Dead(broker, talk, capsys)


def test_letters_go_back_once_as_they_were(dead: Dead, talk: Talk) -> None:
    dead.add(b"1")
    dead.add(b"2")
    (first, _second) = dead.run("show")["letters"]
    assert (first["connector"], first["message"], first["origin"]) == ("a", "no good", f"{dead.origin}-1@7")
    assert dead.values("replay", "--dry-run") == ["1", "2"]
    assert dead.back() == []
    assert dead.run("replay")["replayed"] == 2
    assert dead.run("replay") == {"letters": [], "replayed": 0}
    dead.add(b"3")
    assert dead.values("show") == ["3"]
    assert dead.values("show", "--from-beginning") == ["1", "2", "3"]
    assert dead.values("replay") == ["3"]
    assert dead.back() == [b"1", b"2", b"3"]
    record = next(each for each in talk.read(dead.origin, 1) if each.value == b"1")
    assert (record.key, record.timestamp, list(record.headers)) == (b"key", 1_000_000, [("own", b"1")])


def test_who_replays_some_leaves_the_others(dead: Dead) -> None:
    for number, (connector, error) in enumerate([("a", "X"), ("b", "Y"), ("a", "Y"), ("b", "X")]):
        dead.add(b"%d" % number, connector, error, timestamp=1000 + number)
    assert dead.values("replay", "--connector", "b", "--error", "X") == ["3"]
    assert dead.values("replay", "--error", "Y", "--limit", "1") == ["1"]
    assert dead.values("show") == ["0", "2"]
    assert dead.values("show", "--from-time", "1001", "--to-time", "1003") == ["2"]
    assert dead.values("replay") == ["0", "2"]
    assert dead.back() == [b"3", b"1", b"0", b"2"]
    assert dead.values("replay", "--reset", "--connector", "a") == ["0", "2"]
    assert dead.values("show") == ["1", "3"]


def test_letters_that_do_not_say_where_they_came_from_need_a_topic(dead: Dead, talk: Talk) -> None:
    dead.add(b"bare", bare=True)
    found = dead.run("replay", status=ExitStatus.FAILURE)
    assert [(each["to"], each["replayed"]) for each in found["letters"]] == [(None, False)]
    other = new_topic_name()
    talk.create(other, retention_ms=-1)
    assert dead.values("replay", "--to", other) == ["bare"]
    assert dead.back(other, 0) == [b"bare"]
    assert dead.values("show") == []


def test_a_topic_that_is_missing_ends_it_and_nothing_is_lost(dead: Dead, talk: Talk) -> None:
    dead.add(b"1")
    talk.delete(dead.origin)
    error = dead.run("replay", status=ExitStatus.FAILURE)["error"]
    assert dead.origin in error["message"]
    assert dead.values("show") == ["1"]


@pytest.mark.parametrize(
    "words",
    [["show", "--reset"], ["show", "--to", "t"], ["show", "--dry-run"], ["replay", "--from-beginning"]],
)
def test_flags_of_the_other_action_are_refused(dead: Dead, words: list[str]) -> None:
    assert dead.run(*words, status=ExitStatus.USAGE)["error"]["name"] == "Usage"
