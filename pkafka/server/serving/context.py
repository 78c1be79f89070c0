"""What a handler may know of a request besides its body, and what of it goes along to another process."""

from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pkafka.net.connection import ServerConnection
from pkafka.protocol.codec import decode_request
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.registry import request_class
from pkafka.protocol.schema import Message
from pkafka.security.principal import ANONYMOUS, Principal
from pkafka.server.ipc.peer import Payload
from pkafka.server.serving.connection_state import ConnectionState

PortT_co = TypeVar("PortT_co", covariant=True)


class Caller(NamedTuple):
    """Names the client that sent a request, to every process that serves the request."""

    client_id: str | None
    host: str
    listener: str
    """The listener that the client is connected to."""
    principal: Principal = ANONYMOUS
    by_token: bool = False
    """Whether it logged in by a delegation token."""

    @classmethod
    def of(cls, connection: ServerConnection, header: RequestHeader) -> "Caller":
        """The client at the other end of a connection."""
        state = connection.state
        if not isinstance(state, ConnectionState):
            return cls(header.client_id, connection.peer_host, connection.listener)
        by_token = state.session is not None and state.session.who.is_token
        return cls(header.client_id, connection.peer_host, connection.listener, state.principal, by_token)

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> "Caller":
        """The client that another process told of."""
        client_id, host, listener, principal, by_token = row
        return cls(client_id, host, listener, Principal(*principal), by_token)


NO_CALLER: Final = Caller(None, "", "")
"""Stands for a client where this broker itself asks."""


class Forwarded(NamedTuple):
    """Travels with the body of a client's request to the process that serves it; the body goes along as the blob."""

    api_key: int
    api_version: int
    caller: Caller

    @classmethod
    def of(cls, payload: Payload) -> "Forwarded":
        """What the other process sent."""
        key, version, caller = payload
        return cls(key, version, Caller.of_row(caller))

    def request(self, body: memoryview) -> Message:
        """Decode the request, of which this copies the bytes."""
        return decode_request(request_class(self.api_key), self.api_version, bytes(body))


class RequestContext(Generic[PortT_co]):
    """Holds what a handler may know of the request besides its body.

    Attributes:
        worker: answers what the handler's port names.
        connection: by which the request came.
        header: of the request.
    """

    __slots__ = ("connection", "header", "worker")

    def __init__(self, worker: PortT_co, connection: ServerConnection, header: RequestHeader) -> None:
        self.worker = worker
        self.connection = connection
        self.header = header

    @property
    def listener_name(self) -> str:
        """The listener that the client is connected to."""
        return self.connection.listener

    @property
    def caller(self) -> Caller:
        """The client, as other processes may know it."""
        return Caller.of(self.connection, self.header)
