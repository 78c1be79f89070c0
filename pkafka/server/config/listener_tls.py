"""What the ``ssl.*`` keys say about one listener: its own in place of the broker's. Looks at no file."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.principal_rules import PrincipalRules, RuleError
from pkafka.security.tls_context import CRL_KEY, ClientAuth, Store, TlsSettings
from pkafka.server.config.keys import broker_keys
from pkafka.server.config.keys.values import Value, parse
from pkafka.server.config.listener_keys import listener_texts
from pkafka.server.config.listeners import ENCRYPTED_PROTOCOLS, Listener

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

_PEM: Final = "PEM"


class ListenerTls(NamedTuple):
    """How the connections of a listener are encrypted.

    Args:
        settings: versions, suites and stores.
        client_auth: whether clients show certificates.
        rules: make names of users of the names in certificates (ssl.principal.mapping.rules); None where logins name
            the users.
        allows_other_subject: whether its certificate may be exchanged for one of another name.
        allows_fewer_names: whether for one that is not for all its hosts.
    """

    settings: TlsSettings
    client_auth: ClientAuth
    rules: PrincipalRules | None
    allows_other_subject: bool
    allows_fewer_names: bool


def listener_tls(config: "BrokerConfig", listener: Listener) -> ListenerTls | None:
    """Read the keys of a listener.

    Returns:
        None where its connections are not encrypted.

    Raises:
        ConfigError: keys contradict each other, or ask for what is not here; names the key as it was written.
    """
    if listener.security_protocol not in ENCRYPTED_PROTOCOLS:
        return None
    try:
        return _read(_Keys(listener_texts(config.originals, listener.name)), config, listener)
    except ConfigError as error:
        raise named_as_written(error, config, listener.name) from None


def named_as_written(error: ConfigError, config: "BrokerConfig", listener: str) -> ConfigError:
    """The same error with the key that the operator wrote: the listener's own where there is one."""
    own = f"listener.name.{listener.lower()}.{error.key}"
    if own in config.originals:
        return ConfigError(own, error.problem, error.value)
    return ConfigError(error.key, f"{error.problem} (listener {listener})", error.value)


class _Keys:
    """Typed values of the keys that count for a listener."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, name: str) -> Value:
        key = broker_keys()[name]
        return parse(key, self._texts.get(name, key.default))

    def text(self, name: str) -> str | None:
        value = self[name]
        return None if value is None else str(value)

    def words(self, name: str) -> tuple[str, ...]:
        value = self[name]
        return value if isinstance(value, tuple) else ()


def _read(keys: _Keys, config: "BrokerConfig", listener: Listener) -> ListenerTls:
    algorithm = keys.text("ssl.endpoint.identification.algorithm") or ""
    if algorithm.lower() not in ("https", ""):
        problem = "must be https, or empty for none"
        raise ConfigError("ssl.endpoint.identification.algorithm", problem, algorithm)
    for name in ("ssl.engine.factory.class", "ssl.provider"):
        if keys[name]:
            raise ConfigError(
                name, "names classes of Java, which cannot be loaded; remove the key", keys[name]
            )
    keystore = _store(keys, "keystore", ("ssl.keystore.certificate.chain", "ssl.keystore.key"))
    if keystore is None:
        problem = (
            f"is missing: the listener {listener.name} asks for {listener.security_protocol}, and needs a key and a"
            " certificate; or give PEM text by ssl.keystore.key and ssl.keystore.certificate.chain"
        )
        raise ConfigError("ssl.keystore.location", problem)
    settings = TlsSettings(
        keys.words("ssl.enabled.protocols"),
        keys.words("ssl.cipher.suites"),
        bool(algorithm),
        _store(keys, "truststore", ("ssl.truststore.certificates",)),
        keystore,
        keys.text(CRL_KEY) or "",
    )
    client_auth = _client_auth(keys, config, listener)
    return ListenerTls(
        settings,
        client_auth,
        _rules(keys) if listener.security_protocol == "SSL" else None,
        bool(keys["ssl.allow.dn.changes"]),
        bool(keys["ssl.allow.san.changes"]),
    )


def _rules(keys: _Keys) -> PrincipalRules:
    name = "ssl.principal.mapping.rules"
    text = keys.text(name) or ""
    try:
        return PrincipalRules(text)
    except RuleError as error:
        problem = f"{error}; wanted is DEFAULT or RULE:pattern/replacement/[LU], several separated by commas"
        raise ConfigError(name, problem, text) from None


def _client_auth(keys: _Keys, config: "BrokerConfig", listener: Listener) -> ClientAuth:
    """Whom a login names needs no certificate: of listeners with SASL only their own key counts (KIP-684)."""
    own = f"listener.name.{listener.name.lower()}.ssl.client.auth"
    if listener.security_protocol != "SSL" and own not in config.originals:
        return ClientAuth.NONE
    return ClientAuth(keys.text("ssl.client.auth"))


def _store(keys: _Keys, kind: str, inline_names: tuple[str, ...]) -> Store | None:
    prefix = f"ssl.{kind}"
    store_type = (keys.text(f"{prefix}.type") or "").upper()
    location, password = keys.text(f"{prefix}.location") or "", keys.text(f"{prefix}.password")
    inline = {name: keys.text(name) or "" for name in inline_names}
    key_password = keys.text("ssl.key.password") if kind == "keystore" else None
    if any(inline.values()):
        _check_inline(prefix, store_type, location, inline)
    elif not location:
        if password is not None:
            raise ConfigError(f"{prefix}.password", f"is set, and {prefix}.location is not")
        return None
    if store_type == _PEM and password is not None:
        hint = ": the password of a PEM key is ssl.key.password" if kind == "keystore" else ""
        raise ConfigError(f"{prefix}.password", f"cannot be given with PEM{hint}")
    if store_type != _PEM and kind == "keystore" and password is None:
        raise ConfigError(f"{prefix}.password", f"is missing for the {store_type} file {location}")
    return Store(kind, store_type, location, "\n".join(inline.values()), password, key_password)


def _check_inline(prefix: str, store_type: str, location: str, inline: Mapping[str, str]) -> None:
    if store_type != _PEM:
        problem = "must be PEM where the text stands in the configuration"
        raise ConfigError(f"{prefix}.type", problem, store_type)
    if location:
        raise ConfigError(f"{prefix}.location", "cannot stand beside PEM text in the configuration", location)
    missing = next((name for name, text in inline.items() if not text), None)
    if missing is not None:
        other = next(name for name in inline if name != missing)
        raise ConfigError(missing, f"is missing beside {other}")
