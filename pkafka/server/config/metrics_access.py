"""Who may read the page of metrics, by ``pkafka.metrics.ssl.*`` and ``pkafka.metrics.basic.auth.file``.

Kafka's own page, JMX, has such settings as properties of its JVM (``com.sun.management.jmxremote.*``). This looks at
no file.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.tls_context import ClientAuth, Store

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

PREFIX: Final = "pkafka.metrics."
USERS_KEY: Final = f"{PREFIX}basic.auth.file"
_PORT_KEY: Final = f"{PREFIX}port"
_CLIENT_AUTH: Final = "ssl.client.auth"
_LOCATION: Final = "ssl.keystore.location"
_TRUSTED: Final = "ssl.truststore.location"
_TRUST_PASSWORD: Final = "ssl.truststore.password"  # noqa: S105 - the name of a key
_BESIDE: Final = ("ssl.keystore.password", "ssl.key.password")
"""Keys that mean something beside a store only. Its type has a default, so it cannot tell whether it was given."""


class MetricsAccess(NamedTuple):
    """How the page is guarded.

    Args:
        keystore: the page's key and certificate; None: it is plain HTTP.
        users_file: where names and passwords are; empty: the page asks for no login.
        client_auth: whether readers have to show a certificate.
        truststore: whose certificates are good then.
    """

    keystore: Store | None = None
    users_file: str = ""
    client_auth: ClientAuth = ClientAuth.NONE
    truststore: Store | None = None


def metrics_access(config: "BrokerConfig") -> MetricsAccess:
    """Read the keys.

    Raises:
        ConfigError: one means nothing without another that is missing.
    """
    users_file = _text(config, "basic.auth.file") or ""
    client_auth = ClientAuth(_text(config, _CLIENT_AUTH) or ClientAuth.NONE.value)
    given = [
        PREFIX + name
        for name in (_LOCATION, *_BESIDE, _TRUSTED, _TRUST_PASSWORD, "basic.auth.file")
        if _text(config, name) is not None
    ]
    if client_auth is not ClientAuth.NONE:
        given.append(PREFIX + _CLIENT_AUTH)
    if given and config.metrics_port < 0:
        raise ConfigError(given[0], f"is set, and {_PORT_KEY} is not: there is no page of metrics to guard")
    if not _text(config, _LOCATION):
        stray = next((name for name in given if name != USERS_KEY), None)
        if stray is not None:
            raise ConfigError(stray, f"is set, and {PREFIX}{_LOCATION} is not")
        return MetricsAccess(None, users_file)
    return MetricsAccess(_keystore(config), users_file, client_auth, _truststore(config, client_auth))


def _keystore(config: "BrokerConfig") -> Store:
    location = _text(config, _LOCATION) or ""
    store_type = (_text(config, "ssl.keystore.type") or "").upper()
    password, key_password = (_text(config, name) for name in _BESIDE)
    if store_type == "PEM" and password is not None:
        problem = f"cannot be given with PEM: the password of a PEM key is {PREFIX}ssl.key.password"
        raise ConfigError(f"{PREFIX}{_BESIDE[0]}", problem)
    if store_type != "PEM" and password is None:
        raise ConfigError(f"{PREFIX}{_BESIDE[0]}", f"is missing for the {store_type} file {location}")
    return Store("keystore", store_type, location, password=password, key_password=key_password)


def _truststore(config: "BrokerConfig", client_auth: ClientAuth) -> Store | None:
    location, password = (_text(config, name) for name in (_TRUSTED, _TRUST_PASSWORD))
    if client_auth is ClientAuth.NONE:
        stray = next((name for name in (_TRUSTED, _TRUST_PASSWORD) if _text(config, name) is not None), None)
        if stray is not None:
            problem = f"is set, and {PREFIX}{_CLIENT_AUTH} is none: nobody is asked for a certificate"
            raise ConfigError(PREFIX + stray, problem)
        return None
    if not location:
        # The authorities of the system sign for everybody: to trust them would let in everybody.
        problem = f"is missing: with {PREFIX}{_CLIENT_AUTH}={client_auth.value} it says who may read the page"
        raise ConfigError(PREFIX + _TRUSTED, problem)
    store_type = (_text(config, "ssl.truststore.type") or "").upper()
    if store_type == "PEM" and password is not None:
        raise ConfigError(PREFIX + _TRUST_PASSWORD, "cannot be given with PEM")
    return Store("truststore", store_type, location, password=password)


def _text(config: "BrokerConfig", name: str) -> str | None:
    value = config.get(PREFIX + name)
    return None if value is None else str(value)
