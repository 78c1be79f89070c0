"""Delegation tokens (KIP-48): how one is made, how long it lasts, and who may do what with it. Pure.

Whoever has a token logs in as its owner, by SCRAM: the name is the token's id, the password its HMAC in base64. The
HMAC is made of the id and the secret of the brokers, so it is stored nowhere.
"""

import base64
import hmac
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from pkafka.coordination.znodes_security import DelegationToken
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.principal import Principal
from pkafka.server.config.delegation_tokens import TokenSettings

LATEST_MS: Final = (1 << 63) - 1
"""What the wire can hold."""


def hmac_of(secret: bytes, token_id: str) -> bytes:
    """The HMAC of a token."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(secret: bytes, token_id: str) -> bytes:
    """By which whoever has a token logs in."""
    return base64.b64encode(hmac_of(secret, token_id))


def new_token(
    settings: TokenSettings,
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: Collection[Principal],
    *,
    lifetime_ms: int,
    now_ms: int,
) -> DelegationToken:
    """A token that begins now.

    Args:
        lifetime_ms: how long it may last if it is renewed; the broker's limit when it is longer, 0 or negative.
    """
    most_ms = settings.lifetime_max_ms
    latest_ms = _after(now_ms, min(lifetime_ms, most_ms) if lifetime_ms > 0 else most_ms)
    return DelegationToken(
        token_id=token_id,
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(str(each) for each in renewers),
        issued_ms=now_ms,
        expires_ms=min(latest_ms, _after(now_ms, settings.renewal_ms)),
        expires_latest_ms=latest_ms,
    )


def has_expired(token: DelegationToken, now_ms: int) -> bool:
    """Whether a token lets nobody in any more."""
    return min(token.expires_ms, token.expires_latest_ms) < now_ms


def renewed(
    settings: TokenSettings, token: DelegationToken, asker: Principal, *, period_ms: int, now_ms: int
) -> DelegationToken:
    """A token that lasts for a period from now on, as far as its longest life allows.

    Args:
        period_ms: negative for the broker's own.

    Raises:
        ApiError: the asker may not do that, or the token has expired.
    """
    _check_may_renew(token, asker)
    _check_lasts(token, now_ms)
    return _lasting(token, settings.renewal_ms if period_ms < 0 else period_ms, now_ms)


def ended(token: DelegationToken, asker: Principal, *, period_ms: int, now_ms: int) -> DelegationToken | None:
    """A token that lasts for a period from now on and no longer; None for one that ends at once.

    Args:
        period_ms: negative to end it at once.

    Raises:
        ApiError: the asker may not do that, or the token has expired.
    """
    _check_may_renew(token, asker)
    if period_ms < 0:
        return None
    _check_lasts(token, now_ms)
    return _lasting(token, period_ms, now_ms)


def is_asked_for(token: DelegationToken, owners: Collection[Principal] | None) -> bool:
    """Whether a request for the tokens of these owners, or of all, is about this one."""
    return owners is None or any(_is_close(token, owner) for owner in owners)


def may_see(
    token: DelegationToken,
    asker: Principal,
    sees_token: Callable[[str], bool],
    sees_tokens_of: Callable[[str], bool],
) -> bool:
    """Whether a token may be described to somebody.

    Args:
        sees_token: whether the asker may see the token of an id, by a rule.
        sees_tokens_of: whether the asker may see the tokens of an owner, by a rule.
    """
    return _is_close(token, asker) or sees_token(token.token_id) or sees_tokens_of(token.owner)


def _is_close(token: DelegationToken, principal: Principal) -> bool:
    name = str(principal)
    return name in (token.owner, token.requester) or name in token.renewers


def _check_may_renew(token: DelegationToken, asker: Principal) -> None:
    if str(asker) != token.owner and str(asker) not in token.renewers:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _check_lasts(token: DelegationToken, now_ms: int) -> None:
    if has_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _lasting(token: DelegationToken, period_ms: int, now_ms: int) -> DelegationToken:
    return replace(token, expires_ms=min(token.expires_latest_ms, _after(now_ms, period_ms)))


def _after(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, LATEST_MS)
