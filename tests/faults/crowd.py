"""Thousands of group members of the bare protocol in one process: a connection each, no client library between."""

import itertools
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.schema import Message

JOIN_VERSION: Final = 3  # the last that gives a member its id at once
SYNC_VERSION: Final = 2
HEARTBEAT_VERSION: Final = 2
COMMIT_VERSION: Final = 5
_LENGTH = struct.Struct(">i")


class Answer(NamedTuple):
    """What came, and how long it took."""

    message: Any
    took_s: float


class Crowd:
    """All connections behind one selector, by number from 0 on; each has at most one request under way."""

    def __init__(self, bootstrap: str, count: int = 0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._selector = selectors.DefaultSelector()
        self._correlation = itertools.count()
        self._numbers = itertools.count()
        self._sockets: dict[int, socket.socket] = {}
        self._data: dict[int, bytearray] = {}
        self._asked: dict[int, tuple[float, int, int]] = {}
        for _ in range(count):
            self.connect()

    def close(self) -> None:
        self._selector.close()
        for each in self._sockets.values():
            each.close()

    def connect(self) -> int:
        """One more; its number."""
        number = next(self._numbers)
        connection = socket.create_connection(self._address, timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets[number] = connection
        self._data[number] = bytearray()
        self._selector.register(connection, selectors.EVENT_READ, number)
        return number

    def drop(self, number: int) -> None:
        """Close a connection, whatever is under way on it."""
        connection = self._sockets.pop(number)
        self._selector.unregister(connection)
        connection.close()
        del self._data[number]
        self._asked.pop(number, None)

    def waits(self, number: int) -> bool:
        """Whether a request is under way."""
        return number in self._asked

    def waiting(self) -> list[tuple[int, ApiKey, float]]:
        """Which requests are under way, and for how many seconds."""
        now_s = time.monotonic()
        return [(number, ApiKey(key), now_s - asked_s) for number, (asked_s, key, _) in self._asked.items()]

    def send(self, number: int, request: Message, version: int) -> None:
        assert request.__api_key__ is not None
        assert number not in self._asked
        frame = encode_request(
            request.__api_key__, version, next(self._correlation), f"member-{number}", request
        )
        self._asked[number] = (time.monotonic(), request.__api_key__, version)
        self._sockets[number].sendall(frame)

    def receive(self, timeout_s: float) -> list[tuple[int, Answer]]:
        """The answers that come within that time; returns as soon as there are some."""
        answers = []
        for key, _ in self._selector.select(max(0.0, timeout_s)):
            number = key.data
            chunk = self._sockets[number].recv(65_536)
            if not chunk:
                raise ConnectionResetError(f"the broker closed the connection of member {number}")
            data = self._data[number]
            data += chunk
            if len(data) >= 4 and len(data) - 4 >= (size := _LENGTH.unpack_from(data)[0]):
                asked_s, api_key, version = self._asked.pop(number)
                _, message = decode_response(api_key, version, bytes(data[4 : 4 + size]))
                del data[: 4 + size]
                answers.append((number, Answer(message, time.monotonic() - asked_s)))
        return answers

    def ask(
        self, requests: Iterable[tuple[int, Message]], version: int, *, timeout_s: float = 60.0
    ) -> dict[int, Answer]:
        """Send each member's request, all at once, and wait for all answers."""
        answers: dict[int, Answer] = {}
        for number, request in requests:
            self.send(number, request, version)
        deadline = time.monotonic() + timeout_s
        while self._asked:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{len(self._asked)} members got no answer within {timeout_s} s"
            answers.update(self.receive(left_s))
        return answers

    def ask_in_turn(
        self,
        numbers: Sequence[int],
        request: Callable[[int], Message],
        version: int,
        *,
        interval_s: float,
        seconds: float,
    ) -> list[Answer]:
        """Each member asks every ``interval_s``, evenly one after the other, as clients do."""
        answers: list[Answer] = []
        begin = time.monotonic()
        total = int(len(numbers) * seconds / interval_s)
        step_s = interval_s / len(numbers)
        sent = 0
        while len(answers) < total:
            now = time.monotonic()
            while sent < total and begin + sent * step_s <= now:
                number = numbers[sent % len(numbers)]
                if number in self._asked:
                    break  # a full interval late
                self.send(number, request(number), version)
                sent += 1
            assert now < begin + seconds + 60, f"{total - len(answers)} answers are missing"
            wait_s = begin + sent * step_s - time.monotonic() if sent < total else 1.0
            answers += [answer for _, answer in self.receive(wait_s)]
        return answers
