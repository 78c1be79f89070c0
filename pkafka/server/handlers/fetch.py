"""Fetch (key 1, v0-17): answer with ranges of the partitions' logs.

v1 throttle time · v2 magic 1 · v3 max bytes · v4 isolation level, magic 2 · v5 log start offset · v7 sessions
(KIP-227) · v9 current leader epoch (KIP-320) · v10 zstd · v11 rack (KIP-392) · v12 flexible, diverging epoch (KIP-595)
· v13 topic ids (KIP-516) · v15 replica state · v16 node endpoints (KIP-951) · v17 directory id

The handler does not read records: the answer names file ranges, which the kernel copies to the socket. Other workers
send the ranges of their partitions as (descriptor, position, length). A fetch that finds too little waits in the
purgatory. Only for clients that do not know magic 2 the records are read and converted, when the answer is made; until
then their size in the log counts.
"""

import asyncio
import errno
import os
import struct
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import NO_LEADER, BrokerId
from pkafka.net.connection import Answer, Detach, FileRange, Part, ServerConnection
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.hot import (
    CurrentLeader,
    FetchHeader,
    NodeEndpoint,
    decode_fetch,
    encode_fetch_response,
)
from pkafka.records.conversion import for_old_consumer
from pkafka.records.errors import RecordError
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.replicas.delayed import DelayedOperation
from pkafka.server.replicas.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchTarget,
)
from pkafka.server.replicas.partition import Partition, end_key
from pkafka.server.replicas.truncation import divergence
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.storage.config import LogConfig

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker

READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_MAX_BYTES: Final = 3
_FIRST_VERSION_WITH_IDS: Final = 13
_FIRST_VERSION_WITH_ZSTD: Final = 10
_FIRST_VERSION_WITH_RACK: Final = 11
_FIRST_VERSION_WITH_MAGIC_1: Final = 2
_FIRST_VERSION_WITH_MAGIC_2: Final = 4
_FIRST_VERSION_WITH_STORAGE_ERRORS: Final = 6
_FIRST_VERSION_WITH_LEADERS: Final = 16
_ABOUT_LEADERS: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_EMPTY: Final = FileRange(-1, 0, 0)
_BATCH_START: Final = struct.Struct(">qi")
"""Bytes of a batch's base offset and length; the length counts what follows them."""
_NOT_KNOWN_HERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""Errors that Kafka answers before it asks the log: the list of aborted transactions is then empty, not null."""
_TOO_OLD: Final = (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNSUPPORTED_VERSION)
"""Errors that Kafka answers after it has asked the log: records are then null, and aborted transactions empty."""
_NULL: Final = -1
RANGES_MAX: Final = 256
"""At most so many partitions of one worker have records in one answer; the others come first in the next answer. With
more, OpenFiles would close some files before the answer is sent, and a worker would borrow more than it may."""
_REMOTE_WAIT_MAX_MS: Final = 1_000
"""A fetch looks again after so long at the latest. When one worker has records, the waits at the other workers go on,
and end by this limit, however long the client is ready to wait."""

Aborted: TypeAlias = list[tuple[int, int]] | None


class Found(NamedTuple):
    """Holds what one partition has for a fetch."""

    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Aborted = None
    records: Part = _EMPTY
    diverging: "tuple[int, int] | None" = None
    readable_end: int = -1
    """The offset whose growth brings more records: for a follower the end of the log, else the high watermark."""
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


Wanted: TypeAlias = tuple[str, int, int, int, int, int, bytes | None, int]
"""Topic, partition, current leader epoch, fetch offset, last fetched epoch, most bytes, topic id when the request names
the topic by id, log start offset of a follower."""


def handle(
    worker: "Worker", connection: ServerConnection, header: RequestHeader, frame: memoryview, position: int
) -> Answer | Detach | None:
    """Serve one frame; None when the answer comes later."""
    request = decode_fetch(frame, position, header.api_version)
    state = connection.state
    assert isinstance(state, ConnectionState)
    state.follows = request.replica_id >= 0
    may_begin_session = False
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        state.has_session = False
        # A session stays in the worker that made it, so a connection moves only before its session begins.
        names = [(worker.lookup.topic_name(row[0]), row[1]) for row in request.partitions]
        foreign = worker.peers.foreign_owner(names)
        if foreign is not None:
            detach = worker.clients.hand_over(connection, foreign)
            if detach is not None:
                return detach
        # A follower may ask before this broker has heard of the topics, and so before it knows which worker owns them.
        # It gets no session then, and its next request names all partitions again.
        may_begin_session = any(name is not None for name, _ in names)
    try:
        fetch = _Fetch(worker, connection, header, request, may_begin_session=may_begin_session)
    except ApiError as error:
        return fetch_error(worker, header, error.code)
    state.has_session = fetch.has_session
    return fetch.begin()


def fetch_error(
    worker: "Worker", header: RequestHeader, code: ErrorCode, session_id: int = NO_SESSION
) -> Answer:
    """Make an answer that carries only an error of the whole request."""
    parts = encode_fetch_response(header.api_version, header.correlation_id, 0, code, session_id, [])
    return [part for part in parts if not isinstance(part, int)]


class _Fetch(DelayedOperation):
    """Serves one fetch request, from its first look at the logs to its answer."""

    __slots__ = (
        "_connection",
        "_found",
        "_header",
        "_hurried",
        "_limits",
        "_max_wait_ms",
        "_min_bytes",
        "_session",
        "_targets",
        "_version",
        "_wanted",
        "_worker",
    )

    def __init__(
        self,
        worker: "Worker",
        connection: ServerConnection,
        header: RequestHeader,
        request: FetchHeader,
        *,
        may_begin_session: bool,
    ) -> None:
        super().__init__()
        self._worker = worker
        self._connection = connection
        self._header = header
        self._version = header.api_version
        self._session: FetchSession | None = None
        self._targets = self._resolve(request, may_begin_session)
        self._wanted = _wanted(worker, self._targets)
        bytes_max = min(request.max_bytes, worker.config.fetch_max_bytes)
        self._limits = Limits(
            max(bytes_max, 0),
            self._version >= _FIRST_VERSION_WITH_MAX_BYTES,
            request.isolation_level,
            request.replica_id,
            self._version,
            request.rack_id,
            connection.listener,
        )
        self._min_bytes = min(request.min_bytes, max(bytes_max, 0))
        self._max_wait_ms = request.max_wait_ms
        self._found: list[Found] = []

    # -- sessions --

    @property
    def has_session(self) -> bool:
        """Whether the client can go on with an incremental fetch."""
        return self._session is not None

    def _resolve(self, request: FetchHeader, may_begin_session: bool) -> list[FetchTarget]:
        """The partitions to read, in order, by the rules of KIP-227.

        Raises:
            ApiError: the session is not known or its epoch or kind is wrong.
        """
        sessions = self._worker.fetch_sessions
        uses_ids = self._version >= _FIRST_VERSION_WITH_IDS
        now_ms = self._worker.clock.monotonic_ms()
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                sessions.remove(request.session_id)
            targets = [FetchTarget(*row) for row in request.partitions]
            if request.session_epoch == INITIAL_EPOCH and may_begin_session:
                self._session = sessions.create(targets, uses_topic_ids=uses_ids, now_ms=now_ms)
            return targets
        session = sessions.resume(
            request.session_id, request.session_epoch, uses_topic_ids=uses_ids, now_ms=now_ms
        )
        for row in request.partitions:
            known = session.targets.get((row[0], row[1]))
            if known is None:
                session.targets[row[0], row[1]] = FetchTarget(*row)
            else:
                known.update(*row[2:])
        for forgotten in request.forgotten:
            session.targets.pop(forgotten, None)
        if session.targets:
            self._session = session
        else:
            sessions.remove(session.id)
        return list(session)

    # -- reading --

    def begin(self) -> Answer | None:
        """Look at the logs; answer when there is enough, else wait."""
        by_owner = self._by_owner()
        if by_owner.keys() <= {self._worker.index}:
            self._found = read(self._worker, self._wanted, self._limits)
            self._limits = self._limits._replace(is_first_look=False)
            if self._is_satisfied():
                self.completed = True
                return self._answer()
            self._worker.progress.fetches.watch(self, self._keys_to_watch(), timeout_ms=self._max_wait_ms)
            self._connection.hurry = self._end_wait
            return None
        self._hurried = asyncio.Event()
        self._connection.hurry = self._hurried.set
        self._worker.tasks.spawn(self._read_everywhere(by_owner), self._connection)
        return None

    def _end_wait(self) -> None:
        """Answer with what there is (the connection's ``hurry``)."""
        if self._connection.closed:
            self.abandon()
        else:
            self._worker.progress.fetches.expire(self)

    def _by_owner(self) -> dict[int, list[int]]:
        """Group the places of the targets by the worker that owns them, in the order of each owner's first target."""
        groups: dict[int, list[int]] = {}
        worker = self._worker
        for place, row in enumerate(self._wanted):
            owner = worker.partitions.owner(row[0], row[1]) if row[0] else worker.index
            groups.setdefault(owner, []).append(place)
        return groups

    def _is_satisfied(self) -> bool:
        if self._max_wait_ms <= 0 or not self._targets:
            return True
        total = 0
        for found in self._found:
            if found.error or found.diverging is not None or found.preferred >= 0:
                return True
            total += found.length
        return total >= self._min_bytes

    def _keys_to_watch(self) -> list[Hashable]:
        keys = [row[:2] for row in self._wanted]
        return [end_key(*key) for key in keys] if self._limits.follows else [*keys]

    async def _read_everywhere(self, by_owner: dict[int, list[int]]) -> None:
        """Read at several workers; when that was too little, read again after a signal or the time-out."""
        worker = self._worker
        deadline_ms = worker.clock.monotonic_ms() + self._max_wait_ms
        while True:
            held: list[int] = []
            try:
                await self._read_round(by_owner, held)
                left_ms = deadline_ms - worker.clock.monotonic_ms()
                if self._connection.closed:
                    return
                if left_ms <= 0 or self._hurried.is_set() or self._is_satisfied():
                    self.force_complete()
                    return
            finally:
                for fd in held:
                    os.close(fd)
            rows = self._wanted
            await worker.appends.any(
                {
                    owner: [
                        (
                            rows[place][0],
                            rows[place][1],
                            self._found[place].readable_end,
                            self._limits.follows,
                        )
                        for place in places
                    ]
                    for owner, places in by_owner.items()
                },
                timeout_ms=min(left_ms, _REMOTE_WAIT_MAX_MS),
                hurried=self._hurried,
            )

    async def _read_round(self, by_owner: dict[int, list[int]], held: list[int]) -> None:
        """Read once at all owners.

        Args:
            by_owner: places of the targets by worker.
            held: gets duplicates of the descriptors that the answer needs: a log may close its own while this waits for
                another worker.
        """
        found: list[Found] = [Found(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(self._targets)
        wanted = self._wanted

        async def ask(owner: int, places: list[int]) -> None:
            rows = [wanted[place] for place in places]
            if owner == self._worker.index:
                answers = read(self._worker, rows, self._limits)
            else:
                answers = await self._read_remote(owner, rows)
            for place, answer in zip(places, answers, strict=True):
                found[place] = _hold(answer, held)

        await asyncio.gather(*(ask(owner, places) for owner, places in by_owner.items()))
        self._limits = self._limits._replace(is_first_look=False)
        self._found = within(found, [row[5] for row in wanted], self._limits)

    async def _read_remote(self, owner: int, rows: Sequence[Wanted]) -> list[Found]:
        try:
            return await self._worker.files.fetch(owner, rows, self._limits)
        except (PeerGone, ApiError):
            return [Found(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(rows)

    # -- waiting and answering --

    def try_complete(self) -> bool:
        self._found = read(self._worker, self._wanted, self._limits)
        return self._is_satisfied()

    def on_expiration(self) -> None:
        # The answer leaves with what there is now, however little.
        self._found = read(self._worker, self._wanted, self._limits)

    def on_complete(self) -> None:
        if not self._connection.closed:
            self._connection.finish(self._answer())

    def on_failure(self, error: Exception) -> None:
        if isinstance(error, AssertionError):
            self._worker.tasks.crash(error)
        self._connection.close()

    def _answer(self) -> Answer:
        session = self._session
        incremental = session is not None and session.epoch > 1
        if self._limits.follows and self._worker.quotas.leader.throttles_any:
            self._record_throttled()
        if self._version < _FIRST_VERSION_WITH_MAGIC_2:
            self._found = [
                _for_old_client(found, target.fetch_offset, self._version)
                for target, found in zip(self._targets, self._found, strict=True)
            ]
        metrics, follows = self._worker.metrics, self._limits.follows
        rows = []
        leaders: list[BrokerId] = []
        ranges: list[Part] = []
        for target, found in zip(self._targets, self._found, strict=True):
            size = length = found.length
            code, aborted = found.error, found.aborted
            if not code:
                if follows:
                    metrics.fetched_by_follower(target.topic, length, is_adding=found.is_adding)
                else:
                    metrics.fetched(target.topic, length)
            else:
                code, aborted, size = _beside_error(found, self._version)
                if self._worker.lookup.knows(target.topic):
                    # Clients can make up names, which must not fill the memory.
                    metrics.failed_fetch(target.topic)
            news = target.has_news(
                # The follower cuts its log and ignores the rest of this partition's answer, so it has to hear it again.
                error=code != 0 or found.diverging is not None,
                high_watermark=found.high_watermark,
                log_start_offset=found.log_start_offset,
                records_length=length,
            )
            if incremental and not news and found.preferred < 0:
                continue
            if session is not None and length:
                session.served(target)
            rows.append(
                (
                    target.topic,
                    target.partition,
                    code,
                    found.high_watermark,
                    found.last_stable_offset,
                    found.log_start_offset,
                    aborted,
                    found.preferred,
                    size,
                    found.diverging,
                    found.leader,
                )
            )
            if found.leader is not None:
                leaders.append(found.leader.leader_id)
            if length:
                ranges.append(found.records)
        session_id = NO_SESSION if session is None else session.id
        endpoints: Sequence[NodeEndpoint] = ()
        if leaders:
            endpoints = self._worker.metadata.node_endpoints(leaders, self._connection.listener)
        parts = encode_fetch_response(
            self._version, self._header.correlation_id, 0, 0, session_id, rows, endpoints
        )
        following = iter(ranges)
        return [next(following) if isinstance(part, int) else part for part in parts]

    def _record_throttled(self) -> None:
        """Count the bytes of this answer for the replication quota; bytes for followers in sync count, too."""
        quota = self._worker.quotas.leader
        name = self._worker.lookup.topic_name
        quota.record(
            sum(
                found.length
                for target, found in zip(self._targets, self._found, strict=True)
                if found.length and quota.throttles(name(target.topic) or "", target.partition)
            )
        )


def _beside_error(found: Found, version: int) -> tuple[int, Aborted, int]:
    """Return the code to answer, with the aborted transactions and the length of records that Kafka sends with it."""
    code = found.error
    if code == ErrorCode.KAFKA_STORAGE_ERROR and version < _FIRST_VERSION_WITH_STORAGE_ERRORS:
        # These clients know this error and look for the leader again.
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code in _TOO_OLD:
        return code, [], _NULL
    return code, [] if code in _NOT_KNOWN_HERE else found.aborted, found.length


def _wanted(worker: "Worker", targets: Iterable[FetchTarget]) -> list[Wanted]:
    """Name the targets. A topic id that is not known now stays unknown to this fetch."""
    name = worker.lookup.topic_name
    return [
        (
            name(target.topic) or "",
            target.partition,
            target.current_leader_epoch,
            target.fetch_offset,
            target.last_fetched_epoch,
            target.partition_max_bytes,
            target.topic if isinstance(target.topic, bytes) else None,
            target.log_start_offset,
        )
        for target in targets
    ]


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
        return _EMPTY
    start = os.pread(records.fd, _BATCH_START.size, records.position)
    if len(start) < _BATCH_START.size or length < _BATCH_START.size + _BATCH_START.unpack(start)[1]:
        return _EMPTY  # a client cannot use part of a batch
    return FileRange(records.fd, records.position, length)


def _hold(found: Found, held: list[int]) -> Found:
    records = found.records
    if type(records) is not FileRange or not records.length:
        return found
    try:
        fd = os.dup(records.fd)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        return found._replace(records=_EMPTY)  # the shortage passes, and the client asks again
    held.append(fd)
    return found._replace(records=FileRange(fd, records.position, records.length))


def read(worker: "Worker", wanted: Sequence[Wanted], limits: Limits) -> list[Found]:
    """Read partitions of this worker, in order, until the bytes that the request allows are used up."""
    found: list[Found] = []
    bytes_left = limits.bytes_max
    at_least_one = limits.at_least_one_batch
    places_left = RANGES_MAX
    throttles = limits.follows and worker.quotas.leader.is_exceeded()
    for row in wanted:
        waits = throttles and _has_to_wait(worker, row, limits.replica_id)
        try:
            one = _read_partition(worker, row, limits, 0 if waits else bytes_left, at_least_one and not waits)
        except ApiError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                worker.disks.log_failed(row[0], row[1])
            leader = None
            if error.code in _ABOUT_LEADERS and limits.version >= _FIRST_VERSION_WITH_LEADERS:
                leader = worker.lookup.current_leader(row[0], row[1])
            one = Found(error.code, leader=leader)
        except (StorageError, OSError) as error:
            one = Found(worker.disks.refused(row[0], row[1], error))
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


def _has_to_wait(worker: "Worker", row: Wanted, replica_id: int) -> bool:
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
    worker: "Worker", row: Wanted, limits: Limits, bytes_left: int, at_least_one: bool
) -> Found:
    topic, index, current_leader_epoch, offset, last_fetched_epoch, partition_bytes_max, topic_id, start = row
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
    if limits.follows and limits.replica_id not in partition.replicas:
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
    committed = limits.isolation_level == READ_COMMITTED and not limits.follows
    waits_for = log.log_end_offset if limits.follows else log.high_watermark
    upper_bound = log.last_stable_offset if committed else waits_for
    slice_ = log.read(
        offset,
        bytes_max=min(partition_bytes_max, bytes_left),
        min_one_batch=at_least_one,
        upper_bound=upper_bound,
    )
    if limits.follows and limits.is_first_look:
        worker.progress.follower_fetched(partition, limits.replica_id, offset, start)
    records: Part = _EMPTY
    aborted: Aborted = [] if committed else None
    # Only the oldest clients use part of a batch: it tells them to ask for more bytes.
    if slice_.length and not (
        slice_.first_batch_incomplete and limits.version >= _FIRST_VERSION_WITH_MAX_BYTES
    ):
        fd = slice_.segment.fileno()
        records = FileRange(fd, slice_.position, slice_.length)
        if committed:
            aborted = [
                (one.producer_id, one.first_offset) for one in log.aborted_transactions(offset, upper_bound)
            ]
    return Found(
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted,
        records,
        None,
        waits_for,
        generation=slice_.segment.generation,
        is_adding=limits.follows and partition.is_adding(limits.replica_id),
    )


def _hosted(worker: "Worker", topic: str, index: int, limits: Limits) -> Partition:
    """Find a partition that this broker only follows.

    Raises:
        ApiError: there is no such partition here.
    """
    found = worker.partitions.hosted.get((topic, index))
    if found is not None:
        return found
    if not topic and limits.version >= _FIRST_VERSION_WITH_IDS:
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
        limits.version < _FIRST_VERSION_WITH_MAGIC_2
        and not limits.follows
        and not config.message_downconversion_enable
    ):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _for_old_client(found: Found, offset: int, version: int) -> Found:
    """Convert the records to the format that a client from before 0.11 reads."""
    records = found.records
    if type(records) is not FileRange or not records.length:
        return found
    magic = 1 if version >= _FIRST_VERSION_WITH_MAGIC_1 else 0
    try:
        data = os.pread(records.fd, records.length, records.position)
        return found._replace(records=for_old_consumer(data, magic, offset))
    except RecordError as error:
        return Found(error.code)


# -- between workers --


def serve_peer(
    worker: "Worker", peer_index: int, payload: Sequence[Any]
) -> "tuple[list[Any], bytes, list[int]]":
    """Read for another worker.

    Returns:
        File ranges as (generation, position, length), with the descriptors that the other worker does not have yet.
    """
    rows, *limits_of_all = payload
    limits = Limits(*limits_of_all)
    return worker.files.describe(peer_index, read(worker, rows, limits))
