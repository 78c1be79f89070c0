"""The broker's half of each login, made of what a listener is set to and what the broker knows of users."""

import logging
import secrets
from functools import partial
from typing import Final

from pkafka.clock import Clock
from pkafka.net.scram import ScramMechanism
from pkafka.security.sasl import ServerExchange
from pkafka.security.sasl.oauthbearer import BearerToken, OAuthBearerServerExchange, TokenRefusedError
from pkafka.security.sasl.plain import PlainServerExchange
from pkafka.security.sasl.scram import ScramServerExchange, ScramUser
from pkafka.security.signed_tokens import UnknownKeyError
from pkafka.security.unsecured_tokens import UnsecuredRules
from pkafka.server.config.sasl import GSSAPI, OAUTHBEARER, SaslListener, SignedTokens
from pkafka.server.security.credentials import Credentials
from pkafka.server.security.key_sets import KeySets
from pkafka.server.security.tickets import Tickets
from pkafka.server.security.token_credentials import TokenCredentials

log = logging.getLogger(__name__)

_PLAIN_USER: Final = "user_"
_NONCE_BYTES: Final = 24


class Exchanges:
    """Makes the exchanges of one listener.

    Args:
        listener: its settings.
        credentials: of SCRAM's users.
        tokens: delegation tokens, which SCRAM lets in too.
        key_sets: by which tokens are trusted.
        clock: tells whether a token has expired.
    """

    def __init__(
        self,
        listener: SaslListener,
        credentials: Credentials,
        tokens: TokenCredentials,
        key_sets: KeySets,
        clock: Clock,
    ) -> None:
        self._listener = listener
        self._credentials = credentials
        self._tokens = tokens
        self._key_sets = key_sets
        self._clock = clock
        self._tickets = Tickets(listener.kerberos) if listener.kerberos is not None else None

    def new(self, mechanism: str) -> ServerExchange:
        """The broker's half of a mechanism that the listener has, for one login."""
        if mechanism == "PLAIN":
            return PlainServerExchange(self._password_of)
        if mechanism == OAUTHBEARER:
            return OAuthBearerServerExchange(self._trusted)
        if mechanism == GSSAPI:
            assert self._tickets is not None
            return self._tickets.exchange()
        scram = ScramMechanism.of_name(mechanism)
        assert scram is not None, mechanism
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return ScramServerExchange(scram, partial(self._scram_user, scram), nonce)

    def _password_of(self, user: str) -> str | None:
        return self._listener.modules["PLAIN"].options.get(f"{_PLAIN_USER}{user}")

    def _trusted(self, token: str) -> BearerToken:
        tokens = self._listener.tokens
        assert tokens is not None
        try:
            if isinstance(tokens, UnsecuredRules):
                return tokens.validate(token, self._clock.now_ms())
            return tokens.rules.validate(token, self._key_sets.of(tokens.keys_url))
        except UnknownKeyError as error:
            assert isinstance(tokens, SignedTokens)
            self._key_sets.ask_again(tokens.keys_url, error.key_id)
            log.info("A token is not trusted: %s", error)
            raise
        except TokenRefusedError as error:
            log.info("A token is not trusted: %s", error)
            raise

    def _scram_user(self, mechanism: ScramMechanism, name: str, is_token: bool) -> ScramUser | None:
        if is_token:
            return self._tokens.find(mechanism, name, self._clock.now_ms())
        return self._credentials.find(mechanism, name)
