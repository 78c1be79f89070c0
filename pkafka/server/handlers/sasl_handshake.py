"""SaslHandshake (key 17, v0-1): refused on a listener without SASL, which has no mechanism to offer.

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
