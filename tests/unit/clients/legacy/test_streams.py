"""Streams between a fetcher's thread and the application's."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pkafka.clients.legacy.errors import ConsumerTimeoutError
from pkafka.clients.legacy.streams import Chunk, KafkaStream, PartitionTopicInfo
from pkafka.errors import ApiError
from pkafka.model import TopicPartition
from pkafka.records.batch import stamp
from pkafka.records.builder import build_batch
from tests.talk import wait_for

NEVER = threading.Event().is_set


def batch(base: int, *values: bytes) -> bytes:
    data = bytearray(build_batch([(1_000, b"k", value, ()) for value in values]))
    stamp(data, 0, len(data), base_offset=base, leader_epoch=0)
    return bytes(data)


def stream_of(chunks_max: int = 2, timeout_ms: int = 0) -> KafkaStream:
    return KafkaStream(chunks_max, timeout_ms, bytes.decode, bytes.decode)


def info_of(stream: KafkaStream, number: int = 0, offset: int = 0) -> PartitionTopicInfo:
    return PartitionTopicInfo(TopicPartition("t", number), offset, stream)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_messages_in_order_and_what_is_consumed() -> None:
    stream = stream_of()
    one, two = info_of(stream), info_of(stream, 1, 7)
    assert stream.put(Chunk(one, 0, batch(0, b"a", b"b") + batch(5, b"c")), NEVER)
    assert stream.put(Chunk(two, 7, batch(6, b"x", b"y")), NEVER)  # a batch that begins before the position
    message = next(stream)
    assert message == ("t", 0, 0, "k", "a", 1_000)
    assert one.consumed_offset == 1
    assert [
        (each.partition, each.offset, each.message) for each in (next(stream), next(stream), next(stream))
    ] == [
        (0, 1, "b"),
        (0, 5, "c"),
        (1, 7, "y"),
    ]
    assert (one.consumed_offset, two.consumed_offset) == (6, 8)
    with pytest.raises(ConsumerTimeoutError):
        next(stream)
    assert stream.put(Chunk(two, 8, batch(8, b"z")), NEVER)
    assert next(stream).message == "z"


def test_a_full_queue_holds_the_fetcher_up(threads: ThreadPoolExecutor) -> None:
    stream = stream_of(chunks_max=1)
    info = info_of(stream)
    assert stream.put(Chunk(info, 0, batch(0, b"a")), NEVER)
    waiting = threads.submit(stream.put, Chunk(info, 1, batch(1, b"b")), NEVER)
    assert not waiting.done()
    assert next(stream).message == "a"
    assert waiting.result(60)
    assert next(stream).message == "b"


def test_a_stopped_fetcher_gets_nothing_in(threads: ThreadPoolExecutor) -> None:
    stream = stream_of(chunks_max=1)
    info, stopped = info_of(stream), threading.Event()
    assert stream.put(Chunk(info, 0, batch(0, b"a")), stopped.is_set)
    waiting = threads.submit(stream.put, Chunk(info, 1, batch(1, b"b")), stopped.is_set)
    stopped.set()
    stream.wake()
    assert waiting.result(60) is False
    stream.clear()
    assert stream.put(Chunk(info, 0, batch(0, b"late")), stopped.is_set) is False
    with pytest.raises(ConsumerTimeoutError):
        next(stream)


def test_what_is_cleared_is_not_returned_and_not_consumed() -> None:
    stream = stream_of()
    info = info_of(stream)
    stream.put(Chunk(info, 0, batch(0, b"a", b"b", b"c")), NEVER)
    next(stream)
    stream.clear()
    with pytest.raises(ConsumerTimeoutError):
        next(stream)
    assert info.consumed_offset == 1


def test_a_reader_that_waits_is_told_the_end(threads: ThreadPoolExecutor) -> None:
    stream = stream_of(timeout_ms=-1)
    waiting = threads.submit(list, stream)
    wait_for(lambda: stream._changed._waiters)  # type: ignore[attr-defined]
    stream.close()
    assert waiting.result(60) == []
    assert stream.put(Chunk(info_of(stream), 0, batch(0, b"a")), NEVER) is False


def test_damaged_records_are_told_and_passed_over() -> None:
    stream = stream_of()
    damaged = bytearray(batch(0, b"aaaa"))
    damaged[-3] ^= 1
    stream.put(Chunk(info_of(stream), 0, bytes(damaged)), NEVER)
    with pytest.raises(ApiError, match="checksum"):
        next(stream)
    stream.put(Chunk(info_of(stream, 1), 0, batch(0, b"good")), NEVER)
    assert next(stream).message == "good"
