"""Produce (key 0, v0-11): append record sets to the partitions' logs.

v1 throttle time · v2 log append time · v3 transactional id, v2 batches only · v5 log start offset · v7 zstd · v8 record
errors · v9 flexible · v10 current leader (KIP-951) · v11 no change on the wire

The hot path: the handler validates and appends the records of this worker's partitions before it returns, without a
task, a future or an object per record. Only for partitions of other workers it calls these, and only the first records
of a transaction in a partition wait for the transaction's coordinator.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from pkafka.errors import ErrorCode, PkafkaError
from pkafka.net.answers import Answer
from pkafka.net.buffers import Lease
from pkafka.net.connection import Detach, LaterAnswer, ServerConnection
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.hot import (
    ProduceRow,
    decode_produce,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.handlers.produce_answer import answer_now, answer_to, unanswered, when_safe
from pkafka.server.handlers.produce_append import (
    Means,
    Outcome,
    Port,
    Row,
    Terms,
    append,
    append_in_transaction,
    failed,
    has_transactions,
    refusal_of,
    vouched_for,
)
from pkafka.server.handlers.produce_forwarding import (
    COPIED_BYTES_MAX,
    FORWARD,
    Forwarded,
    forwarded_handler,
)
from pkafka.server.ipc.peer import Blob, Handler, LaterReply, PeerLate, Reply
from pkafka.server.replicas.appending import Unsafe
from pkafka.server.security.rights import Rights
from pkafka.server.serving.connection_state import rights_at
from pkafka.server.transactions.questions import Vouched

log = logging.getLogger(__name__)

_REFUSED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of records that are not in the log and that their producer sends again."""
# What the two words below say are plain rows: msgpack packs and unpacks these faster than Python could pack numbers.
_Words: TypeAlias = Sequence[Vouched] | None
_FromBlob: TypeAlias = tuple[int, int, int, str | None, str | None, _Words, Sequence[tuple[str, int, int]]]
"""Version, acks, time-out in ms, client id, transactional id, and a word of its coordinator for each set, if the worker
that asks is the coordinator; topic, partition and size of each set of the blob."""
_FromArena: TypeAlias = tuple[
    int, int, int, str | None, str | None, _Words, Sequence[tuple[str, int, int, int]]
]
"""The same; topic, partition, place and size of each set in the arena of the worker that asks."""
_IN_BLOB: Final = "produce"
"""The operation by which a worker appends records that travel with the frame."""
_IN_ARENA: Final = "produce_from"
"""The same for records that lie in the arena of the worker that received them."""

_NO_ROW: Final[Row] = ("", -1, ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1, [], None, None)


def handle(
    served_by: Port, connection: ServerConnection, header: RequestHeader, frame: memoryview, position: int
) -> Answer | LaterAnswer | Detach:
    """Serve one frame.

    Returns:
        A later answer when the answers of other workers, a flush or replicas have to be waited for.

    Raises:
        ApiError: the rights of the client are not known yet.
    """
    worker = served_by.for_produce
    version = header.api_version
    transactional_id, acks, timeout_ms, parts = decode_produce(frame, position, version)
    rights = None if worker.authorizer is None else rights_at(worker.authorizer, connection)
    if has_transactions(parts):
        refusal = refusal_of(transactional_id, parts, rights)
        if refusal is not None:
            code, message = refusal
            rows = [failed(*part[:2], code, message=message) for part in parts]
            return answer_now(worker, connection, header, acks, rows, len(frame))
    else:
        transactional_id = None
    refused = None
    if connection.has_refused or rights is not None:
        refused = _refused_at_once(connection, rights, parts)
    if len(parts) == 1 and not refused:
        # Most requests of a busy producer take this way.
        topic, partition, data = parts[0]
        if (topic, partition) in worker.partitions.led:
            appended = None
            if transactional_id is None:
                appended = append(worker, topic, partition, data, version, acks, header.client_id)
                row, unsafe = appended
                if unsafe is None and not row[2]:
                    return answer_now(worker, connection, header, acks, [row], len(frame))
            gathering = _Gathering(worker, connection, header, acks, timeout_ms, parts, len(frame))
            if appended is None:
                gathering.append_own(0, transactional_id)
            else:
                gathering.take_own(0, appended)
            return gathering.wait()
    elsewhere = None
    if not refused:
        may_be_forwarded = transactional_id is None and acks != 0
        elsewhere = _elsewhere(worker, connection, header, parts, frame if may_be_forwarded else None)
    if elsewhere is not None:
        return elsewhere
    gathering = _Gathering(worker, connection, header, acks, timeout_ms, parts, len(frame))
    for number in gathering.forward_others(transactional_id, refused or {}):
        gathering.append_own(number, transactional_id)
    return gathering.wait()


def _elsewhere(
    worker: Means,
    connection: ServerConnection,
    header: RequestHeader,
    parts: Sequence[ProduceRow],
    frame: memoryview | None,
) -> Detach | Forwarded | None:
    """Have another worker answer the whole request when it owns all partitions of it.

    Args:
        frame: the request; None when it may not be forwarded.

    Returns:
        None when this worker has to answer.
    """
    if len(parts) == 1:
        topic, partition, _data = parts[0]
        owner = worker.partitions.owner(topic, partition)
        foreign = owner if owner != worker.peers.index else None
    else:
        foreign = worker.peers.foreign_owner([(topic, partition) for topic, partition, _data in parts])
    if foreign is None:
        return None
    if not connection.has_answers_due:
        detach = worker.clients.hand_over(connection, foreign)
        if detach is not None:
            return detach
    peer = worker.peers.others.get(foreign)
    if frame is None or len(parts) > 1 or peer is None or worker.client_quotas.is_active:
        return None
    return Forwarded(worker, connection, header, parts[0]).by(peer, frame)


def _refused_at_once(
    connection: ServerConnection, rights: Rights | None, parts: Sequence[ProduceRow]
) -> Mapping[tuple[str, int], Row] | None:
    """The partitions that are refused whatever the records are, with the rows that say so."""
    refused = _refused_before(connection) if connection.has_refused else None
    denied = None if rights is None else _denied(rights, parts)
    return {**(refused or {}), **denied} if denied else refused


def _denied(rights: Rights, parts: Sequence[ProduceRow]) -> dict[tuple[str, int], Row] | None:
    """The partitions to which the client may not write, there or not, with the rows that say so; None for none."""
    writable = rights.writable
    denied = None
    for topic, partition, _data in parts:
        if not writable[topic]:
            rights.denied(Operation.WRITE, ResourceType.TOPIC, topic)
            if denied is None:
                denied = {}
            denied[topic, partition] = failed(topic, partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return denied


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
        if isinstance(later, _Gathering | Forwarded)
        for row in later.rows
        if row[2] in _REFUSED
    }
    connection.has_refused = bool(refused)
    return refused


class _Gathering(LaterAnswer):
    """Gathers the rows of a request until all workers that own a part of it have answered."""

    __slots__ = (
        "_acks",
        "_client",
        "_header",
        "_held",
        "_missing",
        "_parts",
        "_readers",
        "_size_bytes",
        "_timeout_ms",
        "_unsafe",
        "_waiting",
        "_words",
        "_worker",
        "rows",
    )

    def __init__(
        self,
        worker: Means,
        connection: ServerConnection,
        header: RequestHeader,
        acks: int,
        timeout_ms: int,
        parts: Sequence[ProduceRow],
        size_bytes: int,
    ) -> None:
        super().__init__(connection)
        self._client = connection
        self._size_bytes = size_bytes
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
        self._words: _Words = None
        """Of the coordinator for each part, where it is this worker and other workers need its word."""
        self.rows: list[Row] = [_NO_ROW] * len(parts)

    def forward_others(
        self, transactional_id: str | None, refused: Mapping[tuple[str, int], Row]
    ) -> Sequence[int]:
        """Send other workers their record sets before this worker appends its own, so that all work at the same time.

        Args:
            refused: the partitions that are refused at once, see _refused_before and _denied.

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
        if elsewhere and transactional_id is not None:
            self._words = vouched_for(worker, transactional_id, self._parts)
        for owner, numbers in elsewhere.items():
            self._forward(owner, numbers, transactional_id)
        return here

    def append_own(self, number: int, transactional_id: str | None) -> None:
        """Append a record set to a partition of this worker.

        Args:
            transactional_id: None when no record set of the request belongs to a transaction.
        """
        header, part = self._header, self._parts[number]
        terms = header.api_version, self._acks, header.client_id
        if transactional_id is None:
            self.take_own(number, append(self._worker, *part, *terms))
            return
        later = partial(self._take_later, number)
        word = None if self._words is None else self._words[number]
        outcome = append_in_transaction(self._worker, transactional_id, part, Terms(*terms), later, word)
        if outcome is None:
            self._missing += 1
        else:
            self.take_own(number, outcome)

    def take_own(self, number: int, outcome: Outcome) -> None:
        """Note the outcome of a record set that this worker has appended."""
        row, unsafe = outcome
        self._note(number, row)
        if unsafe is not None:
            self._unsafe.append(unsafe)

    def _take_later(self, number: int, outcome: Outcome) -> None:
        """Note the outcome of a record set that had to wait for the coordinator of its transaction."""
        row, unsafe = outcome
        self._note(number, row)
        if unsafe is None:
            self._share_is_there()
        else:
            when_safe(self._worker, self.rows, [unsafe], self._timeout_ms, self._share_is_there)

    def _note(self, number: int, row: Row) -> None:
        self.rows[number] = row
        if row[2]:
            self._client.has_refused = True

    def _forward(self, owner: int, numbers: Sequence[int], transactional_id: str | None) -> None:
        """Send one owner its record sets, unchanged, behind one frame header."""
        parts = [self._parts[number] for number in numbers]
        sets = [data if data is not None else b"" for _topic, _partition, data in parts]
        self._missing += 1
        peer = self._worker.peers.others.get(owner)
        if peer is None:
            self._take(numbers, [unanswered(*part[:2], None) for part in parts])
            return
        self._readers += 1
        is_answered = False

        def answered(reply: Reply | None, error: PkafkaError | None) -> None:
            nonlocal is_answered
            if reply is not None or not isinstance(error, PeerLate):
                self._has_read()
            if is_answered:
                return
            is_answered = True
            if reply is not None:
                self._take(numbers, reply[0])
            else:
                self._take(numbers, [unanswered(*part[:2], error) for part in parts])

        places = None if sum(map(len, sets)) <= COPIED_BYTES_MAX else self._places(sets)
        header = self._header
        words = None if self._words is None else [self._words[number] for number in numbers]
        terms = (
            header.api_version,
            self._acks,
            self._timeout_ms,
            header.client_id,
            transactional_id,
            words,
        )
        named = zip(parts, sets, strict=True)
        if places is None:
            from_blob: _FromBlob = (
                *terms,
                [(topic, partition, len(data)) for (topic, partition, _), data in named],
            )
            peer.call_back(_IN_BLOB, from_blob, sets[0] if len(sets) == 1 else b"".join(sets), answered)
        else:
            from_arena: _FromArena = (
                *terms,
                [
                    (topic, partition, place, len(data))
                    for ((topic, partition, _), data), place in zip(named, places, strict=True)
                ],
            )
            peer.call_back(_IN_ARENA, from_arena, b"", answered)

    def _places(self, sets: Sequence[Blob]) -> list[int] | None:
        """Find the record sets in this worker's arena, and keep them there until all workers have answered.

        Returns:
            None when they do not lie in the arena.
        """
        arena = self._worker.peers.arena
        if self._held is None:
            self._held = self._client.hold_frame() if arena is not None else None
        if arena is None or self._held is None:
            return None
        return [arena.position_of(data) if isinstance(data, memoryview) and data else 0 for data in sets]

    def _has_read(self) -> None:
        """Count one reader less of the frame; the last one gives its memory back."""
        self._readers -= 1
        if not self._readers and self._held is not None:
            self._held.release()
            self._held = None

    def _take(self, numbers: Sequence[int], answers: Sequence[Row]) -> None:
        for number, answer in zip(numbers, answers, strict=True):
            self._note(number, answer)
        self._share_is_there()

    def _share_is_there(self) -> None:
        self._missing -= 1
        if not self._missing and self._waiting and not self._client.closed:
            all_together = answer_to(
                self._worker, self._client, self._header, self._acks, self.rows, self._size_bytes
            )
            if all_together is None:
                self.close()
            else:
                self.finish(all_together)

    def wait(self) -> Answer | LaterAnswer:
        """Return the answer when all rows are there, else this object."""
        if self._unsafe:
            self._missing += 1
            when_safe(self._worker, self.rows, self._unsafe, self._timeout_ms, self._share_is_there)
        self._has_read()
        self._missing -= 1
        self._waiting = self._missing > 0
        if self._waiting:
            return self
        answer = answer_now(self._worker, self._client, self._header, self._acks, self.rows, self._size_bytes)
        if not (self._client.has_refused and self._client.has_answers_due):
            return answer
        # Until the answers before this one are sent, later requests see in its rows what was refused.
        self.answer = answer
        return self


def _safe_rows(worker: Means, outcomes: Sequence[Outcome], timeout_ms: int) -> list[Row] | LaterReply:
    """Return the rows for another worker, later where a flush or replicas have to be waited for."""
    rows = [row for row, _unsafe in outcomes]
    unsafe = [one for _row, one in outcomes if one is not None]
    if not unsafe:
        return rows
    later = LaterReply()
    when_safe(worker, rows, unsafe, timeout_ms, lambda: later.give(rows))
    return later


def _rows_in_transaction(
    worker: Means,
    transactional_id: str,
    words: _Words,
    sets: Sequence[ProduceRow],
    terms: Terms,
    timeout_ms: int,
) -> LaterReply:
    """Append record sets for another worker's client, and give the rows once all transactions are verified."""
    later = LaterReply()
    rows = [_NO_ROW] * len(sets)
    unsafe: list[Unsafe] = []
    missing = 1

    def share_is_there() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            later.give(rows)

    def take_later(number: int, outcome: Outcome) -> None:
        rows[number], waits = outcome
        if waits is None:
            share_is_there()
        else:
            when_safe(worker, rows, [waits], timeout_ms, share_is_there)

    for number, part in enumerate(sets):
        word = None if words is None else words[number]
        outcome = append_in_transaction(
            worker, transactional_id, part, terms, partial(take_later, number), word
        )
        if outcome is None:
            missing += 1
            continue
        rows[number], waits = outcome
        if waits is not None:
            unsafe.append(waits)
    if unsafe:
        missing += 1
        when_safe(worker, rows, unsafe, timeout_ms, share_is_there)
    share_is_there()
    return later


def _serve_arena(worker: Means, order: _FromArena, arena: memoryview) -> list[Row] | LaterReply:
    """Append records for this worker's partitions from the arena of the worker that received them."""
    version, acks, timeout_ms, client_id, transactional_id, words, parts = order
    if transactional_id is not None:
        sets = [(topic, partition, arena[place : place + size]) for topic, partition, place, size in parts]
        return _rows_in_transaction(
            worker, transactional_id, words, sets, Terms(version, acks, client_id), timeout_ms
        )
    outcomes = [
        append(worker, topic, partition, arena[place : place + size], version, acks, client_id)
        for topic, partition, place, size in parts
    ]
    return _safe_rows(worker, outcomes, timeout_ms)


def _serve_blob(worker: Means, order: _FromBlob, blob: memoryview) -> list[Row] | LaterReply:
    """Append records for this worker's partitions that another worker received and sent as a blob."""
    version, acks, timeout_ms, client_id, transactional_id, words, parts = order
    sets: list[ProduceRow] = []
    position = 0
    for topic, partition, size in parts:
        sets.append((topic, partition, blob[position : position + size]))
        position += size
    if transactional_id is not None:
        return _rows_in_transaction(
            worker, transactional_id, words, sets, Terms(version, acks, client_id), timeout_ms
        )
    outcomes = [append(worker, *one, version, acks, client_id) for one in sets]
    return _safe_rows(worker, outcomes, timeout_ms)


def operations(served_by: Port) -> dict[str, Handler]:
    """What other workers may ask of this one: to append records to its partitions."""
    worker = served_by.for_produce
    arenas = worker.peers.arenas
    return {
        _IN_BLOB: lambda _peer, payload, blob, _fds: _serve_blob(worker, payload, blob),
        _IN_ARENA: lambda peer, payload, _blob, _fds: _serve_arena(worker, payload, arenas[peer.index]),
        FORWARD: forwarded_handler(worker),
    }
