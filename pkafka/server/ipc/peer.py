"""Frames between the processes of one broker, over Unix socket pairs.

A frame is ``u32 header bytes | u32 blob bytes | header | blob``; the header is msgpack
``[kind, call id, operation, payload, number of descriptors]`` and the blob travels unencoded, so that record batches
are never walked by a serializer. Open files go along by SCM_RIGHTS. The operations that workers ask of each other all
the time have packed headers (:mod:`pkafka.server.ipc.packed`), which are given to their handlers as they are.

The blob that a handler gets is a view into a buffer that the next read overwrites: a handler that needs it after its
first suspension copies it. A blob given to :meth:`Peer.call` or :meth:`Peer.note` is sent or copied before they return.
"""

import array
import asyncio
import errno
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgpack
from mypy_extensions import mypyc_attr

from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.net.together import Together
from pkafka.server.ipc import packed

log = logging.getLogger(__name__)

Blob: TypeAlias = bytes | bytearray | memoryview
Payload: TypeAlias = Any
Reply: TypeAlias = tuple[Payload, Blob, Sequence[int]]
"""A handler's answer: payload, blob, and descriptors that go along (they stay open on this side)."""

NO_BLOB: Final = b""
FDS_PER_FRAME_MAX: Final = 64
"""Linux passes at most 253 descriptors with one message; a frame keeps well below."""

_GATHERED_BLOB_BYTES_MAX: Final = 1024
"""The most bytes that are copied into one send: copying more costs more than another call to the kernel."""
_PREFIX = struct.Struct(">II")
_CALL, _REPLY, _ERROR, _NOTE = range(4)
_INITIAL_BUFFER_BYTES: Final = 256 * 1024
_KEPT_BUFFER_BYTES: Final = 4 * 1024 * 1024
_pack: Final = msgpack.Packer().pack
"""One packer for all frames of a process: packb would make a packer, with its buffer, for each frame."""
_NO_ROOM_PAUSE_S: Final = 0.05
_NO_ROOM: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EINTR,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.ETOOMANYREFS,  # descriptors on their way
    }
)
"""Errors that pass by themselves; any other error means that the other process is gone."""
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(FDS_PER_FRAME_MAX * array.array("i").itemsize)
_TRUNCATED: Final = int(socket.MSG_CTRUNC)
"""An integer: the operators of flags cost more than the read that they are for."""


class DescriptorsLost(ApiError):
    """An answer came without its open files: this process has too many open already."""


class LaterReply:
    """What a handler returns when it answers later, by :meth:`give`: for hot paths, without a task or a future.

    Answers that are given in one turn, while something is read, leave in one call to the kernel.
    """

    __slots__ = ("_answer", "_is_given", "_send")

    def __init__(self) -> None:
        self._is_given = False
        self._answer: Any = None
        self._send: Callable[[Any], None] | None = None

    def give(self, answer: Any) -> None:  # noqa: ANN401
        """Give the answer; called once."""
        self._is_given = True
        if self._send is None:
            self._answer = answer
        else:
            self._send(answer)

    def send_by(self, send: "Callable[[Any], None]") -> None:
        """Have the answer sent by ``send``, now or when it is there."""
        self._send = send
        if self._is_given:
            send(self._answer)


class PeerGone(PkafkaError):
    """The process at the other end ended before it answered."""


class PeerLate(PeerGone):
    """The process at the other end seems to hang. It may still carry out the request."""


Outcome: TypeAlias = "Reply | Payload | LaterReply | Awaitable[Reply | Payload]"
Handler: TypeAlias = "Callable[[Peer, Payload, memoryview, list[int]], Outcome]"
"""Serves one operation. It returns the answer (hot paths do), an awaitable, or a LaterReply; a plain payload will
do."""

ReplyCallback: TypeAlias = "Callable[[Reply | None, PkafkaError | None], None]"
"""Gets the reply, or the reason why there is none. After :class:`PeerLate` it is called again, when the other process
has answered after all, or has ended."""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class Peer:
    """Sends and receives frames on the channel to another process of this broker. Belongs to one event loop.

    Args:
        name: of the other process, for logs.
        sock: a connected stream socket of family AF_UNIX; the peer owns it from now on.
        handlers: operation -> handler, shared by all peers of a process.
        on_gone: called once when the other end is gone.
        together: frames that are sent while a read is served share one call; one for the process.
        vital: when a note loses its descriptors, the channel is useless and counts as gone.
    """

    def __init__(
        self,
        name: str,
        sock: socket.socket,
        handlers: dict[str, Handler],
        *,
        on_gone: "Callable[[Peer], None] | None" = None,
        together: Together | None = None,
        vital: bool = False,
    ) -> None:
        self.name = name
        self.gone = False
        self.late = False
        self.index = -1
        self._sock = sock
        self._handlers = handlers
        self._on_gone = on_gone
        self._together = together or Together()
        self._gathered: list[Blob] = []
        self._vital = vital
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray(_INITIAL_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._fds: deque[list[int]] = deque()
        """Descriptors that have come, one entry for each frame that carries some (the kernel keeps them apart)."""
        self._calls: dict[int, asyncio.Future[Reply] | ReplyCallback] = {}
        self._next_call = 0
        self._out: deque[tuple[Blob, Sequence[int]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 2 * 1024 * 1024)
        self._loop.add_reader(sock.fileno(), self._on_readable)

    # -- sending --

    def call(
        self, operation: str, payload: Payload = None, blob: Blob = NO_BLOB, fds: Sequence[int] = ()
    ) -> asyncio.Future[Reply]:
        """Ask the other process; the future yields (payload, blob, descriptors).

        Raises (from the future):
            ApiError: the other side answered with a Kafka error code.
            PeerGone: it ended first, or seems to hang.
        """
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.gone or self.late:
            future.set_exception(PeerGone(self.name))
            return future
        self._next_call += 1
        self._calls[self._next_call] = future
        self._send(_CALL, self._next_call, operation, payload, blob, fds)
        return future

    def call_back(self, operation: str, payload: Payload, blob: Blob, answered: ReplyCallback) -> None:
        """As :meth:`call`, for hot paths: ``answered`` is called from the receiving loop, without a future.

        It may be called before this returns, when the other process is gone.
        """
        if self.gone or self.late:
            answered(None, PeerGone(self.name))
            return
        self._next_call += 1
        self._calls[self._next_call] = answered
        self._send(_CALL, self._next_call, operation, payload, blob, ())

    def call_packed(self, operation: str, header: bytes, blob: Blob, answered: ReplyCallback) -> None:
        """As :meth:`call_back`, for one of :data:`packed.OPERATIONS`.

        What the other process has packed is the payload of the reply, as a view like the blob that a handler gets. An
        answer that is no bytes comes as that of any call.
        """
        if self.gone or self.late:
            answered(None, PeerGone(self.name))
            return
        self._next_call += 1
        self._calls[self._next_call] = answered
        start = packed.START.pack(
            packed.MARK | packed.HEADER.size + len(header),
            len(blob),
            packed.NUMBER_OF[operation],
            self._next_call,
        )
        self._send_frame(start + header, blob, ())

    def note(
        self, operation: str, payload: Payload = None, blob: Blob = NO_BLOB, fds: Sequence[int] = ()
    ) -> None:
        """Tell the other process something that needs no answer; lost when it is gone."""
        if not self.gone:
            self._send(_NOTE, 0, operation, payload, blob, fds)

    def _send(
        self, kind: int, call_id: int, operation: str, payload: Payload, blob: Blob, fds: Sequence[int]
    ) -> None:
        header = _pack([kind, call_id, operation, payload, len(fds)])
        self._send_frame(_PREFIX.pack(len(header), len(blob)) + header, blob, fds)

    def _send_frame(self, prefix: bytes, blob: Blob, fds: Sequence[int]) -> None:
        """Send, or gather, a frame: its ``prefix`` up to the end of its header, and its blob."""
        if self._together.is_open and not fds and len(blob) <= _GATHERED_BLOB_BYTES_MAX:
            if not self._gathered:
                self._together.add(self._send_gathered)
            self._gathered.append(prefix)
            if blob:
                self._gathered.append(bytes(blob))
            return
        if self._gathered:
            self._send_gathered()
        self._send_now(prefix, blob, fds)

    def _send_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered and not self.gone:
            self._send_now(b"".join(gathered), NO_BLOB, ())

    def _send_now(self, prefix: bytes, blob: Blob, fds: Sequence[int]) -> None:
        if self._out:
            self._enqueue(prefix, fds)
            self._enqueue(blob, ())
            return
        try:
            sent = self._write(prefix, blob, fds)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                self._lose()
                return
            sent = -1
        if sent == len(prefix) + len(blob):
            return
        if sent < len(prefix):
            # Descriptors travel with the first byte: they have been sent as soon as any byte has.
            self._enqueue(prefix[max(sent, 0) :], fds if sent < 0 else ())
            self._enqueue(blob, ())
        else:
            self._enqueue(memoryview(blob)[sent - len(prefix) :], ())
        self._loop.add_writer(self._sock.fileno(), self._on_writable)

    def _write(self, prefix: Blob, blob: Blob, fds: Sequence[int]) -> int:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        return self._sock.sendmsg([prefix, blob] if blob else [prefix], ancillary)

    def _enqueue(self, data: Blob, fds: Sequence[int]) -> None:
        if data:
            # The caller's buffer may be reused as soon as it gets control back.
            self._out.append((bytes(data), [socket.dup(fd) for fd in fds]))

    def _on_writable(self) -> None:
        while self._out:
            data, fds = self._out[0]
            try:
                sent = self._write(data, NO_BLOB, fds)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    # The socket may have room although the descriptors do not fit; it would call again and again.
                    self._loop.remove_writer(self._sock.fileno())
                    self._loop.call_later(_NO_ROOM_PAUSE_S, self._send_on)
                else:
                    self._lose()
                return
            for fd in fds:
                socket.close(fd)
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (memoryview(data)[sent:], ())
        self._loop.remove_writer(self._sock.fileno())

    def _send_on(self) -> None:
        if not self.gone:
            self._loop.add_writer(self._sock.fileno(), self._on_writable)

    # -- receiving --

    def _on_readable(self) -> None:
        try:
            count, ancillary, flags, _address = self._sock.recvmsg_into(
                [self._view[self._end :]], _ANCILLARY_BYTES
            )
        except OSError as error:
            if error.errno in _NO_ROOM:
                return
            count, ancillary, flags = 0, [], 0
        descriptors: list[int] = []
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                descriptors += received
        if descriptors or flags & _TRUNCATED:
            self._fds.append(descriptors)
        if not count:
            self._lose()
            return
        self._end += count
        self._consume()

    def _consume(self) -> None:
        self._together.begin()
        try:
            self._deliver_frames()
        finally:
            self._together.end()
        self._compact()

    def _deliver_frames(self) -> None:
        while not self.gone and self._end - self._start >= _PREFIX.size:
            header_bytes, blob_bytes = _PREFIX.unpack_from(self._buffer, self._start)
            is_packed = header_bytes & packed.MARK
            header_bytes ^= is_packed
            size = _PREFIX.size + header_bytes + blob_bytes
            if self._end - self._start < size:
                if size > len(self._buffer):
                    self._make_room(size)
                break
            at = self._start + _PREFIX.size
            self._start += size
            if is_packed:
                self._deliver_packed(at, header_bytes, blob_bytes)
                continue
            kind, call_id, operation, payload, fd_count = msgpack.unpackb(
                self._view[at : at + header_bytes], strict_map_key=False, use_list=False
            )
            fds = self._fds.popleft() if fd_count else []
            if len(fds) < fd_count:
                self._deliver_nothing(kind, call_id, operation, fds)
                continue
            self._deliver(
                kind,
                call_id,
                operation,
                payload,
                self._view[at + header_bytes : at + header_bytes + blob_bytes],
                fds,
            )

    def _compact(self) -> None:
        left = self._end - self._start
        if left and self._start:
            self._view[:left] = self._view[self._start : self._end]
        elif not left and len(self._buffer) > _KEPT_BUFFER_BYTES:
            self._buffer = bytearray(_INITIAL_BUFFER_BYTES)
            self._view = memoryview(self._buffer)
        self._start, self._end = 0, left

    def _make_room(self, size: int) -> None:
        larger = bytearray(size + _INITIAL_BUFFER_BYTES)
        left = self._end - self._start
        larger[:left] = self._view[self._start : self._end]
        self._buffer = larger
        self._view = memoryview(larger)
        self._start, self._end = 0, left

    def _deliver_nothing(self, kind: int, call_id: int, operation: str, fds: list[int]) -> None:
        """A frame lost descriptors on the way, because this process has no room for them."""
        log.error("Too many open files: %s of %s is lost", operation or "an answer", self.name)
        for fd in fds:
            socket.close(fd)
        error = DescriptorsLost(ErrorCode.UNKNOWN_SERVER_ERROR, "too many open files")
        if kind == _REPLY:
            waiting = self._calls.pop(call_id, None)
            if waiting is not None:
                self._resolve(waiting, None, error)
        elif kind == _CALL:
            self._send_error(call_id, error)
        elif self._vital:
            self._lose()

    def _deliver(
        self, kind: int, call_id: int, operation: str, payload: Payload, blob: memoryview, fds: list[int]
    ) -> None:
        if kind in (_REPLY, _ERROR):
            self._take_reply(kind, call_id, payload, blob, fds)
        else:
            self._serve(call_id, operation, payload, blob, fds, self._answer)

    def _deliver_packed(self, at: int, header_bytes: int, blob_bytes: int) -> None:
        operation, call_id = packed.HEADER.unpack_from(self._buffer, at)
        end = at + header_bytes
        header = self._view[at + packed.HEADER.size : end]
        if operation == packed.ANSWER:
            waiting = self._calls.pop(call_id, None)
            if waiting is not None:
                self._resolve(waiting, (header, NO_BLOB, ()), None)
            return
        blob = self._view[end : end + blob_bytes]
        self._serve(call_id, packed.OPERATIONS[operation], header, blob, [], self._answer_packed)

    def _serve(
        self,
        call_id: int,
        operation: str,
        payload: Payload,
        blob: memoryview,
        fds: list[int],
        answer_by: Callable[[int, Any], None],
    ) -> None:
        try:
            answer = self._handlers[operation](self, payload, blob, fds)
        except ApiError as error:
            self._send_error(call_id, error)
            return
        except PeerGone:
            self._send_error(call_id, ApiError(ErrorCode.BROKER_NOT_AVAILABLE))
            return
        except AssertionError:
            log.critical("Invariant broken in operation %s; this process ends", operation, exc_info=True)
            os._exit(1)
        except Exception:
            # A bug in one operation must not leave its caller waiting for ever.
            log.exception("operation %s asked for by %s failed", operation, self.name)
            self._send_error(call_id, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        if call_id and type(answer) is bytes:
            answer_by(call_id, answer)
        elif type(answer) is LaterReply:
            if call_id:
                answer.send_by(lambda result: answer_by(call_id, result))
        elif isinstance(answer, Awaitable):
            task = self._loop.create_task(self._answer_later(call_id, operation, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif call_id:
            answer_by(call_id, answer)

    def _take_reply(
        self, kind: int, call_id: int, payload: Payload, blob: memoryview, fds: list[int]
    ) -> None:
        waiting = self._calls.pop(call_id, None)
        if waiting is None or (isinstance(waiting, asyncio.Future) and waiting.done()):
            for fd in fds:
                socket.close(fd)
            return
        reply = (payload, bytes(blob) if blob else NO_BLOB, fds) if kind == _REPLY else None
        error = None if reply is not None else ApiError(ErrorCode(payload[0]), payload[1])
        self._resolve(waiting, reply, error)

    def _resolve(
        self,
        waiting: "asyncio.Future[Reply] | ReplyCallback",
        reply: Reply | None,
        error: PkafkaError | None,
    ) -> None:
        if not isinstance(waiting, asyncio.Future):
            try:
                waiting(reply, error)
            except AssertionError:
                log.critical(
                    "Invariant broken by an answer of %s; this process ends", self.name, exc_info=True
                )
                os._exit(1)
            except Exception:
                log.exception("an answer of %s could not be used", self.name)
        elif waiting.done():
            pass
        elif error is None:
            assert reply is not None
            waiting.set_result(reply)
        else:
            waiting.set_exception(error)

    async def _answer_later(self, call_id: int, operation: str, answer: Awaitable[Any]) -> None:
        try:
            result = await answer
        except ApiError as error:
            self._send_error(call_id, error)
        except PeerGone:
            self._send_error(call_id, ApiError(ErrorCode.BROKER_NOT_AVAILABLE))
        except AssertionError:
            log.critical("Invariant broken in operation %s; this process ends", operation, exc_info=True)
            os._exit(1)
        except Exception:
            log.exception("operation %s asked for by %s failed", operation, self.name)
            self._send_error(call_id, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
        else:
            if call_id:
                self._answer(call_id, result)

    def _answer(self, call_id: int, answer: Payload) -> None:
        if self.gone:
            return
        payload, blob, fds = answer if isinstance(answer, tuple) else (answer, NO_BLOB, ())
        self._send(_REPLY, call_id, "", payload, blob, fds)

    def _answer_packed(self, call_id: int, answer: Payload) -> None:
        if type(answer) is not bytes:
            self._answer(call_id, answer)
        elif not self.gone:
            header_bytes = packed.HEADER.size + len(answer)
            start = packed.START.pack(packed.MARK | header_bytes, 0, packed.ANSWER, call_id)
            self._send_frame(start + answer, NO_BLOB, ())

    def _send_error(self, call_id: int, error: ApiError) -> None:
        if call_id and not self.gone:
            self._send(_ERROR, call_id, "", [int(error.code), error.message], NO_BLOB, ())

    # -- the end --

    def set_late(self, late: bool) -> None:
        """Note that the other process seems to hang, or works again. While it hangs all calls of it fail, also those
        that were sent already."""
        self.late = late
        if not late:
            return
        for call_id, waiting in list(self._calls.items()):
            if isinstance(waiting, asyncio.Future):
                del self._calls[call_id]
            self._fail(waiting, PeerLate(self.name))

    def _fail(self, waiting: "asyncio.Future[Reply] | ReplyCallback", error: PeerGone) -> None:
        self._resolve(waiting, None, error)
        if isinstance(waiting, asyncio.Future) and not waiting.cancelled():
            waiting.exception()  # marks it as seen: when the caller does not wait any more, that is no error

    def _lose(self) -> None:
        if self.gone:
            return
        self.close()
        if self._on_gone is not None:
            self._on_gone(self)

    def close(self) -> None:
        """Close this end; calls in flight fail with PeerGone."""
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        for received in self._fds:
            for fd in received:
                socket.close(fd)
        for _data, fds in self._out:
            for fd in fds:
                socket.close(fd)
        self._out.clear()
        self._gathered.clear()
        calls, self._calls = self._calls, {}
        for waiting in calls.values():
            self._fail(waiting, PeerGone(self.name))
