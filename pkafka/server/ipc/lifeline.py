"""The line between the supervisor and each of its children: the supervisor's side, and the words of both sides.

The supervisor runs no event loop, so its side is a plain socket with the frames of :mod:`pkafka.server.ipc.peer`, notes
only. The child's side is an ordinary :class:`~pkafka.server.ipc.peer.Peer`; when it breaks, the supervisor is dead and
the child ends at once.
"""

import array
import logging
import os
import socket
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import msgpack

from pkafka.net import parents

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

# Child -> supervisor.
BEAT: Final = "beat"  # I am alive; every BEAT_INTERVAL_S
BOOTED: Final = "booted"  # my event loop runs; from now on silence means that I hang
READY: Final = "ready"  # (control) the broker serves clients; payload: facts for the first screen
SESSION: Final = "session"  # (control) id and password of the coordination session, for my successor
DIRECTORY_FAILED: Final = "directory-failed"  # (worker) payload: its path; it must not be marked clean
LOG_LEVEL: Final = (
    "log_level"  # (control, and from the supervisor to all) payload: a logger's name and its new level
)
CLOSING: Final = "closing"  # (worker, control) the stop takes long, but goes on
RELEASED: Final = "released"  # (control) controlled shutdown is done, the workers may go

# Supervisor -> child.
PEER: Final = "peer"  # payload: name of another child; descriptor: your end of the channel to it
LATE: Final = "late"  # (workers) payload: name of another worker, whether it seems to hang
STOP: Final = "stop"  # end cleanly
CLOSE: Final = "close"  # (control) all other processes have ended: give the session back and end

BEAT_INTERVAL_S: Final = 1.0


class ChildExit(IntEnum):
    """Exit codes of children that the supervisor tells apart."""

    CLEAN = 0
    CRASHED = 1
    CANNOT_BOOT = 3
    """Another try would fail, too: the broker stops, instead of starting the child again and again."""
    ORPHANED = parents.ORPHANED
    SESSION_OVER = 5
    """(control) Its session with the coordination store has ended; the next one begins with a new one."""


_PREFIX = struct.Struct(">II")
_NOTE: Final = 3


class Lifeline:
    """Sends to and reads from one child, for the supervisor."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()
        sock.setblocking(False)

    def note(self, operation: str, payload: Any = None, fds: Sequence[int] = ()) -> None:  # noqa: ANN401 - msgpack
        """Send the child a note. When the child is gone the note is lost; the supervisor notices the end elsewhere."""
        header = msgpack.packb([_NOTE, 0, operation, payload, len(fds)])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            # Notes are far smaller than the socket's buffer, so that this neither blocks nor is cut.
            self.sock.sendmsg([_PREFIX.pack(len(header), 0) + header], ancillary)
        except OSError:
            return

    def read(self) -> list[tuple[str, Any]]:
        """Return the child's notes since the last call, as (operation, payload) pairs."""
        try:
            while chunk := self.sock.recv(65536):
                self._buffer += chunk
        except OSError:
            pass
        notes: list[tuple[str, Any]] = []
        while len(self._buffer) >= _PREFIX.size:
            header_bytes, blob_bytes = _PREFIX.unpack_from(self._buffer)
            size = _PREFIX.size + header_bytes + blob_bytes
            if len(self._buffer) < size:
                break
            _kind, _call, operation, payload, _fds = msgpack.unpackb(
                bytes(self._buffer[_PREFIX.size : _PREFIX.size + header_bytes]), strict_map_key=False
            )
            del self._buffer[:size]
            notes.append((operation, payload))
        return notes

    def close(self) -> None:
        """Close this side."""
        self.sock.close()


def end_orphan(_line: object) -> None:
    """End at once: the supervisor is dead, or could not bring the channel to another process."""
    os._exit(ChildExit.ORPHANED)


def vital(task: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
    """Have this process end with a task that fails, so that the supervisor starts another.

    For tasks that go on for as long as the process: no other task waits for them and would notice their end.

    Returns:
        The task.
    """
    task.add_done_callback(_end_if_failed)
    return task


def _end_if_failed(task: "asyncio.Task[Any]") -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.critical("This process cannot go on, and ends", exc_info=error)
        os._exit(ChildExit.CRASHED)
