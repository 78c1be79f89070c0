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
_TAIL_BYTES: Final = 1 << 16
"""What is asked of a partition that was compared to its end: mostly nothing new is there, so it takes no memory."""
_TAILS_BYTES: Final = 8 << 20
"""What a broker may answer for all partitions together that were compared to their ends."""
_RESPONSE_BYTES_MAX: Final = 0x7FFFFFFF
_FETCH_VERSION_MAX: Final = 14
"""From version 15 on the replica id stands in a tagged field; the answers have nothing more that is needed here."""
_UNKNOWN: Final = -1
_CRC: Final = Struct(">I")
_CRC_TO_DELTA: Final = Struct(">Ihi")
_DELTA: Final = Struct(">i")
_DELTA_POSITION: Final = ATTRIBUTES_POSITION + 2


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
    reached = _end_of_equal_bytes(fetched, offset)
    if reached is not None:
        return reached, []
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


def _end_of_equal_bytes(fetched: Mapping[int, Fetched], offset: int) -> int | None:
    """Where the comparison ends if no replica has other bytes than another one, as far as each goes; else None.

    Equal bytes have equal checksums, so that none need be computed: that is most of the time of a comparison.
    """
    if not fetched:
        return None
    size = min(len(one.records) for one in fetched.values())
    first, *others = (memoryview(one.records)[:size] for one in fetched.values())
    records = first.tobytes()
    # Two views would be compared item by item.
    if not all(records.startswith(each) for each in others):
        return None
    high_watermark = min(one.high_watermark for one in fetched.values())
    for last_offset in _last_offsets(records):
        if last_offset >= high_watermark:
            break
        offset = last_offset + 1
    return offset


def _last_offsets(records: bytes) -> Iterator[int]:
    """The last offset of each whole batch, of any format."""
    position, end = 0, len(records)
    while position + MAGIC_POSITION < end:
        offset, size, magic = peek(records, position)
        if size <= LOG_OVERHEAD or position + size > end:
            return
        if magic < 2:
            yield offset
        elif size >= BATCH_OVERHEAD:
            yield offset + int(_DELTA.unpack_from(records, position + _DELTA_POSITION)[0])
        position += size


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

    A partition that was compared to its goal is not asked for again, and one that was compared to its end is asked for
    beside the others, as it has nothing most of the time.

    Args:
        admin: reaches the cluster; its metadata has the brokers.
        topics: what to verify.
        offsets: where to begin, of every partition.
        fetch_bytes: of a partition and replica at a time.
        fetch_bytes_max: the same where few partitions have more to compare, as far as memory goes.
        wait_ms: how long brokers wait for something new.
        once: whether each partition gets a goal: its high watermark when all replicas answered for the first time.

    Attributes:
        offsets: of each partition, up to where all of its replicas have been compared.
        high_watermarks: of each partition, the highest that a replica told; -1 before one did.
        goals: of each partition that has one already, up to where it has to be compared.
    """

    def __init__(
        self,
        admin: "Admin",
        topics: Sequence[TopicDescription],
        offsets: Mapping[TopicPartition, int],
        *,
        fetch_bytes: int,
        fetch_bytes_max: int,
        wait_ms: int,
        once: bool = False,
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
        self._fetch_bytes_max = max(fetch_bytes, fetch_bytes_max)
        self._wait_ms = wait_ms
        self._once = once
        self.offsets = {each: offsets[each] for each in self._replicas}
        self.high_watermarks = dict.fromkeys(self._replicas, _UNKNOWN)
        self.goals: dict[TopicPartition, int] = {}
        self._begins = dict(self.offsets)
        self._left = dict.fromkeys(self._replicas)
        """The partitions that have not come to their goals, in the order in which they are asked for."""

    @property
    def is_done(self) -> bool:
        """Whether every partition has come to its goal."""
        return not self._left

    def progress(self) -> tuple[int, int]:
        """How many offsets were compared, of how many up to goals or high watermarks, as far as these are known."""
        done = total = 0
        for partition, begin in self._begins.items():
            end = self._end_of(partition)
            total += max(end - begin, 0)
            done += max(min(self.offsets[partition], end) - begin, 0)
        return done, total

    def round(self) -> Round:
        """Fetch once from every replica of what is left, and compare; as much at a time as memory is meant to hold.

        Raises:
            ClientError: no broker can be asked at all.
        """
        differences: list[tuple[TopicPartition, Difference]] = []
        unreachable: dict[int, ClientError] = {}
        moved = False
        windows = self._windows()
        for window in windows:
            fetched = self._fetch(window, self._wait_ms if len(windows) == 1 else 0, unreachable)
            for partition, replicas in fetched.items():
                known = self.offsets[partition], self.high_watermarks[partition]
                differences += [(partition, each) for each in self._compare(partition, replicas)]
                moved = moved or known != (self.offsets[partition], self.high_watermarks[partition])
        if unreachable or (not moved and len(windows) > 1):
            # No broker has waited for something new in this round.
            self._admin.cluster.pause(0, self._admin.cluster.clock.monotonic_ms() + self._wait_ms)
        # A batch that is larger than a fetch comes only for the first partition of a request: each is that in its turn.
        if self._left:
            first = next(iter(self._left))
            self._left[first] = self._left.pop(first)
        return Round(differences, moved, unreachable)

    def _compare(self, partition: TopicPartition, fetched: Mapping[int, Fetched]) -> list[Difference]:
        """Compare what was fetched of a partition, and note how far that leads."""
        self.offsets[partition], found = compare(fetched, self.offsets[partition])
        highest = max(each.high_watermark for each in fetched.values())
        self.high_watermarks[partition] = max(highest, self.high_watermarks[partition])
        if self._once and all(each.high_watermark >= 0 for each in fetched.values()):
            goal = self.goals.setdefault(partition, self.high_watermarks[partition])
            if self.offsets[partition] >= goal:
                del self._left[partition]
        return found

    def _end_of(self, partition: TopicPartition) -> int:
        return self.goals.get(partition, self.high_watermarks[partition])

    def lag(self) -> Lag:
        """How far it is from what was compared to the high watermarks, or to the goals."""
        largest = Lag(_UNKNOWN, None, _UNKNOWN)
        for partition in sorted(self.offsets):
            lag = self._end_of(partition) - self.offsets[partition]
            if partition in self.goals:  # a batch may lead beyond it
                lag = max(lag, 0)
            if lag > largest.lag:
                largest = Lag(lag, partition, self.offsets[partition])
        return largest

    def _windows(self) -> list[dict[TopicPartition, int]]:
        """What is left, and how much to ask for of each: as much in a window as is asked for at a time."""
        behind: list[TopicPartition] = []
        at_end: list[TopicPartition] = []
        for each in self._left:
            (at_end if 0 <= self.high_watermarks[each] <= self.offsets[each] else behind).append(each)
        replicas = sum(len(self._replicas[each]) for each in behind)
        size = min(max(MEMORY_BYTES // max(replicas, 1), self._fetch_bytes), self._fetch_bytes_max)
        windows: list[dict[TopicPartition, int]] = []
        left = 0
        for partition in behind:
            needed = size * len(self._replicas[partition])
            if needed > left or not windows:
                windows.append({})
                left = MEMORY_BYTES
            windows[-1][partition] = size
            left -= needed
        if at_end:
            tails = dict.fromkeys(at_end, min(self._fetch_bytes, _TAIL_BYTES))
            windows[-1:] = [{**(windows[-1] if windows else {}), **tails}]
        return windows

    def _fetch(
        self, window: Mapping[TopicPartition, int], wait_ms: int, unreachable: dict[int, ClientError]
    ) -> dict[TopicPartition, dict[int, Fetched]]:
        from pkafka.protocol.messages.fetch import FetchResponse

        nothing = Fetched(b"", _UNKNOWN)
        fetched = {each: dict.fromkeys(self._replicas[each], nothing) for each in window}
        brokers: dict[int, dict[TopicPartition, int]] = {}
        for each, size in window.items():
            for broker in self._replicas[each]:
                brokers.setdefault(broker, {})[each] = size
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

    def _request(self, sizes: Mapping[TopicPartition, int], wait_ms: int) -> "FetchRequest":
        from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

        rows: dict[str, list[FetchPartition]] = {}
        for each, size in sizes.items():
            rows.setdefault(each.topic, []).append(
                FetchPartition(
                    partition=each.partition,
                    fetch_offset=self.offsets[each],
                    partition_max_bytes=size,
                )
            )
        wanted = sum(size for size in sizes.values() if size >= self._fetch_bytes)
        return FetchRequest(
            replica_id=DEBUGGING_CONSUMER,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=min(wanted + _TAILS_BYTES, _RESPONSE_BYTES_MAX),
            topics=[
                FetchTopic(topic=name, topic_id=self._topic_ids[name], partitions=some)
                for name, some in rows.items()
            ],
        )
