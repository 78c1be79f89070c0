"""The least that three replicas of Python can be: what latency the machine itself gives them.

A leader and two followers, a process each: the leader writes a frame to its file and sends it to both, a follower
writes it and sends a byte back, and the leader answers when both have. No protocol, no checks, no state. So the tail of
its latencies is that of the machine, its scheduler and its hypervisor, at just the rate and size of the brokers' load.

``python -m benchmarks.least_replication FRAME_BYTES ANSWER_BYTES DIRECTORY`` is the leader; it prints its port, serves
one client, and ends with it.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FOLLOWERS: Final = 2
_FILE_BYTES_MAX: Final = 300_000_000
"""Then the file is written from its start again."""
_END_S: Final = 30


@contextlib.contextmanager
def running_leader(frame_bytes: int, answer_bytes: int, directory: Path) -> Iterator[tuple[str, int]]:
    """Where it listens. ``directory`` is for the files, which have no names."""
    command = [sys.executable, "-m", __name__, str(frame_bytes), str(answer_bytes), str(directory)]
    leader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert leader.stdout is not None
        yield "127.0.0.1", int(leader.stdout.readline())
        leader.wait(_END_S)  # the client has gone
    finally:
        leader.kill()
        leader.wait()
        assert leader.stdout is not None
        leader.stdout.close()


class _File:
    """Frames one behind the other."""

    def __init__(self, directory: str) -> None:
        self._descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY)  # for as long as the process lives
        self._position = 0

    def append(self, frame: bytes) -> None:
        os.pwrite(self._descriptor, frame, self._position)
        self._position = (self._position + len(frame)) % _FILE_BYTES_MAX


def _follow(address: tuple[str, int], frame_bytes: int, directory: str) -> None:
    file = _File(directory)
    with _connected(socket.create_connection(address)) as leader:
        while len(frame := leader.recv(frame_bytes, socket.MSG_WAITALL)) == frame_bytes:
            file.append(frame)
            leader.sendall(b"\0")


def _lead(
    client: socket.socket, followers: list[socket.socket], sizes: tuple[int, int], directory: str
) -> None:
    frame_bytes, answer_bytes = sizes
    file, answer = _File(directory), bytes(answer_bytes)
    acknowledged = dict.fromkeys((follower.fileno() for follower in followers), 0)
    by_number = {follower.fileno(): follower for follower in followers}
    answered = 0
    poll = select.epoll()
    for each in (client, *followers):
        poll.register(each, select.EPOLLIN)
    while True:
        for number, _ in poll.poll():
            if number == client.fileno():
                frame = client.recv(frame_bytes, socket.MSG_WAITALL)
                if len(frame) < frame_bytes:
                    return
                file.append(frame)
                for follower in followers:
                    follower.sendall(frame)
            else:
                acknowledged[number] += len(by_number[number].recv(1024))
        by_all = min(acknowledged.values())
        if by_all > answered:
            client.sendall(answer * (by_all - answered))
            answered = by_all


def _connected(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def main() -> None:
    """The leader, which makes its followers."""
    frame_bytes, answer_bytes, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(_FOLLOWERS):
            if os.fork() == 0:
                address = server.getsockname()
                server.close()
                _follow(address, frame_bytes, directory)
                os._exit(0)
        followers = [_connected(server.accept()[0]) for _ in range(_FOLLOWERS)]
        print(server.getsockname()[1], flush=True)
        client = _connected(server.accept()[0])
    with contextlib.ExitStack() as open_:
        for each in (client, *followers):
            open_.enter_context(each)
        _lead(client, followers, (frame_bytes, answer_bytes), directory)


if __name__ == "__main__":
    main()
