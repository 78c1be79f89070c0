"""Listeners: ``NAME://host:port`` texts to values, and the rules between listeners and advertised listeners.

Binding them is the network's work.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError

if TYPE_CHECKING:
    from pkafka.server.config.broker_config import BrokerConfig

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ENCRYPTED_PROTOCOLS: Final = ("SSL", "SASL_SSL")
SERVED_PROTOCOLS: Final = SECURITY_PROTOCOLS
"""The protocols that this version serves. All others are refused: a listener that ignored its protocol would be
open."""

_ADDRESS: Final = re.compile(r"(?P<name>[^:]+)://\[?(?P<host>[0-9a-zA-Z\-%._:]*?)\]?:(?P<port>-?[0-9]+)")


def address_text(host: str) -> str:
    """A host as it stands before a port: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


class Listener(NamedTuple):
    """One address of a broker. An empty host means every interface; port 0 lets the kernel choose."""

    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host)}:{self.port}"


def parse_listeners(key: str, text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Turn a comma-separated list of addresses into listeners.

    Args:
        key: the configuration key to blame.
        text: its value.
        protocols: listener name to security protocol.

    Raises:
        ConfigError: an address that is not ``NAME://host:port``, or a name without a security protocol.
    """
    listeners = []
    known = {name.upper(): protocol.upper() for name, protocol in protocols.items()}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _ADDRESS.fullmatch(part)
        if match is None:
            problem = f"'{part}' is not an address; wanted is NAME://host:port, several separated by commas"
            raise ConfigError(key, problem, text)
        name, port = match["name"].upper(), int(match["port"])
        if not 0 <= port <= 65535:
            raise ConfigError(key, f"the port of '{part}' is not between 0 and 65535", text)
        protocol = known.get(name)
        if protocol is None:
            problem = (
                f"no security protocol is defined for the listener {name}; the names with one are"
                f" {', '.join(sorted(known))} (listener.security.protocol.map)"
            )
            raise ConfigError(key, problem, text)
        listeners.append(Listener(name, match["host"], port, protocol))
    return tuple(listeners)


def check_listeners(config: "BrokerConfig") -> None:
    """Check listeners and advertised listeners, alone and against each other.

    Raises:
        ConfigError: the first rule that is broken.
    """
    _check_names(config)
    _check_protocols(config)
    listeners, advertised = config.listeners, config.advertised_listeners
    if not listeners:
        raise ConfigError("listeners", "at least one listener must be defined: NAME://host:port", "")
    if not advertised:
        problem = "There must be at least one broker advertised listener."
        raise ConfigError("advertised.listeners", problem, config.get("advertised.listeners"))
    _check_unique("listeners", listeners, str(config.get("listeners")), ports=True)
    _check_unique("advertised.listeners", advertised, str(config.get("advertised.listeners")), ports=False)
    _check_advertised(config)
    _check_inter_broker(config)


def _check_names(config: "BrokerConfig") -> None:
    for key in ("inter.broker.listener.name", "control.plane.listener.name"):
        if config.get(key) == "":
            raise ConfigError(key, "The provided listener name is null or empty string", "")


def _check_protocols(config: "BrokerConfig") -> None:
    key = "listener.security.protocol.map"
    for name, protocol in config.security_protocols.items():
        if protocol.upper() not in SECURITY_PROTOCOLS:
            problem = f"'{protocol}' of {name} is not one of {', '.join(SECURITY_PROTOCOLS)}"
            raise ConfigError(key, problem, config.get(key))
    for listener in config.listeners:
        if listener.security_protocol not in SERVED_PROTOCOLS:
            problem = (
                f"the listener {listener.name} asks for {listener.security_protocol}, and pkafka serves"
                f" {', '.join(SERVED_PROTOCOLS)} only"
            )
            raise ConfigError("listeners", problem, config.get("listeners"))
        if listener.security_protocol in ENCRYPTED_PROTOCOLS:
            from pkafka.server.config.listener_tls import listener_tls  # brings OpenSSL along

            listener_tls(config, listener)


def _check_unique(key: str, listeners: tuple[Listener, ...], text: str, *, ports: bool) -> None:
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(key, "Each listener must have a different name", text)
    taken: dict[int, Listener] = {}
    for listener in listeners if ports else ():
        other = taken.setdefault(listener.port, listener)
        if listener.port and other is not listener and (":" in other.host) == (":" in listener.host):
            raise ConfigError(key, "Each listener must have a different port", text)


def _check_advertised(config: "BrokerConfig") -> None:
    names = {listener.name for listener in config.listeners}
    explicit = config.get("advertised.listeners") is not None
    key = "advertised.listeners" if explicit else "listeners"
    for listener in config.advertised_listeners:
        if listener.name not in names:
            allowed = ", ".join(sorted(names))
            problem = f"the names must be among those in listeners ({allowed}); {listener.name} is not"
            raise ConfigError(key, problem, config.get(key))
        if listener.host == "0.0.0.0":  # noqa: S104 - refused, not bound
            problem = "cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            if not explicit:
                problem = (
                    "clients cannot be sent to the nonroutable meta-address 0.0.0.0; say where they find the broker:"
                    f" advertised.listeners={listener.name}://HOST:{listener.port}"
                )
            raise ConfigError(key, problem, config.get(key))


def _check_inter_broker(config: "BrokerConfig") -> None:
    key = "inter.broker.listener.name"
    if config.get(key) and "security.inter.broker.protocol" in config.originals:
        problem = f"Only one of {key} and security.inter.broker.protocol should be set."
        raise ConfigError(key, problem, config.get(key))
    names = {listener.name for listener in config.advertised_listeners}
    if config.inter_broker_listener_name not in names:
        problem = (
            "must be a listener name defined in advertised.listeners. The valid options based on currently"
            f" configured listeners are {','.join(sorted(names))}"
        )
        raise ConfigError(key, problem, config.inter_broker_listener_name)
    early, bound = config.get("early.start.listeners"), {listener.name for listener in config.listeners}
    assert early is None or isinstance(early, str)
    for name in filter(None, (part.strip() for part in (early or "").split(","))):
        if name not in bound:
            problem = f"contains listener {name}, but this is not contained in listeners or controller.listener.names"
            raise ConfigError("early.start.listeners", problem, early)
    plane = config.control_plane_listener_name
    if plane is not None and (plane not in names or plane == config.inter_broker_listener_name):
        problem = "must be a listener name defined in advertised.listeners, other than the inter-broker one"
        raise ConfigError("control.plane.listener.name", problem, plane)
