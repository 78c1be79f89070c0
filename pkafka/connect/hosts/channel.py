"""The line between a worker and one of its processes: messages both ways, some of which are answered.

A frame is its length, four bytes, and ``[kind, number, what]`` by msgpack. Notes are heard one after the other on the
thread that reads; what is asked is answered on a thread of its own, since it may take long.
"""

import itertools
import logging
import socket
import struct
import threading
from concurrent.futures import Future
from typing import Any, Final, Protocol

from pkafka.connect.errors import ConnectError
from pkafka.connect.hosts.messages import Message, decode, encode, failure, fields, message_of, raised

log = logging.getLogger(__name__)

_SIZE: Final = struct.Struct(">I")
_NOTE, _REQUEST, _REPLY, _FAILURE = range(4)


class PeerEndedError(ConnectError):
    """The process at the other end is no more."""


class Ears(Protocol):
    """Who listens at one end."""

    def hear(self, message: Message) -> None:
        """Take a note, on the thread that reads; what it raises is logged."""

    def answer(self, message: Message) -> object:
        """Answer a question, on a thread of its own; what it raises is raised where the question was asked."""


class Channel:
    """One end of the line. Any thread may tell and ask.

    Args:
        sock: connected to the other end; the channel closes it.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether the other end is there."""
        return self._is_open

    def run(self, ears: Ears) -> None:
        """Read until the other end is closed; then whoever waits for an answer gets a :class:`PeerEndedError`."""
        reader = self._sock.makefile("rb")
        try:
            while True:
                head = reader.read(_SIZE.size)
                if len(head) < _SIZE.size:
                    return
                size = _SIZE.unpack(head)[0]
                data = reader.read(size)
                if len(data) < size:
                    return
                self._take(ears, *decode(data))
        except OSError as error:
            log.debug("The line to another process broke: %s", error)
        finally:
            self._end()

    def tell(self, message: Message) -> None:
        """Send a note. When the other process has ended it is lost: whoever reads notices the end."""
        self._send(_NOTE, 0, fields(message))

    def ask(self, message: Message) -> "Future[Any]":
        """Send a question.

        Returns:
            What is answered; it may hold a :class:`PeerEndedError`, or what was raised over there.
        """
        future: Future[Any] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._is_open:
                self._asked[number] = future
            else:
                future.set_exception(_ended())
        if not future.done():
            self._send(_REQUEST, number, fields(message))
        return future

    def close(self) -> None:
        """Have :meth:`run` end, here and at the other end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("The line to another process is closed already: %s", error)

    # -- frames --

    def _send(self, kind: int, number: int, what: object) -> None:
        data = encode([kind, number, what])
        try:
            with self._sending:
                self._sock.sendall(_SIZE.pack(len(data)) + data)
        except OSError as error:
            log.debug("A message is lost, since the other process has ended: %s", error)

    def _take(self, ears: Ears, kind: int, number: int, what: Any) -> None:  # noqa: ANN401 - by its kind
        if kind == _NOTE:
            try:
                ears.hear(message_of(what))
            except Exception:
                log.exception("A message of another process could not be taken up")
        elif kind == _REQUEST:
            threading.Thread(
                target=self._answer, args=(ears, number, message_of(what)), name="host-request", daemon=True
            ).start()
        else:
            with self._lock:
                future = self._asked.pop(number)
            if kind == _REPLY:
                future.set_result(what)
            else:
                future.set_exception(raised(*what))

    def _answer(self, ears: Ears, number: int, message: Message) -> None:
        try:
            self._send(_REPLY, number, ears.answer(message))
        except BaseException as error:  # noqa: BLE001 - who has asked gets it, a SystemExit of a connector too
            self._send(_FAILURE, number, failure(error))

    def _end(self) -> None:
        with self._lock:
            self._is_open = False
            asked, self._asked = self._asked, {}
        for future in asked.values():
            future.set_exception(_ended())
        self._sock.close()


def _ended() -> PeerEndedError:
    return PeerEndedError("The process that was asked has ended")
