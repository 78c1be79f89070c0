"""GSSAPI (RFC 4752): Kerberos tickets prove who the two ends are; no security layer, as Kafka has it.

What knows Kerberos is a :class:`GssContext`, which :mod:`pkafka.security.kerberos` makes; here is what the two ends
say around it.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from pkafka.errors import PkafkaError
from pkafka.security.sasl import SaslError

_NO_LAYER: Final = 1
"""The bit of RFC 4752 for: nothing but the login is protected."""
_OFFER: Final = bytes([_NO_LAYER, 0, 0, 0])
_OFFER_BYTES: Final = 4


class GssError(PkafkaError):
    """Kerberos refuses; the text is its own, and has names but no secret."""


class GssContext(Protocol):
    """One end of a context of the GSS-API (RFC 2743).

    All methods but ``is_established`` raise GssError.
    """

    @property
    def is_established(self) -> bool:
        """Whether this end trusts the other."""

    def step(self, token: bytes | None) -> bytes | None:
        """The next token, if there is one.

        Args:
            token: the other end's; None where this end begins.
        """

    def wrap(self, data: bytes) -> bytes:
        """The data with proof of who sent it."""

    def unwrap(self, data: bytes) -> bytes:
        """What the other end wrapped."""

    def initiator(self) -> str:
        """The principal that began the context."""


class _Step(Enum):
    CONTEXT = "context"
    LAYER = "layer"
    OUTCOME = "outcome"
    OVER = "over"


class GssapiExchange:
    """The client's half.

    Args:
        context: new; asks for a ticket with its first step, which may wait for the KDC.
        acts_for: the authorization id, which Kafka's clients set to their own principal.

    Raises:
        SaslError: there is no ticket for the broker.
    """

    mechanism: Final = "GSSAPI"

    def __init__(self, context: GssContext, acts_for: str) -> None:
        self._context = context
        self._acts_for = acts_for
        self._step = _Step.CONTEXT
        try:
            # At once, so that a KDC that gives no ticket is known before the broker is told anything.
            self._first = context.step(None) or b""
        except GssError as error:
            raise SaslError(str(error)) from None
        self._after_context()

    @property
    def is_complete(self) -> bool:
        """Whether the broker has said that it lets this client in."""
        return self._step is _Step.OVER

    def first(self) -> bytes:
        """The ticket."""
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        """The next token; None at the end.

        Raises:
            SaslError: the broker does not prove who it is, or insists on a security layer.
        """
        try:
            match self._step:
                case _Step.CONTEXT:
                    answer = self._context.step(challenge)
                    self._after_context()
                    return answer or b""
                case _Step.LAYER:
                    self._step = _Step.OUTCOME
                    return self._chosen(self._context.unwrap(challenge))
                case _Step.OUTCOME if not challenge:
                    self._step = _Step.OVER
                    return None
        except GssError as error:
            raise SaslError(str(error)) from None
        raise SaslError("the broker sent a token after the end of the GSSAPI exchange")

    def _after_context(self) -> None:
        if self._context.is_established:
            self._step = _Step.LAYER

    def _chosen(self, offer: bytes) -> bytes:
        if len(offer) != _OFFER_BYTES:
            raise SaslError("the broker's offer of security layers cannot be read")
        if not offer[0] & _NO_LAYER:
            raise SaslError("the broker insists on a security layer, which Kafka's protocol cannot have")
        return self._context.wrap(_OFFER + self._acts_for.encode())


class GssapiServerExchange:
    """The broker's half.

    The authorization id does not count, as in Kafka: whoever holds the ticket acts for itself.

    Args:
        context: new.
        user_of: gives the user whom a principal stands for, or raises SaslError.
    """

    expires_ms: Final = None
    is_token: Final = False

    def __init__(self, context: GssContext, user_of: Callable[[str], str]) -> None:
        self._context = context
        self._user_of = user_of
        self._step = _Step.CONTEXT
        self.user = ""

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved who it is."""
        return self._step is _Step.OVER

    def answer(self, token: bytes) -> bytes:
        """The broker's next token, empty at the end.

        Raises:
            SaslError: the ticket is not for this broker, or expired; or the client wants a security layer.
        """
        try:
            match self._step:
                case _Step.CONTEXT:
                    return self._ticket(token)
                case _Step.LAYER if not token:
                    return self._offer()
                case _Step.OUTCOME:
                    self._check_choice(self._context.unwrap(token))
                    self.user = self._user_of(self._context.initiator())
                    self._step = _Step.OVER
                    return b""
        except GssError as error:
            raise SaslError(str(error)) from None
        raise SaslError("the client's GSSAPI token comes out of turn")

    def _ticket(self, token: bytes) -> bytes:
        answer = self._context.step(token)
        if not self._context.is_established:
            return answer or b""
        self._step = _Step.LAYER
        return answer or self._offer()

    def _offer(self) -> bytes:
        self._step = _Step.OUTCOME
        return self._context.wrap(_OFFER)

    def _check_choice(self, choice: bytes) -> None:
        if len(choice) < _OFFER_BYTES:
            raise SaslError("the client's choice of a security layer cannot be read")
        if choice[0] != _NO_LAYER:
            raise SaslError("the client wants a security layer, which Kafka's protocol cannot have")
