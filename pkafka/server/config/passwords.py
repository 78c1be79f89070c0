"""The encoder of stored passwords that a broker's file asks for (``password.encoder.*``)."""

import os
from typing import TYPE_CHECKING, Final

from pkafka.errors import ConfigError
from pkafka.security.password_encoder import CIPHER, DERIVATIONS, EncoderSettings, PasswordEncoder

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

_KEY_BITS: Final = (128, 192, 256)


def password_encoder(config: "BrokerConfig") -> PasswordEncoder | None:
    """The encoder; None where no secret is set, so that passwords are not stored.

    Raises:
        ConfigError: what the keys name is not here.
    """
    secret = config.get("password.encoder.secret")
    if not secret:
        return None
    cipher, derivation, bits, iterations = (
        config.get(f"password.encoder.{name}")
        for name in ("cipher.algorithm", "keyfactory.algorithm", "key.length", "iterations")
    )
    if cipher != CIPHER:
        raise ConfigError("password.encoder.cipher.algorithm", f"must be {CIPHER}", cipher)
    derivation = derivation or EncoderSettings().derivation
    if derivation not in DERIVATIONS:
        problem = f"must be one of {', '.join(DERIVATIONS)}"
        raise ConfigError("password.encoder.keyfactory.algorithm", problem, derivation)
    if bits not in _KEY_BITS:
        raise ConfigError("password.encoder.key.length", "must be 128, 192 or 256", bits)
    assert isinstance(bits, int)
    assert isinstance(iterations, int)
    old = config.get("password.encoder.old.secret")
    return PasswordEncoder(
        str(secret),
        os.urandom,
        old_secret=str(old) if old else None,
        settings=EncoderSettings(str(derivation), bits, iterations),
    )
