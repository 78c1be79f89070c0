"""SASL mechanisms, each as a pure exchange of tokens: what one end says next, given what the other end said.

The client's halves are here: :mod:`.plain`, :mod:`.scram` and :mod:`.oauthbearer`. An exchange is made for one
login and then thrown away. No error text, and no ``repr``, has a secret in it.
"""

from typing import Protocol

from pkafka.errors import PkafkaError


class SaslError(PkafkaError):
    """The other end does not follow the mechanism, or could not prove what it has to prove."""


class ClientExchange(Protocol):
    """The client's half of one login."""

    @property
    def mechanism(self) -> str:
        """As in ``sasl.mechanism``."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has heard all that it has to hear."""

    def first(self) -> bytes:
        """The token that begins the exchange."""

    def answer(self, challenge: bytes) -> bytes | None:
        """The next token; None when there is nothing more to say.

        Args:
            challenge: the server's token.

        Raises:
            SaslError: the server breaks the rules of the mechanism.
        """
