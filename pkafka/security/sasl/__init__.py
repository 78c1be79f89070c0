"""SASL mechanisms, each as a pure exchange of tokens: what one end says next, given what the other end said.

Both halves of each are here: :mod:`.plain`, :mod:`.scram` and :mod:`.oauthbearer`. An exchange is made for one
login and then thrown away. No error text, and no ``repr``, has a secret in it.
"""

from typing import Protocol

from pkafka.errors import PkafkaError


class SaslError(PkafkaError):
    """The other end does not follow the mechanism, or could not prove what it has to prove.

    A broker does not pass the text on to the client: it may say whether there is such a user.
    """


class LoginRefused(SaslError):
    """The broker refuses the login, and the client may read why."""


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


class ServerExchange(Protocol):
    """The broker's half of one login."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has proved who it is."""

    @property
    def user(self) -> str:
        """Whom the client acts for; known once the exchange is complete."""

    @property
    def expires_ms(self) -> int | None:
        """When what the client proved itself with ends, since the epoch; None where it has no end."""

    @property
    def is_token(self) -> bool:
        """Whether the client proved itself with a delegation token (KIP-48)."""

    def answer(self, token: bytes) -> bytes:
        """The broker's next token, often empty.

        Args:
            token: the client's, of whatever bytes.

        Raises:
            SaslError: the login failed; nothing more may be asked of this exchange.
        """
