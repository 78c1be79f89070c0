"""Logins by Kerberos at Apache Kafka and at pkafka, by both makes' clients, with a real KDC: the same verdicts."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pkafka.testing import Broker, BrokerStartError
from tests import kdc as kerberos
from tests.cluster import ClusterBroker
from tests.forked_commands import commands
from tests.interop.kafka import JAVA_SOURCES, KafkaBroker, jars, java_program, running_kafka
from tests.kdc import REALM, Kdc, running_kdc
from tests.secured_cluster import SecuredCluster, check_replication
from tests.sockets import free_port
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule required"
_RULES: Final = r"RULE:[1:$1](nobody)s/y/@y/,RULE:[1:$1@$0](bob@.*)s/@.*//U,DEFAULT"

_RENEWAL_MS: Final = 2_000

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(300),
    pytest.mark.skipif(kerberos.missing() is not None, reason=str(kerberos.missing())),
]


class Realm(NamedTuple):
    """The KDC, with the keytabs of a broker and of users."""

    kdc: Kdc
    broker: Path
    alice: Path
    bob: Path
    late: Path

    def jaas(self, user: str, keytab: Path) -> str:
        """The login module of a client."""
        return f'{_MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{user}@{REALM}";'


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        for name in ("kafka/localhost", "other/localhost", "alice", "bob", "late", "changed", "nobody"):
            kdc.add(name)
        broker = kdc.keytab("broker.keytab", "kafka/localhost")
        yield Realm(kdc, broker, *(kdc.keytab(f"{name}.keytab", name) for name in ("alice", "bob", "late")))


def _settings(realm: Realm, port: int) -> dict[str, object]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://localhost:{port}",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": _RULES,
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": realm.jaas("kafka/localhost", realm.broker),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:BOB",
        "connections.max.reauth.ms": _RENEWAL_MS,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
    }


@pytest.fixture(scope="module", params=["kafka", "pkafka"])
def address(
    request: pytest.FixtureRequest, realm: Realm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Of the listener of a broker of either make."""
    port = free_port()
    directory = tmp_path_factory.mktemp(request.param)
    settings = _settings(realm, port)
    if request.param == "kafka":
        flags = (f"-Djava.security.krb5.conf={realm.kdc.config}", "-XX:TieredStopAtLevel=1")
        with running_kafka(directory, overrides=settings, jvm_flags=flags):
            yield f"localhost:{port}"
    else:
        broker = Broker(directory, settings, environment=realm.kdc.environment)
        try:
            broker.start()
            yield f"localhost:{port}"
        finally:
            broker.kill()


class Client(NamedTuple):
    """Runs tools of either make with a client's settings."""

    realm: Realm
    directory: Path
    address: str

    def file(self, jaas: str, **more: str) -> Path:
        keys = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": jaas,
            "default.api.timeout.ms": "15000",
            "request.timeout.ms": "10000",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        path = self.directory / "client.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return path

    def ours(self, *words: object, tool: str = "topics") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.realm.kdc.environment}
        given = ["--bootstrap-server", self.address, *map(str, words)]
        return commands.run(
            tool, given if tool in ("topics", "doctor") else given[2:], environment=environment
        )

    def theirs(
        self, class_path: str, *words: object, tool: str = "TopicCommand"
    ) -> subprocess.CompletedProcess[str]:
        server = ("--bootstrap-server", self.address) if tool == "TopicCommand" else ()
        command = [
            *(java_program("java"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Djava.security.krb5.conf={self.realm.kdc.config}",
            f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}",
            *("-cp", class_path, f"org.apache.kafka.tools.{tool}"),
            *(*server, *map(str, words)),
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)


@pytest.fixture
def client(realm: Realm, tmp_path: Path, address: str) -> Client:
    return Client(realm, tmp_path, address)


def test_a_keytab_lets_a_client_in(client: Client) -> None:
    file = client.file(client.realm.jaas("alice", client.realm.alice))
    done = client.ours("--command-config", file, "--create", "--topic", "of-alice")
    assert (done.returncode, done.stdout) == (0, "Created topic of-alice.\n"), done


def test_tickets_of_kinit_let_a_client_in(client: Client, kafka_classpath: str) -> None:
    cache = client.realm.kdc.tickets("alices-tickets", f"alice@{REALM}", client.realm.alice)
    file = client.file(f'{_MODULE} useTicketCache=true ticketCache="{cache.removeprefix("FILE:")}";')
    words = ("--command-config", file, "--create", "--topic")
    assert client.ours(*words, "by-kinit").returncode == 0
    assert client.theirs(kafka_classpath, *words, "by-kinit-too").returncode == 0
    listed = {client.ours("--command-config", file, "--list").stdout}
    listed.add(client.theirs(kafka_classpath, "--command-config", file, "--list").stdout)
    assert len(listed) == 1, listed


@pytest.mark.parametrize(("user", "is_allowed"), [("bob", True), ("late", False)])
def test_rules_say_who_a_principal_is(
    client: Client, kafka_classpath: str, user: str, is_allowed: bool
) -> None:
    """Only a rule makes bob the BOB that may do everything; late is itself."""
    keytab = client.realm.bob if user == "bob" else client.realm.late
    file = client.file(client.realm.jaas(user, keytab))
    words = ("--command-config", file, "--create", "--topic")
    for done in (client.ours(*words, f"of-{user}"), client.theirs(kafka_classpath, *words, f"of-{user}-too")):
        assert (done.returncode == 0) is is_allowed, done
        assert ("Authorization failed" in done.stdout + done.stderr) is not is_allowed, done


def test_a_ticket_for_another_service(client: Client, kafka_classpath: str) -> None:
    """The KDC gives it; the broker has no key for it."""
    file = client.file(client.realm.jaas("alice", client.realm.alice), sasl_kerberos_service_name="other")
    done = client.ours("--command-config", file, "--list")
    said = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    assert (done.returncode, said in done.stderr) == (4, True), done
    theirs = client.theirs(kafka_classpath, "--command-config", file, "--list")
    assert (theirs.returncode, said in theirs.stdout + theirs.stderr) == (1, True), theirs


def test_a_service_that_the_kdc_does_not_know(client: Client, kafka_classpath: str) -> None:
    file = client.file(client.realm.jaas("alice", client.realm.alice), sasl_kerberos_service_name="nobody")
    done = client.ours("--command-config", file, "--list")
    assert (done.returncode, "no Kerberos ticket for nobody@localhost" in done.stderr) == (4, True), done
    assert "sasl.kerberos.service.name" in done.stderr
    assert client.theirs(kafka_classpath, "--command-config", file, "--list").returncode == 1


def test_a_keytab_with_an_old_key(client: Client, kafka_classpath: str) -> None:
    kdc = client.realm.kdc
    old = client.directory / "old.keytab"
    old.write_bytes(kdc.keytab("changed.keytab", "changed").read_bytes())
    kdc.change_key("changed")
    file = client.file(client.realm.jaas("changed", old))
    done = client.ours("--command-config", file, "--list")
    assert (done.returncode, "no Kerberos ticket for kafka@localhost" in done.stderr) == (4, True), done
    assert client.theirs(kafka_classpath, "--command-config", file, "--list").returncode == 1


def test_tickets_that_have_ended(client: Client, kafka_classpath: str) -> None:
    kdc = client.realm.kdc
    cache = kdc.tickets("short", f"alice@{REALM}", client.realm.alice, "-l", "1s").removeprefix("FILE:")
    wait_for(lambda: not kdc.has_tickets(cache), what="the end of the tickets")
    file = client.file(f'{_MODULE} useTicketCache=true ticketCache="{cache}";')
    done = client.ours("--command-config", file, "--list")
    assert (done.returncode, "no Kerberos ticket for kafka@localhost" in done.stderr) == (4, True), done
    assert "run kinit" in done.stderr
    assert client.theirs(kafka_classpath, "--command-config", file, "--list").returncode == 1


@pytest.mark.parametrize(("service", "verdict"), [("kafka", "ok"), ("other", "failed")])
def test_the_doctor_names_the_stage(client: Client, service: str, verdict: str) -> None:
    file = client.file(client.realm.jaas("alice", client.realm.alice), sasl_kerberos_service_name=service)
    done = client.ours("--security", "--command-config", file, tool="doctor")
    (login,) = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["login"]][:1]
    assert login[1] == verdict, done


def test_whom_else_a_client_would_act_for_does_not_count(client: Client) -> None:
    """The authorization id is one's own principal in Kafka's clients; another changes nothing."""
    file = client.file(client.realm.jaas("late", client.realm.late))
    program = (
        "import sys\n"
        "from pkafka.security import kerberos\n"
        "real = kerberos.client_context\n"
        f"kerberos.client_context = lambda *all: (real(*all)[0], 'alice@{REALM}')\n"
        "from pkafka.cli.topics import main\n"
        "main()\n"
    )
    words = ("--bootstrap-server", client.address, "--command-config", str(file), "--create", "--topic", "x")
    environment = {**os.environ, **client.realm.kdc.environment}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Authorization failed" in done.stderr) == (4, True), done


def test_a_client_of_kafka_0_9_begins_with_its_ticket(client: Client) -> None:
    """It names no mechanism, its tokens have no requests around them, and the last one has no answer."""
    options = f"'alice@{REALM}', '{client.realm.alice}', True, False, '', ''"
    program = (
        "import socket, sys\n"
        "from pkafka.security.kerberos import Krb5Options, client_context\n"
        "from pkafka.security.sasl.gssapi import GssapiExchange\n"
        f"exchange = GssapiExchange(*client_context(Krb5Options({options}), 'kafka', 'localhost'))\n"
        "connection = socket.create_connection(('localhost', int(sys.argv[1])), 20)\n"
        "answers, token = connection.makefile('rb'), exchange.first()\n"
        "connection.sendall(len(token).to_bytes(4) + token)\n"
        "for _ in range(2):\n"
        "    token = exchange.answer(answers.read(int.from_bytes(answers.read(4))))\n"
        "    connection.sendall(len(token).to_bytes(4) + token)\n"
        "connection.sendall(bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 9, 255, 255]))\n"
        "print(answers.read(8)[4:])\n"
    )
    environment = {**os.environ, **client.realm.kdc.environment}
    command = [sys.executable, "-c", program, client.address.rpartition(":")[2]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "b'\\x00\\x00\\x00\\t'\n", done


def test_a_principal_that_no_rule_makes_a_user(client: Client, kafka_classpath: str) -> None:
    keytab = client.realm.kdc.keytab("nobody.keytab", "nobody")
    file = client.file(client.realm.jaas("nobody", keytab))
    done = client.ours("--command-config", file, "--list")
    # Apache Kafka says that the login succeeded, and closes the connection at the first request.
    assert done.returncode in (3, 4), done
    assert client.theirs(kafka_classpath, "--command-config", file, "--list").returncode == 1


def test_a_new_key_of_the_broker(client: Client) -> None:
    """A broker reads its keytab anew for each ticket."""
    file = client.file(client.realm.jaas("alice", client.realm.alice))
    client.realm.kdc.change_key("kafka/localhost")
    refused = client.ours("--command-config", file, "--list")
    assert (refused.returncode, "does not let this client in" in refused.stderr) == (4, True), refused
    client.realm.kdc.keytab(client.realm.broker.name, "kafka/localhost")
    done = client.ours("--command-config", file, "--list")
    assert done.returncode == 0, done


@pytest.mark.parametrize("name", ["kafka/localhost", "kafka/other"])
def test_a_keytab_that_is_of_no_use_stops_the_start(realm: Realm, tmp_path: Path, name: str) -> None:
    keytab = tmp_path / "missing.keytab" if name == "kafka/localhost" else realm.broker
    key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    settings = {**_settings(realm, free_port()), key: realm.jaas(name, keytab)}
    broker = Broker(tmp_path, settings, environment=realm.kdc.environment)
    with pytest.raises(BrokerStartError, match=rf"(?s){key}.*(?:not found|No key table entry)"):
        broker.start()


class KerberosCluster(SecuredCluster):
    """Brokers of both kinds that log in at each other by tickets of one realm."""

    def __init__(self, realm: Realm, directory: Path, zookeeper: str, kinds: str) -> None:
        self._realm = realm
        jaas = realm.jaas("kafka/localhost", realm.broker)
        settings = {
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": jaas,
        }
        super().__init__(directory, zookeeper, "GSSAPI", kinds, settings)

    def make_broker(self, kind: str, directory: Path, settings: Mapping[str, object]) -> ClusterBroker:
        """One broker in the realm, at a name that its principal has."""
        listeners = str(settings["listeners"]).replace(
            "SASL_PLAINTEXT://127.0.0.1", "SASL_PLAINTEXT://localhost"
        )
        settings = {**settings, "listeners": listeners}
        if kind == "pkafka":
            return Broker(directory, settings, environment=self._realm.kdc.environment)
        flags = (f"-Djava.security.krb5.conf={self._realm.kdc.config}", "-XX:TieredStopAtLevel=1")
        return KafkaBroker(
            jars("kafka"), self.zookeeper_connect, directory, overrides=settings, heap="256m", jvm_flags=flags
        )


@pytest.mark.parametrize("kinds", ["ppp", "kpp"])
def test_brokers_log_in_at_each_other(realm: Realm, zookeeper: ZooKeeper, tmp_path: Path, kinds: str) -> None:
    with KerberosCluster(realm, tmp_path, zookeeper.connect, kinds) as cluster:
        check_replication(cluster)


def test_sessions_are_renewed(client: Client, kafka_classpath: str) -> None:
    """Both makes' producers go on for longer than a login counts."""
    file = client.file(client.realm.jaas("alice", client.realm.alice))
    assert client.ours("--command-config", file, "--create", "--topic", "renewed").returncode == 0
    file = client.file(client.realm.jaas("alice", client.realm.alice), bootstrap_servers=client.address)
    numbers = ("--num-records", "100", "--record-size", "10", "--throughput", "20")
    words = ("--topic", "renewed", *numbers, "--producer.config", file)
    for done in (
        client.ours(*words, tool="producer_perf_test"),
        client.theirs(kafka_classpath, *words, tool="ProducerPerformance"),
    ):
        assert (done.returncode, "100 records sent" in done.stdout) == (0, True), done
        assert "xpired" not in done.stderr, done
