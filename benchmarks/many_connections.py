"""Many connections that each have one request in hand, of one record: next to no memory for each, on either side."""

import select
import socket
import time
from typing import Final, NamedTuple

from benchmarks import wire
from benchmarks.systems import Target
from pkafka.errors import ErrorCode

_RECORD_BYTES: Final = 100
_STALL_S: Final = 120.0
_ERROR_BYTES: Final = 2


class Spent(NamedTuple):
    """What requests took: their number, the CPU seconds of the broker, and how long it was."""

    requests: int
    server_cpu_s: float
    seconds: float


class Crowd:
    """Connections to one broker, all open until :meth:`close`.

    Args:
        topic: produced to.
        partitions: of the topic; connections take them in turn.
        count: how many.

    Raises:
        OSError: the broker or this process may not have so many.
    """

    def __init__(self, target: Target, topic: str, partitions: int, count: int) -> None:
        self._target = target
        records, _ = wire.batch(_RECORD_BYTES, 1, bytes(range(256)))
        self._frames = [
            wire.produce_frame(topic, index, records, 0, acks=-1) for index in range(min(partitions, count))
        ]
        self._answer_bytes, self._error_at = wire.produce_answer_layout(topic)
        self._sockets: dict[int, tuple[socket.socket, bytes]] = {}
        self._poll = select.epoll()
        for number, connection in enumerate(wire.connect(target.address, count)):
            self._sockets[connection.fileno()] = connection, self._frames[number % len(self._frames)]
            self._poll.register(connection, select.EPOLLIN)

    def close(self) -> None:
        """Close all of them."""
        self._poll.close()
        for connection, _ in self._sockets.values():
            connection.close()

    def produce(self, seconds: float) -> Spent:
        """Have one request in hand on every connection for so long, at least one on each.

        Raises:
            RuntimeError: an error was answered.
            TimeoutError: nothing was answered for two minutes.
        """
        cpu, begin = self._target.cpu_s(), time.perf_counter()
        for connection, frame in self._sockets.values():
            connection.sendall(frame)
        waiting, requests = len(self._sockets), 0
        is_sending = True
        while waiting:
            events = self._poll.poll(_STALL_S)
            if not events:
                raise TimeoutError(f"no answer for {_STALL_S:.0f} s")
            is_sending = is_sending and time.perf_counter() - begin < seconds
            for descriptor, _ in events:
                connection, frame = self._sockets[descriptor]
                self._take_answer(connection)
                requests += 1
                if is_sending:
                    connection.sendall(frame)
                else:
                    waiting -= 1
        return Spent(requests, self._target.cpu_s() - cpu, time.perf_counter() - begin)

    def _take_answer(self, connection: socket.socket) -> None:
        # An answer is so short that it comes whole.
        answer = connection.recv(self._answer_bytes)
        error = answer[self._error_at : self._error_at + _ERROR_BYTES]
        if len(answer) < self._answer_bytes or any(error):
            raise RuntimeError(f"answered {ErrorCode(int.from_bytes(error)).name} by {len(answer)} bytes")
