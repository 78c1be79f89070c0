"""How this broker logs in at another, on a connection that has just been opened or whose session is about to end."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from pkafka.errors import ErrorCode
from pkafka.net.channel import ChannelError
from pkafka.net.scram import ScramMechanism
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pkafka.protocol.schema import Message
from pkafka.security.kerberos import Krb5Options, client_context
from pkafka.security.sasl import ClientExchange, SaslError
from pkafka.security.sasl.gssapi import GssapiExchange, GssError
from pkafka.security.sasl.oauthbearer import OAuthBearerExchange
from pkafka.security.sasl.plain import PlainExchange
from pkafka.security.sasl.scram import SaltedPasswords, ScramExchange
from pkafka.security.token_settings import extensions
from pkafka.server.cluster.broker_tokens import BrokerTokens, shared_tokens
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.login_tokens import own_tokens
from pkafka.server.config.sasl import GSSAPI, OAUTHBEARER, SASL_PROTOCOLS, sasl_listener

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
_NONCE_BYTES: Final = 24

Ask = Callable[[Message, int], Awaitable[Message]]
"""Sends a request in a version to the other broker, and gives its response."""


class OwnLogin(Protocol):
    """By what this broker logs in at others."""

    @property
    def mechanism(self) -> str:
        """As in ``sasl.mechanism.inter.broker.protocol``."""

    @property
    def who(self) -> str:
        """As whom, for the log."""

    async def exchange(self) -> ClientExchange:
        """This broker's half of one login.

        Raises:
            ChannelError: it cannot be had now.
        """


class PasswordLogin(NamedTuple):
    """A login by PLAIN or SCRAM."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"PasswordLogin({self.mechanism!r}, {self.username!r})"

    @property
    def who(self) -> str:
        """As whom, for the log."""
        return f"as {self.username}"

    async def exchange(self) -> ClientExchange:
        """This broker's half of one login."""
        scram = ScramMechanism.of_name(self.mechanism)
        if scram is None:
            return PlainExchange(self.username, self.password)
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return ScramExchange(scram, self.username, self.password, nonce, known=_salted_passwords(self))


class BearerLogin:
    """A login by OAUTHBEARER.

    Args:
        tokens: of this process.
        extensions: what goes along with each token (KIP-342).
    """

    mechanism: Final = OAUTHBEARER
    who: Final = "by its token"

    def __init__(self, tokens: BrokerTokens, extensions: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._extensions = extensions

    async def exchange(self) -> ClientExchange:
        """This broker's half of one login, with a token that is valid now."""
        token = await self._tokens.token()
        try:
            return OAuthBearerExchange(token, self._extensions)
        except SaslError as error:
            raise ChannelError(f"this broker cannot log in at others: {error}") from None


class KerberosLogin(NamedTuple):
    """A login by GSSAPI, with the ticket that this broker's keytab gets it for the other broker."""

    options: Krb5Options
    service: str
    host: str
    """Of the other broker, as its listener tells it."""

    @property
    def mechanism(self) -> str:
        """As in ``sasl.mechanism.inter.broker.protocol``."""
        return GSSAPI

    @property
    def who(self) -> str:
        """As whom, for the log."""
        return f"as {self.options.principal}"

    async def exchange(self) -> ClientExchange:
        """This broker's half of one login. A thread waits for the KDC."""
        try:
            return await asyncio.to_thread(self._exchange)
        except (GssError, SaslError) as error:
            problem = (
                f"no ticket for {self.service}@{self.host}, by which this broker could log in there: {error}"
            )
            raise ChannelError(problem) from None

    def _exchange(self) -> ClientExchange:
        return GssapiExchange(*client_context(self.options, self.service, self.host))


def own_login(config: BrokerConfig, listener: str, host: str = "") -> OwnLogin | None:
    """What ``sasl.mechanism.inter.broker.protocol`` and the login module of that mechanism say; None without SASL.

    Args:
        config: of this broker, checked.
        listener: by which brokers talk to each other.
        host: of the other broker.
    """
    if config.security_protocols.get(listener, "").upper() not in SASL_PROTOCOLS:
        return None
    mechanism = str(config.get("sasl.mechanism.inter.broker.protocol"))
    settings = sasl_listener(config, listener)
    if mechanism == GSSAPI:
        assert settings.kerberos is not None
        return KerberosLogin(settings.kerberos.options, settings.kerberos.service, host)
    module = settings.modules[mechanism]
    if mechanism == OAUTHBEARER:
        return BearerLogin(shared_tokens(own_tokens(config, listener, module)), extensions(module))
    return PasswordLogin(mechanism, module.options["username"], module.options["password"])


@lru_cache(maxsize=4)
def _salted_passwords(_login: PasswordLogin) -> SaltedPasswords:
    """What all connections of this process share: making one costs milliseconds."""
    return {}


async def log_in(login: OwnLogin, ask: Ask) -> int:
    """Log in.

    Returns:
        How long that counts, in milliseconds; 0 for as long as the connection stands.

    Raises:
        ChannelError: the other broker does not let this one in, or does not answer.
    """
    exchange = await login.exchange()
    named = await ask(SaslHandshakeRequest(mechanism=login.mechanism), HANDSHAKE_VERSION)
    assert isinstance(named, SaslHandshakeResponse)
    if named.error_code:
        offered = ", ".join(named.mechanisms) or "none"
        raise ChannelError(
            f"the other broker does not take {login.mechanism} (sasl.mechanism.inter.broker.protocol); it has {offered}"
        )
    token: bytes | None = exchange.first()
    lifetime_ms = 0
    while token is not None:
        proved = await ask(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION)
        assert isinstance(proved, SaslAuthenticateResponse)
        if proved.error_code:
            said = proved.error_message or ErrorCode(proved.error_code).message
            raise ChannelError(f"the other broker does not let this one in {login.who}: {said}")
        try:
            token = exchange.answer(proved.auth_bytes)
        except SaslError as error:
            raise ChannelError(f"the login at the other broker failed: {error}") from None
        lifetime_ms = proved.session_lifetime_ms
    return lifetime_ms
