"""Client ids by which markers come, and which of two connections of a worker is the later one."""

import pytest

from pkafka.clock import ManualClock
from pkafka.server.transactions.incarnations import Incarnations, Sender, sender_of
from pkafka.server.transactions.marker_links import ClientIds

FIRST = Sender(1, 0, "ab", 100)


def test_a_sender_is_read_from_its_client_id() -> None:
    assert FIRST.client_id == "broker-1-txn-marker-sender-0-ab-100"
    assert sender_of(FIRST.client_id) == FIRST


@pytest.mark.parametrize(
    "client_id",
    [
        None,
        "",
        "broker-1-txn-marker-sender",  # an Apache broker's
        "broker-1-txn-marker-sender-0-ab-100 ",
        "broker-1-txn-marker-sender-0-xy-100",
        "broker-1-txn-marker-sender-256-ab-100",
        "broker-11111111111-txn-marker-sender-0-ab-100",
        "broker-\u0661-txn-marker-sender-0-ab-100",
    ],
)
def test_other_client_ids_name_no_sender(client_id: str | None) -> None:
    assert sender_of(client_id) is None


def test_an_earlier_connection_is_refused_once_a_later_one_was_heard_of() -> None:
    known = Incarnations(lambda _broker: True)
    later = FIRST._replace(number=101)
    assert known.is_current(FIRST)
    assert known.is_current(FIRST)
    assert known.is_current(later)
    assert not known.is_current(FIRST)
    assert known.is_current(later)


def test_other_workers_brokers_and_starts_are_not_compared() -> None:
    known = Incarnations(lambda _broker: True)
    assert known.is_current(FIRST._replace(number=101))
    assert known.is_current(FIRST._replace(worker=1))
    assert known.is_current(FIRST._replace(broker_id=2))
    # The broker started again, on a machine whose clock began anew.
    restarted = FIRST._replace(start="cd", number=5)
    assert known.is_current(restarted)
    assert not known.is_current(restarted._replace(number=4))


def test_senders_that_are_no_brokers_are_not_remembered() -> None:
    known = Incarnations(lambda broker: broker == 1)
    assert known.is_current(FIRST._replace(broker_id=7, number=101))
    assert known.is_current(FIRST._replace(broker_id=7))
    assert known.is_current(FIRST._replace(number=101))
    assert not known.is_current(FIRST)


def test_each_connection_of_a_worker_has_a_higher_number_and_so_have_its_successors() -> None:
    clock = ManualClock(monotonic_ms=50)
    ids = ClientIds(lambda: 1, 0, "ab", clock)
    numbers = [numbered(ids.next()), numbered(ids.next())]
    assert numbers == [50, 51]
    clock.advance(ms=7)
    assert numbered(ClientIds(lambda: 1, 0, "ab", clock).next()) == 57


def numbered(client_id: str) -> int:
    sender = sender_of(client_id)
    assert sender is not None
    assert sender[:3] == (1, 0, "ab")
    return sender.number
