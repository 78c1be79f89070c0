"""Who may read the page of metrics, by ``pkafka.metrics.ssl.*`` and ``pkafka.metrics.basic.auth.file``.

Kafka's own page, JMX, has such settings as properties of its JVM (``com.sun.management.jmxremote.*``). This looks at
no file.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.tls_context import Store

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

PREFIX: Final = "pkafka.metrics."
USERS_KEY: Final = f"{PREFIX}basic.auth.file"
_PORT_KEY: Final = f"{PREFIX}port"
_LOCATION: Final = "ssl.keystore.location"
_BESIDE: Final = ("ssl.keystore.password", "ssl.key.password")
"""Keys that mean something beside a store only. Its type has a default, so it cannot tell whether it was given."""


class MetricsAccess(NamedTuple):
    """How the page is guarded.

    Args:
        keystore: the page's key and certificate; None: it is plain HTTP.
        users_file: where names and passwords are; empty: the page asks for no login.
    """

    keystore: Store | None = None
    users_file: str = ""


def metrics_access(config: "BrokerConfig") -> MetricsAccess:
    """Read the keys.

    Raises:
        ConfigError: one means nothing without another that is missing.
    """
    location = _text(config, _LOCATION) or ""
    users_file = _text(config, "basic.auth.file") or ""
    password, key_password = (_text(config, name) for name in _BESIDE)
    given = [
        PREFIX + name for name in (_LOCATION, *_BESIDE, "basic.auth.file") if _text(config, name) is not None
    ]
    if given and config.metrics_port < 0:
        raise ConfigError(given[0], f"is set, and {_PORT_KEY} is not: there is no page of metrics to guard")
    store_type = (_text(config, "ssl.keystore.type") or "").upper()
    if not location:
        stray = next((name for name in given if name != USERS_KEY), None)
        if stray is not None:
            raise ConfigError(stray, f"is set, and {PREFIX}{_LOCATION} is not")
        return MetricsAccess(None, users_file)
    if store_type == "PEM" and password is not None:
        problem = f"cannot be given with PEM: the password of a PEM key is {PREFIX}ssl.key.password"
        raise ConfigError(f"{PREFIX}{_BESIDE[0]}", problem)
    if store_type != "PEM" and password is None:
        raise ConfigError(f"{PREFIX}{_BESIDE[0]}", f"is missing for the {store_type} file {location}")
    store = Store("keystore", store_type, location, password=password, key_password=key_password)
    return MetricsAccess(store, users_file)


def _text(config: "BrokerConfig", name: str) -> str | None:
    value = config.get(PREFIX + name)
    return None if value is None else str(value)
