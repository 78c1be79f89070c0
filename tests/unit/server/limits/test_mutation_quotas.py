"""Buckets of tokens: when changes are refused, and for how long clients are slowed down."""

import pytest

from pkafka.clock import ManualClock
from pkafka.errors import ApiError, ErrorCode
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.limits.mutation_quotas import MutationQuotas, Mutations


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quotas(clock: ManualClock) -> MutationQuotas:
    made = MutationQuotas(samples=11, window_s=1, clock=clock)
    made.change("users", "alice", {"controller_mutation_rate": "2.0", "producer_byte_rate": "1"})
    return made


def strict(quotas: MutationQuotas) -> Mutations:
    return quotas.of("alice", "c", is_strict=True)


def test_the_bucket_may_owe_and_then_refuses(quotas: MutationQuotas, clock: ManualClock) -> None:
    first = strict(quotas)
    first.accept(22)  # eleven windows
    first.accept(10)
    assert first.throttle_ms == 0
    with pytest.raises(ApiError) as refused:
        first.accept(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert first.throttle_ms == 5_000
    clock.advance(ms=4_998)
    with pytest.raises(ApiError):
        strict(quotas).accept(1)
    clock.advance(ms=3)
    strict(quotas).accept(1)


def test_requests_that_cannot_be_refused_are_slowed_down(quotas: MutationQuotas) -> None:
    lenient = quotas.of("alice", "c", is_strict=False)
    lenient.accept(20)
    assert lenient.throttle_ms == 0
    lenient.accept(5)
    assert lenient.throttle_ms == 1_500


def test_a_bucket_is_never_more_than_full(quotas: MutationQuotas, clock: ManualClock) -> None:
    strict(quotas).accept(22)
    clock.advance(ms=1_000_000)
    mutations = strict(quotas)
    mutations.accept(23)
    with pytest.raises(ApiError):
        mutations.accept(1)


def test_without_a_quota_everything_is_allowed(quotas: MutationQuotas) -> None:
    for user in ("bob", ""):
        mutations = quotas.of(user, "c", is_strict=True)
        mutations.accept(10**6)
        mutations.accept(1)
        assert mutations.throttle_ms == 0
    quotas.change("users", "alice", {})
    strict(quotas).accept(10**6)
    strict(quotas).accept(1)


def test_a_quota_of_nothing_allows_the_first_change_alone(clock: ManualClock) -> None:
    # As in Kafka, where a bucket that holds nothing does not owe anything either.
    quotas = MutationQuotas(samples=11, window_s=1, clock=clock)
    quotas.change("clients", "<default>", {"controller_mutation_rate": "0"})
    mutations = quotas.of("alice", "c", is_strict=True)
    mutations.accept(1)
    with pytest.raises(ApiError):
        mutations.accept(1)
    assert mutations.throttle_ms == 2**31 - 1


def test_a_bucket_holds_what_is_allowed_in_all_windows(clock: ManualClock) -> None:
    config = BrokerConfig({"controller.quota.window.num": "3", "controller.quota.window.size.seconds": "5"})
    quotas = MutationQuotas.of_config(config, clock)
    quotas.change("users", "alice", {"controller_mutation_rate": "2"})
    mutations = quotas.of("alice", "c", is_strict=False)
    mutations.accept(30)
    assert mutations.throttle_ms == 0
    mutations.accept(1)
    assert mutations.throttle_ms == 500
