"""SaslAuthenticate (key 36, v0-2): carries the tokens of a SASL mechanism (KIP-152).

v1 session lifetime (KIP-368) · v2 flexible
"""

from pkafka.protocol.schema import Message, binary, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary()


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = binary()
    session_lifetime_ms: int = int64("1+", ignorable=True)
