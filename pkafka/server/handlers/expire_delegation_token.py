"""ExpireDelegationToken (key 40, v0-2): has a token end; served by the control process of any broker (KIP-48).

v2 flexible
"""

from pkafka.errors import ApiError
from pkafka.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from pkafka.server.handlers.create_delegation_token import NO_TIME
from pkafka.server.ports.token_context import TokenContext, change_by_hmac
from pkafka.server.security.delegation_tokens import ended


async def handle(
    ctx: TokenContext, request: ExpireDelegationTokenRequest, _version: int
) -> ExpireDelegationTokenResponse:
    """Remove the token, or have it end after a period; its owner and its renewers may."""
    asker, period_ms, now_ms = ctx.caller.principal, request.expiry_time_period_ms, ctx.clock.now_ms()
    try:
        token = await change_by_hmac(
            ctx,
            bytes(request.hmac),
            lambda _tokens, stored: ended(stored, asker, period_ms=period_ms, now_ms=now_ms),
        )
    except ApiError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms if token is None else token.expires_ms)
