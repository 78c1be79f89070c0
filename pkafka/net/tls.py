"""TLS over a socket that never blocks: OpenSSL works on memory, the socket is read and written here.

Measured with TLS 1.3 and AES-256-GCM this takes less CPU a byte than an SSLSocket or asyncio's TLS, and the
bytes go straight into the caller's buffer. Knows no event loop: the owner says when the socket can be read or
written.
"""

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

_PIECE_BYTES: Final = 131_072
"""So much is received, or encrypted, at a time. OpenSSL copies it twice: twice as much leaves the processor's cache."""
_SCRAP_BYTES: Final = 16_384


def new_scratch() -> bytearray:
    """Memory for the calls of streams, one at a time."""
    return bytearray(_PIECE_BYTES)


@mypyc_attr(native_class=False)
class TlsClosedError(OSError):
    """The other side closed the connection while the handshake went on."""


class TlsStream:
    """One encrypted connection, with the calls of a socket that does not block.

    Args:
        connection: the socket, connected and not blocking; its owner closes it.
        context: certificates and rules; says which side this is.
        server_hostname: the name that the server's certificate has to have, and that it is told (SNI); None for a
            server.
        scratch: memory for one call at a time, which streams of one thread may share; None: memory of its own.

    Attributes:
        has_more: whether the next read, which reads nothing from the socket, may find bytes that the socket does not
            announce any more.
    """

    __slots__ = (
        "_ahead",
        "_ciphertext",
        "_failure",
        "_filled_scratch",
        "_incoming",
        "_is_over",
        "_outgoing",
        "_read_into",
        "_scratch",
        "_socket",
        "_taken",
        "_tls",
        "has_more",
    )

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        server_hostname: str | None = None,
        *,
        scratch: bytearray | None = None,
    ) -> None:
        self._socket = connection
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=context.protocol is ssl.PROTOCOL_TLS_SERVER,
            server_hostname=server_hostname,
        )
        # typeshed knows this call without a view to read into.
        self._read_into = cast("Callable[[int, memoryview], int]", self._tls.read)
        self._scratch = memoryview(new_scratch() if scratch is None else scratch)
        self._ciphertext = memoryview(b"")
        self._taken = 0
        """So many bytes, the first of the next ``send``, are encrypted already."""
        self._ahead = memoryview(b"")
        """What :meth:`has_ended` read."""
        self._failure: ssl.SSLError | None = None
        """Comes with the next read: bytes came before it."""
        self._is_over = False
        """Whether a read has found the end, which each further one finds again."""
        self._filled_scratch = False
        """Whether the socket had all that was asked of it the last time, and so may have more."""
        self.has_more = False

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

    def peer_certificate_der(self) -> bytes | None:
        """The other side's certificate; None where it has sent none, or not yet."""
        try:
            return self._tls.getpeercert(binary_form=True)
        except ValueError:
            return None

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
                self.has_more = True  # what came behind the last word of the handshake
                return True

    def recv_into(self, target: memoryview) -> int:
        """As a socket's, up to all that the target can hold.

        Raises:
            BlockingIOError: there is nothing to read.
            ssl.SSLError: what came is not of this connection, or the other side sent an alert.
            OSError: the connection was lost.
        """
        is_announced, self.has_more = not self.has_more, False
        if self._failure is not None:
            self._fail()
        done = self._take_ahead(target) if self._ahead else 0
        size = len(target)
        while done < size:
            if not self._is_all_read():
                try:
                    count = self._read_into(size - done, target[done:] if done else target)
                except ssl.SSLWantReadError:
                    pass  # the rest of a record has not come yet
                except ssl.SSLError as error:
                    return self._ended(error, done)
                else:
                    if not count:
                        self._is_over = True
                        return done
                    done += count
                    continue
            if done:
                if not (is_announced and self._filled_scratch and self._fetches_more()):
                    return done
            elif is_announced:
                self._fetch()
            else:
                raise BlockingIOError  # others have a turn before the socket is read again
        self.has_more = not self._is_all_read()
        return done

    def _is_all_read(self) -> bool:
        """Whether nothing is left that came. OpenSSL tells that by an error, which takes longer than to ask."""
        incoming = self._incoming
        return not (incoming.pending or self._is_over or incoming.eof or self._tls.pending())

    def _fetch(self) -> None:
        """Take more from the socket."""
        if self.wants_write:
            with contextlib.suppress(ConnectionError):  # what the other side said before is still read
                self.flush()
        if not self._receive():
            self._incoming.write_eof()

    def _fetches_more(self) -> bool:
        """Take more from a socket that had more than the scratch holds, as a plain one gives all that there is.

        What is served at once is answered, and passed on to other processes, at once.
        """
        try:
            self._fetch()
        except OSError:
            return False  # what is wrong, the next read finds
        return True

    def _ended(self, error: ssl.SSLError, done: int) -> int:
        if isinstance(error, (ssl.SSLZeroReturnError, ssl.SSLEOFError)):
            self._is_over = True
            return done
        if not done:
            raise error
        self._failure = error.with_traceback(None)
        return done

    def _fail(self) -> None:
        failure, self._failure = self._failure, None
        assert failure is not None
        try:
            raise failure
        finally:
            del failure  # would hold itself, by the frame in its traceback

    def _take_ahead(self, target: memoryview) -> int:
        count = min(len(target), len(self._ahead))
        target[:count] = self._ahead[:count]
        self._ahead = self._ahead[count:]
        return count

    def has_arrived(self) -> bool:
        """Whether the socket has bytes for this side, or the end of the connection."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        return True

    def has_ended(self) -> bool:
        """Whether the other side sends no more, and nothing that it sent is unread."""
        if self._ahead or self.has_more:
            return False
        target = memoryview(bytearray(_SCRAP_BYTES))
        try:
            count = self.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            count = 0
        self._ahead = target[:count]
        self.has_more = True  # which the socket will not tell again
        return not count

    def send(self, data: "bytes | bytearray | memoryview", flags: int = 0) -> int:
        """As a socket's: what it says is sent, the kernel has.

        What it does not take yet has to come first in the next call, since a part of it is encrypted by then.

        Raises:
            BlockingIOError: the socket has no room for the next piece; a part of it may have left.
            OSError: the connection was lost.
        """
        if not self._taken and data:
            self.flush()
            if self.wants_write:
                raise BlockingIOError
            self._taken = self._tls.write(
                data if len(data) <= _PIECE_BYTES else memoryview(data)[:_PIECE_BYTES]
            )
        self.flush(flags)
        if self.wants_write:
            raise BlockingIOError
        count = min(self._taken, len(data))
        self._taken -= count
        return count

    def sendmsg(
        self, parts: "Sequence[bytes | bytearray | memoryview]", _ancillary: tuple[()] = (), flags: int = 0
    ) -> int:
        """As :meth:`send`, of several parts, as if they were one."""
        return self.send(b"".join(parts), flags)

    def send_range(self, fd: int, position: int, length: int) -> int:
        """As :meth:`send`, of bytes of a file; 0 at its end."""
        if self._taken:
            return self.send(
                self._scratch[: min(length, len(self._scratch))]
            )  # its content is encrypted already
        count = os.preadv(fd, [self._scratch[: min(length, _PIECE_BYTES)]], position)
        return self.send(self._scratch[:count]) if count else 0

    def flush(self, flags: int = 0) -> None:
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
                count = self._socket.send(self._ciphertext, flags)
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
        self._filled_scratch = False
        count = self._socket.recv_into(self._scratch)
        self._filled_scratch = count == len(self._scratch)
        if count:
            self._incoming.write(self._scratch[:count])
        return count
