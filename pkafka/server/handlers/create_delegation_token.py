"""CreateDelegationToken (key 38, v0-3): refused over a listener without TLS or SASL (KIP-48).

v2 flexible · v3 for another owner (KIP-373)
"""

from typing import Final

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from pkafka.server.serving.context import RequestContext

NO_TIME: Final = -1
_FIRST_VERSION_WITH_OWNERS: Final = 3


def handle(
    context: RequestContext[object], request: CreateDelegationTokenRequest, version: int
) -> CreateDelegationTokenResponse:
    """Refuse it, naming the owner that the token would have had."""
    requester = context.caller.principal
    owner_type, owner_name = requester
    if request.owner_principal_name:
        owner_type, owner_name = request.owner_principal_type or "", request.owner_principal_name
    refused = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if version >= _FIRST_VERSION_WITH_OWNERS:
        refused.token_requester_principal_type, refused.token_requester_principal_name = requester
    return refused
