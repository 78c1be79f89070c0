"""SaslHandshake (key 17, v0-1): refused where a client need not log in, or has done so already.

Logins, and renewals of sessions, do not come here: :mod:`pkafka.server.serving.authentication` serves them.

v1 tokens travel in SaslAuthenticate (KIP-152)
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pkafka.server.serving.context import RequestContext


def handle(
    _context: RequestContext[object], _request: SaslHandshakeRequest, _version: int
) -> SaslHandshakeResponse:
    """Refuse it; the connection stays open for other requests."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
