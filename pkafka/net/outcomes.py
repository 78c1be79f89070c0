"""What the handler of a frame may say besides an answer: that it comes later, or that the connection moves."""

import socket
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from pkafka.net.answers import NO_ANSWER, Answer


class Detach:
    """A handler's word that this connection, with the frame in hand unread, moves to another process."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[socket.socket, bytes], None]) -> None:
        self.take = take


Note: TypeAlias = tuple[int, int, int, int, object]
"""What the owner of a connection notes of a request that is answered later."""


class SendsAnswers(Protocol):
    """A connection, as far as an answer that comes later knows it."""

    def send_due(self) -> None:
        """Send what does not have to wait for others any more."""
        ...


class LaterAnswer:
    """A handler's word that the answer to the frame in hand comes later, and that those behind it need not wait for it.

    Args:
        connection: where the frame came from.
    """

    __slots__ = ("_connection", "answer", "closes", "note")

    def __init__(self, connection: SendsAnswers) -> None:
        self._connection = connection
        self.answer: Answer | None = None
        self.closes = False
        self.note: Note | None = None

    def finish(self, answer: Answer) -> None:
        """Send the answer as soon as all before it are sent."""
        self.answer = answer
        self._connection.send_due()

    def close(self) -> None:
        """Close the connection as soon as all answers before this one are sent; there is none to this one."""
        self.closes = True
        self.finish(NO_ANSWER)


class AfterOthers:
    """A handler's word that this frame is to be served when the frames before it are answered, and not before."""


AFTER_OTHERS: Final = AfterOthers()

Outcome: TypeAlias = Answer | LaterAnswer | AfterOthers | Detach | None
