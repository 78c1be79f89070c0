"""How whoever logs in by OAUTHBEARER gets its tokens, as its keys say: decides only, and asks nobody.

What asks, and keeps tokens, is :mod:`pkafka.security.bearer_tokens`.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from pkafka.errors import ConfigError
from pkafka.security.jaas import LoginModule
from pkafka.security.jwt import unsecured

URL_KEY: Final = "sasl.oauthbearer.token.endpoint.url"
HANDLER_KEY: Final = "sasl.login.callback.handler.class"
SERVER_HANDLER: Final = "OAuthBearerLoginCallbackHandler"
UNSECURED_HANDLER: Final = "OAuthBearerUnsecuredLoginCallbackHandler"
_EXTENSION: Final = "extension_"


class Token(NamedTuple):
    """A token, and when it expires (milliseconds since the epoch)."""

    text: str
    expires_ms: int

    def __repr__(self) -> str:
        return f"Token(expires_ms={self.expires_ms})"


class Refreshing(NamedTuple):
    """``sasl.login.refresh.*``: when a token is asked for again."""

    window_factor: float
    window_jitter: float
    buffer_ms: int
    min_period_ms: int

    def due_ms(self, now_ms: int, expires_ms: int, chance: float) -> int:
        """When to ask for the next token, as Kafka decides it.

        Args:
            now_ms: when the token came.
            expires_ms: its end.
            chance: a number between 0 and 1, which spreads clients.
        """
        left_ms = expires_ms - now_ms
        due_ms = now_ms + int(left_ms * (self.window_factor + self.window_jitter * chance))
        if self.buffer_ms + self.min_period_ms > left_ms:
            return due_ms
        return max(min(due_ms, expires_ms - self.buffer_ms), now_ms + self.min_period_ms)


class TokenSettings(NamedTuple):
    """How tokens are had, by the keys of who logs in."""

    options: Mapping[str, str]
    """Of the login module."""
    url: str | None
    """``sasl.oauthbearer.token.endpoint.url``."""
    handler: str
    """``sasl.login.callback.handler.class`` without its package; empty where it is not set."""
    refreshing: Refreshing
    user_claim: str = "sub"
    """``sasl.oauthbearer.sub.claim.name``."""
    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    is_url_encoded: bool = False
    """``sasl.oauthbearer.header.urlencode``."""

    def __repr__(self) -> str:
        return f"TokenSettings({self.url!r}, options {', '.join(self.options)})"

    @property
    def is_of_server(self) -> bool:
        """Whether a token server gives the tokens; else whoever logs in makes them."""
        return self.handler == SERVER_HANDLER or bool(self.url and self.handler != UNSECURED_HANDLER)

    def server(self) -> SplitResult:
        """The address of the token server.

        Raises:
            ConfigError: it is missing or no http(s) one, or the login module has no ``clientId`` for it.
        """
        url = urlsplit(self.url or "")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConfigError(URL_KEY, "must be an http or https address", self.url or "")
        missing = [name for name in ("clientId", "clientSecret") if not self.options.get(name)]
        if missing:
            raise ConfigError("sasl.jaas.config", f"has no {missing[0]} for {URL_KEY}")
        return url

    def check(self, now_ms: int) -> None:
        """Check that tokens can be had in this way, without asking for one.

        Raises:
            ConfigError: the keys do not say how, or say it wrongly.
        """
        if self.is_of_server:
            self.server()
        else:
            own_token(self, now_ms)


def extensions(module: LoginModule) -> dict[str, str]:
    """The SASL extensions that the login module asks for (KIP-342)."""
    found: dict[str, str] = {}
    for name, value in module.options.items():
        for prefix in (_EXTENSION, "unsecuredLoginExtension_"):
            if name.startswith(prefix):
                found[name.removeprefix(prefix)] = value
    return found


def own_token(settings: TokenSettings, now_ms: int) -> Token:
    """A token without a signature, of the claims that the login module lists (for developers' brokers)."""
    options = settings.options
    said: dict[str, Any] = {}
    for prefix, read in (("String", str), ("Number", _number), ("List", _list)):
        start = f"unsecuredLogin{prefix}Claim_"
        said.update(
            {
                name.removeprefix(start): read(value)
                for name, value in options.items()
                if name.startswith(start)
            }
        )
    principal = options.get("unsecuredLoginPrincipalClaimName", settings.user_claim)
    if principal not in said:
        problem = f'says no name: unsecuredLoginStringClaim_{principal}="..."'
        raise ConfigError("sasl.jaas.config", problem)
    life_s = _number(options.get("unsecuredLoginLifetimeSeconds", "3600"))
    said.setdefault("iat", now_ms / 1_000)
    said.setdefault("exp", now_ms / 1_000 + life_s)
    return Token(unsecured(said), int(said["exp"] * 1_000))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError("sasl.jaas.config", "has a number of an unsecured token that is none") from None


def _list(text: str) -> list[str]:
    """A list whose first character, if it is no letter or digit, is what stands between its parts."""
    if text and not text[0].isalnum():
        return text[1:].split(text[0])
    return text.split(",") if text else []
