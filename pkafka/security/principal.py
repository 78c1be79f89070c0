"""Who a client is: Kafka's KafkaPrincipal."""

from typing import Final, NamedTuple

USER: Final = "User"
"""The type of every principal that an authenticated connection has."""


class Principal(NamedTuple):
    """Names the user that a client acts for, as ``User:alice``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Read a principal as ACLs, ``super.users`` and delegation tokens name it.

        Raises:
            ValueError: there is no colon between a type and a name.
        """
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(kind, name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a client that did not authenticate."""
