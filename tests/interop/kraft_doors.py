"""Apache Kafka 4 in KRaft mode with a listener where users log in over TLS, and StandardAuthorizer to ask.

The users are ``admin``, who may do everything, ``alice``, who gets what a test allows her, and ``bob``, who may
nothing. Each has the password ``of-NAME`` for every mechanism.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.certificates import Authority
from tests.interop.kraft import SETTINGS, KraftBroker, running_kraft
from tests.interop.secured_kafka import OAUTHBEARER, PLAIN, SCRAM, wait_for_login
from tests.interop.side_by_side import pk
from tests.sockets import free_port

USERS: Final = ("admin", "alice", "bob")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class KraftDoors(NamedTuple):
    """The running broker, where users log in, and the file of the authority that they trust."""

    broker: KraftBroker
    address: str
    authority: Path

    def keys(self, user: str, mechanism: str = "SCRAM-SHA-512", word: str | None = None) -> dict[str, str]:
        """A client's configuration, with Java's keys.

        Args:
            word: her password; None: the right one.
        """
        if mechanism == "OAUTHBEARER":
            module = f'{OAUTHBEARER} unsecuredLoginStringClaim_sub="{user}";'
        else:
            kind = PLAIN if mechanism == "PLAIN" else SCRAM
            module = f'{kind} username="{user}" password="{word or f"of-{user}"}";'
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": module,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }


@contextlib.contextmanager
def kraft_doors(directory: Path) -> Iterator[KraftDoors]:
    """Run the broker in a directory."""
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1"])
    (directory / "ca.pem").write_bytes(authority.pem)
    (directory / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    address = f"127.0.0.1:{free_port()}"
    users = " ".join(f'user_{name}="of-{name}"' for name in USERS)
    modules = {"plain": f"{PLAIN} {users};", "oauthbearer": f"{OAUTHBEARER};"}
    modules |= {"scram-sha-256": f"{SCRAM};", "scram-sha-512": f"{SCRAM};"}
    overrides = {
        "listener.security.protocol.map": f"{SETTINGS['listener.security.protocol.map']},USERS:SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **{f"listener.name.users.{name}.sasl.jaas.config": module for name, module in modules.items()},
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": directory / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": directory / "ca.pem",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "delegation.token.secret.key": "of-the-tests",
        "auto.create.topics.enable": "false",
    }
    with running_kraft(directory / "kafka", doors=[f"USERS://{address}"], overrides=overrides) as broker:
        for user in USERS:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                credential = f"{mechanism}=[iterations=4096,password=of-{user}]"
                words = ("--alter", "--user", user, "--add-config", credential)
                pk("configs", "--bootstrap-server", broker.bootstrap, *words)
        doors = KraftDoors(broker, address, directory / "ca.pem")
        # The controller answers before the broker has read of it; the last comes last.
        wait_for_login({"bootstrap.servers": address, **doors.keys(USERS[-1])})
        yield doors
