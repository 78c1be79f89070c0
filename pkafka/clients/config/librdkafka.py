"""librdkafka's keys about security, and those of Kafka 4.1 (KIP-1139), as keys of Kafka 3.9.

Only what means exactly one thing is taken. A key of Kafka's that says the same thing beside one of these is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pkafka.clients.config.security import MODULES
from pkafka.errors import ConfigError

_PACKAGE: Final = "org.apache.kafka.common.security"
_LOGIN_ROOMS: Final = {
    "PlainLoginModule": "plain",
    "ScramLoginModule": "scram",
    "OAuthBearerLoginModule": "oauthbearer",
}
_noted: set[str] = set()


def in_kafkas_keys(values: Mapping[str, object]) -> dict[str, object]:
    """The same configuration in Kafka's keys alone; says once, in the log, what it took for what.

    Args:
        values: key to value.

    Raises:
        ConfigError: a file cannot be read, a key of Kafka's says the same, or the key asks to check no certificate.
    """
    found = _Translation(values)
    found.mechanism()
    found.trust()
    found.key()
    found.login()
    found.note()
    return found.values


class _Translation:
    """Settings on their way; each step takes the foreign keys that it knows."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = dict(values)
        self._taken: dict[str, str] = {}

    def mechanism(self) -> None:
        if "sasl.mechanisms" in self.values:
            self._put("sasl.mechanism", self._take("sasl.mechanisms", "sasl.mechanism"), of="sasl.mechanisms")

    def trust(self) -> None:
        checks = self._take("enable.ssl.certificate.verification", "nothing: certificates are always checked")
        if checks is not None and checks.lower() != "true":
            problem = "is not supported: name the authority in ssl.truststore.location (PEM)"
            raise ConfigError("enable.ssl.certificate.verification", problem, checks)
        location, text = (
            self._take("ssl.ca.location", "ssl.truststore.location"),
            self._take("ssl.ca.pem", "ssl.truststore.certificates"),
        )
        if location and location != "probe":
            self._put("ssl.truststore.location", location, of="ssl.ca.location")
            self._put("ssl.truststore.type", "PEM", of="ssl.ca.location")
        if text:
            self._put("ssl.truststore.certificates", text, of="ssl.ca.pem")
            self._put("ssl.truststore.type", "PEM", of="ssl.ca.pem")

    def key(self) -> None:
        chain = self._text("ssl.certificate", "ssl.keystore.certificate.chain")
        key = self._text("ssl.key", "ssl.keystore.key")
        if chain is not None or key is not None:
            self._put("ssl.keystore.type", "PEM", of="ssl.certificate.location")
            self._put("ssl.keystore.certificate.chain", chain, of="ssl.certificate.location")
            self._put("ssl.keystore.key", key, of="ssl.key.location")

    def login(self) -> None:
        named = {
            "username": self._take("sasl.username", "sasl.jaas.config"),
            "password": self._take("sasl.password", "sasl.jaas.config"),
        }
        self._jaas({name: value for name, value in named.items() if value is not None}, "sasl.username")
        client = {
            "clientId": self._either("client.id"),
            "clientSecret": self._either("client.secret"),
            "scope": self._take("sasl.oauthbearer.scope", "sasl.jaas.config"),
        }
        self._jaas({name: value for name, value in client.items() if value}, "sasl.oauthbearer.client.id")

    def note(self) -> None:
        """Say what was taken for what, once for each key."""
        news = {key: meant for key, meant in self._taken.items() if key not in _noted}
        _noted.update(news)
        if news:
            import logging

            text = ", ".join(f"{key} for {meant}" for key, meant in news.items())
            logging.getLogger(__name__).warning("keys that Kafka 3.9 does not have are taken: %s", text)

    def _either(self, ending: str) -> str | None:
        newer = self._take(f"sasl.oauthbearer.client.credentials.{ending}", "sasl.jaas.config")
        return newer or self._take(f"sasl.oauthbearer.{ending}", "sasl.jaas.config")

    def _jaas(self, options: Mapping[str, str], of: str) -> None:
        module = MODULES.get(str(self.values.get("sasl.mechanism", "")))
        if not options or module is None:
            return
        text = " ".join(f'{name}="{_escaped(value)}"' for name, value in options.items())
        name = f"{_PACKAGE}.{_LOGIN_ROOMS[module]}.{module}"
        self._put("sasl.jaas.config", f"{name} required {text};", of=of)

    def _text(self, prefix: str, meant: str) -> str | None:
        text = self._take(f"{prefix}.pem", meant)
        location = self._take(f"{prefix}.location", meant)
        if location is None:
            return text
        try:
            return Path(location).read_text(encoding="latin-1")
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise ConfigError(f"{prefix}.location", problem, location) from None

    def _take(self, key: str, meant: str) -> str | None:
        value = self.values.pop(key, None)
        if value is None:
            return None
        self._taken[key] = meant
        return str(value)

    def _put(self, key: str, value: str | None, *, of: str) -> None:
        if key in self.values and self.values[key] != value:
            raise ConfigError(of, f"says what {key} says too: leave one of them out")
        if value is not None:
            self.values[key] = value


def _escaped(value: str) -> str:
    """As it stands between quotation marks in a JAAS text."""
    signs = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return "".join(signs.get(each, each) for each in value)
