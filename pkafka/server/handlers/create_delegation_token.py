"""CreateDelegationToken (key 38, v0-3): a new token; served by the control process of any broker (KIP-48).

v2 flexible · v3 for another owner (KIP-373)

The answer comes when the token is stored and lets in at this broker; the others hear of it by a note in the store.
"""

import base64
import logging
import uuid
from typing import Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.security.principal import USER, Principal
from pkafka.server.ports.token_context import TokenContext, check_may_ask, enabled
from pkafka.server.security.delegation_tokens import new_token

log = logging.getLogger(__name__)

NO_TIME: Final = -1
_FIRST_VERSION_WITH_OWNERS: Final = 3


async def handle(
    ctx: TokenContext, request: CreateDelegationTokenRequest, version: int
) -> CreateDelegationTokenResponse:
    """Make a token for the client, or for the owner that it names."""
    requester = ctx.caller.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if version >= _FIRST_VERSION_WITH_OWNERS:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    try:
        await _create(ctx, request, owner, response)
    except ApiError as error:
        response.error_code = error.code
    return response


async def _create(
    ctx: TokenContext,
    request: CreateDelegationTokenRequest,
    owner: Principal,
    response: CreateDelegationTokenResponse,
) -> None:
    check_may_ask(ctx)
    requester = ctx.caller.principal
    if owner != requester and not ctx.rights.may(Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = [Principal(one.principal_type, one.principal_name) for one in request.renewers]
    if any(one.type != USER for one in renewers):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    tokens = enabled(ctx)
    token_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    token = new_token(
        tokens.settings,
        token_id,
        owner,
        requester,
        renewers,
        lifetime_ms=request.max_lifetime_ms,
        now_ms=ctx.clock.now_ms(),
    )
    await tokens.change(token_id, lambda _: token)
    log.info("Created a delegation token: %s for owner: %s", token_id, owner)
    response.issue_timestamp_ms = token.issued_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.max_timestamp_ms = token.expires_latest_ms
    response.token_id = token_id
    response.hmac = tokens.hmac_of(token_id)
