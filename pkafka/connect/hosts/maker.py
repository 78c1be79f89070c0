"""The process that makes a worker's processes.

It is forked before the worker has threads. So its children begin with one thread, and with the worker's modules, whose
memory all of them share.

It knows nothing of what its children do. When the worker ends, in order or not, the kernel ends this process, and its
children with it.
"""

import errno
import gc
import logging
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

from pkafka.connect.errors import ConnectError
from pkafka.net.parents import ORPHANED, die_with_parent, load_death_signal, set_title

log = logging.getLogger(__name__)

_FRAME: Final = struct.Struct(">Biq")
_FORK, _KILL, _BORN, _ENDED = range(4)
_PATIENCE_S: Final = 60.0
"""How long a fork may take."""

RunChild = Callable[[socket.socket], int]
"""What a child does; it takes the line to the worker, and returns its exit code."""


class Child:
    """A process that was made.

    Args:
        pid: of it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended = threading.Event()
        self.status: int | None = None
        """How it ended, as ``waitpid`` tells it; None: it has not, or nobody knows."""


class HostMaker:
    """The worker's side. Any thread may call it.

    Args:
        sock: to the process.
        pid: of the process.
    """

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.pid = pid
        self._sock = sock
        self._lock = threading.Lock()
        self._born: queue.SimpleQueue[tuple[Child, int]] = queue.SimpleQueue()
        self._children: dict[int, Child] = {}
        self._broken: Callable[[], None] = lambda: None
        self._is_closed = False

    @classmethod
    def begin(cls, run_child: RunChild) -> "HostMaker":
        """Fork the process. The caller must have no other thread, and outlive the children."""
        if threading.active_count() > 1:
            log.warning(
                "Modules of plug-ins have started threads, which the processes of tasks do not have: %s",
                ", ".join(each.name for each in threading.enumerate()),
            )
        ours, theirs = socket.socketpair()
        prctl, parent = load_death_signal(), os.getpid()
        _flush()
        # What there is by now stays, and is not looked at again: a collection would write to every page of it.
        gc.collect()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                die_with_parent(prctl, parent)
                set_title(prctl, "host-maker")
                ours.close()
                status = _Maker(theirs, run_child, prctl).run()
            except BaseException:
                log.exception("The process that makes those of tasks cannot go on")
            finally:
                os._exit(status)
        theirs.close()
        return cls(ours, pid)

    def start(self, broken: Callable[[], None]) -> None:
        """Begin to listen.

        Args:
            broken: is called when the process is no more, though nobody has ended it.
        """
        self._broken = broken
        threading.Thread(target=self._listen, name="host-maker", daemon=True).start()

    def fork(self) -> tuple[Child, socket.socket]:
        """Make a child.

        Returns:
            The child, and the line to it.

        Raises:
            ConnectError: it cannot be made.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                socket.send_fds(self._sock, [_FRAME.pack(_FORK, 0, 0)], [theirs.fileno()])
                child, error = self._born.get(timeout=_PATIENCE_S)
        except (OSError, queue.Empty) as failed:
            ours.close()
            raise ConnectError(f"No process for tasks can be made: {failed or 'no answer'}") from failed
        if error:
            ours.close()
            raise ConnectError(f"No process for tasks can be made: {os.strerror(error)}")
        return child, ours

    def kill(self, pid: int) -> None:
        """Kill a child, if it lives still."""
        with suppress(OSError):  # the process has ended, and its children with it
            self._sock.sendall(_FRAME.pack(_KILL, pid, 0))

    def close(self) -> None:
        """End the process, and with it all children that are left."""
        self._is_closed = True
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _listen(self) -> None:
        while (data := _read(self._sock)) is not None:
            kind, pid, more = _FRAME.unpack(data)
            if kind == _BORN:
                child = Child(pid)
                if not more:
                    self._children[pid] = child
                self._born.put((child, more))
            else:
                child = self._children.pop(pid)
                child.status = more
                child.ended.set()
        for child in self._children.values():
            child.ended.set()
        self._born.put((Child(0), errno.EPIPE))
        if not self._is_closed:
            self._broken()


class _Maker:
    """The process itself; it has one thread, and goes on for as long as the worker."""

    def __init__(self, sock: socket.socket, run_child: RunChild, prctl: object) -> None:
        self._sock = sock
        self._run_child = run_child
        self._prctl = prctl
        self._children: set[int] = set()
        self._woken, self._wake = os.pipe()

    def run(self) -> int:
        leave_signals()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _left)
        while True:
            ready, _, _ = select.select([self._sock.fileno(), self._woken], [], [])
            if self._woken in ready:
                with suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            if self._sock.fileno() in ready and not self._serve():
                return 0

    def _serve(self) -> bool:
        data, fds, _flags, _address = socket.recv_fds(self._sock, _FRAME.size, 1)
        if not data:
            return False
        kind, pid, _ = _FRAME.unpack(data)
        if kind == _FORK:
            self._fork(fds[0])
        elif pid in self._children:
            os.kill(pid, signal.SIGKILL)
        return True

    def _fork(self, line: int) -> None:
        parent = os.getpid()
        pid, error = 0, 0
        try:
            pid = os.fork()
        except OSError as failed:
            error = failed.errno or 1
        if pid == 0 and not error:
            self._be_child(line, parent)
        os.close(line)
        if not error:
            self._children.add(pid)
        self._sock.sendall(_FRAME.pack(_BORN, pid, error))

    def _be_child(self, line: int, parent: int) -> None:
        status = 1
        try:
            die_with_parent(self._prctl, parent)
            set_title(self._prctl, "connect-host")
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._sock.close()
            os.close(self._woken)
            os.close(self._wake)
            status = self._run_child(socket.socket(fileno=line))
        except BaseException:
            log.exception("A process for tasks could not go on")
        finally:
            with suppress(Exception):
                _flush()
            os._exit(status)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._children.discard(pid)
            try:
                self._sock.sendall(_FRAME.pack(_ENDED, pid, status))
            except OSError:
                os._exit(ORPHANED)


def leave_signals() -> None:
    """Leave it to the worker what SIGINT and SIGTERM mean, which a terminal sends to all processes.

    Functions take them, not SIG_IGN, which programs that a connector starts would inherit.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _left)


def _left(_number: int, _frame: FrameType | None) -> None:
    """The worker gets the same signal, and says what is to end."""


def _read(sock: socket.socket) -> bytes | None:
    """One frame; None: the other end is closed."""
    data = b""
    try:
        while len(data) < _FRAME.size:
            more = sock.recv(_FRAME.size - len(data))
            if not more:
                return None
            data += more
    except OSError:
        return None
    return data


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
