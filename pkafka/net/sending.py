"""The sending half of a client's connection on the event loop: at once what the socket takes, the rest when it can."""

import asyncio
import socket
from collections.abc import Callable

from pkafka.net.answers import Answer
from pkafka.net.outgoing import Outgoing


class Sending:
    """Sends answers in order.

    Args:
        sock: of the connection.
        outgoing: what goes out on it.
        went_on: called when what waited has gone out in part or, then with True, wholly.
        lost: called when nothing can be sent any more.
    """

    __slots__ = ("_is_over", "_loop", "_lost", "_outgoing", "_sock", "_went_on")

    def __init__(
        self,
        sock: socket.socket,
        outgoing: Outgoing,
        went_on: Callable[[bool], None],
        lost: Callable[[], None],
    ) -> None:
        self._sock = sock
        self._outgoing = outgoing
        self._went_on = went_on
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._is_over = False

    def send(self, parts: Answer) -> None:
        """Send as much as the socket takes; the rest follows by itself."""
        if not parts or self._is_over:
            return
        try:
            if self._outgoing.waiting:
                self._outgoing.queue(parts)
            elif not self._outgoing.write(parts):
                self._await_room()
        except OSError:
            self._lost()

    def end(self) -> None:
        """Send nothing more."""
        self._is_over = True
        self._went_on = self._lost = (
            _heard_by_nobody  # whom it told before is over, too, and may be forgotten
        )
        self._loop.remove_writer(self._sock.fileno())
        self._outgoing.give_up()

    def _await_room(self) -> None:
        """Go on when the socket has room again, or first when the disk has given what comes next."""
        unread = self._outgoing.unread_range()
        if unread is None:
            self._loop.add_writer(self._sock.fileno(), self._on_writable)
        else:
            self._outgoing.read_ahead(unread, self._on_read_ahead)

    def _on_read_ahead(self, length: int) -> None:
        if not self._is_over:
            self._outgoing.in_memory = length
            self._loop.add_writer(self._sock.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        try:
            self._outgoing.drain()
            if self._outgoing.waiting:
                unread = self._outgoing.unread_range()
                if unread is not None:  # otherwise the loop calls again, as it does by now
                    self._loop.remove_writer(self._sock.fileno())
                    self._outgoing.read_ahead(unread, self._on_read_ahead)
                self._went_on(False)
                return
        except OSError:
            self._lost()
            return
        self._loop.remove_writer(self._sock.fileno())
        self._went_on(True)


def _heard_by_nobody(*_anything: bool) -> None:
    pass
