"""Clients' connections while TLS is being agreed on: before they ask for anything, and whether or not they ever will.

A handshake costs up to a millisecond of CPU. When many clients come at once, as after a restart, only a few of them are
looked at in each turn of the event loop, so that those that are connected get their answers meanwhile.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from pkafka.net.tls import TlsStream, new_scratch

_STEPS_PER_TURN: Final = 4
_HANDSHAKE_RECORD: Final = b"\x16\x03"
"""What a client that speaks TLS begins with: the type of the record, and the first byte of every version."""


class Handshakes:
    """The handshakes of one event loop, and the memory that its encrypted connections share."""

    def __init__(self) -> None:
        self.scratch = new_scratch()
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def take_turn(self, step: Callable[[], None]) -> None:
        """Call ``step`` when those that came before had their turn."""
        self._waiting.append(step)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = len(self._waiting) > _STEPS_PER_TURN
        if self._is_due:
            self._loop.call_soon(self._go_on)
        for _ in range(min(_STEPS_PER_TURN, len(self._waiting))):
            self._waiting.popleft()()


class Handshake:
    """One client's connection until it is encrypted.

    Args:
        sock: the accepted socket, owned until ``done`` gets it.
        context: of the listener.
        listener: its name.
        peer_host: the client's address.
        handshakes: of this event loop.
        done: called with this, the socket and the stream when the two sides agree.
        failed: called with this, and with the reason where there is one to tell, when the connection is closed before.
    """

    __slots__ = (
        "_context",
        "_done",
        "_failed",
        "_handshakes",
        "_loop",
        "_sock",
        "_stream",
        "closed",
        "last_active",
        "listener",
        "peer_host",
    )

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        listener: str,
        peer_host: str,
        handshakes: Handshakes,
        done: "Callable[[Handshake, socket.socket, TlsStream], None]",
        failed: "Callable[[Handshake, str | None], None]",
    ) -> None:
        self.listener = listener
        self.peer_host = peer_host
        self.closed = False
        self._sock = sock
        self._context = context
        self._stream: TlsStream | None = None
        self._handshakes = handshakes
        self._done = done
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        """When it began: what a client sends in small pieces does not make it longer."""
        self._loop.add_reader(sock.fileno(), self._on_ready)

    def is_idle_since(self, time_s: float) -> bool:
        """Whether it began before that reading of the event loop's clock."""
        return self.last_active < time_s

    def drain(self) -> None:
        """Close: nothing is asked yet."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._end(None)

    def _on_ready(self) -> None:
        self._unwatch()
        self._handshakes.take_turn(self._go_on)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())

    def _go_on(self) -> None:
        if self.closed:
            return
        try:
            if self._stream is None and not self._begin():
                return
            assert self._stream is not None
            is_over = self._stream.handshake()
        except ssl.SSLError as error:
            self._end(_reason(error))
        except OSError:
            self._end(None)  # the client has closed the connection, or is gone
        else:
            if self._stream.wants_write:
                self._loop.add_writer(self._sock.fileno(), self._on_ready)
            elif not is_over:
                self._loop.add_reader(self._sock.fileno(), self._on_ready)
            else:
                self.closed = True
                self._done(self, self._sock, self._stream)

    def _begin(self) -> bool:
        """Look at the first bytes. A client that speaks no TLS gets nothing: it would take an alert for the length of
        an answer, and wait for that many bytes.

        Returns:
            Whether there is something to go on with.
        """
        try:
            first = self._sock.recv(len(_HANDSHAKE_RECORD), socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._loop.add_reader(self._sock.fileno(), self._on_ready)
            return False
        if not first:
            self._end(None)
            return False
        if not _HANDSHAKE_RECORD.startswith(first):
            self._end("the client does not speak TLS")
            return False
        self._stream = TlsStream(self._sock, self._context, scratch=self._handshakes.scratch)
        return True

    def _end(self, reason: str | None) -> None:
        if self.closed:
            return
        self.closed = True
        self._unwatch()
        self._sock.close()
        self._failed(self, reason)


def _reason(error: ssl.SSLError) -> str:
    """What went wrong, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not trusted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
