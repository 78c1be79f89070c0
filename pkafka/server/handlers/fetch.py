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
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, Protocol

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import BrokerId
from pkafka.net.answers import Answer, FileRange, Part
from pkafka.net.connection import Detach, ServerConnection
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.hot import (
    FetchHeader,
    NodeEndpoint,
    decode_fetch,
    encode_fetch_response,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.handlers.fetch_versions import beside_error, for_old_client
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.metrics.counters import Metrics
from pkafka.server.ports.authorized import Authorized
from pkafka.server.replicas import reading
from pkafka.server.replicas.delayed import DelayedOperation
from pkafka.server.replicas.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessionCache,
    FetchTarget,
    PartitionKey,
)
from pkafka.server.replicas.partition import Bound
from pkafka.server.replicas.reading import (
    FIRST_VERSION_WITH_IDS,
    FIRST_VERSION_WITH_MAGIC_2,
    FIRST_VERSION_WITH_MAX_BYTES,
    NO_RECORDS,
    Found,
    Limits,
    Wanted,
    read,
    within,
)
from pkafka.server.security.rights import Rights, may_in_cluster
from pkafka.server.serving.appends import Appends
from pkafka.server.serving.clients import Clients
from pkafka.server.serving.connection_state import ConnectionState, rights_at
from pkafka.server.serving.dispatch import client_of
from pkafka.server.serving.lent_files import LentFiles
from pkafka.server.serving.peers import Peers

_new: Final = tuple.__new__
"""A named tuple made by this costs half of one made by its class."""
_NOTHING: Final[frozenset[PartitionKey]] = frozenset()
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ROW_BYTES: Final = 40
"""About what a partition takes in an answer besides its records."""
_REMOTE_WAIT_MAX_MS: Final = 1_000
"""A fetch looks again after so long at the latest. When one worker has records, the waits at the other workers go on,
and end by this limit, however long the client is ready to wait."""


class Port(reading.Port, Authorized, Protocol):
    """What Fetch asks of its worker."""

    @property
    def index(self) -> int: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def tasks(self) -> Tasks: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def clients(self) -> Clients: ...

    @property
    def client_quotas(self) -> ClientQuotas: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def files(self) -> LentFiles: ...

    @property
    def appends(self) -> Appends: ...


def handle(
    worker: Port, connection: ServerConnection, header: RequestHeader, frame: memoryview, position: int
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
        may_begin_session = request.session_epoch == INITIAL_EPOCH and any(
            name is not None for name, _ in names
        )
    try:
        fetch = _Fetch(worker, connection, header, request, may_begin_session=may_begin_session)
    except ApiError as error:
        return fetch_error(worker, header, error.code)
    state.has_session = fetch.has_session
    return fetch.begin()


def fetch_error(worker: Port, header: RequestHeader, code: ErrorCode, session_id: int = NO_SESSION) -> Answer:
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
        "_refused",
        "_session",
        "_targets",
        "_version",
        "_wanted",
        "_worker",
    )

    def __init__(
        self,
        worker: Port,
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
        self._refused: list[FetchTarget] = []
        """What the client may not read."""
        if worker.authorizer is not None:
            self._judge(rights_at(worker.authorizer, connection), request)
        self._wanted = _wanted(worker, self._targets)
        bytes_max = min(request.max_bytes, worker.config.fetch_max_bytes)
        if worker.client_quotas.is_active and request.replica_id < 0:
            quota = worker.client_quotas.fetch_bytes_max(*client_of(connection, header))
            if quota is not None:
                bytes_max = min(bytes_max, quota)
        self._limits = _new(
            Limits,
            (
                max(bytes_max, 0),
                self._version >= FIRST_VERSION_WITH_MAX_BYTES,
                request.isolation_level,
                request.replica_id,
                self._version,
                request.rack_id,
                connection.listener,
                True,
            ),
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
        uses_ids = self._version >= FIRST_VERSION_WITH_IDS
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

    # -- rights --

    def _judge(self, rights: Rights, request: FetchHeader) -> None:
        """Part what the client may not read from what it may, there or not."""
        session = self._session
        if session is not None and session.judged_by is rights and not request.partitions:
            denied = session.denied
        else:
            follows = request.replica_id >= 0
            denied, is_whole = (
                (self._denied_to_follower(rights), True) if follows else self._denied_to_client(rights)
            )
            if session is not None:
                session.denied, session.judged_by = denied, rights if is_whole else None
        if denied:
            parted: tuple[list[FetchTarget], list[FetchTarget]] = ([], [])
            for target in self._targets:
                parted[(target.topic, target.partition) in denied].append(target)
            self._targets, self._refused = parted

    def _denied_to_client(self, rights: Rights) -> tuple[frozenset[PartitionKey], bool]:
        """What the client may not read, and whether every topic was known, so that it need not be judged again."""
        readable = rights.readable
        denied: set[PartitionKey] = set()
        is_whole = True
        for target in self._targets:
            topic = target.topic
            name = topic if isinstance(topic, str) else self._worker.lookup.topic_name(topic)
            if name is None:
                # An id that is not known names no topic: the client hears that it is not known.
                is_whole = False
            elif not readable[name]:
                rights.denied(Operation.READ, ResourceType.TOPIC, name)
                denied.add((topic, target.partition))
        return frozenset(denied) if denied else _NOTHING, is_whole

    def _denied_to_follower(self, rights: Rights) -> frozenset[PartitionKey]:
        if may_in_cluster(rights, Operation.CLUSTER_ACTION):
            return _NOTHING
        return frozenset((target.topic, target.partition) for target in self._targets)

    # -- reading --

    def begin(self) -> Answer | None:
        """Look at the logs; answer when there is enough, else wait."""
        if self._is_here():
            self._found = read(self._worker, self._wanted, self._limits)
            if self._is_satisfied():
                self.completed = True
                return self._answer()
            self._limits = self._limits._replace(is_first_look=False)
            self._worker.progress.fetches.watch(self, self._keys_to_watch(), timeout_ms=self._max_wait_ms)
            self._connection.hurry = self._end_wait
            return None
        self._hurried = asyncio.Event()
        self._connection.hurry = self._hurried.set
        self._worker.tasks.spawn(self._read_everywhere(self._by_owner()), self._connection)
        return None

    def _end_wait(self) -> None:
        """Answer with what there is (the connection's ``hurry``)."""
        if self._connection.closed:
            self.abandon()
        else:
            self._worker.progress.fetches.expire(self)

    def _is_here(self) -> bool:
        """Whether this worker owns all partitions; one without a name nobody does."""
        index, owner = self._worker.index, self._worker.partitions.owner
        for row in self._wanted:  # noqa: SIM110 - a generator would take twice as long
            if row[0] and owner(row[0], row[1]) != index:
                return False
        return True

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
        bound = self._limits.bound
        if bound is Bound.HIGH_WATERMARK:
            return [row[:2] for row in self._wanted]
        return [bound.key(row[0], row[1]) for row in self._wanted]

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
            rows, bound = self._wanted, self._limits.bound
            await worker.appends.any(
                {
                    owner: [
                        (rows[place][0], rows[place][1], self._found[place].readable_end, bound)
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
        if self._worker.client_quotas.is_active and not self._limits.follows:
            throttle_ms = self._slow_down()
            if throttle_ms:
                return self._nothing_yet(throttle_ms)
        return self._all_found()

    def _all_found(self) -> Answer:
        session = self._session
        if self._limits.follows and self._worker.quotas.leader.throttles_any:
            self._record_throttled()
        if self._version < FIRST_VERSION_WITH_MAGIC_2:
            self._found = [
                for_old_client(found, target.fetch_offset, self._version)
                for target, found in zip(self._targets, self._found, strict=True)
            ]
        metrics, follows = self._worker.metrics, self._limits.follows
        rows = []
        leaders: list[BrokerId] = []
        ranges: list[Part] = []
        for target, found in self._answered():
            size = length = found.length
            code, aborted = found.error, found.aborted
            if not code:
                if follows:
                    metrics.fetched_by_follower(target.topic, length, is_adding=found.is_adding)
                else:
                    metrics.fetched(target.topic, length)
            else:
                code, aborted, size = beside_error(found, self._version)
                if code != _DENIED and self._worker.lookup.knows(target.topic):
                    # Clients can make up names, which must not fill the memory.
                    metrics.failed_fetch(target.topic)
            if session is not None and not _is_news(session, target, found, code):
                continue
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

    def _answered(self) -> Iterable[tuple[FetchTarget, Found]]:
        """What was found, then what is refused."""
        found = zip(self._targets, self._found, strict=True)
        if not self._refused:
            return found
        return [*found, *((target, Found(_DENIED)) for target in self._refused)]

    def _slow_down(self) -> int:
        """Note what a client is about to get; returns for how many ms it has to wait for it instead."""
        quotas = self._worker.client_quotas
        client = client_of(self._connection, self._header)
        size_bytes = sum(found.length + _ROW_BYTES for found in self._found)
        throttle_ms = max(quotas.fetched(*client, size_bytes), quotas.served(*client, 0))
        if throttle_ms:
            self._connection.pause(throttle_ms / 1000)
        return throttle_ms

    def _nothing_yet(self, throttle_ms: int) -> Answer:
        """An answer without any partition; the session goes on, and one that would begin now begins later."""
        session = self._session
        session_id = NO_SESSION
        if session is not None and session.epoch > 1:
            session_id = session.id
        elif session is not None:
            self._worker.fetch_sessions.remove(session.id)
            state = self._connection.state
            assert isinstance(state, ConnectionState)
            state.has_session = False
        parts = encode_fetch_response(
            self._version, self._header.correlation_id, throttle_ms, 0, session_id, []
        )
        return [part for part in parts if not isinstance(part, int)]

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


def _is_news(session: FetchSession, target: FetchTarget, found: Found, code: int) -> bool:
    """Whether the answer has to mention a partition of a session; notes what it says of it."""
    news = target.has_news(
        # The follower cuts its log and ignores the rest of this partition's answer, so it has to hear it again.
        error=code != 0 or found.diverging is not None,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        records_length=found.length,
    )
    if session.epoch > 1 and not news and found.preferred < 0:
        return False
    if found.length:
        session.served(target)
    return True


def _wanted(worker: Port, targets: Iterable[FetchTarget]) -> list[Wanted]:
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


def _hold(found: Found, held: list[int]) -> Found:
    records = found.records
    if type(records) is not FileRange or not records.length:
        return found
    try:
        fd = os.dup(records.fd)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        return found._replace(records=NO_RECORDS)  # the shortage passes, and the client asks again
    held.append(fd)
    return found._replace(records=FileRange(fd, records.position, records.length))
