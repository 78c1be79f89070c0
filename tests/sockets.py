"""The sockets of this machine, seen from outside."""

import contextlib
import errno
import os
import random
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PORTS: Final = random.Random()
"""Not the seeded one: processes that test at the same time must not draw the same ports."""
_DRAWN: Final[deque[int]] = deque(maxlen=1_000)
"""A test often draws several before anybody listens on the first, and a JVM listens much later."""
_TRIES: Final = 500
"""A command that is watched (tests/in_process.py) may bind none."""


def free_port() -> int:
    """A port that no process listens on, that the kernel gives to no connection, and that no other test has drawn.

    Tests that run at the same time draw from thousands of ports, each process of pytest-xdist from its own: what one
    has drawn, and listens at later, no other takes. Listen on port 0 where that is possible.

    Raises:
        OSError: there is none.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for _ in range(_TRIES):
        port = _PORTS.randrange(10_000 + number, lowest, count)
        if port in _DRAWN:
            continue
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            _DRAWN.append(port)
            return port
    raise OSError(errno.EADDRINUSE, "no port is free, or none may be looked at")


def unread_bytes(port: int, *, sender: int | None = None) -> int:
    """What was sent to a port of this machine and not read yet, plus the connections that nobody has accepted yet.

    Args:
        sender: the port from which it was sent; None: from any, and only then unaccepted connections count.
    """
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        # proc_pid_net(5): number, local address, remote address, state, lengths of the queues to send and to read
        _number, local, remote, _state, queues, *_rest = line.split()
        if _port_of(local) == port and sender in (None, _port_of(remote)):
            count += int(queues.rpartition(":")[2], 16)
    return count


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """A port of this machine at which connections neither come about nor are refused: nobody accepts those before."""
    with contextlib.ExitStack() as sockets:
        server = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(server.getsockname())
        port: int = server.getsockname()[1]
        yield port
