"""DescribeDelegationToken (key 41, v0-3): tokens by owner; served by the control process of any broker (KIP-48).

v2 flexible · v3 adds the requester to the owner (KIP-373)
"""

from typing import Final

from pkafka.coordination.znodes_security import DelegationToken
from pkafka.errors import ApiError
from pkafka.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from pkafka.security.acl import Operation, ResourceType
from pkafka.security.principal import Principal
from pkafka.server.ports.token_context import TokenContext, check_may_ask, enabled
from pkafka.server.security.delegation_tokens import is_asked_for, may_see
from pkafka.server.security.rights import Rights

_FIRST_VERSION_WITH_REQUESTERS: Final = 3


async def handle(
    ctx: TokenContext, request: DescribeDelegationTokenRequest, version: int
) -> DescribeDelegationTokenResponse:
    """Describe the tokens of these owners that the client may see; without a list all, by an empty one none."""
    try:
        check_may_ask(ctx)
        tokens = enabled(ctx)
    except ApiError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    if request.owners is not None and not request.owners:
        return DescribeDelegationTokenResponse()
    owners = None
    if request.owners is not None:
        owners = {Principal(one.principal_type, one.principal_name) for one in request.owners}
    rights, asker = ctx.rights, ctx.caller.principal
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, tokens.hmac_of(token.token_id), version)
            for token in tokens.tokens.values()
            if is_asked_for(token, owners) and _sees(rights, token, asker)
        ]
    )


def _sees(rights: Rights, token: DelegationToken, asker: Principal) -> bool:
    return may_see(
        token,
        asker,
        lambda token_id: rights.sees(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id),
        lambda owner: rights.sees(Operation.DESCRIBE_TOKENS, ResourceType.USER, owner),
    )


def _described(token: DelegationToken, hmac: bytes, version: int) -> DescribedDelegationToken:
    owner, renewers = Principal.parse(token.owner), [Principal.parse(one) for one in token.renewers]
    described = DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.expires_latest_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
            for one in renewers
        ],
    )
    if version >= _FIRST_VERSION_WITH_REQUESTERS:
        requester = Principal.parse(token.requester)
        described.token_requester_principal_type, described.token_requester_principal_name = requester
    return described
