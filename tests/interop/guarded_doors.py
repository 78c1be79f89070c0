"""A broker of each system with a listener for each secured way in, and rules for the user who comes by them.

By whatever way the client comes, it is ``User:alice``: by a password, a token, or a certificate whose name is mapped.
She may use what is called :data:`OPEN`, and nothing else. The test itself comes in by the plain listener and may do
everything.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.testing import running_broker
from tests.acl_rules import ANONYMOUS, AUTHORIZER
from tests.certificates import Authority
from tests.interop.kafka import running_kafka
from tests.interop.secured_kafka import OAUTHBEARER, PLAIN, SCRAM, wait_for_login
from tests.interop.side_by_side import pk
from tests.sockets import free_port

USER: Final = "alice"
WORD: Final = "alices"
"""Her password."""
OPEN: Final = "open"
"""The prefix of topics, groups and transactional ids that she may use."""
SHUT: Final = "shut"
"""The topic, the group and the transactional id that she may not."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROTOCOLS: Final = {"sasl_plaintext": "SASL_PLAINTEXT", "sasl_ssl": "SASL_SSL", "mtls": "SSL"}
_RULES: Final = (
    ("--topic", "Read", "Write", "Describe"),
    ("--group", "Read", "Describe"),
    ("--transactional-id", "Write", "Describe"),
)


class Way(NamedTuple):
    """How a client comes in."""

    listener: str
    mechanism: str = ""

    @property
    def protocol(self) -> str:
        """As ``security.protocol``."""
        return _PROTOCOLS[self.listener]

    @property
    def name(self) -> str:
        """For the id of a test."""
        return f"{self.listener} {self.mechanism}".strip()


WAYS: Final = (
    *(Way(listener, mechanism) for listener in ("sasl_plaintext", "sasl_ssl") for mechanism in MECHANISMS),
    Way("mtls"),
)


class Doors(NamedTuple):
    """A running broker of either kind."""

    bootstrap: str
    """Where the test itself comes in."""
    listeners: Mapping[str, str]
    """The address of each listener by its name."""
    files: Path
    """The directory with ``ca.pem`` and ``alice.pem``, her key and certificate."""

    def java(self, way: Way, user: str = USER, password: str = WORD) -> dict[str, object]:
        """The configuration of a client that has Java's keys."""
        keys: dict[str, object] = {
            "bootstrap.servers": self.listeners[way.listener],
            "security.protocol": way.protocol,
        }
        if "SSL" in way.protocol:
            keys |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.files / "ca.pem"}
        if way.listener == "mtls":
            keys |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.files / f"{user}.pem"}
        if way.mechanism == "OAUTHBEARER":
            jaas = f'{OAUTHBEARER} unsecuredLoginStringClaim_sub="{user}";'
        else:
            module = PLAIN if way.mechanism == "PLAIN" else SCRAM
            jaas = f'{module} username="{user}" password="{password}";'
        return keys | ({"sasl.mechanism": way.mechanism, "sasl.jaas.config": jaas} if way.mechanism else {})

    def make(self, *topics: str) -> None:
        """Create topics of one partition."""
        for topic in topics:
            words = ("--create", "--if-not-exists", "--topic", topic, "--partitions", 1)
            pk("topics", "--bootstrap-server", self.bootstrap, *words)


@contextlib.contextmanager
def guarded_doors(directory: Path, settings: Mapping[str, object] | None = None) -> Iterator[Sequence[Doors]]:
    """Run Apache Kafka and pkafka.

    Args:
        directory: gets their files.
        settings: of both, beside listeners and rules.
    """
    files, ports = _certificates(directory), _ports()
    overrides = {**_settings(ports, files), **(settings or {})}
    with (
        running_kafka(directory / "kafka", overrides=overrides) as kafka,
        guarded_pkafka(directory / "ours", settings) as ours,
    ):
        yield _doors(kafka.bootstrap, ports, files), ours


@contextlib.contextmanager
def guarded_pkafka(directory: Path, settings: Mapping[str, object] | None = None) -> Iterator[Doors]:
    """Run pkafka alone, with two workers."""
    files, ports = _certificates(directory), _ports()
    overrides = {**_settings(ports, files), "pkafka.workers": 2, **(settings or {})}
    with running_broker(directory / "broker", overrides) as broker:
        yield _doors(broker.bootstrap, ports, files)


def _ports() -> dict[str, int]:
    return {name: free_port() for name in _PROTOCOLS}


def _doors(bootstrap: str, ports: Mapping[str, int], files: Path) -> Doors:
    _let_in(bootstrap)
    doors = Doors(bootstrap, {name: f"127.0.0.1:{port}" for name, port in ports.items()}, files)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        wait_for_login(doors.java(Way("sasl_plaintext", mechanism)))
    return doors


def _certificates(directory: Path) -> Path:
    files = directory / "files"
    files.mkdir(parents=True)
    authority = Authority()
    (files / "ca.pem").write_bytes(authority.pem)
    for name, hosts in (("broker", ["127.0.0.1"]), (USER, [])):
        signed = authority.signed(name, hosts)
        (files / f"{name}.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    return files


def _let_in(bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        credential = f"{mechanism}=[iterations=4096,password={WORD}]"
        pk("configs", *server, "--alter", "--user", USER, "--add-config", credential)
    for flag, *operations in _RULES:
        what = [word for each in operations for word in ("--operation", each)]
        named = (flag, OPEN, "--resource-pattern-type", "prefixed")
        pk("acls", *server, "--add", "--force", "--allow-principal", f"User:{USER}", *what, *named)


def _settings(ports: Mapping[str, int], files: Path) -> dict[str, object]:
    protocols = ",".join(f"{name.upper()}:{_PROTOCOLS[name]}" for name in ports)
    settings: dict[str, object] = {
        "listeners": ",".join(
            [
                "PLAINTEXT://127.0.0.1:0",
                *(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items()),
            ]
        ),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocols}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files / "ca.pem",
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/",
        "authorizer.class.name": AUTHORIZER,
        "super.users": ANONYMOUS,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 5,
        "group.initial.rebalance.delay.ms": 0,
    }
    modules = {"plain": f'{PLAIN} user_{USER}="{WORD}";', "oauthbearer": f"{OAUTHBEARER};"}
    modules |= {"scram-sha-256": f"{SCRAM};", "scram-sha-512": f"{SCRAM};"}
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, module in modules.items():
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = module
    return settings
