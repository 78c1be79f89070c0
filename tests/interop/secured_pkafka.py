"""One pkafka broker with the listeners and users of :mod:`tests.interop.secured_kafka`, as far as pkafka has them."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.testing import Broker, running_broker
from tests.interop.secured_kafka import (
    OAUTHBEARER,
    PASSWORD,
    PLAIN,
    QUOTED,
    RENEWAL_MS,
    SCRAM,
    login,
    wait_for_login,
)
from tests.interop.side_by_side import pk
from tests.sockets import free_port

SASL_LISTENERS: Final = ("sasl_plaintext", "renewing")


class SecuredPkafka(NamedTuple):
    """A running broker, and the address of each listener by its name."""

    broker: Broker
    listeners: Mapping[str, str]


@contextlib.contextmanager
def secured_pkafka(
    directory: Path, *, overrides: Mapping[str, object] | None = None
) -> Iterator[SecuredPkafka]:
    """The broker, with users alice and bob, of whom alice has :data:`PASSWORD` for every mechanism."""
    ports = {name: free_port() for name in SASL_LISTENERS}
    with running_broker(directory, {**sasl_settings(ports), **(overrides or {})}) as broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            credential = f"{mechanism}=[iterations=4096,password={PASSWORD}]"
            server = ("--bootstrap-server", broker.bootstrap)
            pk("configs", *server, "--alter", "--user", "alice", "--add-config", credential)
        listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        sasl = {"bootstrap.servers": listeners["sasl_plaintext"], "security.protocol": "SASL_PLAINTEXT"}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            wait_for_login({**sasl, **login(mechanism)})
        yield SecuredPkafka(broker, {**listeners, "plaintext": broker.bootstrap})


def sasl_settings(
    ports: Mapping[str, int], mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
) -> dict[str, object]:
    """The settings of listeners where clients log in.

    Args:
        ports: by the listener's name.
        mechanisms: as ``sasl.enabled.mechanisms``.
    """
    names = ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items())
    users = f'user_alice="{QUOTED}" user_bob="bobs"'
    modules = {"PLAIN": f"{PLAIN} {users};", "OAUTHBEARER": f"{OAUTHBEARER};"}
    modules |= {"SCRAM-SHA-256": f"{SCRAM};", "SCRAM-SHA-512": f"{SCRAM};"}
    settings: dict[str, object] = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{names}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{name.upper()}:SASL_PLAINTEXT" for name in ports),
        "sasl.enabled.mechanisms": mechanisms,
        "listener.name.renewing.connections.max.reauth.ms": RENEWAL_MS,
    }
    for name in ports:
        for mechanism in mechanisms.split(","):
            settings[f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config"] = modules[mechanism]
    return settings
