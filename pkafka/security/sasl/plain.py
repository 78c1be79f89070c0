"""PLAIN (RFC 4616): name and password in one token. Only the connection's encryption keeps them secret."""

from typing import Final

from pkafka.security.sasl import SaslError


class PlainExchange:
    """The client's half.

    Args:
        username, password: what the broker compares; neither is empty or has a NUL in it.

    Raises:
        SaslError: one of them is empty or has a NUL in it.
    """

    mechanism: Final = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        for name, text in (("username", username), ("password", password)):
            if not text:
                raise SaslError(f"PLAIN needs a {name}, and it is empty")
            if "\0" in text:
                raise SaslError(f"the {name} has a NUL in it, which PLAIN cannot carry")
        self.is_complete = False
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """All there is to say."""
        return self._token

    def answer(self, challenge: bytes) -> None:
        """An empty token says that the broker lets this client in.

        Raises:
            SaslError: the broker asks for more, which PLAIN does not know.
        """
        if challenge:
            raise SaslError("the broker answered PLAIN with a challenge")
        self.is_complete = True
