"""SCRAM (RFC 5802) as Kafka has it: the mechanisms, and the keys that are made of a password. Pure.

What a store keeps of them is :class:`pkafka.coordination.znodes_security.ScramCredential`.
"""

from enum import IntEnum
from typing import NamedTuple

from pkafka.errors import PkafkaError

ITERATIONS_DEFAULT = 4096
ITERATIONS_MAX = 16384
"""More of them a broker refuses to store: every log-in costs so many."""


class ScramError(PkafkaError):
    """A credential is not one that Kafka takes. The text has nothing of a password."""


class ScramMechanism(IntEnum):
    """The mechanisms, by their numbers on the wire."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As in ``sasl.mechanism``."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Of its hash, for :mod:`hashlib`."""
        return f"sha{self.name.rpartition('_')[2]}"

    @property
    def iterations_min(self) -> int:
        """Fewer are no protection."""
        return ITERATIONS_DEFAULT

    @classmethod
    def of_name(cls, name: str) -> "ScramMechanism | None":
        """The mechanism of this name; None for any other."""
        return next((each for each in KNOWN if each.mechanism_name == name), None)


KNOWN = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


class ScramKeys(NamedTuple):
    """What a broker keeps in place of a password."""

    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """``Hi(password, salt, i)`` of RFC 5802; Kafka takes the password's UTF-8 as it is."""
    import hashlib

    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes) -> ScramKeys:
    """The keys of a salted password."""
    import hashlib
    import hmac

    def mac(text: bytes) -> bytes:
        return hmac.digest(salted, text, mechanism.hash_name)

    return ScramKeys(hashlib.new(mechanism.hash_name, mac(b"Client Key")).digest(), mac(b"Server Key"))


def check_iterations(mechanism: ScramMechanism, iterations: int) -> None:
    """Refuse too few.

    Raises:
        ScramError: in Kafka's words.
    """
    if iterations < mechanism.iterations_min:
        raise ScramError(
            f"Iterations {iterations} is less than the minimum {mechanism.iterations_min} required for "
            f"{mechanism.mechanism_name}"
        )
