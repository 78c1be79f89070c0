"""One client's connection on the server side: length-prefixed frames in, answers and file ranges out.

It knows sockets and the event loop, but no message. Requests are answered one at a time and in order, as Kafka does by
muting the channel: while an answer is outstanding or waits for the client to read, nothing more is read from this
client. Only where a handler says so (:class:`LaterAnswer`) are the requests behind one served while it waits; answers
go out in order all the same. A request that its handler answers at once costs no task and no future; many small
pipelined requests share one read and one write.

Memory: a connection that is idle holds no buffer. Bytes are read into one buffer shared by all connections of the
process; only an incomplete frame moves to a buffer of its own, whose pages exist as its bytes arrive (a length prefix
alone costs nothing, CVE-2022-34917). What a client does not read is bounded: a read's worth of requests, and the
answers of one write.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias, cast

from mypy_extensions import mypyc_attr

from pkafka.net.answers import ANSWER_BYTES_PER_WRITE_MAX, Answer, FileRange, Part
from pkafka.net.buffers import FrameBytes, Lease, ReadBuffers
from pkafka.net.outcomes import AFTER_OTHERS, AfterOthers, Detach, LaterAnswer, Note, Outcome
from pkafka.net.outgoing import Outgoing
from pkafka.net.page_cache import PageCache
from pkafka.net.sending import Sending
from pkafka.net.tls import TlsStream
from pkafka.net.together import Together

__all__ = [
    "AFTER_OTHERS",
    "AfterOthers",
    "Detach",
    "FrameHandler",
    "LaterAnswer",
    "Outcome",
    "ServerConnection",
    "Service",
]

log = logging.getLogger(__name__)

_REQUESTS_PER_TURN_MAX: Final = 256
"""A client that pipelines lets others have a turn after so many requests."""
_LATER_ANSWERS_MAX: Final = 16
_LATER_FRAME_BYTES_MAX: Final = 1024 * 1024
"""A client has so many requests served at a time, and none behind a larger one."""
_SIZE: Final = struct.Struct(">i")
_size_at: Final = cast("Callable[[memoryview, int], tuple[int]]", _SIZE.unpack_from)
"""Its type is said because compiled code compares numbers of unknown types as objects."""
_NO_ANSWER_YET: Final = (LaterAnswer, AfterOthers, Detach)
FrameHandler: TypeAlias = "Callable[[ServerConnection, memoryview], Outcome]"
"""Serves a frame. An answer (possibly empty) is sent at once; None means that ``finish`` will be called later, and
that nothing else is served before. The view is valid until the handler returns."""


class Service(NamedTuple):
    """How the frames of a connection are served."""

    handle: FrameHandler
    buffers: ReadBuffers
    """What they are read into."""
    frame_bytes_max: int
    """A larger length, or a negative one, closes the connection."""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class ServerConnection:
    """A client's connection.

    Args:
        sock: the accepted socket, owned from now on.
        listener: name of the listener it came in by.
        buffers: the process's read buffers.
        handle: serves one frame.
        finished: called with the owner's note and the answer when a request that was not answered at once is answered;
            gives the answer that is sent.
        closed: called once when the connection ends.
        frame_bytes_max: socket.request.max.bytes; a larger or negative length closes the connection.
        together: gathers what other connections and channels send because of a read from this one; one for the process.
        page_cache: asked before a file range is sent, so that the loop does not wait for the disk; None sends at once.
        tls: encrypts it, the handshake done; None: it is plain.
    """

    __slots__ = (
        "_backlog",
        "_buffers",
        "_busy",
        "_closed_callback",
        "_closing",
        "_due",
        "_finished",
        "_frame",
        "_frame_have",
        "_frame_size",
        "_handle",
        "_in_hand",
        "_lease",
        "_loop",
        "_muted",
        "_outgoing",
        "_pause",
        "_reading",
        "_sending",
        "_serving",
        "_source",
        "_tls",
        "_together",
        "_turns",
        "_will_send_due",
        "closed",
        "frame_bytes_max",
        "has_refused",
        "hurry",
        "last_active",
        "listener",
        "peer_host",
        "pending",
        "sock",
        "state",
    )

    def __init__(
        self,
        sock: socket.socket,
        *,
        listener: str,
        peer_host: str,
        buffers: ReadBuffers,
        handle: FrameHandler,
        finished: "Callable[[Note, Answer], Answer]",
        closed: "Callable[[ServerConnection], None]",
        frame_bytes_max: int,
        together: Together | None = None,
        page_cache: PageCache | None = None,
        tls: TlsStream | None = None,
    ) -> None:
        self.sock = sock
        self._tls = tls
        self._source = sock if tls is None else tls
        self.listener = listener
        self.peer_host = peer_host
        self.frame_bytes_max = frame_bytes_max
        self.closed = False
        self.state: object = None
        self.pending: Note | None = None
        """What its owner notes of the request in hand that ``finish`` will answer."""
        self.has_refused = False
        """Set by a handler that refused what may come again, while the client does not know that yet."""
        self.hurry: Callable[[], None] | None = None
        """Set by a handler that may wait long before it answers. Called once when there is nothing to wait for any
        more: the client is gone, or the connection is about to be closed. It then answers with what there is."""
        self._finished = finished
        self._buffers = buffers
        self._handle = handle
        self._closed_callback = closed
        self._together = together or Together()
        self._will_send_due = False
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        self._frame: FrameBytes | None = None
        self._in_hand: FrameBytes | None = None
        """The memory that is being served, the shared buffer or the frame's own."""
        self._lease: Lease | None = None
        """Keeps the memory that is being served, or that the backlog lies in, once a handler needs it for longer."""
        self._frame_have = 0
        self._frame_size = 0
        self._backlog: memoryview | None = None
        self._busy = False
        """A handler has a request in hand and will call ``finish``."""
        self._muted = False
        """Nothing is read: a request is in hand, answers wait to be read, requests wait for their turn, or all wait for
        the end of a pause."""
        self._pause: asyncio.TimerHandle | None = None
        """Ends the present pause."""
        self._turns = 1
        """So much of a turn does a request take: all of it where a pause begins with its answer."""
        self._serving = False
        self._closing = False
        """To be closed as soon as the answers so far are sent."""
        self._due: deque[LaterAnswer] = deque()
        """The answers that come later, and those that have to wait for them, in the order of their requests."""
        self._outgoing = Outgoing(sock, page_cache, tls)
        self._sending = Sending(sock, self._outgoing, self._has_sent, self._drop)
        self._reading = True
        if tls is None:
            self._loop.add_reader(sock.fileno(), self._on_readable)
        else:
            self._loop.add_reader(sock.fileno(), self._on_encrypted)
            # What the client sent behind its last word of the handshake is read already.
            self._loop.call_soon(self._read_on)

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is between the client and this process, which therefore cannot hand the connection over."""
        return self._tls is not None

    # -- reading --

    def _on_encrypted(self) -> None:
        """As :meth:`_on_readable`, until nothing is left of what TLS has taken from the socket."""
        tls = self._tls
        assert tls is not None
        if self._muted and not tls.has_arrived():
            return  # _read_on has taken in this turn what the event loop has seen
        self._on_readable()
        self._read_on()

    def _read_on(self) -> None:
        tls = self._tls
        assert tls is not None
        while tls.has_more and not self._muted and not self.closed:
            self._on_readable()

    def _on_readable(self) -> None:
        if self._muted:
            # Taken off the poll list only when it would fire: most clients wait for the answer before they send more.
            self._loop.remove_reader(self.sock.fileno())
            self._reading = False
            if self.hurry is not None and self._has_hung_up():
                self._hurry()
            return
        try:
            if self._frame is None:
                view = self._buffers.shared
                count = self._source.recv_into(view)
            else:
                with memoryview(self._frame) as room:
                    count = self._source.recv_into(room[self._frame_have : self._frame_size])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not count:
            # It may have shut its sending side down only, and wait for answers that come later.
            self.drain()
            return
        self.last_active = self._loop.time()
        if self._frame is None:
            self._in_hand = view
            self._consume(view[:count])
        else:
            self._frame_have += count
            if self._frame_have == self._frame_size:
                self._consume_frame(self._frame)

    def _has_hung_up(self) -> bool:
        """Whether the client sends no more. It may still read: one that has only shut its sending side down does."""
        if self._tls is not None:
            return self._tls.has_ended()
        try:
            return not self.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def _hurry(self) -> None:
        hurry, self.hurry = self.hurry, None
        if hurry is not None:
            hurry()

    def _consume_frame(self, frame: FrameBytes) -> None:
        size = self._frame_have
        self._frame = None
        self._in_hand = frame
        self._consume(memoryview(frame)[:size])

    def hold_frame(self) -> Lease | None:
        """For a handler: keep the memory of the frame in hand until ``release``; None when it has to be copied.

        Only memory that other processes can map is held; holding other would gain nothing.
        """
        lease = self._borrow()
        if lease is not None:
            lease.hold()
        return lease

    def _borrow(self) -> Lease | None:
        memory = self._in_hand
        if self._lease is None and isinstance(memory, memoryview):
            if memory is self._buffers.shared:
                self._lease = self._buffers.lend_shared()
            else:
                self._lease = Lease(memory, self._buffers.give_back)
        return self._lease

    def _consume(self, data: memoryview) -> None:
        """Serve every whole frame in ``data``, which lies in ``_in_hand``; keep what is left."""
        self._serving = True
        self._together.begin()
        answers: list[Part] = []
        try:
            position = self._serve(data, answers)
        finally:
            self._together.end()
            self._serving = False
        if answers:
            self._sending.send(answers)
        if self._due:
            self._send_due()
        if self._closing:
            self._muted = True
            if not self._outgoing.waiting and not self._due:
                self.close()
        elif not self.closed and not self._muted:
            if position < len(data):
                self._keep_partial(data[position:])
            if self._outgoing.waiting:
                # The client does not read its answers: serve it no further until it does.
                self._muted = True
        self._let_go()

    def _let_go(self) -> None:
        """The memory in hand is served; it may be read into again, unless the backlog or a handler still needs it."""
        memory, self._in_hand = self._in_hand, None
        if self._lease is None:
            if memory is not None and memory is not self._buffers.shared:
                self._buffers.give_back(memory)
        elif self._backlog is None:
            lease, self._lease = self._lease, None
            lease.release()

    def _serve(self, data: memoryview, answers: list[Part]) -> int:
        """Serve frames; the answers of the last ones are left in ``answers``. Returns where the rest begins."""
        position, end = 0, len(data)
        weight = served = 0
        limit = self.frame_bytes_max
        while end - position >= 4:
            (size,) = _size_at(data, position)
            if not 0 <= size <= limit:
                self._refuse_size(size)
                break
            after = position + 4 + size
            if after > end:
                break
            answer = self._handle(self, data[position + 4 : after])
            if self._closing:
                break
            # Most answers are a tuple, which is told at once.
            if self._due or (
                type(answer) is not tuple and (answer is None or isinstance(answer, _NO_ANSWER_YET))
            ):
                if not self._set_aside(answer, data, position, after, answers):
                    break
                position = after
                continue
            position = after
            served += self._turns
            for part in cast("Answer", answer):
                answers.append(part)
                weight += ANSWER_BYTES_PER_WRITE_MAX if type(part) is FileRange else len(part)
            if served >= _REQUESTS_PER_TURN_MAX or weight >= ANSWER_BYTES_PER_WRITE_MAX:
                self._sending.send(answers)
                answers.clear()
                if self.closed:
                    break
                if position < end and (self._outgoing.waiting or served >= _REQUESTS_PER_TURN_MAX):
                    self._mute(data[position:])
                    if not self._outgoing.waiting:
                        self._loop.call_soon(self._unmute)
                    break
                weight = 0
        return position

    def _set_aside(
        self, outcome: Outcome, data: memoryview, position: int, after: int, answers: list[Part]
    ) -> bool:
        """What the handler said of the frame at ``position`` cannot be sent at once. Whether the next one is served."""
        if outcome is None:
            self._busy = True
            self._mute(data[after:])
            return False
        if isinstance(outcome, Detach):
            self._detach(outcome, data[position:], answers)
            return False
        if isinstance(outcome, AfterOthers):
            self._mute(data[position:])
            return False
        if not isinstance(outcome, LaterAnswer):
            answer, outcome = outcome, LaterAnswer(self)
            outcome.answer = answer
        self._due.append(outcome)
        is_small = after - position <= _LATER_FRAME_BYTES_MAX
        if len(self._due) < _LATER_ANSWERS_MAX and is_small and self._pause is None:
            return True
        self._mute(data[after:])
        return False

    def _refuse_size(self, size: int) -> None:
        log.warning(
            "Closing the connection of %s: it announces a request of %d bytes, and may send %d"
            " (socket.request.max.bytes; sasl.server.max.receive.size before it has logged in)",
            self.peer_host,
            size,
            self.frame_bytes_max,
        )
        self.close()

    def _mute(self, rest: memoryview) -> None:
        """Read no more for now; ``rest`` was read already."""
        self._muted = True
        if rest:
            # Copied only where it would be read over; what is served from the backlog already would not. May be written
            # to when its turn comes, as what is served at once.
            must_copy = self._in_hand is not None and self._borrow() is None
            self._backlog = memoryview(bytearray(rest)) if must_copy else rest

    def _keep_partial(self, rest: memoryview) -> None:
        """``rest`` begins a frame, perhaps in the middle of its length."""
        have = len(rest)
        if have >= 4 and not self._buffers.has_room:
            # Read no more until others are done; what was read makes way for what they read next.
            self._muted = True
            self._backlog = memoryview(bytearray(rest))
            self._buffers.call_when_room(self._go_on)
            return
        self._frame_size = 4 + _SIZE.unpack_from(rest)[0] if have >= 4 else 4
        self._frame = frame = self._buffers.take(self._frame_size)
        frame[:have] = rest
        self._frame_have = have

    # -- answering --

    def finish(self, answer: Answer) -> None:
        """Send the answer of a request whose handler returned None, then go on with what this client sent since."""
        if self.closed:
            return
        self._busy = False
        self.hurry = None
        note, self.pending = self.pending, None
        if note is not None:
            answer = self._finished(note, answer)
        self._sending.send(answer)
        self._go_on()

    @property
    def has_answers_due(self) -> bool:
        """Whether requests are being served whose answers come later."""
        return bool(self._due)

    @property
    def answers_due(self) -> "Iterable[LaterAnswer]":
        """Those that were not sent yet, in the order of their requests."""
        return self._due

    def send_due(self) -> None:
        """An answer that was to come later is there: send what does not have to wait for others any more."""
        if self.closed or self._serving or self._will_send_due:
            return
        if self._together.is_open:
            self._will_send_due = True
            self._together.add(self._send_due_and_go_on)
        else:
            self._send_due_and_go_on()

    def _send_due_and_go_on(self) -> None:
        self._will_send_due = False
        if not self.closed:
            self._send_due()
            self._go_on()

    def _send_due(self) -> None:
        due = self._due
        parts: list[Part] = []
        while due and due[0].answer is not None:
            later = due.popleft()
            assert later.answer is not None
            parts += later.answer if later.note is None else self._finished(later.note, later.answer)
            if later.closes:
                self._closing = self._muted = True
                due.clear()
        self._sending.send(parts)

    def _go_on(self) -> None:
        if self.closed or self._outgoing.waiting or self._busy or self._due:
            return
        if self._closing:
            self.close()
        elif self._backlog is not None:
            # Not from here: the caller of ``finish`` may be serving another connection right now.
            self._loop.call_soon(self._unmute)
        else:
            self._unmute()

    def pause(self, seconds: float) -> None:
        """Send what is answered, and serve nothing more for a while; of two pauses the one that ends last counts."""
        if self._pause is not None and self._pause.when() < self._loop.time() + seconds:
            self._pause.cancel()
        elif self._pause is not None or self.closed:
            return
        self._muted = True
        self._turns = _REQUESTS_PER_TURN_MAX
        self._pause = self._loop.call_later(seconds, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        self._turns = 1
        self._go_on()

    def _unmute(self) -> None:
        if self.closed or self._closing or self._busy or self._outgoing.waiting or self._pause is not None:
            return
        self._muted = False
        self.last_active = self._loop.time()
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            self._consume(backlog)
        if not self._reading and not self._muted and not self.closed:
            self._reading = True
            self._loop.add_reader(
                self.sock.fileno(), self._on_readable if self._tls is None else self._on_encrypted
            )
        if self._tls is not None and self._tls.has_more:
            self._loop.call_soon(self._read_on)

    def _has_sent(self, everything: bool) -> None:
        self.last_active = self._loop.time()
        if everything:
            self._go_on()

    # -- the end --

    def _detach(self, detach: Detach, unread: memoryview, answers: list[Part]) -> None:
        self._sending.send(answers)
        answers.clear()
        if self.closed:
            return
        if self._outgoing.waiting:
            # Answers of earlier requests are still on their way; they must leave before the connection does.
            self._mute(unread)
            return
        rest = bytes(unread)
        self._forget()
        detach.take(self.sock, rest)

    def is_idle_since(self, time_s: float) -> bool:
        """Whether nothing was read or written since that reading of the event loop's clock, nor is a request in hand.

        A client that does not read its answers is idle.
        """
        return self.last_active < time_s and not self._busy and not self._due

    def serve_by(self, service: Service) -> Service:
        """Serve the frames that follow in another way; not to be called by a handler.

        Returns:
            How they were served before.
        """
        assert not self._serving, "a handler is at work"
        before = Service(self._handle, self._buffers, self.frame_bytes_max)
        self._handle, self._buffers, self.frame_bytes_max = service
        return before

    def feed(self, unread: bytearray) -> None:
        """Serve bytes that another process had read from this connection before it handed it over; ours now."""
        if unread and not self.closed:
            self._consume(memoryview(unread))

    def _forget(self) -> None:
        self.closed = True
        self._loop.remove_reader(self.sock.fileno())
        self._sending.end()
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._frame is not None:
            self._buffers.give_back(self._frame)
        self._frame = self._backlog = None
        self._due.clear()
        if not self._serving:
            self._let_go()
        self._closed_callback(self)
        self._hurry()

    def drain(self) -> None:
        """Serve no more requests; close as soon as the one in hand, if any, is answered and its answer is sent."""
        if self.closed:
            return
        if not self._busy and not self._outgoing.waiting and not self._due:
            self.close()
            return
        self._closing = self._muted = True
        self._backlog = None
        self._let_go()
        self._hurry()

    def close(self) -> None:
        """Close the connection. A request's own handler may call this: answers to earlier requests still go out."""
        if self.closed:
            return
        if self._serving:
            self._closing = True
        else:
            self._drop()

    def _drop(self) -> None:
        """Close at once; what was not sent is lost."""
        if not self.closed:
            self._forget()
            if self._tls is not None:
                self._tls.say_goodbye()
            self.sock.close()
