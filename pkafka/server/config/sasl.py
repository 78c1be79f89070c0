"""``sasl.*`` of a broker: the mechanisms of each listener, with what each needs, and the rules between these keys.

Kafka reads the login module of a mechanism from ``listener.name.<listener>.<mechanism>.sasl.jaas.config``, else from
the file of ``java.security.auth.login.config``: its section ``<listener>.KafkaServer``, else ``KafkaServer``. A
``sasl.jaas.config`` without these prefixes has no meaning for its listeners, and none here.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from pkafka.errors import ConfigError
from pkafka.security.jaas import JaasError, LoginModule, parse_jaas
from pkafka.security.jaas_files import SERVER_SECTION, file_module
from pkafka.security.kerberos import Krb5Options, check_package, service_name
from pkafka.security.kerberos_rules import KerberosRuleError, LocalNameRules
from pkafka.security.signed_tokens import SignedRules
from pkafka.security.unsecured_tokens import UnsecuredRules
from pkafka.server.config.keys import broker_keys
from pkafka.server.config.keys.values import Value, parse
from pkafka.server.config.listener_keys import listener_texts, mechanism_texts
from pkafka.server.config.login_tokens import own_tokens

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MODULES: Final[Mapping[str, str]] = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
    GSSAPI: "Krb5LoginModule",
}
"""The mechanisms that this broker has, each with the login module of Kafka's that belongs to it."""
_PACKAGES: Final[Mapping[str, str]] = {"PLAIN": "plain", OAUTHBEARER: "oauthbearer"}
_MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
_JAAS_KEY: Final = "sasl.jaas.config"
_INTER_BROKER_KEY: Final = "sasl.mechanism.inter.broker.protocol"
_LIFETIME_KEY: Final = "connections.max.reauth.ms"
_RECEIVE_KEY: Final = "sasl.server.max.receive.size"
_HANDLER_KEY: Final = "sasl.server.callback.handler.class"
_HANDLER_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
_SIGNED_HANDLER: Final = "OAuthBearerValidatorCallbackHandler"
_UNSECURED_HANDLER: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
_TOKENS: Final = "sasl.oauthbearer"
_KERBEROS_RULES_KEY: Final = "sasl.kerberos.principal.to.local.rules"


class SignedTokens(NamedTuple):
    """Tokens that are signed, by keys that another server publishes (KIP-768)."""

    rules: SignedRules
    keys_url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class KerberosService(NamedTuple):
    """By what a listener reads Kerberos tickets."""

    options: Krb5Options
    service: str
    """The first part of the principals of all brokers."""
    rules: tuple[str, ...]
    """From principals to users."""


class SaslListener(NamedTuple):
    """What a listener asks of the logins of its clients."""

    mechanisms: tuple[str, ...]
    """In the order of the file, as clients are told."""
    modules: Mapping[str, LoginModule]
    """By mechanism."""
    sessions_max_ms: Mapping[str, int]
    """By mechanism: how long a login counts; 0 for as long as the connection stands."""
    receive_bytes_max: int
    """The largest frame before a client is let in."""
    tokens: UnsecuredRules | SignedTokens | None = None
    """Which tokens OAUTHBEARER takes; None where the listener does not have it."""
    kerberos: KerberosService | None = None
    """For GSSAPI; None where the listener does not have it."""


def sasl_listener(config: "BrokerConfig", listener: str) -> SaslListener:
    """The settings of a listener whose protocol is one of :data:`SASL_PROTOCOLS`.

    Raises:
        ConfigError: they are not complete, contradict each other, or ask for what is not here. Shows no secret.
    """
    texts = listener_texts(config.originals, listener)
    listed = _value(texts, _MECHANISMS_KEY)
    receive_bytes_max = _value(texts, _RECEIVE_KEY)
    assert isinstance(listed, tuple)
    assert isinstance(receive_bytes_max, int)
    mechanisms = tuple(dict.fromkeys(str(each) for each in listed if each))
    _check_mechanisms(config, listener, mechanisms)
    modules: dict[str, LoginModule] = {}
    sessions_max_ms: dict[str, int] = {}
    for mechanism in mechanisms:
        modules[mechanism] = _module(config, listener, mechanism)
        own = mechanism_texts(config.originals, listener, mechanism)
        lifetime_ms = _value(own, _LIFETIME_KEY)
        assert isinstance(lifetime_ms, int)
        sessions_max_ms[mechanism] = max(lifetime_ms, 0)
        _check_handler(config, listener, mechanism)
    tokens = _tokens(config, listener, modules[OAUTHBEARER]) if OAUTHBEARER in modules else None
    kerberos = _kerberos(config, listener, modules[GSSAPI]) if GSSAPI in modules else None
    return SaslListener(mechanisms, modules, sessions_max_ms, receive_bytes_max, tokens, kerberos)


def check_sasl(config: "BrokerConfig") -> None:
    """Check the keys of all listeners whose clients log in, and of this broker's own login at other brokers.

    Raises:
        ConfigError: the first rule that is broken.
    """
    inter_broker = {config.inter_broker_listener_name, config.control_plane_listener_name}
    for listener in config.listeners:
        if listener.security_protocol in SASL_PROTOCOLS:
            settings = sasl_listener(config, listener.name)
            if listener.name in inter_broker:
                _check_own_login(config, listener.name, settings)


def _value(texts: Mapping[str, str], key: str) -> Value:
    known = broker_keys()[key]
    return parse(known, texts.get(key, known.default))


def _own_key(listener: str, mechanism: str, key: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"


def _check_mechanisms(config: "BrokerConfig", listener: str, mechanisms: tuple[str, ...]) -> None:
    own = f"listener.name.{listener.lower()}.{_MECHANISMS_KEY}"
    key = own if own in config.originals else _MECHANISMS_KEY
    known = ", ".join(MODULES)
    if not mechanisms:
        raise ConfigError(key, f"names no mechanism for the listener {listener}; list some of {known}")
    for mechanism in mechanisms:
        if mechanism not in MODULES:
            raise ConfigError(key, f"has {mechanism} for the listener {listener}; list some of {known}")


def _module(config: "BrokerConfig", listener: str, mechanism: str) -> LoginModule:
    key = _own_key(listener, mechanism, _JAAS_KEY)
    text = config.originals.get(key)
    try:
        module = parse_jaas(text) if text is not None else _module_of_file(listener, mechanism)
    except JaasError as error:
        missing = "is missing, and " if text is None else ""
        raise ConfigError(key, f"{missing}{error}") from None
    if module is None:
        is_default = mechanism == GSSAPI and _MECHANISMS_KEY not in listener_texts(config.originals, listener)
        default = f", the default of {_MECHANISMS_KEY}" if is_default else ""
        raise ConfigError(key, f"is missing; for {mechanism}{default}: {_example(mechanism)}")
    if module.simple_name != MODULES[mechanism]:
        problem = f"has {module.simple_name}, and {mechanism} needs {MODULES[mechanism]}"
        raise ConfigError(key, problem)
    return module


def _module_of_file(listener: str, mechanism: str) -> LoginModule | None:
    return file_module((f"{listener.lower()}.{SERVER_SECTION}", SERVER_SECTION), MODULES[mechanism])


def _example(mechanism: str) -> str:
    if mechanism == GSSAPI:
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
            ' keyTab="/path/of.keytab" principal="kafka/host.name@REALM";'
        )
    users = (
        ' username="broker" password="..." user_broker="..." user_alice="..."' if mechanism == "PLAIN" else ""
    )
    package = _PACKAGES.get(mechanism, "scram")
    return f"org.apache.kafka.common.security.{package}.{MODULES[mechanism]} required{users};"


def _check_handler(config: "BrokerConfig", listener: str, mechanism: str) -> None:
    key = _own_key(listener, mechanism, _HANDLER_KEY)
    handler = config.originals.get(key)
    known = (_SIGNED_HANDLER, _UNSECURED_HANDLER) if mechanism == OAUTHBEARER else ()
    if handler is None or handler.strip().rpartition(".")[2] in known:
        return
    problem = "names a class of Java, which cannot be loaded; remove the key"
    if known:
        problem += f", or name one of {', '.join(f'{_HANDLER_PACKAGE}.{name}' for name in known)}"
    raise ConfigError(key, problem, handler)


def _tokens(config: "BrokerConfig", listener: str, module: LoginModule) -> UnsecuredRules | SignedTokens:
    handler = config.originals.get(_own_key(listener, OAUTHBEARER, _HANDLER_KEY), "")
    if handler.strip().rpartition(".")[2] == _SIGNED_HANDLER:
        return _signed_tokens(config, listener)
    try:
        return UnsecuredRules.of(module.options)
    except ValueError as error:
        raise ConfigError(
            _own_key(listener, OAUTHBEARER, _JAAS_KEY), f"has a wrong option: {error}"
        ) from None


def _kerberos(config: "BrokerConfig", listener: str, module: LoginModule) -> KerberosService:
    options = Krb5Options.of(module.options)
    texts = listener_texts(config.originals, listener)
    service = _value(texts, "sasl.kerberos.service.name")
    name = service_name(options, str(service) if service is not None else None)
    key = _own_key(listener, GSSAPI, _JAAS_KEY)
    if not (options.uses_keytab and options.keytab and options.principal):
        problem = f"needs useKeyTab=true, keyTab and principal, by which the broker reads tickets: {_example(GSSAPI)}"
        raise ConfigError(key, problem)
    rules = _value(texts, _KERBEROS_RULES_KEY)
    assert isinstance(rules, tuple)
    listed = tuple(str(each) for each in rules)
    try:
        LocalNameRules("", listed)
    except KerberosRuleError as error:
        raise ConfigError(_KERBEROS_RULES_KEY, str(error)) from None
    check_package(_MECHANISMS_KEY)
    return KerberosService(options, name, listed)


def _signed_tokens(config: "BrokerConfig", listener: str) -> SignedTokens:
    texts = mechanism_texts(config.originals, listener, OAUTHBEARER)
    url = str(_value(texts, f"{_TOKENS}.jwks.endpoint.url") or "")
    _check_url(url)
    if find_spec("jwt") is None or find_spec("cryptography") is None:
        key = _own_key(listener, OAUTHBEARER, _HANDLER_KEY)
        raise ConfigError(key, "needs what checks signatures: pip install 'pkafka[oauth]'")

    def number(name: str) -> int:
        value = _value(texts, f"{_TOKENS}.{name}")
        assert isinstance(value, int)
        return value

    audience, issuer = (_value(texts, f"{_TOKENS}.expected.{name}") for name in ("audience", "issuer"))
    rules = SignedRules(
        user_claim=str(_value(texts, f"{_TOKENS}.sub.claim.name")),
        scope_claim=str(_value(texts, f"{_TOKENS}.scope.claim.name")),
        audience=tuple(str(each) for each in audience if each) if isinstance(audience, tuple) else (),
        issuer=str(issuer) if issuer is not None else None,
        skew_s=number("clock.skew.seconds"),
    )
    return SignedTokens(
        rules,
        url,
        number("jwks.endpoint.refresh.ms"),
        number("jwks.endpoint.retry.backoff.ms"),
        number("jwks.endpoint.retry.backoff.max.ms"),
    )


def _check_url(url: str) -> None:
    key = f"{_TOKENS}.jwks.endpoint.url"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not url or not is_good:
        # A file, which Kafka would take, is none: CVE-2025-27817.
        raise ConfigError(
            key, "must be the http or https address of the key set that signs tokens", url or None
        )


def _check_own_login(config: "BrokerConfig", listener: str, settings: SaslListener) -> None:
    mechanism = str(config.get(_INTER_BROKER_KEY))
    if mechanism not in settings.mechanisms:
        problem = (
            f"must be included in {_MECHANISMS_KEY} when SASL is used for inter-broker communication, and the listener"
            f" {listener} has {', '.join(settings.mechanisms)}"
        )
        raise ConfigError(_INTER_BROKER_KEY, problem, mechanism)
    if mechanism == OAUTHBEARER:
        own_tokens(config, listener, settings.modules[mechanism])
    elif mechanism != GSSAPI:
        _check_password(listener, mechanism, settings)


def _check_password(listener: str, mechanism: str, settings: SaslListener) -> None:
    for name in ("username", "password"):
        if not settings.modules[mechanism].options.get(name):
            key = _own_key(listener, mechanism, _JAAS_KEY)
            raise ConfigError(
                key, f"has no {name}, by which this broker logs in at others ({_INTER_BROKER_KEY})"
            )
