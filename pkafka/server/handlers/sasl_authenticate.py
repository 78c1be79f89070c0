"""SaslAuthenticate (key 36, v0-2): refused where a client need not log in, or has done so already.

Logins, and renewals of sessions, do not come here: :mod:`pkafka.server.serving.authentication` serves them.

v1 session lifetime (KIP-368) · v2 flexible
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.server.serving.context import RequestContext


def handle(
    _context: RequestContext[object], _request: SaslAuthenticateRequest, _version: int
) -> SaslAuthenticateResponse:
    """Refuse it; the connection stays open for other requests."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
