"""What is known of a request besides its body, and goes along to the process that serves it."""

from typing import Final, NamedTuple

from pkafka.net.connection import ServerConnection
from pkafka.protocol.codec import decode_request
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.registry import request_class
from pkafka.protocol.schema import Message
from pkafka.server.ipc.peer import Payload

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of every client: no listener has security yet."""


class Caller(NamedTuple):
    """Names the client that sent a request, to every process that serves the request."""

    client_id: str | None
    host: str
    listener: str
    """The listener that the client is connected to."""
    principal: str = ANONYMOUS

    @classmethod
    def of(cls, connection: ServerConnection, header: RequestHeader) -> "Caller":
        """The client at the other end of a connection."""
        return cls(header.client_id, connection.peer_host, connection.listener)


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
        return cls(key, version, Caller(*caller))

    def request(self, body: memoryview) -> Message:
        """Decode the request, of which this copies the bytes."""
        return decode_request(request_class(self.api_key), self.api_version, bytes(body))
