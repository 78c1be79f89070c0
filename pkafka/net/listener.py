"""Sockets that take clients in: binding them for several processes, and accepting on them."""

import asyncio
import errno
import logging
import resource
import socket
import sys
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

_ACCEPTS_PER_EVENT: Final = 64
_OUT_OF_FDS_PAUSE_S: Final = 0.1
_ADMISSION_PAUSE_S: Final = 0.02


class Admission(Enum):
    """What becomes of a new connection."""

    ADMIT = "served"
    WAIT = "waits, and all behind it, until it is admitted or refused"
    REFUSE = "closed at once"


class CloseLater(NamedTuple):
    """Says of a new connection that it is not served, and closed only after a while."""

    seconds: float


class AddressInUseError(OSError):
    """Another process listens on the address already."""


def bind_for_workers(
    host: str, port: int, *, workers: int, backlog: int, receive_buffer_bytes: int | None = None
) -> list[socket.socket]:
    """Open one listening socket per worker on the same address; the kernel spreads connections over them.

    The address is first bound without SO_REUSEPORT: with it, a second broker of the same user would silently take a
    share of this one's clients.

    Args:
        host: address to bind, "" for all.
        port: 0 lets the kernel choose; all sockets get the same one.
        workers: how many sockets.
        backlog: socket.listen.backlog.size.
        receive_buffer_bytes: of each accepted connection; None leaves it to the kernel, which adapts it to the
            connection.

    Raises:
        AddressInUseError: the port is taken.
        OSError: the address does not resolve or cannot be bound.
    """
    family, address = _resolve(host, port)
    probe = socket.socket(family, socket.SOCK_STREAM)
    sockets: list[socket.socket] = []
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            # A listening probe is the one check that also sees a listener which allows sharing.
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(error.errno, f"{host or '*'}:{port} is in use") from None
            raise
        bound = probe.getsockname()
        probe.close()
        for _ in range(workers):
            sock = socket.socket(family, socket.SOCK_STREAM)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if workers > 1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if receive_buffer_bytes is not None:
                # Before listening: the window that a client is offered depends on it.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.bind(bound)
            sock.listen(backlog)
            sock.setblocking(False)
        return sockets
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    finally:
        probe.close()


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first: "localhost" answers to both, and most clients try it first.
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, _type, _protocol, _name, address = found[0]
    return family, (str(address[0]), int(address[1]))


def open_files_max() -> int:
    """How many files this process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class Acceptor:
    """Takes connections from one listening socket.

    Args:
        sock: a non-blocking listening socket; stays the caller's.
        admit: decides about a new connection by the peer's host.
        accepted: called with each admitted socket and the peer's host.
        send_buffer_bytes: of a connection; None leaves it to the kernel, which adapts it to the connection.
        local_send_buffer_bytes: the same, of one from the machine's own address. It has no delay that a large buffer
            would make up for, and of a small one the reader finds all in the processor's cache.
        spare_descriptors: connections leave so many of the process's open files to whatever else needs some: a log that
            cannot open its next file takes its whole directory offline.
    """

    def __init__(
        self,
        sock: socket.socket,
        accepted: Callable[[socket.socket, str], object],
        *,
        admit: Callable[[str], Admission | CloseLater] = lambda _host: Admission.ADMIT,
        send_buffer_bytes: int | None = None,
        local_send_buffer_bytes: int | None = None,
        spare_descriptors: int = 0,
    ) -> None:
        self._sock = sock
        # The kernel gives the lowest free number: one this high says that nearly all are in use.
        self._descriptors_max = open_files_max() - spare_descriptors
        self._admit = admit
        self._accepted = accepted
        self._send_buffer_bytes = send_buffer_bytes
        self._local_send_buffer_bytes = local_send_buffer_bytes
        self._loop = asyncio.get_running_loop()
        self._resume: asyncio.TimerHandle | None = None
        self._waiting: tuple[socket.socket, str] | None = None
        self._held: set[socket.socket] = set()
        """Connections that are not served, and not yet closed."""
        self._loop.add_reader(sock.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(_ACCEPTS_PER_EVENT):
            try:
                client, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: the connection stays in the queue, so pause instead of spinning.
                log.error("Cannot accept connections at the moment: %s", error)
                self._pause(_OUT_OF_FDS_PAUSE_S)
                return
            if not self._take(client, str(address[0])):
                return

    def _take(self, client: socket.socket, host: str) -> bool:
        """Serve or refuse the connection; False when it has to wait, or those behind it."""
        if client.fileno() >= self._descriptors_max:
            log.error("Closing the connection of %s: too many open files", host)
            client.close()
            self._pause(_OUT_OF_FDS_PAUSE_S)
            return False
        admission = self._admit(host)
        if admission is Admission.WAIT:
            self._waiting = (client, host)
            self._pause(_ADMISSION_PAUSE_S)
            return False
        if admission is Admission.REFUSE:
            client.close()
            return True
        if isinstance(admission, CloseLater):
            self._held.add(client)
            self._loop.call_later(admission.seconds, self._end, client)
            return True
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        is_local = client.getsockname()[0] == host
        send_buffer_bytes = self._local_send_buffer_bytes if is_local else self._send_buffer_bytes
        if send_buffer_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        self._accepted(client, host)
        return True

    def _end(self, client: socket.socket) -> None:
        self._held.discard(client)
        client.close()

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._resume = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or self._take(*waiting):
            self._loop.add_reader(self._sock.fileno(), self._on_readable)

    def close(self) -> None:
        """Stop accepting; the socket stays open."""
        if self._resume is not None:
            self._resume.cancel()
        for client in list(self._held):
            self._end(client)
        if self._waiting is not None:
            self._waiting[0].close()
            self._waiting = None
        self._loop.remove_reader(self._sock.fileno())
