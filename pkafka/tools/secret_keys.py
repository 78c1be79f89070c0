"""Which settings are secrets, by their keys: no screen and no file shows their values again."""

from typing import Final

HIDDEN: Final = "[hidden]"
"""In place of the value."""

_WORDS: Final = (
    *("password", "secret", "jaas", "token", "credential", "scram-sha"),
    *("ssl.keystore.key", "ssl.truststore.cert"),
)


def is_secret(key: str) -> bool:
    """Whether the value of a key must not be shown. In doubt it is a secret."""
    lower = key.lower()
    return any(word in lower for word in _WORDS)
