"""Envelope (key 58, v0): a request that a broker forwards to the controller with the client's principal (KIP-590)."""

from pkafka.protocol.schema import Message, binary, int16


class EnvelopeRequest(Message, key=58, versions="0", flexible="0+"):
    request_data: bytes = binary()
    request_principal: bytes | None = binary(nullable="0+")
    client_host_address: bytes = binary()


class EnvelopeResponse(Message, key=58, versions="0", flexible="0+"):
    response_data: bytes | None = binary(default=None, nullable="0+")
    error_code: int = int16()
