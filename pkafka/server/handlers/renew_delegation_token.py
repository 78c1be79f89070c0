"""RenewDelegationToken (key 39, v0-2): refused over a listener without TLS or SASL (KIP-48).

v2 flexible
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from pkafka.server.handlers.create_delegation_token import NO_TIME
from pkafka.server.serving.context import RequestContext


def handle(
    _context: RequestContext[object], _request: RenewDelegationTokenRequest, _version: int
) -> RenewDelegationTokenResponse:
    """Refuse it."""
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )
