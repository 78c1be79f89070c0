"""A request on its way: to which broker, until when, and what became of it."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pkafka.clients.errors import ClientError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.schema import Message


class Address(NamedTuple):
    """Where a broker listens. Answers come in order: what must not wait behind a long fetch has a lane of its own."""

    host: str
    port: int
    lane: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Pending:
    """An answer to come.

    Exactly one of ``response`` and ``error`` is set once ``done`` is true. ``on_done`` is called then, by the
    thread that drives the network.
    """

    __slots__ = (
        "address",
        "api_key",
        "correlation_id",
        "deadline_ms",
        "done",
        "error",
        "expects_answer",
        "max_version",
        "message",
        "on_done",
        "response",
        "sent_ns",
        "timeout_ms",
        "version",
    )

    def __init__(
        self,
        api_key: ApiKey,
        message: Message,
        *,
        address: Address,
        deadline_ms: int,
        timeout_ms: int = 0,
        on_done: Callable[["Pending"], None] | None = None,
        max_version: int | None = None,
        expects_answer: bool = True,
    ) -> None:
        self.api_key = api_key
        self.message: Message | None = message
        self.address = address
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms
        """What the deadline is made of; begins again when the request is sent at last to a broker that throttles."""
        self.on_done = on_done
        self.max_version = max_version
        self.expects_answer = expects_answer
        self.version = -1
        self.correlation_id = -1
        self.sent_ns = 0
        self.done = False
        self.response: Message | None = None
        self.error: ClientError | None = None

    def finish(self, response: Message | None, error: ClientError | None) -> None:
        """Set the outcome, once; later outcomes are ignored."""
        if self.done:
            return
        self.done = True
        self.response = response
        self.error = error
        self.message = None
        if self.on_done is not None:
            self.on_done(self)


class Meter(Protocol):
    """Is told of what a connection carries."""

    def sent(self, pending: Pending, size_bytes: int) -> None: ...
    def received(self, pending: Pending, size_bytes: int) -> None: ...
    def throttled(self, throttle_ms: int) -> None: ...
