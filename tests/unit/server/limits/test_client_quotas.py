"""What clients use is measured over all workers, and whoever uses more than its quota is slowed down as by Kafka."""

import pytest

from pkafka.clock import ManualClock
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.limits.rate_table import RateTable


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table() -> RateTable:
    return RateTable(samples=11, window_ms=1000)


def quotas(table: RateTable, clock: ManualClock, **settings: str) -> ClientQuotas:
    made = ClientQuotas(table, clock)
    made.change([("users", "alice", settings)])
    return made


def test_without_a_quota_nothing_is_asked(table: RateTable, clock: ManualClock) -> None:
    made = quotas(table, clock)
    assert (made.is_active, made.limits_requests) == (False, False)
    assert made.produced("alice", "c", 10**9) == 0
    assert made.fetched("alice", "c", 10**9) == 0
    assert made.served("alice", "c", 10**12) == 0
    assert made.fetch_bytes_max("alice", "c") is None


def test_a_producer_waits_until_its_rate_is_back(table: RateTable, clock: ManualClock) -> None:
    made = quotas(table, clock, producer_byte_rate="1000")
    assert made.is_active
    # Ten windows are paid for before the first is over.
    assert made.produced("alice", "c", 10_000) == 0
    assert made.produced("alice", "d", 1) == 1
    # As long as it takes, not a window at most: 20,000 bytes are ten seconds too many.
    assert made.produced("alice", "c", 9_999) == 10_000
    assert made.produced("bob", "c", 10**9) == 0
    # The windows that were measured are forgotten together.
    clock.advance(ms=11_000)
    assert made.produced("alice", "c", 0) == 0


def test_workers_measure_together(table: RateTable, clock: ManualClock) -> None:
    one, other = (quotas(table, clock, producer_byte_rate="1000") for _ in range(2))
    assert one.produced("alice", "c", 10_000) == 0
    assert other.produced("alice", "c", 1_000) == 1000


def test_a_fetch_that_is_too_large_gets_nothing_and_counts_nothing(
    table: RateTable, clock: ManualClock
) -> None:
    made = quotas(table, clock, consumer_byte_rate="1000")
    assert made.fetch_bytes_max("alice", "c") == 10_000
    assert made.fetched("alice", "c", 10_000) == 0
    assert made.fetched("alice", "c", 5_000) == 5_000
    assert made.fetched("alice", "c", 5_000) == 5_000
    assert made.use() == [("consumer_byte_rate", "alice", "", 10_000.0, 1000.0)]


def test_the_time_of_requests_counts_in_percent_of_a_core(table: RateTable, clock: ManualClock) -> None:
    made = quotas(table, clock, request_percentage="50.0")
    assert made.limits_requests
    assert made.served("alice", "c", 5 * 10**9) == 0  # ten windows of half a second each
    assert made.served("alice", "c", 100 * 10**6) == 200
    # One window at most.
    assert made.served("alice", "c", 60 * 10**9) == 1000
    assert made.served("alice", "c", 0) == 1000


def test_quotas_that_are_gone_apply_no_more(table: RateTable, clock: ManualClock) -> None:
    made = quotas(table, clock, producer_byte_rate="1")
    made.change([("clients", "<default>", {"request_percentage": "1"})])
    assert made.produced("alice", "c", 100) > 0
    assert (made.is_active, made.limits_requests) == (True, True)
    made.change([("clients", "<default>", {"request_percentage": "2"})], is_all=True)
    assert made.produced("alice", "c", 10**9) == 0
    assert made.limits_requests
    made.change([], is_all=True)
    assert (made.is_active, made.limits_requests) == (False, False)


def test_what_is_no_number_is_no_quota(
    table: RateTable, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    made = quotas(table, clock, producer_byte_rate="much")
    assert not made.is_active
    assert "'much' is not a number" in caplog.text


def test_a_rate_that_was_not_used_for_an_hour_begins_anew(table: RateTable, clock: ManualClock) -> None:
    made = quotas(table, clock, producer_byte_rate="1000")
    made.produced("alice", "c", 10**8)
    clock.advance(ms=3_600_000)
    assert made.produced("alice", "c", 10_000) == 0


def test_a_full_table_gives_up_what_was_used_longest_ago(clock: ManualClock) -> None:
    table = RateTable(samples=2, window_ms=1000, slots=16)
    keys = [table.key("rate", str(number)) for number in range(17)]
    for key in keys[:16]:
        clock.advance(ms=1)
        with table.rate(key, clock.monotonic_ms()) as rate:
            rate.record(clock.monotonic_ms(), 5)
    assert table.given_up == 0
    with table.rate(keys[0], clock.monotonic_ms()) as rate:
        assert rate.per_second(clock.monotonic_ms()) == 5
    clock.advance(ms=1)
    with table.rate(keys[16], clock.monotonic_ms()) as rate:
        assert not rate.has_begun
    assert table.given_up == 1
    with table.rate(keys[0], clock.monotonic_ms()) as rate:
        assert rate.has_begun
    with table.rate(keys[1], clock.monotonic_ms()) as rate:
        assert not rate.has_begun


def test_names_do_not_run_into_each_other() -> None:
    table = RateTable(samples=2, window_ms=1000)
    assert len({table.key(*name) for name in (("a", "bc"), ("ab", "c"), ("abc", ""), ("abc",))}) == 4
