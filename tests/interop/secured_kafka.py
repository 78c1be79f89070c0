"""One Apache Kafka broker with a listener for each way of being let in, and what clients need for each."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.clients.admin import Admin
from pkafka.clients.errors import AuthenticationError
from tests.certificates import Authority, Signed
from tests.interop.kafka import KafkaBroker, running_kafka
from tests.interop.side_by_side import pk
from tests.sockets import free_port
from tests.talk import wait_for

PACKAGE: Final = "org.apache.kafka.common.security"
PLAIN: Final = f"{PACKAGE}.plain.PlainLoginModule required"
SCRAM: Final = f"{PACKAGE}.scram.ScramLoginModule required"
OAUTHBEARER: Final = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required"
PASSWORD: Final = 'se"c\\ret=,é'
"""With signs that JAAS texts and SCRAM have to escape."""
QUOTED: Final = 'se\\"c\\\\ret=,é'
RENEWAL_MS: Final = 1_500
_MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"


class SecuredKafka(NamedTuple):
    """A running broker, the certificates, and the address of each listener by its name."""

    broker: KafkaBroker
    authority: Authority
    client: Signed
    directory: Path
    listeners: Mapping[str, str]

    @property
    def truststore(self) -> dict[str, object]:
        """Keys by which a client trusts the broker."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "ca.pem")}

    def of(self, listener: str, **more: object) -> dict[str, object]:
        """A client's configuration for a listener, without the login."""
        protocol = {"mtls": "SSL", "renewing": "SASL_PLAINTEXT"}.get(listener, listener.upper())
        keys: dict[str, object] = {
            "bootstrap.servers": self.listeners[listener],
            "security.protocol": protocol,
        }
        if "SSL" in protocol:
            keys |= self.truststore
        return keys | {key.replace("_", "."): value for key, value in more.items()}


def login(mechanism: str, user: str = "alice", password: str = QUOTED) -> dict[str, object]:
    """Keys by which a client logs in."""
    if mechanism == "OAUTHBEARER":
        jaas = f'{OAUTHBEARER} unsecuredLoginStringClaim_sub="{user}";'
    else:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        jaas = f'{module} username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def wait_for_user(address: str, mechanism: str, user: str = "alice", password: str = QUOTED) -> None:
    """Wait until a listener lets a user in, whose credential its broker hears of behind the answer to its change.

    Args:
        address: of a listener with SASL_PLAINTEXT.
        mechanism: one of SCRAM.
        user, password: as in a JAAS text.
    """
    at = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT"}
    wait_for_login({**at, **login(mechanism, user, password)})


def wait_for_login(keys: Mapping[str, object]) -> None:
    """Wait until a broker knows a password: Apache Kafka hears of a new one by a note, after it has answered."""

    def is_let_in() -> bool:
        try:
            with Admin(dict(keys)) as admin:
                return bool(admin.describe_cluster().brokers)
        except AuthenticationError:
            return False

    # Several times: each connection may come to another worker.
    wait_for(lambda: all(is_let_in() for _ in range(4)), what="the login")


@contextlib.contextmanager
def secured_kafka(
    directory: Path, *, overrides: Mapping[str, object] | None = None
) -> Iterator[SecuredKafka]:
    """The broker, with users alice and bob, of whom alice has :data:`PASSWORD` for every mechanism."""
    authority = Authority()
    names = ("ssl", "mtls", "sasl_plaintext", "sasl_ssl", "renewing")
    ports = {name: free_port() for name in names}
    directory.mkdir(parents=True, exist_ok=True)
    files = _certificates(directory, authority)
    with running_kafka(directory, overrides={**_settings(ports, files), **(overrides or {})}) as broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            credential = f"{mechanism}=[iterations=4096,password={PASSWORD}]"
            server = ("--bootstrap-server", broker.bootstrap)
            pk("configs", *server, "--alter", "--user", "alice", "--add-config", credential)
            wait_for_user(f"127.0.0.1:{ports['sasl_plaintext']}", mechanism)
        listeners = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        client = authority.signed("client")
        yield SecuredKafka(broker, authority, client, directory, {**listeners, "plaintext": broker.bootstrap})


def _certificates(directory: Path, authority: Authority) -> dict[str, Path]:
    files = {"ca": directory / "ca.pem", "broker": directory / "broker.pem"}
    server = authority.signed("broker", ["127.0.0.1"])
    files["ca"].write_bytes(authority.pem)
    files["broker"].write_bytes(server.key_pem() + server.chain_pem)
    return files


def _settings(ports: Mapping[str, int], files: Mapping[str, Path]) -> dict[str, object]:
    names = ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items())
    users = f'user_alice="{QUOTED}" user_bob="bobs"'
    settings: dict[str, object] = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,{names}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SSL:SSL,MTLS:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,RENEWING:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": _MECHANISMS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files["broker"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files["ca"],
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.renewing.connections.max.reauth.ms": RENEWAL_MS,
        "delegation.token.secret.key": "of-the-tests",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
    }
    for listener in ("sasl_plaintext", "sasl_ssl", "renewing"):
        modules = {"plain": f"{PLAIN} {users};", "oauthbearer": f"{OAUTHBEARER};"}
        modules |= {"scram-sha-256": f"{SCRAM};", "scram-sha-512": f"{SCRAM};"}
        for mechanism, module in modules.items():
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = _as_property(module)
    return settings


def _as_property(text: str) -> str:
    """As a value in a file of Java's properties: ASCII, with backslashes escaped."""
    escaped = text.replace("\\", "\\\\")
    return "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in escaped)
