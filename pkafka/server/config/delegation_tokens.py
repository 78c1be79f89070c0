"""``delegation.token.*`` of a broker."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

_SECRET: Final = "delegation.token.secret.key"  # noqa: S105 - the name of a key
_OLD_SECRET: Final = "delegation.token.master.key"  # noqa: S105 - the name of a key


class TokenSettings(NamedTuple):
    """How a broker makes delegation tokens, and how long they last."""

    secret: bytes
    """Of which, with a token's id, its HMAC is made; the same at all brokers of a cluster."""
    lifetime_max_ms: int
    renewal_ms: int
    """How long a token lasts that is not renewed."""
    check_ms: int
    """How often the active controller removes tokens that have expired."""

    def __repr__(self) -> str:
        return f"TokenSettings(lifetime_max_ms={self.lifetime_max_ms}, renewal_ms={self.renewal_ms})"


def token_settings(config: "BrokerConfig") -> TokenSettings | None:
    """The settings of a broker; None without a secret, where there are no delegation tokens."""
    secret = config.get(_SECRET)
    if secret is None:
        secret = config.get(_OLD_SECRET)
    if not secret:
        return None
    lifetime_max_ms = config.get("delegation.token.max.lifetime.ms")
    renewal_ms = config.get("delegation.token.expiry.time.ms")
    check_ms = config.get("delegation.token.expiry.check.interval.ms")
    assert isinstance(lifetime_max_ms, int)
    assert isinstance(renewal_ms, int)
    assert isinstance(check_ms, int)
    return TokenSettings(str(secret).encode(), lifetime_max_ms, renewal_ms, check_ms)
