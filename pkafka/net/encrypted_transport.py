"""A connection to a server that speaks TLS, for a protocol of asyncio's that reads into memory of its own.

It is what asyncio's own TLS would be, but the bytes are decrypted into the protocol's memory, by :class:`TlsStream`.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from pkafka.net.tls import TlsClosedError, TlsStream


class Transport(Protocol):
    """What the owner of a connection needs of asyncio's transport, or of one that encrypts."""

    def write(self, data: bytes) -> None:
        """Send bytes, now or when there is room."""

    def abort(self) -> None:
        """Close at once."""

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""

    def get_extra_info(self, name: str) -> Any:  # noqa: ANN401 - as asyncio's
        """The socket, by the name ``socket``."""


async def connect_encrypted(
    protocol: asyncio.BufferedProtocol, host: str, port: int, context: ssl.SSLContext
) -> "EncryptedTransport":
    """Connect, and agree on TLS.

    Args:
        protocol: told what comes.
        host: of the server; its certificate has to name it, unless the context says otherwise.
        context: of a client.

    Raises:
        OSError: nothing listens there, or (ssl.SSLError) the two sides do not agree.
        ValueError: no certificate can have such a name.
    """
    loop = asyncio.get_running_loop()
    sock = await _connected(loop, host, port)
    try:
        stream = TlsStream(sock, context, host)
        while True:
            is_over = stream.handshake()
            if stream.wants_write:
                await _ready(loop.add_writer, loop.remove_writer, sock)
            elif is_over:
                return EncryptedTransport(sock, stream, protocol)
            else:
                await _ready(loop.add_reader, loop.remove_reader, sock)
    except TlsClosedError:
        sock.close()
        raise ConnectionResetError("closed in the TLS handshake; the port may not speak TLS") from None
    except BaseException:
        sock.close()
        raise


async def _connected(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """The first of the host's addresses that takes the connection."""
    failure: OSError | None = None
    for family, kind, number, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, number)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError("the name has no address")


async def _ready(watch: Callable[..., object], forget: Callable[[int], object], sock: socket.socket) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(sock.fileno(), lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        forget(sock.fileno())


class EncryptedTransport:
    """An open connection; see the module.

    Args:
        sock: connected and not blocking; owned from now on.
        stream: over it, the handshake done.
        protocol: told what comes.
    """

    def __init__(self, sock: socket.socket, stream: TlsStream, protocol: asyncio.BufferedProtocol) -> None:
        self._sock = sock
        self._stream = stream
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._is_closed = False
        self._reads_on = True
        """A read is due that does not wait for the socket: at first of what came with the end of the handshake."""
        self._loop.add_reader(sock.fileno(), self._on_readable)
        self._loop.call_soon(self._read_on)
        protocol.connection_made(self)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        """As a transport of asyncio's."""
        if self._is_closed:
            return
        self._unsent.append(memoryview(data))
        if len(self._unsent) == 1:
            self._send()

    def abort(self) -> None:
        """As a transport of asyncio's, but the other side is told that this is the end."""
        self._close(None)

    def is_closing(self) -> bool:
        """Whether it is closed."""
        return self._is_closed

    def get_extra_info(self, name: str) -> object:
        """The socket."""
        return self._sock if name == "socket" else None

    def _send(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                count = self._stream.send(unsent[0])
                if count == len(unsent[0]):
                    unsent.popleft()
                else:
                    unsent[0] = unsent[0][count:]
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._sock.fileno(), self._on_writable)
        except OSError as error:
            self._close(error)

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._sock.fileno())
        self._send()

    def _on_readable(self) -> None:
        if not self._reads_on:
            self._read()

    def _read_on(self) -> None:
        self._reads_on = False
        if not self._is_closed:
            self._read()

    def _read(self) -> None:
        """Read once in a turn of the event loop: what the protocol says of one read is heard before the next."""
        try:
            count = self._stream.recv_into(self._protocol.get_buffer(-1))  # type: ignore[arg-type]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._close(error)
            return
        if not count:
            self._close(None)
            return
        self._protocol.buffer_updated(count)
        if self._stream.has_more and not self._is_closed:
            self._reads_on = True
            self._loop.call_soon(self._read_on)

    def _close(self, error: OSError | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._unsent.clear()
        with contextlib.suppress(OSError):
            self._stream.say_goodbye()
        self._sock.close()
        # Later, as asyncio does: who closes the connection may be in the middle of something.
        self._loop.call_soon(self._protocol.connection_lost, error)
        del self._protocol  # which knows this
