"""Replicas side by side: how far they are the same, and what is said where they are not."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import PartitionDescription, TopicDescription
from pkafka.clients.errors import ClientError, DisconnectedError
from pkafka.clock import ManualClock
from pkafka.model import NO_TOPIC_ID, TopicPartition
from pkafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from pkafka.records.batch import CRC_POSITION
from pkafka.records.builder import build_batch
from pkafka.records.checksum import crc32c
from pkafka.tools.cluster import replica_verification
from pkafka.tools.cluster.replica_verification import (
    MEMORY_BYTES,
    Difference,
    Fetched,
    Kind,
    Verification,
    compare,
)


def batch(offset: int, *values: bytes) -> bytes:
    return bytes(build_batch([(0, None, value, ()) for value in values], base_offset=offset))


def all_same(records: bytes, *high_watermarks: int) -> dict[int, Fetched]:
    return {broker: Fetched(records, each) for broker, each in enumerate(high_watermarks)}


THREE = batch(0, b"a", b"b") + batch(2, b"c") + batch(3, b"d")


@pytest.mark.parametrize(
    ("high_watermarks", "end"),
    [
        ((4, 4, 4), 4),
        ((4, 3, 4), 3),  # one does not know yet that the last batch is committed
        ((4, 2), 2),
        ((4, 1), 0),
        ((4, -1), 0),
        ((0, 0), 0),
        ((4,), 4),
    ],
)
def test_replicas_are_compared_up_to_every_high_watermark(high_watermarks: tuple[int, ...], end: int) -> None:
    assert compare(all_same(THREE, *high_watermarks), 0) == (end, [])


def test_a_replica_that_has_less_ends_the_comparison() -> None:
    behind = {**all_same(THREE, 4, 4), 2: Fetched(batch(0, b"a", b"b"), 4)}
    assert compare(behind, 0) == (2, [])
    assert compare({**behind, 3: Fetched(b"", 4)}, 0) == (0, [])


@pytest.mark.parametrize("kept", range(len(THREE)))
def test_a_batch_that_is_cut_off_is_compared_next_time(kept: int) -> None:
    end = sum(kept >= size for size in (len(batch(0, b"a", b"b")),))
    reached, differences = compare({0: Fetched(THREE, 4), 1: Fetched(THREE[:kept], 4)}, 0)
    assert differences == []
    assert (reached >= 2) == bool(end)
    assert reached < 4


def test_other_bytes_are_a_difference_and_the_rest_is_compared() -> None:
    other = batch(0, b"a", b"b") + batch(2, b"X") + batch(3, b"d")
    sums = [crc32c(each[21:]) for each in (batch(2, b"c"), batch(2, b"X"))]
    found = compare({5: Fetched(THREE, 4), 7: Fetched(other, 4)}, 0)
    assert found == (4, [Difference(Kind.CHECKSUM, 2, (5, 7), (sums[0], sums[1]))])


def test_damage_under_the_right_checksum_is_a_difference() -> None:
    damaged = bytearray(THREE)
    damaged[-1] ^= 1
    end, [found] = compare({0: Fetched(THREE, 4), 1: Fetched(damaged, 4)}, 0)
    assert (end, found.kind, found.offset) == (4, Kind.CHECKSUM, 3)
    stored = struct.unpack_from(">I", batch(3, b"d"), CRC_POSITION)[0]
    assert found.values[0] == stored != found.values[1]


def test_a_checksum_that_is_damaged_is_a_difference() -> None:
    damaged = bytearray(THREE)
    damaged[CRC_POSITION] ^= 1
    end, [found] = compare({0: Fetched(THREE, 4), 1: Fetched(damaged, 4)}, 0)
    assert (end, found.kind, found.offset) == (4, Kind.CHECKSUM, 1)
    assert found.values[0] ^ found.values[1] == 1 << 24


def test_other_offsets_end_the_comparison() -> None:
    other = batch(0, b"a", b"b") + batch(2, b"c", b"d")
    assert compare({0: Fetched(THREE, 4), 1: Fetched(other, 4)}, 0) == (
        2,
        [Difference(Kind.OFFSET, 3, (0, 1), (2, 3))],
    )


def test_messages_of_old_formats() -> None:
    def message(offset: int, value: bytes) -> bytes:
        body = struct.pack(">bbqi", 1, 0, 0, -1) + struct.pack(">i", len(value)) + value
        return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body

    one, other = (message(0, b"a") + message(1, each) for each in (b"b", b"c"))
    assert compare(all_same(one, 2, 2), 0) == (2, [])
    end, [found] = compare({0: Fetched(one, 2), 1: Fetched(other, 2)}, 0)
    assert (end, found.kind, found.offset) == (2, Kind.CHECKSUM, 1)


def test_nothing_to_compare() -> None:
    assert compare({}, 7) == (7, [])
    assert compare(all_same(b"", 7, 7), 7) == (7, [])


def test_equal_bytes_are_compared_without_their_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_verification, "crc32c", lambda _: pytest.fail("a checksum was computed"))
    assert compare(all_same(THREE, 4, 4), 0) == (4, [])


class Replicas:
    """A cluster of two brokers that hold the same logs; it answers fetches as brokers do, and keeps what was asked.

    Args:
        logs: of each partition of topic ``t``.
    """

    def __init__(self, *logs: Sequence[bytes]) -> None:
        self.cluster = self
        self.clock = ManualClock()
        self.logs = [list(each) for each in logs]
        self.offline: set[int] = set()
        self.asked: list[dict[int, dict[int, int]]] = []
        """Of each request to all brokers: broker to partition to bytes."""
        self.paused_until_ms: list[int] = []

    def request_each(
        self, messages: Mapping[int, FetchRequest], *_: object, **__: object
    ) -> dict[int, FetchResponse | ClientError]:
        self.asked.append(
            {
                broker: {
                    each.partition: each.partition_max_bytes
                    for topic in message.topics
                    for each in topic.partitions
                }
                for broker, message in messages.items()
            }
        )
        return {broker: self._answer(broker, message) for broker, message in messages.items()}

    def _answer(self, broker: int, message: FetchRequest) -> FetchResponse | ClientError:
        if broker in self.offline:
            return DisconnectedError("away")
        left = message.max_bytes
        rows = []
        for asked in message.topics[0].partitions:
            log = self.logs[asked.partition]
            data = b"".join(log[asked.fetch_offset :])[: min(asked.partition_max_bytes, left)]
            left -= len(data)
            rows.append(PartitionData(partition_index=asked.partition, high_watermark=len(log), records=data))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])

    def refresh(self) -> None:
        """Is asked for where no broker answers."""

    def pause(self, _: int, until_ms: int) -> None:
        self.paused_until_ms.append(until_ms)

    def verification(self, fetch_bytes: int, fetch_bytes_max: int, *, once: bool = True) -> Verification:
        partitions = tuple(
            PartitionDescription(number, 0, (0, 1), (0, 1)) for number in range(len(self.logs))
        )
        topic = TopicDescription("t", NO_TOPIC_ID, is_internal=False, partitions=partitions)
        return Verification(
            cast(Admin, self),
            [topic],
            {TopicPartition("t", number): 0 for number in range(len(self.logs))},
            fetch_bytes=fetch_bytes,
            fetch_bytes_max=fetch_bytes_max,
            wait_ms=500,
            once=once,
        )


def one_each(count: int) -> list[bytes]:
    return [batch(number, b"value") for number in range(count)]


SIZE = len(batch(0, b"value"))


def test_a_partition_that_was_compared_is_not_asked_for_again() -> None:
    replicas = Replicas(one_each(1), one_each(3), [])
    verification = replicas.verification(SIZE, SIZE)
    while not verification.is_done:
        assert verification.round().differences == []
    assert [sorted(each[0]) for each in replicas.asked] == [[0, 1, 2], [1], [1]]
    assert (verification.lag().lag, verification.progress()) == (0, (4, 4))


def test_what_comes_later_is_not_compared_where_there_is_a_goal() -> None:
    replicas = Replicas(one_each(2))
    verification = replicas.verification(SIZE, SIZE)
    verification.round()
    assert verification.progress() == (1, 2)
    replicas.logs = [one_each(5)]
    verification.round()
    assert verification.is_done
    assert verification.goals == {TopicPartition("t", 0): 2}


def test_a_partition_is_not_done_before_all_of_its_replicas_have_answered() -> None:
    replicas = Replicas([], one_each(1))
    replicas.offline = {1}
    verification = replicas.verification(SIZE, SIZE)
    assert list(verification.round().unreachable) == [1]
    assert not verification.is_done
    assert replicas.paused_until_ms == [500]
    replicas.offline = set()
    verification.round()
    assert verification.is_done


def test_few_partitions_are_read_in_larger_pieces_as_far_as_memory_goes() -> None:
    verification = (replicas := Replicas(one_each(1), one_each(1))).verification(100, MEMORY_BYTES)
    verification.round()
    assert replicas.asked == [{broker: {0: MEMORY_BYTES // 4, 1: MEMORY_BYTES // 4} for broker in (0, 1)}]
    verification = (replicas := Replicas(one_each(1), one_each(1))).verification(100, 1_000)
    verification.round()
    assert replicas.asked[0][0] == {0: 1_000, 1: 1_000}


def test_many_partitions_are_read_in_turn_as_memory_allows() -> None:
    replicas = Replicas(*[one_each(1)] * 5)
    replicas.verification(MEMORY_BYTES // 4, MEMORY_BYTES).round()
    assert [list(each[0]) for each in replicas.asked] == [[0, 1], [2, 3], [4]]


def test_partitions_compared_to_their_ends_are_asked_for_beside_the_others() -> None:
    replicas = Replicas(*[one_each(1)] * 4, one_each(3))
    verification = replicas.verification(MEMORY_BYTES // 2, MEMORY_BYTES // 2, once=False)
    verification.round()
    assert len(replicas.asked) == len(replicas.logs)
    replicas.asked.clear()
    replicas.logs[0] = one_each(2)
    assert verification.round().moved
    (asked,) = replicas.asked
    assert sorted(asked[0]) == [0, 1, 2, 3, 4]
    assert max(asked[0].values()) < MEMORY_BYTES // 100
    assert verification.progress() == (8, 8)
