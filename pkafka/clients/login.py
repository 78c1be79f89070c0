"""The login of one connection: SaslHandshake names the mechanism, SaslAuthenticate carries tokens (KIP-43, KIP-152).

Decides only: it is given answers and says what to send next. The same steps on an open connection renew its
session (KIP-368).
"""

from typing import Final

from pkafka.clients.errors import AuthenticationError, Stage
from pkafka.errors import ErrorCode
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pkafka.protocol.schema import Message
from pkafka.security.sasl import ClientExchange, SaslError

_HINTS: Final = {
    "PLAIN": "check username and password in sasl.jaas.config",
    "SCRAM-SHA-256": "check username and password in sasl.jaas.config; the user needs a password for this mechanism",
    "SCRAM-SHA-512": "check username and password in sasl.jaas.config; the user needs a password for this mechanism",
    "OAUTHBEARER": "the token may be expired, for another audience, or of an issuer that the broker does not trust",
    "GSSAPI": "the broker's keytab may lack the key of the ticket, the clocks may differ, or no rule there makes a user"
    " of this principal; see the broker's log",
}


class Login:
    """One login; see the module.

    Args:
        exchange: the mechanism's half of this client, new.
        address: of the broker, for errors.
    """

    def __init__(self, exchange: ClientExchange, address: str) -> None:
        self._exchange = exchange
        self._address = address
        self.session_lifetime_ms = 0
        """How long the broker lets this login count; 0 for as long as the connection stands."""

    def begin(self) -> Message:
        """The first request."""
        return SaslHandshakeRequest(mechanism=self._exchange.mechanism)

    def answered(self, response: Message) -> Message | None:
        """What to send after an answer; None once the broker has let this client in.

        Raises:
            AuthenticationError: it does not; the stage is MECHANISM or AUTHENTICATE.
        """
        if isinstance(response, SaslHandshakeResponse):
            self._check_mechanism(response)
            return SaslAuthenticateRequest(auth_bytes=self._exchange.first())
        assert isinstance(response, SaslAuthenticateResponse)
        return self._authenticated(response)

    def _check_mechanism(self, response: SaslHandshakeResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            return
        mechanism = self._exchange.mechanism
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            text = f"mechanism: the listener at {self._address} knows no login"
            hint = "set security.protocol to PLAINTEXT or SSL, or take the port of a listener with SASL"
        else:
            offered = ", ".join(response.mechanisms) or "none"
            text = f"mechanism: {self._address} does not enable {mechanism}; it has {offered}"
            hint = f"set sasl.mechanism to one of {offered}, with the login module that belongs to it"
        raise AuthenticationError(Stage.MECHANISM, self._address, text, hint=hint)

    def _authenticated(self, response: SaslAuthenticateResponse) -> Message | None:
        if response.error_code:
            said = response.error_message or ErrorCode(response.error_code).message
            raise self._refused(f"{self._address} does not let this client in: {said}")
        try:
            token = self._exchange.answer(response.auth_bytes)
        except SaslError as error:
            raise self._refused(f"{self._address}: {error}") from None
        if token is not None:
            return SaslAuthenticateRequest(auth_bytes=token)
        if not self._exchange.is_complete:
            raise self._refused(f"{self._address} ended the login before it was complete")
        self.session_lifetime_ms = response.session_lifetime_ms
        return None

    def _refused(self, text: str) -> AuthenticationError:
        hint = _HINTS[self._exchange.mechanism]
        return AuthenticationError(Stage.AUTHENTICATE, self._address, f"login: {text}", hint=hint)
