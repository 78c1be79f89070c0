"""DescribeDelegationToken (key 41, v0-3): refused over a listener without TLS or SASL (KIP-48).

v2 flexible · v3 adds the requester to the owner (KIP-373)
"""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from pkafka.server.serving.context import RequestContext


def handle(
    _context: RequestContext[object], _request: DescribeDelegationTokenRequest, _version: int
) -> DescribeDelegationTokenResponse:
    """Refuse it."""
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
