"""The way of a Produce request with one record set to another worker, which answers it as a whole.

Most requests of busy producers have one record set. Its owner gets the request as the client has sent it and makes the
whole answer; only when the record set is refused, the worker that has the client makes the answer of the row.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from pkafka.errors import PkafkaError
from pkafka.net.buffers import Lease
from pkafka.net.connection import LaterAnswer, ServerConnection
from pkafka.protocol.headers import RequestHeader, decode_request_header
from pkafka.protocol.hot import ProduceRow, decode_produce, encode_produce_answer
from pkafka.server.handlers.produce_answer import answer_to, unanswered, when_safe
from pkafka.server.handlers.produce_append import Means, Row, append
from pkafka.server.ipc.peer import Handler, LaterReply, Peer, PeerLate, Reply

FORWARD: Final = "produce_whole"
"""The packed operation by which a worker answers a request that another one has received."""
COPIED_BYTES_MAX: Final = 1024
"""So few bytes of records travel with the frame: that costs less than to keep the memory that they lie in."""
_PLACE: Final = Struct("=QI")
"""Where the request lies in the arena of the worker that has received it, and its size; it is the blob without."""


class Forwarded(LaterAnswer):
    """Waits for the owner of the partition to answer a request.

    Args:
        worker: that has received it.
        connection: of the client.
        header: of the request.
        part: its only record set, of no transaction. The client expects an answer, and has no quota.
    """

    __slots__ = ("_client", "_header", "_held", "_is_answered", "_part", "_size_bytes", "_worker", "rows")

    def __init__(
        self, worker: Means, connection: ServerConnection, header: RequestHeader, part: ProduceRow
    ) -> None:
        super().__init__(connection)
        self._worker = worker
        self._client = connection
        self._header = header
        self._part = part
        self._size_bytes = 0
        self._held: Lease | None = None
        self._is_answered = False
        self.rows: Sequence[Row] = ()
        """The row of a record set that was refused."""

    def by(self, peer: Peer, frame: memoryview) -> "Forwarded":
        """Have ``peer`` answer the request of which ``frame`` has the bytes."""
        self._size_bytes = len(frame)
        arena = self._worker.peers.arena
        if arena is not None and len(frame) > COPIED_BYTES_MAX:
            self._held = self._client.hold_frame()
        if arena is None or self._held is None:
            peer.call_packed(FORWARD, b"", frame, self._answered)
        else:
            place = _PLACE.pack(arena.position_of(frame), len(frame))
            peer.call_packed(FORWARD, place, b"", self._answered)
        return self

    def _answered(self, reply: Reply | None, error: PkafkaError | None) -> None:
        # A worker that hangs may read the frame after the client was answered.
        if self._held is not None and not isinstance(error, PeerLate):
            self._held.release()
            self._held = None
        if self._is_answered:
            return
        self._is_answered = True
        if reply is None:
            self._refused([unanswered(self._part[0], self._part[1], error)])
        elif type(reply[0]) is not memoryview:
            self._refused(reply[0])
        elif not self._client.closed:
            self.finish((bytes(reply[0]),))

    def _refused(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._client.has_refused = True
        if self._client.closed:
            return
        answer = answer_to(self._worker, self._client, self._header, -1, rows, self._size_bytes)
        assert answer is not None, "the client expects one"
        self.finish(answer)


def forwarded_handler(worker: Means) -> Handler:
    """Serves the requests that other workers forward to this one."""
    arenas = worker.peers.arenas

    def serve(
        peer: Peer, place: memoryview, blob: memoryview, _fds: list[int]
    ) -> bytes | list[Row] | LaterReply:
        frame = blob
        if place:
            start, size = _PLACE.unpack(place)
            frame = arenas[peer.index][start : start + size]
        header, position = decode_request_header(frame)
        version = header.api_version
        _transactional_id, acks, timeout_ms, parts = decode_produce(frame, position, version)
        ((topic, partition, data),) = parts
        row, unsafe = append(worker, topic, partition, data, version, acks, header.client_id)
        if unsafe is None:
            return _answer_or_rows(header, row)
        later = LaterReply()
        rows = [row]
        when_safe(worker, rows, [unsafe], timeout_ms, lambda: later.give(_answer_or_rows(header, rows[0])))
        return later

    return serve


def _answer_or_rows(header: RequestHeader, row: Row) -> bytes | list[Row]:
    if row[2]:
        return [row]
    return encode_produce_answer(header.api_version, header.correlation_id, [row], 0)
