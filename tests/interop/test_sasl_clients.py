"""Every client at hand, by every mechanism: let in with the right password, refused with a wrong one, as by Kafka."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from aiokafka.abc import AbstractTokenProvider as AioKafkaTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from pkafka.testing import running_broker
from tests.bearer_tokens import claims, unsigned
from tests.interop.conftest import JavaTool
from tests.interop.kafka import running_kafka
from tests.interop.secured_kafka import OAUTHBEARER, PLAIN, SCRAM, wait_for_user
from tests.interop.secured_pkafka import sasl_settings
from tests.interop.side_by_side import pk
from tests.sockets import free_port
from tests.talk import wait_for

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = ("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER")
CONFIGS: Final = "kafka.admin.ConfigCommand"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"


class Login(NamedTuple):
    """Where and how a client logs in."""

    address: str
    mechanism: str
    password: str

    @property
    def scope(self) -> str:
        """What a token of this client is for, in place of a password."""
        return "right" if self.password == "carols" else "wrong"

    @property
    def token(self) -> str:
        """A token without a signature."""
        return unsigned(claims(sub="carol", scope=[self.scope]))


class Sides(NamedTuple):
    """The addresses of Apache Kafka and of pkafka at which clients log in."""

    kafka: str
    pkafka: str


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    directory, ports = tmp_path_factory.mktemp("clients"), (free_port(), free_port())
    own, one = (plain_users(sasl_settings({"clients": port}, ",".join(MECHANISMS))) for port in ports)
    with (
        running_kafka(directory / "kafka", overrides=own) as kafka,
        running_broker(directory / "pkafka", one) as pkafka,
    ):
        for broker in (kafka, pkafka):
            for mechanism in SCRAM_MECHANISMS:
                credential = f"{mechanism}=[iterations=4096,password=carols]"
                server = ("--bootstrap-server", broker.bootstrap)
                pk("configs", *server, "--alter", "--user", "carol", "--add-config", credential)
                pk("topics", *server, "--create", "--if-not-exists", "--topic", "there")
        for port in ports:
            for mechanism in SCRAM_MECHANISMS:
                wait_for_user(f"127.0.0.1:{port}", mechanism, "carol", "carols")
        yield Sides(*(f"127.0.0.1:{port}" for port in ports))


def plain_users(settings: dict[str, object]) -> dict[str, object]:
    return {
        **settings,
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} user_carol="carols";',
        # Apache Kafka wants a token of its own where the module has any option.
        "listener.name.clients.oauthbearer.sasl.jaas.config": (
            f'{OAUTHBEARER} unsecuredValidatorRequiredScope="right" unsecuredLoginStringClaim_sub="broker";'
        ),
        "offsets.topic.replication.factor": 1,
    }


class KafkaPythonTokens(KafkaPythonTokenProvider):  # type: ignore[misc]
    """Gives kafka-python its token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class AioKafkaTokens(AioKafkaTokenProvider):  # type: ignore[misc]
    """Gives aiokafka its token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def by_confluent(login: Login) -> bool:
    said: list[str] = []
    keys: dict[str, Any] = {
        "bootstrap.servers": login.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
        "error_cb": lambda error: said.append(error.name()),
    }
    if login.mechanism == "OAUTHBEARER":
        keys["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
        keys["sasl.oauthbearer.config"] = f"principal=carol scope={login.scope}"
    else:
        keys |= {"sasl.username": "carol", "sasl.password": login.password}
    admin = AdminClient(keys)
    with contextlib.suppress(KafkaException):
        return "there" in admin.list_topics(timeout=60 if login.password == "carols" else 2).topics

    def is_told() -> bool:
        admin.poll(0.1)
        return "_AUTHENTICATION" in said

    wait_for(is_told, timeout_s=60, what="the refusal")
    return False


def by_kafka_python(login: Login) -> bool:
    with contextlib.suppress(KafkaPythonError):
        admin = KafkaAdminClient(
            bootstrap_servers=login.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=login.mechanism,
            sasl_oauth_token_provider=KafkaPythonTokens(login.token),
            sasl_plain_username="carol",
            sasl_plain_password=login.password,
            bootstrap_timeout_ms=60_000 if login.password == "carols" else 2_000,
        )
        try:
            return "there" in admin.list_topics()
        finally:
            admin.close()
    return False


def by_aiokafka(login: Login) -> bool:
    async def ask() -> bool:
        admin = AIOKafkaAdminClient(
            bootstrap_servers=login.address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=login.mechanism,
            sasl_oauth_token_provider=AioKafkaTokens(login.token),
            sasl_plain_username="carol",
            sasl_plain_password=login.password,
        )
        try:
            await admin.start()
            return "there" in await admin.list_topics()
        except AioKafkaError:
            return False
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(ask(), 60))


CLIENTS: Final[Mapping[str, Callable[[Login], bool]]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


@pytest.mark.usefixtures("sockets_of_kafka_python")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_pythons(sides: Sides, client: str, mechanism: str) -> None:
    ask = CLIENTS[client]
    for address in sides:
        assert ask(Login(address, mechanism, "carols"))
        assert not ask(Login(address, mechanism, "wrong"))


@pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat: sudo apt-get install -y kcat")
@pytest.mark.parametrize("mechanism", MECHANISMS[:-1])
def test_kcat_whose_librdkafka_may_be_older(sides: Sides, mechanism: str) -> None:
    for address in sides:
        assert by_kcat(Login(address, mechanism, "carols"))
        assert not by_kcat(Login(address, mechanism, "wrong"))


def by_kcat(login: Login) -> bool:
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
        "sasl.username": "carol",
        "sasl.password": login.password,
    }
    flags = [word for key, value in keys.items() for word in ("-X", f"{key}={value}")]
    done = subprocess.run(
        ["kcat", "-b", login.address, *flags, "-L", "-m", "60" if login.password == "carols" else "2"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode == 0 and 'topic "there"' in done.stdout


def for_java(login: Login, user: str = "carol") -> str:
    """The file of a client's settings."""
    if login.mechanism == "OAUTHBEARER":
        scope = f'unsecuredLoginListClaim_scope="|{login.scope}"'
        jaas = f'{OAUTHBEARER} unsecuredLoginStringClaim_sub="{user}" {scope};'
    else:
        module = PLAIN if login.mechanism == "PLAIN" else SCRAM
        jaas = f'{module} username="{user}" password="{login.password}";'
    return f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={login.mechanism}\nsasl.jaas.config={jaas}\n"


def test_a_password_that_a_tool_of_javas_sets(sides: Sides, java_tool: JavaTool, tmp_path: Path) -> None:
    admin, dave = tmp_path / "admin.properties", tmp_path / "dave.properties"
    admin.write_text(for_java(Login("", "PLAIN", "carols")))
    dave.write_text(for_java(Login("", "SCRAM-SHA-512", "daves"), "dave"))
    for address in sides:

        def run(tool: str, file: Path, *words: str, address: str = address) -> int:
            server = ("--bootstrap-server", address, "--command-config", str(file))
            return java_tool(tool, *server, *words).returncode

        user = ("--alter", "--entity-type", "users", "--entity-name", "dave")
        assert run(TOPICS, dave, "--list") == 1
        assert (
            run(CONFIGS, admin, *user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=daves]") == 0
        )
        wait_for(lambda run=run: run(TOPICS, dave, "--list") == 0)  # type: ignore[misc]
        assert run(CONFIGS, admin, *user, "--delete-config", "SCRAM-SHA-512") == 0
        wait_for(lambda run=run: run(TOPICS, dave, "--list") == 1)  # type: ignore[misc]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_tool_of_javas(sides: Sides, java_tool: JavaTool, tmp_path: Path, mechanism: str) -> None:
    answers: list[Any] = []
    for password in ("carols", "wrong"):
        file = tmp_path / f"{password}.properties"
        file.write_text(for_java(Login("", mechanism, password)))
        for address in sides:
            done = java_tool(TOPICS, "--bootstrap-server", address, "--list", "--command-config", str(file))
            said = (done.stdout + done.stderr).splitlines()
            lines = [line for line in said if line.startswith("Error while executing") or line == "there"]
            answers.append((done.returncode, lines))
    right, wrong = answers[:2], answers[2:]
    assert right == [(0, ["there"])] * 2
    assert wrong[0] == wrong[1]
    assert wrong[0][0] == 1
    reason = "insufficient_scope" if mechanism == "OAUTHBEARER" else "Authentication failed"
    assert reason in wrong[0][1][0]
