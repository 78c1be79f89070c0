"""A connection from this broker to another: frames out, answers in, in the order in which they were asked for.

It knows sockets and the event loop, but no message. An answer is received straight into the memory in which its
reader finds it; one buffer serves one answer after the other, so that bytes are copied by the kernel alone, unless an
answer is larger than all before it or comes in one piece with the next one.
"""

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, cast

from pkafka.errors import PkafkaError
from pkafka.net.encrypted_transport import Transport, connect_encrypted

_LENGTH: Final = struct.Struct(">i")
_KEPT_MIN: Final = 1 << 16
_KEPT_MAX: Final = 1 << 20
"""A buffer that grew beyond this for one answer is not kept for the next."""


class ChannelError(PkafkaError):
    """The other side cannot be reached, has closed the connection, or does not answer in time."""


Answered: TypeAlias = "Callable[[memoryview | None, ChannelError | None], None]"
"""Gets an answer without its length, valid until it returns, or else the reason why there is none."""


class Channel:
    """One connection; made by :func:`open_channel`.

    After any failure it is closed, since an answer that comes too late would be taken for another's.
    """

    def __init__(self, protocol: "_Answers", transport: Transport, peer: str) -> None:
        self._protocol = protocol
        self._transport = transport
        self._peer = peer

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._protocol.failure is not None or self._transport.is_closing()

    async def ask(self, frame: bytes, *, timeout_s: float) -> memoryview:
        """Send a frame, its length first, and wait for its answer.

        Returns:
            The answer without its length. It is valid until the caller next waits for anything.

        Raises:
            ChannelError: see there; the channel is closed then.
        """
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()

        def answered(answer: memoryview | None, error: ChannelError | None) -> None:
            if future.done():
                return
            if answer is not None:
                future.set_result(answer)
            elif error is not None:
                future.set_exception(error)

        self.ask_then(frame, answered, timeout_s=timeout_s)
        try:
            return await future
        except asyncio.CancelledError:
            self.close()
            raise

    def ask_then(self, frame: bytes, answered: Answered, *, timeout_s: float) -> None:
        """As :meth:`ask`, for callers that ask again and again: ``answered`` is called where the answer is received.

        Raises:
            ChannelError: it was closed before.
        """
        if self.is_closed:
            raise self._protocol.failure or ChannelError(f"The connection to {self._peer} is closed")
        self._protocol.expect(answered, timeout_s)
        self._transport.write(frame)

    def close(self) -> None:
        """Close the connection; the requests that wait for an answer fail."""
        self._protocol.fail(ChannelError(f"The connection to {self._peer} was closed"))
        self._transport.abort()


async def open_channel(
    host: str,
    port: int,
    *,
    timeout_s: float,
    frame_bytes_max: int,
    receive_buffer_bytes: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> Channel:
    """Connect to a broker.

    Args:
        timeout_s: for the connection.
        frame_bytes_max: an answer that claims to be longer is not read.
        receive_buffer_bytes: of the socket; None leaves it to the kernel, which adapts it.
        tls: encrypts the connection; None: it is plain.

    Raises:
        ChannelError: nothing listens there, no answer comes in time, or the two sides do not agree on TLS.
    """
    peer = f"{host}:{port}"
    protocol = _Answers(peer, frame_bytes_max)
    transport: Transport
    try:
        async with asyncio.timeout(timeout_s):
            if tls is not None:
                transport = await connect_encrypted(protocol, host, port, tls)
            else:
                loop = asyncio.get_running_loop()
                transport, _ = await loop.create_connection(lambda: protocol, host, port)
    except ssl.SSLError as error:
        raise ChannelError(f"SSL handshake with {peer} failed: {_tls_reason(error)}") from error
    except TimeoutError:
        raise ChannelError(f"{peer} did not take the connection within {timeout_s:g} s") from None
    except OSError as error:
        raise ChannelError(f"{peer} cannot be reached: {error.strerror or error}") from error
    except ValueError as error:
        # Other brokers register under names that are none for the resolver or for certificates, as a..b.
        raise ChannelError(f"{peer} cannot be reached: {error}") from error
    sock = cast("socket.socket", transport.get_extra_info("socket"))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if receive_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    return Channel(protocol, transport, peer)


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()


class _Question(NamedTuple):
    """A request that waits for its answer."""

    answered: Answered
    deadline: float
    """By the event loop's clock."""
    timeout_s: float


class _Answers(asyncio.BufferedProtocol):
    """Cuts what comes into answers, and hands each to the oldest question."""

    def __init__(self, peer: str, frame_bytes_max: int) -> None:
        self._peer = peer
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(_KEPT_MIN)
        """Holds the answer that is coming from its length on, and perhaps what comes behind it."""
        self._filled = 0
        self._size = 0
        """Of that answer with its length; 0 while that is not known."""
        self._loop = asyncio.get_running_loop()
        self._asked: deque[_Question] = deque()
        self._timer: asyncio.TimerHandle | None = None
        """Goes off when the first question's time is over, or before: not set anew with each question."""
        self._abort: Callable[[], None] = lambda: None
        self.failure: ChannelError | None = None

    def expect(self, answered: Answered, timeout_s: float) -> None:
        """An answer to what is sent next. When it does not come in time, nothing that comes later is heard."""
        deadline = self._loop.time() + timeout_s
        self._asked.append(_Question(answered, deadline, timeout_s))
        if self._timer is None or self._timer.when() > deadline:
            self._set_timer(deadline)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._look_for_late)

    def _look_for_late(self) -> None:
        self._timer = None
        if not self._asked:
            return
        first = min(self._asked, key=lambda question: question.deadline)
        if first.deadline <= self._loop.time():
            self.fail(ChannelError(f"{self._peer} did not answer within {first.timeout_s:g} s"))
            self._abort()
        else:
            self._set_timer(first.deadline)

    def fail(self, error: ChannelError) -> None:
        """Nothing more comes."""
        self.failure = self.failure or error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._asked:
            self._asked.popleft().answered(None, self.failure)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._abort = cast("Transport", transport).abort

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        while self.failure is None and self._filled >= (self._size or _LENGTH.size):
            if self._size:
                self._end()
            else:
                self._begin(_LENGTH.size + _LENGTH.unpack_from(self._buffer)[0])

    def _begin(self, size: int) -> None:
        if not _LENGTH.size < size <= _LENGTH.size + self._frame_bytes_max:
            size -= _LENGTH.size
            self.fail(ChannelError(f"{self._peer} announces an answer of {size} bytes"))
            self._abort()
            return
        self._size = size
        if len(self._buffer) < size or len(self._buffer) > max(_KEPT_MAX, 4 * size):
            self._go_on_in_new_memory(0, max(size, _KEPT_MIN))

    def _go_on_in_new_memory(self, start: int, size: int) -> None:
        """The memory of the last answer stays while it is still read."""
        buffer = bytearray(max(size, self._filled - start))
        buffer[: self._filled - start] = memoryview(self._buffer)[start : self._filled]
        self._buffer, self._filled = buffer, self._filled - start

    def _end(self) -> None:
        answer = memoryview(self._buffer)[_LENGTH.size : self._size]
        if self._filled > self._size:
            self._go_on_in_new_memory(self._size, _KEPT_MIN)
        else:
            self._filled = 0
        self._size = 0
        if not self._asked:
            self.fail(ChannelError(f"{self._peer} sends an answer to no request"))
            self._abort()
            return
        self._asked.popleft().answered(answer, None)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(ChannelError(f"The connection to {self._peer} is lost{f': {exc}' if exc else ''}"))
