"""Addresses that connect too fast."""

import pytest

from pkafka.clock import ManualClock
from pkafka.server.limits.address_rates import AddressRates, Rates, resolved
from pkafka.server.limits.rate_table import RateTable

HERE, THERE = "10.0.0.1", "::ffff:10.0.0.2"
KEY = "connection_creation_rate"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def workers(clock: ManualClock) -> list[AddressRates]:
    table = RateTable(samples=11, window_ms=1000)
    return [AddressRates(table, clock) for _ in range(2)]


def test_without_a_rate_everybody_connects(workers: list[AddressRates]) -> None:
    assert [workers[0].connected(HERE) for _ in range(1000)] == [0] * 1000


def test_who_connects_too_fast_is_held_until_it_may_connect(
    workers: list[AddressRates], clock: ManualClock
) -> None:
    rates, problems = resolved({HERE: {KEY: "2"}, "<default>": {KEY: "100.0"}, "other": {"x": "y"}})
    assert not problems
    for one in workers:
        one.rates = rates
    assert [workers[number % 2].connected(HERE) for number in range(20)] == [0] * 20
    # What is refused does not count.
    assert [workers[number % 2].connected(HERE) for number in range(3)] == [500] * 3
    assert workers[0].connected(THERE) == 0
    clock.advance(ms=11_000)
    assert workers[0].connected(HERE) == 0


def test_an_address_of_version_4_is_one_however_it_is_written(workers: list[AddressRates]) -> None:
    rates, _problems = resolved({"10.0.0.2": {KEY: "0"}, "%3A%3A1": {KEY: "0"}})
    workers[0].rates = rates
    assert workers[0].connected(THERE) == 1000
    assert workers[0].connected("::1") == 1000
    assert workers[0].connected(HERE) == 0


def test_what_cannot_be_looked_up_is_left_out() -> None:
    rates, problems = resolved({"no%20host": {KEY: "1"}, HERE: {KEY: "many"}})
    assert rates == Rates({}, None)
    assert [one.split(":")[0] for one in problems] == [
        f"{KEY} of no host is ignored",
        f"{KEY} of {HERE} is ignored",
    ]
