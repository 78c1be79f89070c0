"""Reads the replicas of one worker for a fetch, within the limits of the request.

The records themselves are not read: what is found is a range of a segment's file, and what the answer says beside it.
"""

import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_LEADER
from pkafka.net.answers import FileRange, Part
from pkafka.protocol.hot import CurrentLeader
from pkafka.server.limits.replication_quota import ReplicationQuotas
from pkafka.server.replicas.disks import LOG_ERRORS, Disks
from pkafka.server.replicas.lookup import Lookup
from pkafka.server.replicas.partition import Bound, Partition
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.progress import Progress
from pkafka.server.replicas.truncation import divergence
from pkafka.storage.config import LogConfig

FIRST_VERSION_WITH_MAX_BYTES: Final = 3
FIRST_VERSION_WITH_MAGIC_2: Final = 4
FIRST_VERSION_WITH_IDS: Final = 13
_FIRST_VERSION_WITH_ZSTD: Final = 10
_FIRST_VERSION_WITH_RACK: Final = 11
_FIRST_VERSION_WITH_LEADERS: Final = 16
_READ_COMMITTED: Final = 1
_ABOUT_LEADERS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
NO_RECORDS: Final = FileRange(-1, 0, 0)
_HERE: Final = -1
"""The preferred broker where the client had better go on reading from this one."""
_new: Final = tuple.__new__
"""A named tuple made by this costs half of one made by its class."""
_BATCH_START: Final = struct.Struct(">qi")
"""Bytes of a batch's base offset and length; the length counts what follows them."""
RANGES_MAX: Final = 256
"""At most so many partitions of one worker have records in one answer; the others come first in the next answer. With
more, OpenFiles would close some files before the answer is sent, and a worker would borrow more than it may."""

Aborted: TypeAlias = Sequence[tuple[int, int]] | None


class Found(NamedTuple):
    """Holds what one partition has for a fetch."""

    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Aborted = None
    records: Part = NO_RECORDS
    diverging: "tuple[int, int] | None" = None
    readable_end: int = -1
    """The offset whose growth brings more records: that of the reader's bound."""
    preferred: int = -1
    """The broker from which the client should read instead (KIP-392)."""
    generation: int = 0
    """Names the open file of the range, for other workers, which keep its descriptor."""
    leader: CurrentLeader | None = None
    """The leader, when the error is that this broker does not lead."""
    is_adding: bool = False
    """Whether a reassignment is still adding the replica that fetches."""

    @property
    def length(self) -> int:
        """Bytes of records."""
        records = self.records
        return records.length if type(records) is FileRange else len(records)


class Limits(NamedTuple):
    """Holds what bounds one read over several partitions."""

    bytes_max: int
    at_least_one_batch: bool
    isolation_level: int
    replica_id: int
    version: int
    rack: str = ""
    listener: str = ""
    is_first_look: bool = True
    """Whether this is a request's first look at the logs: only that one tells the leader the follower's position."""

    @property
    def follows(self) -> bool:
        """Whether the request comes from a follower."""
        return self.replica_id >= 0

    @property
    def bound(self) -> Bound:
        """Where the records end that the reader may have."""
        if self.replica_id >= 0:
            return Bound.LOG_END
        return Bound.LAST_STABLE if self.isolation_level == _READ_COMMITTED else Bound.HIGH_WATERMARK


Wanted: TypeAlias = tuple[str, int, int, int, int, int, bytes | None, int]
"""Topic, partition, current leader epoch, fetch offset, last fetched epoch, most bytes, topic id when the request names
the topic by id, log start offset of a follower."""


class Port(Protocol):
    """What a read needs of its worker."""

    @property
    def partitions(self) -> Partitions: ...

    @property
    def lookup(self) -> Lookup: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def disks(self) -> Disks: ...

    @property
    def quotas(self) -> ReplicationQuotas: ...


def within(found: Sequence[Found], partition_limits: Sequence[int], limits: Limits) -> list[Found]:
    """Cut what several workers found to the limits of the request, in its order.

    Each worker kept to the limits, but all together may exceed them. The first partition with records keeps at least
    one batch; others lose what does not fit.
    """
    kept: list[Found] = []
    bytes_left, at_least_one = limits.bytes_max, limits.at_least_one_batch
    for one, partition_limit in zip(found, partition_limits, strict=True):
        limit = min(partition_limit, bytes_left)
        if one.length > limit and not at_least_one:
            one = one._replace(records=_cut(one.records, limit))
        if one.length:
            at_least_one = False
            bytes_left = max(bytes_left - one.length, 0)
        kept.append(one)
    return kept


def _cut(records: Part, length: int) -> Part:
    if type(records) is not FileRange or length < _BATCH_START.size:
        return NO_RECORDS
    start = os.pread(records.fd, _BATCH_START.size, records.position)
    if len(start) < _BATCH_START.size or length < _BATCH_START.size + _BATCH_START.unpack(start)[1]:
        return NO_RECORDS  # a client cannot use part of a batch
    return FileRange(records.fd, records.position, length)


def read(worker: Port, wanted: Sequence[Wanted], limits: Limits) -> list[Found]:
    """Read partitions of this worker, in order, until the bytes that the request allows are used up."""
    found: list[Found] = []
    bytes_left = limits.bytes_max
    at_least_one = limits.at_least_one_batch
    places_left = RANGES_MAX
    throttles = limits.follows and worker.quotas.leader.is_exceeded()
    bound = limits.bound
    for row in wanted:
        waits = throttles and _has_to_wait(worker, row, limits.replica_id)
        try:
            one = _read_partition(
                worker, row, limits, bound, 0 if waits else bytes_left, at_least_one and not waits
            )
        except LOG_ERRORS as error:
            code, leader = worker.disks.refused(row[0], row[1], error), None
            if code in _ABOUT_LEADERS and limits.version >= _FIRST_VERSION_WITH_LEADERS:
                leader = worker.lookup.current_leader(row[0], row[1])
            one = Found(code, leader=leader)
        found.append(one)
        length = one.length
        if length:
            at_least_one = False
            bytes_left = max(bytes_left - length, 0)
        if one.readable_end > row[3] and not waits:
            places_left -= 1
            if not places_left:
                bytes_left = 0
    return found


def _has_to_wait(worker: Port, row: Wanted, replica_id: int) -> bool:
    """Whether a follower gets no records because the replication quota is used up.

    A follower in sync always gets its records, or it would fall out of the ISR (ReplicaManager.shouldLeaderThrottle).
    """
    partition = worker.partitions.led.get((row[0], row[1]))
    return (
        partition is not None
        and replica_id not in partition.isr
        and worker.quotas.leader.throttles(row[0], row[1])
    )


def _read_partition(
    worker: Port, row: Wanted, limits: Limits, bound: Bound, bytes_left: int, at_least_one: bool
) -> Found:
    topic, index, current_leader_epoch, offset, last_fetched_epoch, partition_bytes_max, topic_id, start = row
    follows = limits.replica_id >= 0
    led = worker.partitions.led.get((topic, index))
    partition = led or _hosted(worker, topic, index, limits)
    log = partition.log
    if limits.version < _FIRST_VERSION_WITH_ZSTD:
        _check_client_reads(log.config, limits)
    if topic_id is not None and topic_id != log.topic_id:
        # The topic was deleted and created again: this broker leads the new log and still knows the old id.
        raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
    if current_leader_epoch >= 0:
        partition.check_epoch(current_leader_epoch)
    if led is None and not _may_follow(partition, limits):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if follows and limits.replica_id not in partition.replicas:
        # A follower that knows this leader epoch comes from an assignment of which this leader will hear, says Kafka.
        knows_more = current_leader_epoch >= 0
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if knows_more else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    diverging = divergence(log, offset, last_fetched_epoch)
    if diverging is not None:
        return Found(
            0, log.high_watermark, log.last_stable_offset, log.log_start_offset, None, b"", diverging
        )
    preferred = worker.lookup.preferred_replica(partition, offset, limits.rack, limits.listener)
    if preferred >= 0:
        return Found(
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            preferred=preferred,
            readable_end=log.high_watermark,
        )
    upper_bound = bound.of(log)
    slice_ = log.read(
        offset,
        bytes_max=min(partition_bytes_max, bytes_left),
        min_one_batch=at_least_one,
        upper_bound=upper_bound,
    )
    if follows and limits.is_first_look:
        worker.progress.follower_fetched(partition, limits.replica_id, offset, start)
    records: Part = NO_RECORDS
    is_committed_only = bound is Bound.LAST_STABLE
    aborted: Aborted = [] if is_committed_only else None
    # Only the oldest clients use part of a batch: it tells them to ask for more bytes.
    if slice_.length and not (
        slice_.first_batch_incomplete and limits.version >= FIRST_VERSION_WITH_MAX_BYTES
    ):
        fd = slice_.segment.fileno()
        records = _new(FileRange, (fd, slice_.position, slice_.length))
        if is_committed_only:
            aborted = [(one.producer_id, one.first_offset) for one in log.aborted_within(slice_, upper_bound)]
    return _new(
        Found,
        (
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            aborted,
            records,
            None,
            upper_bound,
            _HERE,
            slice_.segment.generation,
            None,
            follows and partition.is_adding(limits.replica_id),
        ),
    )


def _hosted(worker: Port, topic: str, index: int, limits: Limits) -> Partition:
    """Find a partition that this broker only follows.

    Raises:
        ApiError: there is no such partition here.
    """
    found = worker.partitions.hosted.get((topic, index))
    if found is not None:
        return found
    if not topic and limits.version >= FIRST_VERSION_WITH_IDS:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    raise worker.lookup.missing_partition(topic, index)


def _may_follow(partition: Partition, limits: Limits) -> bool:
    """Whether a follower serves this reader: since KIP-392 consumers may read committed records from it."""
    return not limits.follows and limits.version >= _FIRST_VERSION_WITH_RACK and partition.leader != NO_LEADER


def _check_client_reads(config: LogConfig, limits: Limits) -> None:
    """Refuse clients that are too old for the topic. Kafka checks this first, without a look at the records.

    Raises:
        ApiError: UNSUPPORTED_COMPRESSION_TYPE, or UNSUPPORTED_VERSION where records are not converted for old clients.
    """
    if config.compression_type == "zstd":
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if (
        limits.version < FIRST_VERSION_WITH_MAGIC_2
        and not limits.follows
        and not config.message_downconversion_enable
    ):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
