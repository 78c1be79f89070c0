"""Produce (key 0, v0-11): append record sets to the partitions' logs.

v1 throttle time · v2 log append time · v3 transactional id, v2 batches only · v5 log start offset · v7 zstd · v8 record
errors · v9 flexible · v10 current leader (KIP-951) · v11 no change on the wire

The hot path: the handler validates and appends the records of this worker's partitions before it returns, without a
task, a future or an object per record. Only for partitions of other workers it calls these.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import INTERNAL_TOPICS
from pkafka.net.buffers import Lease
from pkafka.net.connection import Answer, Detach, LaterAnswer, ServerConnection
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.hot import (
    CurrentLeader,
    NodeEndpoint,
    ProduceRow,
    decode_produce,
    encode_produce_response,
)
from pkafka.records.batch import ATTRIBUTE_TRANSACTIONAL, ATTRIBUTES_POSITION, BATCH_OVERHEAD, MAGIC_POSITION
from pkafka.records.validation import RecordError, validate
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.ipc.peer import Blob, Handler, LaterReply, PeerLate, Reply
from pkafka.server.metrics.counters import Metrics
from pkafka.server.replicas.appending import Appending, Unsafe
from pkafka.server.replicas.disks import LOG_ERRORS, Disks
from pkafka.server.replicas.lookup import Lookup
from pkafka.server.replicas.partition import Partition, PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.clients import Clients
from pkafka.server.serving.dispatch import frame
from pkafka.server.serving.peers import Peers

log = logging.getLogger(__name__)

ACKS_ALL: Final = -1
_REFUSED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of records that are not in the log and that their producer sends again."""
_ADMIN_CLIENT_ID: Final = "__admin_client"
_IN_BLOB: Final = "produce"
"""The operation by which a worker appends records that travel with the frame."""
_IN_ARENA: Final = "produce_from"
"""The same for records that lie in the arena of the worker that received them."""

_FIRST_VERSION_WITH_LEADERS: Final = 10
_WITHOUT_LOG_START: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.INVALID_REQUIRED_ACKS,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""Errors with which Kafka sends no log start offset."""

Row: TypeAlias = tuple[str, int, int, int, int, int, list[tuple[int, str]], str | None, CurrentLeader | None]
"""Topic, partition, error code, base offset, log append time, log start offset, record errors, error message, and the
leader when that is another broker."""
Outcome: TypeAlias = tuple[Row, Unsafe | None]
"""What became of a record set. The row must not leave before the records are as safe as their producer wants."""
_NO_ROW: Final[Row] = ("", -1, ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1, [], None, None)


class Port(Protocol):
    """What Produce asks of its worker."""

    @property
    def partitions(self) -> Partitions: ...

    @property
    def lookup(self) -> Lookup: ...

    @property
    def disks(self) -> Disks: ...

    @property
    def appending(self) -> Appending: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def clients(self) -> Clients: ...


def handle(
    worker: Port, connection: ServerConnection, header: RequestHeader, frame: memoryview, position: int
) -> Answer | LaterAnswer | Detach:
    """Serve one frame.

    Returns:
        A later answer when the answers of other workers, a flush or replicas have to be waited for.
    """
    version = header.api_version
    transactional_id, acks, timeout_ms, parts = decode_produce(frame, position, version)
    refused = _refused_before(connection) if connection.has_refused else None
    if len(parts) == 1 and not refused:
        # Most requests of a busy producer take this way.
        topic, partition, data = parts[0]
        if (topic, partition) in worker.partitions.led:
            outcome = append(
                worker, topic, partition, data, version, acks, header.client_id, transactional_id
            )
            row, unsafe = outcome
            if unsafe is None and not row[2]:
                return _answer_now(worker, connection, header, acks, [row])
            gathering = _Gathering(worker, connection, header, acks, timeout_ms, parts)
            gathering.take_own(0, outcome)
            return gathering.wait()
    foreign = worker.peers.foreign_owner([(topic, partition) for topic, partition, _data in parts])
    if foreign is not None and not connection.has_answers_due:
        detach = worker.clients.hand_over(connection, foreign)
        if detach is not None:
            return detach
    gathering = _Gathering(worker, connection, header, acks, timeout_ms, parts)
    for number in gathering.forward_others(transactional_id, refused or {}):
        topic, partition, data = parts[number]
        gathering.take_own(
            number,
            append(worker, topic, partition, data, version, acks, header.client_id, transactional_id),
        )
    return gathering.wait()


def _refused_before(connection: ServerConnection) -> dict[tuple[str, int], Row]:
    """The partitions refused in requests of this connection whose answers have not left yet.

    Later records of the client for these partitions are refused, too: the client sent them before it heard of the
    refusal. Otherwise the next batch of an idempotent producer would be out of order; some producers then begin a new
    epoch and write twice what they had in flight for other partitions. (Apache Kafka looks at a request only after it
    has answered all before it, so this hardly ever happens there.)
    """
    refused = {
        (row[0], row[1]): row
        for later in connection.answers_due
        if isinstance(later, _Gathering)
        for row in later.rows
        if row[2] in _REFUSED
    }
    connection.has_refused = bool(refused)
    return refused


def append(
    worker: Port,
    topic: str,
    partition: int,
    data: Blob | None,
    version: int,
    acks: int,
    client_id: str | None,
    transactional_id: str | None,
) -> Outcome:
    """Append one record set to a log of this worker."""
    found = worker.partitions.led.get((topic, partition))
    if found is None:
        return _not_here(worker, topic, partition), None
    try:
        worker.metrics.produce(topic)
        _check_may_append(found, acks, client_id)
        now_ms = worker.clock.now_ms()
        records = validate(data if data is not None else b"", found.rules(version), now_ms=now_ms)
        for batch in records.batches:
            if batch.is_transactional:
                _refuse_transaction(transactional_id)
        result, unsafe = worker.appending.append(found, records, needs_all=acks == ACKS_ALL, now_ms=now_ms)
    except LOG_ERRORS as error:
        worker.metrics.failed_produce(topic)
        code = worker.disks.refused(topic, partition, error)
        if isinstance(error, ApiError):
            return _refused(found, error, data, transactional_id), None
        return _failed(topic, partition, code), None
    row: Row = (
        topic,
        partition,
        0,
        result.base_offset,
        result.log_append_time_ms,
        result.log_start_offset,
        [],
        None,
        None,
    )
    return row, unsafe


def _refuse_transaction(transactional_id: str | None) -> None:
    """Refuse records of a transaction: this broker has no transactions.

    Raises:
        ApiError: always; the code depends on whether the request names its transactional id.
    """
    if transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    raise ApiError(ErrorCode.INVALID_TXN_STATE, "Transactions are not served by this version of pkafka")


def _refused(partition: Partition, error: ApiError, data: Blob | None, transactional_id: str | None) -> Row:
    """Make the row of a record set that was not appended, with the fields that Kafka fills beside the code."""
    if transactional_id is None and data is not None and _is_transactional(data):
        error = ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)  # whatever else is wrong
    log_start = partition.log.log_start_offset
    faults: list[tuple[int, str]] = []
    message = error.message if error.code == ErrorCode.INVALID_TXN_STATE else None
    if isinstance(error, RecordError):
        faults = error.record_errors
        message = error.message if error.is_told else None
        log_start = -1 if error.before_log else log_start
    if error.code in _WITHOUT_LOG_START:
        log_start = -1
    return (partition.topic, partition.index, error.code, -1, -1, log_start, faults, message, None)


def _is_transactional(data: Blob) -> bool:
    """Whether a record set begins with a batch of a transaction."""
    if len(data) < BATCH_OVERHEAD or data[MAGIC_POSITION] != 2:
        return False
    return bool(data[ATTRIBUTES_POSITION + 1] & ATTRIBUTE_TRANSACTIONAL)


def _check_may_append(partition: Partition, acks: int, client_id: str | None) -> None:
    if acks not in (0, 1, ACKS_ALL):
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if partition.topic in INTERNAL_TOPICS and client_id != _ADMIN_CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if acks == ACKS_ALL:
        partition.check_enough_in_sync()


def _failed(topic: str, partition: int, code: ErrorCode, leader: CurrentLeader | None = None) -> Row:
    return (topic, partition, code, -1, -1, -1, [], None, leader)


def _not_here(worker: Port, topic: str, partition: int) -> Row:
    error = worker.lookup.missing_partition(topic, partition)
    leader = None
    if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = worker.lookup.current_leader(topic, partition)
    return _failed(topic, partition, error.code, leader)


def _answer(
    worker: Port, connection: ServerConnection, header: RequestHeader, acks: int, rows: Sequence[Row]
) -> Answer | None:
    """Make the answer.

    Returns:
        None when the connection is to be closed instead.
    """
    if acks != 0:
        endpoints: Sequence[NodeEndpoint] = ()
        if header.api_version >= _FIRST_VERSION_WITH_LEADERS:
            leaders = [row[8][0] for row in rows if row[8]]
            if leaders:
                endpoints = worker.metadata.node_endpoints(leaders, connection.listener)
        return (frame(header, encode_produce_response(header.api_version, rows, 0, endpoints)),)
    failed = next((row for row in rows if row[2]), None)
    if failed is None:
        return ()
    # A client with acks=0 expects no answer: a closed connection is the only signal (KafkaApis.handleProduceRequest).
    log.info("Closing the connection of %s: acks=0 and %s", connection.peer_host, ErrorCode(failed[2]).name)
    return None


def _answer_now(
    worker: Port, connection: ServerConnection, header: RequestHeader, acks: int, rows: Sequence[Row]
) -> Answer:
    answer = _answer(worker, connection, header, acks, rows)
    if answer is None:
        connection.close()
        return ()
    return answer


class _Gathering(LaterAnswer):
    """Gathers the rows of a request until all workers that own a part of it have answered."""

    __slots__ = (
        "_acks",
        "_header",
        "_held",
        "_missing",
        "_parts",
        "_readers",
        "_timeout_ms",
        "_unsafe",
        "_waiting",
        "_worker",
        "rows",
    )

    def __init__(
        self,
        worker: Port,
        connection: ServerConnection,
        header: RequestHeader,
        acks: int,
        timeout_ms: int,
        parts: Sequence[ProduceRow],
    ) -> None:
        super().__init__(connection)
        self._worker = worker
        self._header = header
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._parts = parts
        self._held: Lease | None = None
        self._missing = 1  # this worker's own share
        self._readers = 1
        """How many readers may still read the frame. A worker that hangs may read it after the client was answered."""
        self._waiting = False
        self._unsafe: list[Unsafe] = []
        """What this worker has appended, and what is not safe yet."""
        self.rows: list[Row] = [_NO_ROW] * len(parts)

    def forward_others(
        self, transactional_id: str | None, refused: Mapping[tuple[str, int], Row]
    ) -> Sequence[int]:
        """Send other workers their record sets before this worker appends its own, so that all work at the same time.

        Args:
            refused: the partitions that are refused at once, see _refused_before.

        Returns:
            The places in the request of this worker's own record sets.
        """
        worker = self._worker
        here: list[int] = []
        elsewhere: dict[int, list[int]] = {}
        for number, (topic, partition, _data) in enumerate(self._parts):
            if refused and (topic, partition) in refused:
                self.rows[number] = refused[topic, partition]
                continue
            owner = worker.partitions.owner(topic, partition)
            if owner == worker.peers.index:
                here.append(number)
            else:
                elsewhere.setdefault(owner, []).append(number)
        for owner, numbers in elsewhere.items():
            self._forward(owner, numbers, transactional_id)
        return here

    def take_own(self, number: int, outcome: Outcome) -> None:
        """Note the outcome of a record set that this worker has appended."""
        row, unsafe = outcome
        self._note(number, row)
        if unsafe is not None:
            self._unsafe.append(unsafe)

    def _note(self, number: int, row: Row) -> None:
        self.rows[number] = row
        if row[2]:
            self._connection.has_refused = True

    def _forward(self, owner: int, numbers: Sequence[int], transactional_id: str | None) -> None:
        """Send one owner its record sets, unchanged, behind one frame header."""
        parts = [self._parts[number] for number in numbers]
        sets = [data if data is not None else b"" for _topic, _partition, data in parts]
        self._missing += 1
        peer = self._worker.peers.others.get(owner)
        if peer is None:
            self._fail(numbers, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self._readers += 1
        is_answered = False

        def answered(reply: Reply | None, error: PkafkaError | None) -> None:
            nonlocal is_answered
            if not isinstance(error, PeerLate):
                self._has_read()
            if is_answered:
                return
            is_answered = True
            if reply is not None:
                self._take(numbers, reply[0])
            elif isinstance(error, PeerLate):
                self._fail(numbers, ErrorCode.REQUEST_TIMED_OUT)
            else:
                # The owner died with these records in hand: they may or may not be in the log; a retry finds out.
                self._fail(numbers, ErrorCode.NOT_LEADER_OR_FOLLOWER)

        places = self._places(sets)
        header = self._header
        facts: list[Any] = [
            header.api_version,
            self._acks,
            self._timeout_ms,
            header.client_id,
            transactional_id,
        ]
        named = zip(parts, sets, strict=True)
        if places is None:
            facts.append([(topic, partition, len(data)) for (topic, partition, _), data in named])
            peer.call_back(_IN_BLOB, facts, sets[0] if len(sets) == 1 else b"".join(sets), answered)
        else:
            facts.append(
                [
                    (topic, partition, place, len(data))
                    for ((topic, partition, _), data), place in zip(named, places, strict=True)
                ]
            )
            peer.call_back(_IN_ARENA, facts, b"", answered)

    def _places(self, sets: Sequence[Blob]) -> list[int] | None:
        """Find the record sets in this worker's arena, and keep them there until all workers have answered.

        Returns:
            None when they do not lie in the arena.
        """
        arena = self._worker.peers.arena
        if self._held is None:
            self._held = self._connection.hold_frame() if arena is not None else None
        if arena is None or self._held is None:
            return None
        return [arena.position_of(data) if isinstance(data, memoryview) and data else 0 for data in sets]

    def _has_read(self) -> None:
        """Count one reader less of the frame; the last one gives its memory back."""
        self._readers -= 1
        if not self._readers and self._held is not None:
            self._held.release()
            self._held = None

    def _fail(self, numbers: Sequence[int], code: ErrorCode) -> None:
        self._take(numbers, [_failed(*self._parts[number][:2], code) for number in numbers])

    def _take(self, numbers: Sequence[int], answers: Sequence[Row]) -> None:
        for number, answer in zip(numbers, answers, strict=True):
            self._note(number, answer)
        self._share_is_there()

    def _share_is_there(self) -> None:
        self._missing -= 1
        if not self._missing and self._waiting and not self._connection.closed:
            all_together = _answer(self._worker, self._connection, self._header, self._acks, self.rows)
            if all_together is None:
                self.close()
            else:
                self.finish(all_together)

    def wait(self) -> Answer | LaterAnswer:
        """Return the answer when all rows are there, else this object."""
        if self._unsafe:
            self._missing += 1
            _when_safe(self._worker, self.rows, self._unsafe, self._timeout_ms, self._share_is_there)
        self._has_read()
        self._missing -= 1
        self._waiting = self._missing > 0
        if self._waiting:
            return self
        answer = _answer_now(self._worker, self._connection, self._header, self._acks, self.rows)
        if not (self._connection.has_refused and self._connection.has_answers_due):
            return answer
        # Until the answers before this one are sent, later requests see in its rows what was refused.
        self.answer = answer
        return self


def _when_safe(
    worker: Port, rows: list[Row], unsafe: Sequence[Unsafe], timeout_ms: int, done: Callable[[], None]
) -> None:
    """Call back when the appended records are as safe as the producer wants; rows that are not become errors."""

    def safe(codes: Mapping[PartitionKey, ErrorCode]) -> None:
        _note_failures(rows, codes, worker.lookup.current_leader)
        done()

    worker.appending.when_safe(unsafe, safe, timeout_ms=timeout_ms)


def _note_failures(
    rows: list[Row],
    codes: Mapping[PartitionKey, ErrorCode],
    leader_of: Callable[[str, int], CurrentLeader | None],
) -> None:
    """Put errors into the rows of appended records.

    Records that are in the log, but less safe than asked for, keep their offset in the row, beside the error.
    """
    if not any(codes.values()):
        return
    for number, row in enumerate(rows):
        code = codes.get((row[0], row[1]), ErrorCode.NONE)
        if code and not row[2]:
            moved = code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            leader = leader_of(row[0], row[1]) if moved else None
            if code == ErrorCode.KAFKA_STORAGE_ERROR:
                rows[number] = _failed(row[0], row[1], code)
            else:
                rows[number] = (*row[:2], code, *row[3:8], leader)


def _safe_rows(worker: Port, outcomes: Sequence[Outcome], timeout_ms: int) -> list[Row] | LaterReply:
    """Return the rows for another worker, later where a flush or replicas have to be waited for."""
    rows = [row for row, _unsafe in outcomes]
    unsafe = [one for _row, one in outcomes if one is not None]
    if not unsafe:
        return rows
    later = LaterReply()
    _when_safe(worker, rows, unsafe, timeout_ms, lambda: later.give(rows))
    return later


def _serve_arena(worker: Port, payload: Sequence[Any], arena: memoryview) -> list[Row] | LaterReply:
    """Append records for this worker's partitions from the arena of the worker that received them."""
    version, acks, timeout_ms, client_id, transactional_id, parts = payload
    outcomes = [
        append(
            worker, topic, partition, arena[place : place + size], version, acks, client_id, transactional_id
        )
        for topic, partition, place, size in parts
    ]
    return _safe_rows(worker, outcomes, timeout_ms)


def _serve_blob(worker: Port, payload: Sequence[Any], blob: memoryview) -> list[Row] | LaterReply:
    """Append records for this worker's partitions that another worker received and sent as a blob."""
    version, acks, timeout_ms, client_id, transactional_id, parts = payload
    outcomes = []
    position = 0
    for topic, partition, size in parts:
        data = blob[position : position + size]
        outcomes.append(append(worker, topic, partition, data, version, acks, client_id, transactional_id))
        position += size
    return _safe_rows(worker, outcomes, timeout_ms)


def operations(worker: Port) -> dict[str, Handler]:
    """What other workers may ask of this one: to append records to its partitions."""
    arenas = worker.peers.arenas
    return {
        _IN_BLOB: lambda _peer, payload, blob, _fds: _serve_blob(worker, payload, blob),
        _IN_ARENA: lambda peer, payload, _blob, _fds: _serve_arena(worker, payload, arenas[peer.index]),
    }
