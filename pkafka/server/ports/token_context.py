"""The port of the handlers of delegation tokens: the control process implements it, tests replace it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from pkafka.clock import Clock
from pkafka.coordination.znodes_security import DelegationToken
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.principal import ANONYMOUS
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.delegation_tokens import TokenSettings
from pkafka.server.ports.authorized import WithRights
from pkafka.server.serving.context import Caller


class Tokens(Protocol):
    """Keeps the delegation tokens of the cluster."""

    @property
    def settings(self) -> TokenSettings:
        """How long tokens last."""
        ...

    @property
    def tokens(self) -> Mapping[str, DelegationToken]:
        """The tokens as this broker knows them, by id."""
        ...

    def id_of(self, hmac: bytes, /) -> str | None:
        """The id of the token with this HMAC."""
        ...

    def hmac_of(self, token_id: str, /) -> bytes:
        """The HMAC of a token."""
        ...

    async def change(
        self, token_id: str, edit: Callable[[DelegationToken | None], DelegationToken | None], /
    ) -> DelegationToken | None:
        """Change a token; when this returns, no worker of this broker knows the old one.

        Args:
            edit: gives the new state for the stored one, None standing for none; may run again after a conflict.

        Raises:
            ApiError: by ``edit``, or the store cannot be written.
        """
        ...


class TokenContext(WithRights, Protocol):
    """The control process, as these handlers see it."""

    @property
    def caller(self) -> Caller:
        """The client that asks."""
        ...

    @property
    def config(self) -> BrokerConfig:
        """The settings in force."""
        ...

    @property
    def clock(self) -> Clock:
        """The time."""
        ...

    @property
    def tokens(self) -> Tokens | None:
        """None where there is no secret for tokens."""
        ...


def check_may_ask(ctx: TokenContext) -> None:
    """Check that a client may ask about tokens at all: only who proved who it is, and not by a token.

    Raises:
        ApiError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
    """
    caller = ctx.caller
    protocol = next(
        (one.security_protocol for one in ctx.config.listeners if one.name == caller.listener), "PLAINTEXT"
    )
    is_stranger = protocol == "PLAINTEXT" or (protocol == "SSL" and caller.principal == ANONYMOUS)
    if is_stranger or caller.by_token:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def enabled(ctx: TokenContext) -> Tokens:
    """The tokens.

    Raises:
        ApiError: DELEGATION_TOKEN_AUTH_DISABLED, there is no secret for tokens.
    """
    if ctx.tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return ctx.tokens


async def change_by_hmac(
    ctx: TokenContext, hmac: bytes, edit: Callable[[Tokens, DelegationToken], DelegationToken | None]
) -> DelegationToken | None:
    """Change the token that a client names by its HMAC.

    Returns:
        The token as it is now; None for one that is gone.

    Raises:
        ApiError: the client may not ask, there are no tokens or no such one, by ``edit``, or the store failed.
    """
    check_may_ask(ctx)
    tokens = enabled(ctx)
    token_id = tokens.id_of(hmac)
    if token_id is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def edit_stored(stored: DelegationToken | None) -> DelegationToken | None:
        if stored is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return edit(tokens, stored)

    return await tokens.change(token_id, edit_stored)
