"""How this broker has tokens made by which it logs in at others by OAUTHBEARER: the keys of the brokers' listener."""

from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.jaas import LoginModule
from pkafka.security.token_settings import (
    HANDLER_KEY,
    SERVER_HANDLER,
    UNSECURED_HANDLER,
    URL_KEY,
    Refreshing,
    TokenSettings,
)
from pkafka.server.config.keys import broker_keys
from pkafka.server.config.keys.values import parse
from pkafka.server.config.listener_keys import mechanism_texts

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

_MECHANISM: Final = "OAUTHBEARER"
_PACKAGES: Final = (
    f"org.apache.kafka.common.security.oauthbearer.{SERVER_HANDLER}",
    f"org.apache.kafka.common.security.oauthbearer.internals.unsecured.{UNSECURED_HANDLER}",
)


class OwnTokens(NamedTuple):
    """How tokens are had, and the pauses after failures."""

    tokens: TokenSettings
    retry_backoff_ms: int
    retry_backoff_max_ms: int


def own_tokens(config: "BrokerConfig", listener: str, module: LoginModule) -> OwnTokens:
    """How this broker gets its tokens.

    Args:
        config: of this broker.
        listener: by which brokers talk to each other.
        module: the login module of OAUTHBEARER at that listener.

    Raises:
        ConfigError: the keys do not say how, or say it wrongly. Shows no secret.
    """
    texts = mechanism_texts(config.originals, listener, _MECHANISM)
    known = broker_keys()

    def number(name: str) -> int | None:
        value = parse(known[name], texts.get(name, known[name].default))
        assert value is None or isinstance(value, int)
        return value

    def share(name: str) -> float:
        value = parse(known[name], texts.get(name, known[name].default))
        assert isinstance(value, int | float)
        return float(value)

    refreshing = Refreshing(
        share("sasl.login.refresh.window.factor"),
        share("sasl.login.refresh.window.jitter"),
        (number("sasl.login.refresh.buffer.seconds") or 0) * 1_000,
        (number("sasl.login.refresh.min.period.seconds") or 0) * 1_000,
    )
    settings = TokenSettings(
        options=module.options,
        url=(texts.get(URL_KEY) or "").strip() or None,
        handler=_handler(texts.get(HANDLER_KEY)),
        refreshing=refreshing,
        user_claim=texts.get("sasl.oauthbearer.sub.claim.name", "sub").strip(),
        connect_timeout_ms=number("sasl.login.connect.timeout.ms"),
        read_timeout_ms=number("sasl.login.read.timeout.ms"),
    )
    _check(settings, listener)
    return OwnTokens(
        settings,
        number("sasl.login.retry.backoff.ms") or 0,
        number("sasl.login.retry.backoff.max.ms") or 0,
    )


def _handler(text: str | None) -> str:
    if text is None or not text.strip():
        return ""
    simple = text.strip().rpartition(".")[2]
    if simple not in (SERVER_HANDLER, UNSECURED_HANDLER):
        problem = f"names a class of Java, which cannot be loaded; name one of {', '.join(_PACKAGES)}"
        raise ConfigError(HANDLER_KEY, problem, text)
    return simple


def _check(settings: TokenSettings, listener: str) -> None:
    try:
        settings.check(now_ms=0)
    except ConfigError as error:
        if error.key != "sasl.jaas.config":
            raise
        key = f"listener.name.{listener.lower()}.{_MECHANISM.lower()}.{error.key}"
        problem = (
            f"{error.problem}, by which this broker logs in at others (sasl.mechanism.inter.broker.protocol)"
        )
        raise ConfigError(key, problem) from None
