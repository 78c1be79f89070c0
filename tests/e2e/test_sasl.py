"""Clients log in at a broker: who is let in, what the others hear, and what a login has to do with their requests."""

import contextlib
import random
import socket
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import psutil
import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ConfigResource, ResourceType
from pkafka.clients.admin.scram import ScramDeletion, ScramUpsertion
from pkafka.clients.config import ProducerConfig
from pkafka.clients.errors import AuthenticationError
from pkafka.clients.producer import Producer
from pkafka.net.scram import ScramMechanism
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.testing import Broker
from tests.e2e.conftest import WORKERS
from tests.interop.secured_kafka import PASSWORD, PLAIN, QUOTED, SCRAM, login
from tests.raw_client import ClosedByBroker, RawClient, batch, create_topic, produce_request, produce_to
from tests.sockets import free_port
from tests.talk import good, wait_for

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
FAILURE_DELAY_MS: Final = 150
RENEWAL_MS: Final = 1_500
LASTING_MS: Final = 600_000
"""Of sessions that are renewed when a test says so, and end in none."""


@pytest.fixture(scope="module")
def ports() -> Mapping[str, int]:
    return {"sasl_plaintext": free_port(), "renewing": free_port(), "lasting": free_port()}


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker_settings(ports: Mapping[str, int], metrics_port: int) -> dict[str, object]:
    settings: dict[str, object] = {
        "pkafka.workers": WORKERS,
        "pkafka.metrics.port": metrics_port,
        "listeners": "PLAINTEXT://127.0.0.1:0,"
        + ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,RENEWING:SASL_PLAINTEXT,LASTING:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": FAILURE_DELAY_MS,
        "listener.name.renewing.connections.max.reauth.ms": RENEWAL_MS,
        "listener.name.lasting.connections.max.reauth.ms": LASTING_MS,
        "sasl.server.max.receive.size": 20_000,
    }
    for name in ports:
        prefix = f"listener.name.{name}"
        users = f'user_alice="{QUOTED}" user_bob="bobs"'
        settings[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN} {users};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{SCRAM};"
    return settings


@pytest.fixture(scope="module", autouse=True)
def alice(broker: Broker | None, address: str) -> None:
    """A user with a password for each mechanism."""
    set_password(address, "alice", PASSWORD)


def set_password(address: str, user: str, password: str) -> None:
    with Admin({"bootstrap.servers": address}) as admin:
        upsertions = [
            ScramUpsertion(user=user, mechanism=mechanism, password=password.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        assert admin.alter_user_scram_credentials(upsertions) == {user: None}


@pytest.fixture
def client(ports: Mapping[str, int]) -> Iterator[RawClient]:
    """A connection to the listener where clients have to log in."""
    with RawClient(f"127.0.0.1:{ports['sasl_plaintext']}") as client:
        yield client


def keys(ports: Mapping[str, int], listener: str = "sasl_plaintext", **more: Any) -> dict[str, object]:
    return {
        "bootstrap.servers": f"127.0.0.1:{ports[listener]}",
        "security.protocol": "SASL_PLAINTEXT",
        **more,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_lets_a_client_in_and_no_other(ports: Mapping[str, int], mechanism: str) -> None:
    with Admin({**keys(ports), **login(mechanism)}) as admin:
        assert [broker.port for broker in admin.describe_cluster().brokers] == [ports["sasl_plaintext"]]
    for user, password in (("alice", "wrong"), ("nobody", QUOTED)):
        begun_s = time.monotonic()
        with (
            pytest.raises(AuthenticationError),
            Admin({**keys(ports), **login(mechanism, user, password)}) as admin,
        ):
            admin.describe_cluster()
        assert time.monotonic() - begun_s >= FAILURE_DELAY_MS / 1_000


def test_a_password_counts_from_the_moment_it_is_set(ports: Mapping[str, int], address: str) -> None:
    carol = {**keys(ports), **login("SCRAM-SHA-256", "carol", "first")}
    set_password(address, "carol", "first")
    connected = Admin(carol)
    wait_for(lambda: connected.describe_cluster().brokers)
    set_password(address, "carol", "second")

    def lets_in(password: str) -> bool:
        try:
            with Admin({**carol, **login("SCRAM-SHA-256", "carol", password)}) as admin:
                return bool(admin.describe_cluster().brokers)
        except AuthenticationError:
            return False

    wait_for(lambda: lets_in("second") and not lets_in("first"))
    with Admin({"bootstrap.servers": address}) as admin:
        gone = [ScramDeletion(user="carol", mechanism=ScramMechanism.SCRAM_SHA_256)]
        assert admin.alter_user_scram_credentials(gone) == {"carol": None}
    wait_for(lambda: not lets_in("second"))
    # As in Kafka, the client that is in stays.
    with connected:
        assert connected.describe_cluster().brokers


def test_a_mechanism_that_a_listener_does_not_have(client: RawClient) -> None:
    answer = client.call(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    assert (answer.error_code, answer.mechanisms) == (33, [*MECHANISMS])
    assert client.is_closed()


def test_nothing_but_a_login_is_served(client: RawClient) -> None:
    with pytest.raises(ClosedByBroker):
        client.call(MetadataRequest(topics=[]), 9)


def test_a_frame_that_is_too_large_before_the_login_ends_the_connection(client: RawClient) -> None:
    client.send_bytes(struct.pack(">i", 2**30))
    with pytest.raises(ClosedByBroker):
        client.read_bytes(1)


def test_an_old_client_logs_in_by_bare_tokens(client: RawClient) -> None:
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
    client.send_frame(b"\0bob\0bobs")
    assert client.read_bytes(4) == bytes(4)
    assert client.call(MetadataRequest(topics=[]), 9).brokers


def test_what_comes_right_behind_the_proof_is_served(client: RawClient) -> None:
    """A request that is larger than anything that may come before the login, in the same packets."""
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bobs"), 2)
    names = [f"{number:040d}" for number in range(1_000)]
    topics = [MetadataRequestTopic(name=name) for name in names]
    client.send(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    assert client.receive().error_code == 0
    assert len(client.receive().topics) == len(names)


def test_a_producer_renews_its_sessions(ports: Mapping[str, int]) -> None:
    renewing = {**keys(ports, "renewing"), **login("SCRAM-SHA-256"), "linger.ms": 5}
    with Producer(ProducerConfig.from_properties(renewing)) as producer:
        deadline_s = time.monotonic() + 3 * RENEWAL_MS / 1_000
        sent = []
        while time.monotonic() < deadline_s:
            sent.append(producer.send("renewed", value=b"x" * 100))
            time.sleep(0.005)
        assert [each.result(120).offset for each in sent] == list(range(len(sent)))


def test_a_session_is_renewed_behind_records_that_are_on_their_way(
    ports: Mapping[str, int], address: str
) -> None:
    """Records for all partitions, so that some are another worker's, and a renewal in the same packets."""
    topic = create_topic(address, 4)
    for _ in range(5):
        with RawClient(f"127.0.0.1:{ports['lasting']}") as client:
            _log_in(client)
            data = b"".join(
                client.encoded(produce_request({(topic, number % 4): batch(b"x")}), 9) for number in range(20)
            )
            data += client.encoded(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            client.send_bytes(data)
            for _ in range(20):
                [answer] = client.receive().responses
                assert answer.partition_responses[0].error_code == 0
            assert client.receive().error_code == 0
            proved = client.call(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bobs"), 2)
            assert (proved.error_code, proved.session_lifetime_ms) == (0, LASTING_MS)
            assert client.call(MetadataRequest(topics=[]), 9).brokers


def test_a_session_and_its_end_move_with_the_connection(ports: Mapping[str, int], address: str) -> None:
    """A connection that asks for one worker's partitions alone moves to that worker."""
    topic = create_topic(address, 2)

    def produce(partition: int, client: RawClient) -> None:
        for _ in range(8):
            produce_to(client, topic, batch(b"x"), partition)

    clients: list[RawClient] = []
    try:
        for number in range(4):
            clients.append(_in_a_session(ports["renewing"], partial(produce, number % 2)))
        # The time itself is what this is about.
        time.sleep(RENEWAL_MS / 1_000 + 0.1)
        for client in clients[:2]:
            _log_in(client)
            assert client.call(MetadataRequest(topics=[]), 9).brokers
        for client in clients[2:]:
            with pytest.raises(ClosedByBroker):
                client.call(MetadataRequest(topics=[]), 9)
    finally:
        for client in clients:
            client.close()


def _log_in(client: RawClient) -> None:
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    assert client.call(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bobs"), 2).error_code == 0


def _in_a_session(port: int, use: Callable[[RawClient], object]) -> RawClient:
    """A client that has logged in and done something before its session was over.

    It tries again only where that took longer than a session lasts: the machine stood still.
    """
    while True:
        client = RawClient(f"127.0.0.1:{port}")
        try:
            begun_s = time.monotonic()
            _log_in(client)
            use(client)
        except ConnectionError:
            client.close()
            assert time.monotonic() - begun_s >= RENEWAL_MS / 1_000
        except BaseException:
            client.close()
            raise
        else:
            return client


def test_a_session_that_is_over_is_closed_at_its_next_request(ports: Mapping[str, int]) -> None:
    with RawClient(f"127.0.0.1:{ports['renewing']}") as client:
        assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        proved = client.call(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bobs"), 1)
        assert proved.session_lifetime_ms == RENEWAL_MS
    with _in_a_session(
        ports["renewing"], lambda client: client.call(MetadataRequest(topics=[]), 9)
    ) as client:
        # The time itself is what this is about.
        time.sleep(RENEWAL_MS / 1_000 + 0.1)
        with pytest.raises(ClosedByBroker):
            client.call(MetadataRequest(topics=[]), 9)


def test_logins_are_counted(own_broker: Broker, metrics_port: int, ports: Mapping[str, int]) -> None:
    def counted(name: str) -> float:
        """At a listener where no other test fails: what those leave behind may be counted late."""
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
            text = page.read().decode()
        start = f'kafka_server_socketservermetrics_{name}_total{{listener="LASTING"}} '
        return sum(float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start))

    names = ("successfulauthentication", "failedauthentication")
    before = [counted(name) for name in names]
    lasting = keys(ports, "lasting")
    with Admin({**lasting, **login("PLAIN")}) as admin:
        admin.describe_cluster()
    with pytest.raises(AuthenticationError), Admin({**lasting, **login("PLAIN", password="x")}) as admin:
        admin.describe_cluster()
    after = [counted(name) for name in names]
    assert after[0] > before[0]
    assert after[1] == before[1] + 1
    renewed = counted("successfulreauthentication")
    with RawClient(f"127.0.0.1:{ports['lasting']}") as client:
        _log_in(client)
        _log_in(client)
    assert counted("successfulreauthentication") == renewed + 1


def test_no_password_is_in_the_log(own_broker: Broker, ports: Mapping[str, int]) -> None:
    for mechanism in MECHANISMS:
        wrong = {**keys(ports), **login(mechanism, password="TOPSECRET")}
        with pytest.raises(AuthenticationError), Admin(wrong) as admin:
            admin.describe_cluster()
    told = "Failed authentication with 127.0.0.1"
    wait_for(lambda: own_broker.log_file.read_text().count(told) >= len(MECHANISMS))
    said = own_broker.log_file.read_text()
    for secret in (PASSWORD, QUOTED, "bobs", "TOPSECRET"):
        assert secret not in said


def test_no_sequence_of_bytes_ends_a_worker(own_broker: Broker, ports: Mapping[str, int]) -> None:
    chance = random.Random(7)
    before = sorted(child.pid for child in psutil.Process(own_broker.pid).children())
    valid = [
        encode_request(key, version, 1, "c", request)[4:]
        for key, version, request in (
            (
                ApiKey.API_VERSIONS,
                3,
                ApiVersionsRequest(client_software_name="a", client_software_version="b"),
            ),
            (ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest(mechanism="SCRAM-SHA-256")),
            (ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
            (ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512")),
            (ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x")),
            (ApiKey.SASL_AUTHENTICATE, 0, SaslAuthenticateRequest(auth_bytes=b"c=biws,r=x,p=AAAA")),
            (ApiKey.METADATA, 9, MetadataRequest(topics=[])),
        )
    ]
    for _ in range(150):
        with socket.create_connection(("127.0.0.1", ports["sasl_plaintext"]), timeout=60) as client:
            for _ in range(chance.randint(1, 6)):
                data = bytearray(chance.choice(valid))
                for _ in range(chance.choice((0, 0, 1, 3))):
                    data[chance.randrange(len(data))] = chance.randrange(256)
                size = chance.choice((len(data), len(data), chance.randrange(2**31)))
                with contextlib.suppress(OSError):
                    client.sendall(struct.pack(">i", size) + data[: chance.choice((len(data), 5))])
    with Admin({**keys(ports), **login("PLAIN")}) as admin:
        assert admin.describe_cluster().brokers
    assert sorted(child.pid for child in psutil.Process(own_broker.pid).children()) == before
    said = own_broker.log_file.read_text()
    assert "Traceback" not in said
    assert "by a bug" not in said


def test_settings_that_hold_passwords_are_not_shown(address: str) -> None:
    resource = ConfigResource(ResourceType.BROKER, "0")
    with Admin({"bootstrap.servers": address}) as admin:
        described = good(admin.describe_configs([resource])[resource])
    found = {entry.name: entry.value for entry in described if entry.name.endswith("sasl.jaas.config")}
    assert len(found) > 3
    assert set(found.values()) == {None}


def test_a_socket_that_says_nothing_costs_nothing_else(ports: Mapping[str, int]) -> None:
    quiet = [socket.create_connection(("127.0.0.1", ports["sasl_plaintext"])) for _ in range(50)]
    try:
        for each in quiet:
            each.sendall(struct.pack(">i", 10_000) + b"\0\x11")
        with Admin({**keys(ports), **login("PLAIN")}) as admin:
            assert admin.describe_cluster().brokers
    finally:
        for each in quiet:
            each.close()
