"""PLAIN (RFC 4616): name and password in one token. Only the connection's encryption keeps them secret."""

import hmac
from collections.abc import Callable
from typing import Final

from pkafka.security.sasl import LoginRefused, SaslError

_PARTS: Final = 3
_PARTS_READ_MAX: Final = 4


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


class PlainServerExchange:
    """The broker's half; the texts of its refusals are Kafka's.

    Args:
        password_of: gives the password of a user; None where there is no such user.
    """

    expires_ms: Final = None
    is_token: Final = False

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of
        self.is_complete = False
        self.user = ""

    def answer(self, token: bytes) -> bytes:
        """An empty token for the right password.

        Raises:
            LoginRefused: the token has no name, no password or a wrong one.
        """
        # Java puts a sign in place of what is no UTF-8; no password has it.
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            count = min(len(parts), _PARTS_READ_MAX)
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {count}")
        acts_for, user, password = parts
        for name, text in (("username", user), ("password", password)):
            if not text:
                raise LoginRefused(f"Authentication failed: {name} not specified")
        self._check(user, password)
        if acts_for not in ("", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        self.is_complete = True
        return b""

    def _check(self, user: str, password: str) -> None:
        expected = self._password_of(user)
        # The comparison takes as long for a user that is not there.
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if not is_right or expected is None:
            raise LoginRefused("Authentication failed: Invalid username or password")
