"""Stores of keys in files, and a broker's settings that name them."""

from pathlib import Path
from typing import Final

from pkafka.server.config.broker_config import BrokerConfig
from tests.certificates import Authority, Signed
from tests.unit.security.java_key_store import key_store

PASSWORD: Final = "of the store"
AUTHORITY: Final = Authority()
NAMES: Final = ("127.0.0.1", "one.example")


class Stores:
    """Files in a directory.

    Args:
        directory: gets them.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.signed = self.write()
        (directory / "ca.pem").write_bytes(AUTHORITY.pem)
        (directory / "ca.jks").write_bytes(key_store(PASSWORD, {}, {"ca": AUTHORITY.der}, PASSWORD))

    def write(self, subject: str = "broker", names: tuple[str, ...] = NAMES) -> Signed:
        """A fresh key and certificate, in PEM and in PKCS#12."""
        signed = AUTHORITY.signed(subject, names)
        (self.directory / "own.pem").write_bytes(signed.key_pem() + signed.chain_pem)
        (self.directory / "own.p12").write_bytes(signed.pkcs12(PASSWORD))
        return signed

    def config(self, **settings: object) -> BrokerConfig:
        """A broker with a plain listener, and one with TLS by PEM files; ``ssl_client_auth=...`` is a key."""
        wanted: dict[str, object] = {
            "broker.id": 0,
            "listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.directory / "own.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.directory / "ca.pem",
        }
        wanted |= {key.replace("_", "."): value for key, value in settings.items()}
        return BrokerConfig({key: str(value) for key, value in wanted.items() if value is not None})
