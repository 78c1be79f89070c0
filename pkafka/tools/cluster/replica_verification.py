"""Compares the replicas of partitions, batch for batch, and says up to where they are known to hold the same.

:func:`compare` decides, on what was fetched; :class:`Verification` fetches from every broker that has a replica, as
Kafka's tool does: as a debugging consumer, which followers answer too. The records themselves are not looked at.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.clients.admin.results import TopicDescription
from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST, NO_TOPIC_ID, TopicPartition
from pkafka.records.batch import (
    ATTRIBUTES_POSITION,
    BATCH_OVERHEAD,
    CRC_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    Buffer,
    peek,
)
from pkafka.records.checksum import crc32c

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

DEBUGGING_CONSUMER: Final = -2
"""A reader of any replica (Kafka's FetchRequest.DEBUGGING_CONSUMER_ID)."""
MEMORY_BYTES: Final = 64 << 20
"""What is asked for at a time, over all brokers."""
_FETCH_VERSION_MAX: Final = 14
"""From version 15 on the replica id stands in a tagged field; the answers have nothing more that is needed here."""
_UNKNOWN: Final = -1
_CRC: Final = Struct(">I")
_CRC_TO_DELTA: Final = Struct(">Ihi")


class Fetched(NamedTuple):
    """What one replica has from an offset on; the last batch may be cut off."""

    records: Buffer
    high_watermark: int


class Kind(Enum):
    """How replicas differ."""

    OFFSET = "offset"
    """Batches end at different offsets: what follows cannot be compared."""
    CHECKSUM = "checksum"


class Difference(NamedTuple):
    """Two replicas that are not the same.

    Args:
        offset: the last one of the batch.
        brokers: the two that have the replicas.
        values: what each has, in the same order: the last offset, or the checksum.
    """

    kind: Kind
    offset: int
    brokers: tuple[int, int]
    values: tuple[int, int]


class Lag(NamedTuple):
    """The largest distance from what all replicas were seen to have to the high watermark."""

    lag: int
    partition: TopicPartition | None
    offset: int


class Round(NamedTuple):
    """What one look at all partitions brought.

    Args:
        moved: whether more is known of any partition than before.
        unreachable: brokers that did not answer, and why.
    """

    differences: Sequence[tuple[TopicPartition, Difference]]
    moved: bool
    unreachable: Mapping[int, ClientError]


class _Batch(NamedTuple):
    last_offset: int
    stored: int
    """The checksum that it carries."""
    computed: int
    """The one of its bytes: the other says nothing of what changed on a disk."""


def compare(fetched: Mapping[int, Fetched], offset: int) -> tuple[int, list[Difference]]:
    """Go through the batches of all replicas of a partition side by side.

    Args:
        fetched: what each broker has, from ``offset`` on.
        offset: where the first batch begins, or within it.

    Returns:
        The offset up to which all replicas have something, which ends where the first of them has no more, and at each
        one's high watermark; and what differed.
    """
    differences: list[Difference] = []
    walks = {broker: _batches(one.records) for broker, one in fetched.items()}
    while walks:
        first: tuple[int, _Batch] | None = None
        for broker, walk in walks.items():
            batch = next(walk, None)
            if batch is None or batch.last_offset >= fetched[broker].high_watermark:
                return offset, differences
            if first is None:
                first = broker, batch
                continue
            other, expected = first
            brokers = (other, broker)
            if batch.last_offset != expected.last_offset:
                ends = (expected.last_offset, batch.last_offset)
                return offset, [*differences, Difference(Kind.OFFSET, batch.last_offset, brokers, ends)]
            sums = (expected.stored, batch.stored)
            if batch.stored == expected.stored:
                sums = (expected.computed, batch.computed)
            if sums[0] != sums[1]:
                differences.append(Difference(Kind.CHECKSUM, batch.last_offset, brokers, sums))
        if first is not None:
            offset = first[1].last_offset + 1
    return offset, differences


def _batches(records: Buffer) -> Iterator[_Batch]:
    """The whole batches, of any format."""
    view = memoryview(records)
    position = 0
    while position + MAGIC_POSITION < len(view):
        offset, size, magic = peek(view, position)
        if size <= LOG_OVERHEAD or position + size > len(view):
            return
        if magic < 2:
            (stored,) = _CRC.unpack_from(view, position + LOG_OVERHEAD)
            yield _Batch(offset, stored, zlib.crc32(view[position + MAGIC_POSITION : position + size]))
        elif size >= BATCH_OVERHEAD:
            stored, _, delta = _CRC_TO_DELTA.unpack_from(view, position + CRC_POSITION)
            computed = crc32c(view[position + ATTRIBUTES_POSITION : position + size])
            yield _Batch(offset + delta, stored, computed)
        position += size


class Verification:
    """Reads the same partitions from all of their replicas, round by round.

    Args:
        admin: reaches the cluster; its metadata has the brokers.
        topics: what to verify.
        offsets: where to begin, of every partition.
        fetch_bytes: of a partition and replica at a time.
        wait_ms: how long brokers wait for something new.

    Attributes:
        offsets: of each partition, up to where all of its replicas have been compared.
        high_watermarks: of each partition, the highest that a replica told; -1 before one did.
    """

    def __init__(
        self,
        admin: "Admin",
        topics: Sequence[TopicDescription],
        offsets: Mapping[TopicPartition, int],
        *,
        fetch_bytes: int,
        wait_ms: int,
    ) -> None:
        self._admin = admin
        self._topic_ids = {each.name: each.topic_id for each in topics}
        self._topic_names = {each.topic_id: each.name for each in topics if each.topic_id != NO_TOPIC_ID}
        self._replicas = {
            TopicPartition(topic.name, each.partition): each.replicas
            for topic in topics
            for each in topic.partitions
        }
        self._fetch_bytes = fetch_bytes
        self._wait_ms = wait_ms
        self.offsets = {each: offsets[each] for each in self._replicas}
        self.high_watermarks = dict.fromkeys(self._replicas, _UNKNOWN)

    def round(self) -> Round:
        """Fetch once from every replica of every partition, and compare; as much at a time as memory is meant to hold.

        Raises:
            ClientError: no broker can be asked at all.
        """
        differences: list[tuple[TopicPartition, Difference]] = []
        unreachable: dict[int, ClientError] = {}
        before = (dict(self.offsets), dict(self.high_watermarks))
        windows = self._windows()
        for window in windows:
            fetched = self._fetch(window, self._wait_ms if len(windows) == 1 else 0, unreachable)
            for partition in window:
                self.offsets[partition], found = compare(fetched[partition], self.offsets[partition])
                differences += [(partition, each) for each in found]
                known = [each.high_watermark for each in fetched[partition].values()]
                self.high_watermarks[partition] = max([*known, self.high_watermarks[partition]])
        moved = before != (self.offsets, self.high_watermarks)
        if unreachable or (not moved and len(windows) > 1):
            # No broker has waited for something new in this round.
            self._admin.cluster.pause(0, self._admin.cluster.clock.monotonic_ms() + self._wait_ms)
        # A batch that is larger than a fetch comes only for the first partition of a request: each is that in its turn.
        first = next(iter(self._replicas))
        self._replicas[first] = self._replicas.pop(first)
        return Round(differences, moved, unreachable)

    def lag(self, up_to: Mapping[TopicPartition, int] | None = None) -> Lag:
        """How far it is from what was compared to the high watermarks, or to other offsets."""
        largest = Lag(_UNKNOWN, None, _UNKNOWN)
        for partition in sorted(self.offsets):
            end = (self.high_watermarks if up_to is None else up_to)[partition]
            lag = end - self.offsets[partition]
            if lag > largest.lag:
                largest = Lag(lag, partition, self.offsets[partition])
        return largest

    def _windows(self) -> list[list[TopicPartition]]:
        windows: list[list[TopicPartition]] = []
        left = 0
        for partition, replicas in self._replicas.items():
            size = self._fetch_bytes * len(replicas)
            if size > left or not windows:
                windows.append([])
                left = MEMORY_BYTES
            windows[-1].append(partition)
            left -= size
        return windows

    def _fetch(
        self, partitions: Sequence[TopicPartition], wait_ms: int, unreachable: dict[int, ClientError]
    ) -> dict[TopicPartition, dict[int, Fetched]]:
        from pkafka.protocol.messages.fetch import FetchResponse

        nothing = Fetched(b"", _UNKNOWN)
        fetched = {each: dict.fromkeys(self._replicas[each], nothing) for each in partitions}
        brokers: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            for broker in self._replicas[each]:
                brokers.setdefault(broker, []).append(each)
        requests = {broker: self._request(some, wait_ms) for broker, some in brokers.items()}
        answers = self._admin.cluster.request_each(requests, FetchResponse, max_version=_FETCH_VERSION_MAX)
        too_early: set[TopicPartition] = set()
        for broker, answer in answers.items():
            if isinstance(answer, ClientError):
                unreachable[broker] = answer
                continue
            for partition, data in self._rows(answer):
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    too_early.add(partition)
                elif not data.error_code:
                    fetched[partition][broker] = Fetched(data.records or b"", data.high_watermark)
        if len(unreachable) == len(brokers):
            self._admin.cluster.refresh()  # fails when no broker answers
        self._begin_later(too_early)
        return fetched

    def _rows(self, answer: "FetchResponse") -> "Iterator[tuple[TopicPartition, PartitionData]]":
        for topic in answer.responses:
            name = topic.topic or self._topic_names.get(topic.topic_id)
            for data in topic.partitions:
                if name is not None:
                    yield TopicPartition(name, data.partition_index), data

    def _begin_later(self, partitions: set[TopicPartition]) -> None:
        """Records were deleted meanwhile: go on with the first that is still there."""
        if partitions:
            for partition, found in self._admin.list_offsets(dict.fromkeys(partitions, EARLIEST)).items():
                if not isinstance(found, ApiError):
                    self.offsets[partition] = max(found.offset, self.offsets[partition])

    def _request(self, partitions: Sequence[TopicPartition], wait_ms: int) -> "FetchRequest":
        from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        rows: dict[str, list[FetchPartition]] = {}
        for each in partitions:
            rows.setdefault(each.topic, []).append(
                FetchPartition(
                    partition=each.partition,
                    fetch_offset=self.offsets[each],
                    partition_max_bytes=self._fetch_bytes,
                )
            )
        return FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(topic=name, topic_id=self._topic_ids[name], partitions=some)
                for name, some in rows.items()
            ],
        )
