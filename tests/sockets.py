"""The sockets of this machine, seen from outside."""

import contextlib
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PORTS: Final = random.Random()
"""Not the seeded one: runs of tests at the same time must not draw the same ports."""
_FIRST: Final = 10_000
_WORKERS: Final = 16
"""So many workers of a run have ports of their own, more than a thousand each."""
_drawn: Final[set[int]] = set()


def free_port() -> int:
    """A port that no process listens on, that the kernel gives to no connection, and that no other test has drawn.

    Who draws a port may listen on it much later, as a JVM does that has to start first. Listen on port 0 where that is
    possible.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = (lowest - _FIRST) // _WORKERS
    begin = _FIRST + worker % _WORKERS * count
    while True:
        port = _PORTS.randrange(begin, begin + count)
        if port not in _drawn:
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
                _drawn.add(port)
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
