"""Incremental fetch sessions by the rules of KIP-227."""

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.server.replicas.fetch_sessions import EVICTION_AGE_MS, FetchSessionCache, FetchTarget


def target(topic: str = "t", partition: int = 0, offset: int = 0) -> FetchTarget:
    return FetchTarget(topic, partition, -1, offset, -1, -1, 1_000_000)


def code_of(cache: FetchSessionCache, session_id: int, epoch: int, *, ids: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        cache.resume(session_id, epoch, uses_topic_ids=ids, now_ms=0)
    return refused.value.code


def test_epochs_must_follow_each_other() -> None:
    cache = FetchSessionCache(10)
    session = cache.create([target()], uses_topic_ids=False, now_ms=0)
    assert session is not None
    assert cache.resume(session.id, 1, uses_topic_ids=False, now_ms=0) is session
    assert code_of(cache, session.id, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.resume(session.id, 2, uses_topic_ids=False, now_ms=0).epoch == 3


def test_an_epoch_wraps_to_one() -> None:
    cache = FetchSessionCache(10)
    session = cache.create([target()], uses_topic_ids=False, now_ms=0)
    assert session is not None
    session.epoch = 2**31 - 1
    assert cache.resume(session.id, 2**31 - 1, uses_topic_ids=False, now_ms=0).epoch == 1


def test_unknown_closed_and_mixed_sessions_are_refused() -> None:
    cache = FetchSessionCache(10)
    assert code_of(cache, 77, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    session = cache.create([target()], uses_topic_ids=True, now_ms=0)
    assert session is not None
    assert code_of(cache, session.id, 1) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    cache.remove(session.id)
    assert code_of(cache, session.id, 1, ids=True) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_in_use_are_kept_and_old_or_smaller_ones_make_room() -> None:
    cache = FetchSessionCache(2)
    small = cache.create([target()], uses_topic_ids=False, now_ms=0)
    large = cache.create([target(partition=index) for index in range(5)], uses_topic_ids=False, now_ms=0)
    assert small is not None
    assert large is not None
    assert cache.create([target()], uses_topic_ids=False, now_ms=10) is None
    cache.resume(small.id, 1, uses_topic_ids=False, now_ms=EVICTION_AGE_MS)
    cache.resume(large.id, 1, uses_topic_ids=False, now_ms=EVICTION_AGE_MS)
    bigger = cache.create(
        [target(partition=index) for index in range(3)], uses_topic_ids=False, now_ms=EVICTION_AGE_MS + 1
    )
    assert bigger is not None
    assert code_of(cache, small.id, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    idle_long = 3 * EVICTION_AGE_MS
    assert cache.create([target()], uses_topic_ids=False, now_ms=idle_long) is not None
    assert code_of(cache, large.id, 2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_that_was_served_goes_to_the_end() -> None:
    cache = FetchSessionCache(10)
    first, second, third = (target(partition=index) for index in range(3))
    session = cache.create([first, second, third], uses_topic_ids=False, now_ms=0)
    assert session is not None
    session.served(first)
    assert [each.partition for each in session] == [1, 2, 0]


def news(
    one: FetchTarget, *, error: bool = False, high_watermark: int = 5, start: int = 0, length: int = 0
) -> bool:
    return one.has_news(
        error=error, high_watermark=high_watermark, log_start_offset=start, records_length=length
    )


def test_an_answer_mentions_only_what_is_new() -> None:
    one = target()
    assert news(one)
    assert not news(one)
    assert news(one, high_watermark=6)
    assert news(one, high_watermark=6, start=1)
    assert news(one, high_watermark=6, start=1, length=10)


def test_after_an_error_the_next_answer_says_that_it_is_over() -> None:
    one = target()
    assert news(one)
    assert news(one, error=True, high_watermark=-1, start=-1)
    assert news(one, error=True, high_watermark=-1, start=-1)
    assert news(one)
    assert not news(one)


def test_a_partition_that_was_forgotten_meanwhile_was_still_served() -> None:
    """The answer to an earlier request may come after a later request, from another connection, forgot it."""
    cache = FetchSessionCache(10)
    session = cache.create([target("a"), target("b")], uses_topic_ids=False, now_ms=0)
    assert session is not None
    forgotten = session.targets.pop(("a", 0))
    session.served(forgotten)
    assert [one.topic for one in session] == ["b"]
