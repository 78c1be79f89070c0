"""A proxy in front of a broker that keeps which requests each client makes, and loses connections when a test says so.

The broker advertises the proxy's port, so that clients have no other way. Bytes pass unchanged.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Self

from pkafka.protocol.api import ApiKey

CONNECT_TIMEOUT_S: Final = 10.0
_SIZE: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhih")


class Said(NamedTuple):
    """A request."""

    key: ApiKey
    version: int


class Recorder:
    """Listens from construction on. ``target`` is the broker's port, which it needs when the first client comes."""

    def __init__(self) -> None:
        self.target = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._lock = threading.Lock()
        self._said: dict[str, list[Said]] = {}
        self._to_lose: list[tuple[str, ApiKey]] = []
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.drop()
        for each in self._threads:
            each.join(CONNECT_TIMEOUT_S)

    @property
    def bootstrap(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"

    def said(self, client_id: str) -> list[Said]:
        """What a client has asked for so far, in order."""
        with self._lock:
            return list(self._said.get(client_id, []))

    def lose_answer(self, client_id: str, key: ApiKey) -> None:
        """Close the connection instead of passing the next answer to a client's request of this kind on."""
        with self._lock:
            self._to_lose.append((client_id, key))

    def drop(self) -> None:
        """Close all connections."""
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target), CONNECT_TIMEOUT_S)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= {client, broker}
            self._begin(self._serve, client, broker)

    def _begin(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()
        return thread

    def _serve(self, client: socket.socket, broker: socket.socket) -> None:
        """Pass frames both ways; when one side ends, the other one does."""
        asked: deque[tuple[str, ApiKey]] = deque()
        answers = self._begin(self._answers, client, broker, asked)
        with client, broker:
            self._requests(client, broker, asked)
            answers.join()
        with self._lock:
            self._sockets -= {client, broker}

    def _requests(
        self, client: socket.socket, broker: socket.socket, asked: "deque[tuple[str, ApiKey]]"
    ) -> None:
        with _ending(client, broker):
            for frame in _frames(client):
                key, version, _, length = _HEADER.unpack_from(frame)
                name = frame[_HEADER.size : _HEADER.size + max(0, length)].decode()
                with self._lock:
                    self._said.setdefault(name, []).append(Said(ApiKey(key), version))
                    asked.append((name, ApiKey(key)))
                broker.sendall(_SIZE.pack(len(frame)) + frame)

    def _answers(
        self, client: socket.socket, broker: socket.socket, asked: "deque[tuple[str, ApiKey]]"
    ) -> None:
        with _ending(client, broker):
            for frame in _frames(broker):
                with self._lock:
                    question = asked.popleft()
                    if question in self._to_lose:
                        self._to_lose.remove(question)
                        return
                client.sendall(_SIZE.pack(len(frame)) + frame)


def _frames(peer: socket.socket) -> Iterator[bytes]:
    with peer.makefile("rb") as stream:
        while len(prefix := stream.read(4)) == 4:
            (size,) = _SIZE.unpack(prefix)
            frame = stream.read(size)
            if len(frame) < size:
                return
            yield frame


@contextlib.contextmanager
def _ending(*peers: socket.socket) -> Iterator[None]:
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        for each in peers:
            _shut(each)


def _shut(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
