"""The sockets of this machine, seen from outside."""

import contextlib
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PORTS: Final = random.Random()
"""Not the seeded one: processes that test at the same time must not draw the same ports."""


def free_port() -> int:
    """A port that no process listens on, and that the kernel gives to no connection.

    Tests that run at the same time draw from thousands of ports, each process of pytest-xdist from its own: what one
    has drawn, and listens at later, no other takes. Listen on port 0 where that is possible.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    while True:
        port = _PORTS.randrange(10_000 + number, lowest, count)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def unread_bytes(port: int) -> int:
    """What was sent to a port of this machine and not read yet, plus the connections that nobody has accepted yet."""
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        # proc_pid_net(5): number, local address, remote address, state, lengths of the queues to send and to read
        _number, local, _remote, _state, queues, *_rest = line.split()
        if int(local.rpartition(":")[2], 16) == port:
            count += int(queues.rpartition(":")[2], 16)
    return count


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
