"""RenewDelegationToken (key 39, v0-2): has a token last longer; served by the control process of any broker (KIP-48).

v2 flexible
"""

from pkafka.errors import ApiError
from pkafka.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from pkafka.server.handlers.create_delegation_token import NO_TIME
from pkafka.server.ports.token_context import TokenContext, change_by_hmac
from pkafka.server.security.delegation_tokens import renewed


async def handle(
    ctx: TokenContext, request: RenewDelegationTokenRequest, _version: int
) -> RenewDelegationTokenResponse:
    """Renew the token, which its owner and its renewers may."""
    asker, period_ms, now_ms = ctx.caller.principal, request.renew_period_ms, ctx.clock.now_ms()
    try:
        token = await change_by_hmac(
            ctx,
            bytes(request.hmac),
            lambda tokens, stored: renewed(
                tokens.settings, stored, asker, period_ms=period_ms, now_ms=now_ms
            ),
        )
    except ApiError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)
    assert token is not None
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
