"""What headers say of dead letters, and which letters are meant."""

import pytest

from pkafka.clients.consumer import ConsumerRecord
from pkafka.tools.dead_letters.letters import Choice, Letter, letter_of


def letter(*headers: tuple[str, bytes | None], timestamp: int = 1000) -> Letter:
    return letter_of(ConsumerRecord("dead", 0, 5, timestamp, 0, b"k", b"v", headers, -1))


def failed(**reasons: str) -> Letter:
    names = {name.replace("_", "."): value.encode() for name, value in reasons.items()}
    return letter(*(("__connect.errors." + name, value) for name, value in names.items()))


def test_the_headers_say_where_and_why() -> None:
    found = letter(
        ("own", b"1"),
        ("__connect.errors.topic", b"old"),
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"17"),
        ("__connect.errors.task.id", b"x"),
        ("__connect.errors.exception.message", None),
        ("own", None),
    )
    assert (found.topic, found.partition, found.offset, found.task) == ("orders", 3, 17, None)
    assert (found.connector, found.message) == (None, None)
    assert found.headers == [("own", b"1"), ("own", None)]


@pytest.mark.parametrize(
    ("choice", "is_meant"),
    [
        (Choice(), True),
        (Choice(connectors=("a", "b")), True),
        (Choice(connectors=("b",)), False),
        (Choice(exceptions=("DataException",)), True),
        (Choice(exceptions=("org.x.DataException",)), True),
        (Choice(exceptions=("Exception",)), False),
        (Choice(from_ms=1000, to_ms=1001), True),
        (Choice(from_ms=1001), False),
        (Choice(to_ms=1000), False),
    ],
)
def test_a_letter_is_meant_when_all_conditions_hold(choice: Choice, is_meant: bool) -> None:
    found = failed(connector_name="a", exception_class_name="org.x.DataException")
    assert choice.means(found) is is_meant


def test_a_letter_without_reasons_has_no_connector() -> None:
    assert not Choice(connectors=("a",)).means(letter())
    assert not Choice(exceptions=("E",)).means(letter())
