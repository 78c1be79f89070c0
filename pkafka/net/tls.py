"""TLS over a socket that never blocks: OpenSSL works on memory, the socket is read and written here.

Measured with TLS 1.3 and AES-256-GCM this takes less CPU a byte than an SSLSocket or asyncio's TLS, and the
bytes go straight into the caller's buffer. Knows no event loop: the owner says when the socket can be read or
written.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

_READ_BYTES: Final = 262_144
_WRITE_BYTES: Final = 262_144
_SCRAP_BYTES: Final = 16_384


class TlsClosedError(OSError):
    """The other side closed the connection while the handshake went on."""


class TlsStream:
    """One encrypted connection, with the calls of a socket that does not block.

    Args:
        connection: the socket, connected and not blocking; its owner closes it.
        context: certificates and rules.
        server_hostname: the name that the server's certificate has to have, and that it is told (SNI).
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, server_hostname: str) -> None:
        self._socket = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        # typeshed knows this call without a view to read into.
        self._read_into = cast("Callable[[int, memoryview], int]", self._tls.read)
        self._scratch = bytearray(_READ_BYTES)
        self._ciphertext = memoryview(b"")

    @property
    def wants_write(self) -> bool:
        """Whether encrypted bytes wait for the socket."""
        return bool(self._ciphertext) or self._outgoing.pending > 0

    @property
    def version(self) -> str | None:
        """As ``TLSv1.3``, once it is agreed on."""
        return self._tls.version()

    @property
    def cipher(self) -> str | None:
        """The suite's name, once it is agreed on."""
        found = self._tls.cipher()
        return None if found is None else found[0]

    def peer_certificate(self) -> Mapping[str, Any]:
        """What the other side's certificate says, as :meth:`ssl.SSLSocket.getpeercert`; empty before the handshake."""
        try:
            return self._tls.getpeercert() or {}
        except ValueError:
            return {}

    def handshake(self) -> bool:
        """Go on with the handshake as far as it goes.

        Returns:
            Whether it is over.

        Raises:
            TlsClosedError: the other side closed the connection.
            ssl.SSLError: the two sides do not agree, or a certificate is not trusted.
            OSError: the connection was lost.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                try:
                    if not self._receive():
                        raise TlsClosedError
                except (BlockingIOError, InterruptedError):
                    return False
            except ssl.SSLError:
                # The other side learns why, as far as the socket takes it now.
                with contextlib.suppress(OSError):
                    self.flush()
                raise
            else:
                self.flush()
                return True

    def recv_into(self, target: memoryview) -> int:
        """As a socket's.

        Raises:
            BlockingIOError: there is nothing to read.
            ssl.SSLError: what came is not of this connection, or the other side sent an alert.
            OSError: the connection was lost.
        """
        while True:
            try:
                return self._read_into(len(target), target)
            except ssl.SSLWantReadError:
                if self.wants_write:
                    with contextlib.suppress(
                        ConnectionError
                    ):  # what the other side said before is still read
                        self.flush()
                if not self._receive():
                    self._incoming.write_eof()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0

    def send(self, data: memoryview) -> int:
        """As a socket's. What was taken and could not be sent yet leaves with :meth:`flush` or the next call.

        Raises:
            BlockingIOError: earlier bytes still wait.
            OSError: the connection was lost.
        """
        self.flush()
        if self.wants_write:
            raise BlockingIOError
        count = self._tls.write(data[:_WRITE_BYTES])
        self.flush()
        return count

    def flush(self) -> None:
        """Send encrypted bytes that wait, as many as the socket takes.

        Raises:
            OSError: the connection was lost.
        """
        while True:
            if not self._ciphertext:
                if not self._outgoing.pending:
                    return
                self._ciphertext = memoryview(self._outgoing.read())
            try:
                count = self._socket.send(self._ciphertext)
            except (BlockingIOError, InterruptedError):
                return
            self._ciphertext = self._ciphertext[count:]

    def alert(self, error: OSError) -> ssl.SSLError | None:
        """What is wrong with the encryption, where that is behind an error of this connection; None where it is not.

        A server that does not like what it got says why and closes: a client that writes meanwhile hears of the
        end first.
        """
        if isinstance(error, ssl.SSLError):
            return error
        if not isinstance(error, ConnectionError):
            return None
        try:
            while self.recv_into(memoryview(bytearray(_SCRAP_BYTES))):
                pass
        except ssl.SSLError as found:
            return found
        except OSError:
            return None
        return None

    def say_goodbye(self) -> None:
        """Tell the other side that nothing more comes, if the socket takes that now; never raises."""
        with contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()
        with contextlib.suppress(OSError):
            self.flush()

    def _receive(self) -> int:
        count = self._socket.recv_into(self._scratch)
        if count:
            self._incoming.write(memoryview(self._scratch)[:count])
        return count
