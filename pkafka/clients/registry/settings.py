"""What the ``schema.registry.*`` keys of a client say, by the names that Confluent's serializers have."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pkafka.errors import ConfigError
from pkafka.security.tls_context import Store, TlsSettings

URL: Final = "schema.registry.url"
_SOURCE: Final = "basic.auth.credentials.source"
_USER: Final = ("schema.registry.basic.auth.user.info", "basic.auth.user.info")
_TLS: Final = "schema.registry.ssl."


class RegistrySettings(NamedTuple):
    """Where a Schema Registry is, and how it is asked.

    Args:
        urls: of its servers; the next one is asked when one does not answer.
        user_info: ``name:password`` of a login by Basic; empty: none.
        token: of a login by Bearer; empty: none.
        timeout_ms: of connecting, and of each wait for an answer.
        max_retries: how often a request is repeated that nobody answered, or with a status that may pass.
        retry_wait_ms: before the first repetition; each further wait is twice as long.
        retry_wait_max_ms: but never longer than this.
        tls: of connections to ``https``.
    """

    urls: tuple[str, ...]
    user_info: str = ""
    token: str = ""
    timeout_ms: int = 60_000
    max_retries: int = 3
    retry_wait_ms: int = 1_000
    retry_wait_max_ms: int = 20_000
    tls: TlsSettings = TlsSettings()

    def __repr__(self) -> str:
        return f"RegistrySettings({', '.join(self.urls)})"

    @classmethod
    def of(cls, configs: Mapping[str, object]) -> "RegistrySettings":
        """The settings in a client's configuration.

        Raises:
            ConfigError: there is no URL, or a value is none.
        """
        given = configs.get(URL) or ()
        listed = given.split(",") if isinstance(given, str) else list(given)  # type: ignore[call-overload]
        urls, found_user = [], ""
        for url in (text for each in listed if (text := str(each).strip())):
            plain, user = _without_user(url)
            urls.append(plain)
            found_user = found_user or user
        if not urls:
            raise ConfigError(URL, "is missing; name the Schema Registry as http://host:port")
        return cls(
            tuple(urls),
            _user_info(configs, found_user),
            _text(configs, "bearer.auth.token"),
            number(configs, "http.read.timeout.ms", 60_000),
            number(configs, "max.retries", 3),
            number(configs, "retries.wait.ms", 1_000),
            number(configs, "retries.max.wait.ms", 20_000),
            _tls(configs),
        )


def number(configs: Mapping[str, object], key: str, default: int) -> int:
    """A whole number, not below 0.

    Raises:
        ConfigError: it is none.
    """
    given = configs.get(key, default)
    try:
        found = int(str(given))
    except ValueError:
        raise ConfigError(key, "is not a whole number", given) from None
    if found < 0:
        raise ConfigError(key, "is below 0", given)
    return found


def flag(configs: Mapping[str, object], key: str, *, default: bool) -> bool:
    """A truth value.

    Raises:
        ConfigError: it is none.
    """
    text = str(configs.get(key, default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(key, "is neither true nor false", configs[key])
    return text == "true"


def _without_user(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(URL, "is not a URL of the form http://host:port")  # it may hold a password
    user, at, place = parts.netloc.rpartition("@")
    plain = parts._replace(netloc=place, query="", fragment="").geturl().rstrip("/")
    return plain, unquote(user) if at else ""


def _user_info(configs: Mapping[str, object], of_url: str) -> str:
    source = (_text(configs, f"schema.registry.{_SOURCE}") or _text(configs, _SOURCE) or "URL").upper()
    if source == "URL":
        # A name with a password can mean nothing else, though Confluent's client wants USER_INFO said too.
        return of_url or next((text for key in _USER if (text := _text(configs, key))), "")
    if source == "USER_INFO":
        found = next((text for key in _USER if (text := _text(configs, key))), "")
        if ":" not in found:
            raise ConfigError(_USER[1], "is missing, or is not name:password")
        return found
    raise ConfigError(_SOURCE, "is neither URL nor USER_INFO", source)


def _tls(configs: Mapping[str, object]) -> TlsSettings:
    def store(kind: str) -> Store | None:
        location = _text(configs, f"{_TLS}{kind}.location")
        if not location:
            return None
        password = _text(configs, f"{_TLS}{kind}.password") or None
        key_password = _text(configs, f"{_TLS}key.password") or None
        type_ = _text(configs, f"{_TLS}{kind}.type") or "JKS"
        return Store(kind, type_.upper(), location, "", password, key_password)

    algorithm = str(configs.get(f"{_TLS}endpoint.identification.algorithm", "https"))
    return TlsSettings(
        checks_name=algorithm.lower() == "https", truststore=store("truststore"), keystore=store("keystore")
    )


def _text(configs: Mapping[str, object], key: str) -> str:
    value = configs.get(key)
    if value is None:
        return ""
    return str(getattr(value, "value", value)).strip()  # Connect wraps passwords
