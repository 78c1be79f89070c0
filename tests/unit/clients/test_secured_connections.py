"""Connections that are encrypted and log in, against a scripted broker: stages that fail, sessions that are renewed."""

import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig, ConsumerConfig, ProducerConfig
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import AuthenticationError, ClientError, ClientTimeoutError, ConnectError, Stage
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pkafka.protocol.schema import Message
from tests.certificates import Authority
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.fakes.mute_server import MuteServer
from tests.sockets import free_port
from tests.talk import wait_for

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": PLAIN.format("right"),
}


class LoginBroker(FakeBroker):
    """Lets alice in, by PLAIN, with the password "right"."""

    def __init__(self, *, lifetime_ms: int = 0, **more: Any) -> None:
        super().__init__({"t": 1}, **more)
        self.lifetime_ms = lifetime_ms
        self.password = "right"
        self.handlers[ApiKey.SASL_HANDSHAKE] = self._handshake
        self.handlers[ApiKey.SASL_AUTHENTICATE] = self._authenticate

    def _handshake(self, message: Message, version: int) -> Message:
        assert isinstance(message, SaslHandshakeRequest)
        return SaslHandshakeResponse(
            error_code=0 if message.mechanism == "PLAIN" else 33, mechanisms=["PLAIN"]
        )

    def _authenticate(self, message: Message, version: int) -> Message:
        assert isinstance(message, SaslAuthenticateRequest)
        if message.auth_bytes == f"\0alice\0{self.password}".encode():
            return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
        return SaslAuthenticateResponse(
            error_code=58, error_message="Authentication failed: Invalid username or password"
        )


def cluster_of(bootstrap: str, keys: dict[str, Any], *, fail_fast: bool = True) -> Cluster:
    values = {
        "bootstrap.servers": bootstrap,
        "default.api.timeout.ms": 100_000,
        "retry.backoff.ms": 5,
        **keys,
    }
    return Cluster(ClientConfig.from_properties(values), fail_fast=fail_fast)


def failure_of(bootstrap: str, keys: dict[str, Any]) -> ConnectError:
    begun_s = time.monotonic()
    with cluster_of(bootstrap, keys) as cluster, pytest.raises(ConnectError) as caught:
        cluster.refresh(["t"])
    assert time.monotonic() - begun_s < 60  # by far less than the time-out
    assert "right" not in str(caught.value)
    return caught.value


def test_a_login_comes_before_any_request() -> None:
    with LoginBroker() as broker, cluster_of(broker.bootstrap, LOGIN) as cluster:
        cluster.refresh(["t"])
        cluster.refresh(["t"])
    keys = [key for key, _version, _message in broker.requests]
    assert keys == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA, ApiKey.METADATA]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers_of_every_version_of_the_login(version: int) -> None:
    versions = {
        ApiKey.METADATA: (0, 12),
        ApiKey.SASL_HANDSHAKE: (0, 1),
        ApiKey.SASL_AUTHENTICATE: (0, version),
    }
    with LoginBroker(versions=versions) as broker, cluster_of(broker.bootstrap, LOGIN) as cluster:
        cluster.refresh(["t"])
    assert broker.requests[1][:2] == (ApiKey.SASL_AUTHENTICATE, version)


def test_a_refused_login_fails_every_call_at_once_and_the_next_one_tries_again() -> None:
    with LoginBroker() as broker, cluster_of(broker.bootstrap, LOGIN, fail_fast=False) as cluster:
        broker.password = "changed"
        for _ in range(2):
            with pytest.raises(AuthenticationError, match="Invalid username or password") as caught:
                cluster.refresh(["t"])
            assert caught.value.stage is Stage.AUTHENTICATE
            assert caught.value.hint is not None
        broker.password = "right"
        assert cluster.refresh(["t"]).topics


def test_a_consumer_tells_of_a_refused_login_and_tries_again() -> None:
    with LoginBroker() as broker:
        broker.password = "changed"
        keys = {
            "bootstrap.servers": broker.bootstrap,
            "reconnect.backoff.ms": 5,
            "retry.backoff.ms": 5,
            **LOGIN,
        }
        with Consumer(ConsumerConfig.from_properties(keys)) as consumer:
            with pytest.raises(AuthenticationError):
                consumer.partitions_for("t")
            broker.password = "right"
            assert consumer.partitions_for("t")


def test_poll_tells_of_a_refused_login_each_time_and_goes_on_once_it_is_let_in() -> None:
    with LoginBroker() as broker:
        broker.password = "changed"
        keys = {
            "bootstrap.servers": broker.bootstrap,
            "reconnect.backoff.ms": 5,
            "retry.backoff.ms": 5,
            **LOGIN,
        }
        with Consumer(ConsumerConfig.from_properties(keys)) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            for _ in range(2):
                with pytest.raises(AuthenticationError):
                    consumer.poll(30_000)
            broker.password = "right"
            wait_for(lambda: _polled(consumer), timeout_s=30)


def _polled(consumer: Consumer) -> bool:
    try:
        consumer.poll(50)
    except AuthenticationError:
        return False  # one that was under way
    return True


def test_records_of_a_producer_that_is_not_let_in_fail() -> None:
    with LoginBroker() as broker:
        broker.password = "changed"
        keys = {
            "bootstrap.servers": broker.bootstrap,
            "reconnect.backoff.ms": 5,
            "retry.backoff.ms": 5,
            **LOGIN,
        }
        with Producer(ProducerConfig.from_properties(keys)) as producer:
            sent = producer.send("t", value=b"x")
            with pytest.raises(AuthenticationError):
                sent.result(30)


def test_mechanisms_are_named() -> None:
    with LoginBroker() as broker:
        jaas = PLAIN.replace("plain.Plain", "scram.Scram").format("right")
        failure = failure_of(
            broker.bootstrap, {**LOGIN, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
        )
    assert failure.stage is Stage.MECHANISM
    assert "does not enable SCRAM-SHA-256; it has PLAIN" in str(failure)


def test_a_listener_without_login_and_one_that_asks_for_it() -> None:
    with LoginBroker() as broker:
        broker.handlers[ApiKey.SASL_HANDSHAKE] = lambda _message, _version: SaslHandshakeResponse(
            error_code=34
        )
        failure = failure_of(broker.bootstrap, LOGIN)
        assert (failure.stage, "knows no login" in str(failure)) == (Stage.MECHANISM, True)
        broker.handlers[ApiKey.METADATA] = lambda _message, _version: None  # it closes the connection
        with cluster_of(broker.bootstrap, {"retries": 3}) as cluster, pytest.raises(ClientTimeoutError):
            cluster.refresh()  # the cause of the refresh does not matter here
        mechanisms = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
        broker.handlers[ApiKey.SASL_HANDSHAKE] = lambda _message, _version: mechanisms
        failure = failure_of(broker.bootstrap, {})
    assert isinstance(failure, AuthenticationError)
    assert failure.stage is Stage.MECHANISM
    assert "asks for a login; it has PLAIN" in str(failure)
    assert "security.protocol=SASL_PLAINTEXT" in str(failure.hint)


def test_a_broker_without_sasl_requests() -> None:
    with LoginBroker(versions={ApiKey.METADATA: (0, 12)}) as broker:
        assert "cannot log clients in" in str(failure_of(broker.bootstrap, LOGIN))


def test_a_login_that_ends_early_or_gets_no_answer() -> None:
    with LoginBroker() as broker:
        broker.handlers[ApiKey.SASL_AUTHENTICATE] = lambda _message, _version: None
        failure = failure_of(broker.bootstrap, LOGIN)
        assert (failure.stage, "closed the connection" in str(failure)) == (Stage.AUTHENTICATE, True)
        broker.handlers[ApiKey.SASL_AUTHENTICATE] = lambda _message, _version: NO_ANSWER
        # Where a busy machine is late with an earlier step, it is that step which is told.
        failures = (failure_of(broker.bootstrap, {**LOGIN, "request.timeout.ms": 200}) for _ in range(50))
        failure = next(each for each in failures if each.stage is Stage.AUTHENTICATE)
        assert "did not answer in time" in str(failure)


def test_a_session_is_renewed_before_the_next_request() -> None:
    with LoginBroker(lifetime_ms=100) as broker, cluster_of(broker.bootstrap, LOGIN) as cluster:
        cluster.refresh(["t"])
        time.sleep(0.1)
        cluster.refresh(["t"])
        cluster.refresh(["t"])
        keys = [key for key, _version, _message in broker.requests]
        first = keys.index(ApiKey.METADATA)
        renewed = [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA]
        assert keys[first + 1 : first + 4] == renewed
        assert broker.connections == 1
        broker.password = "changed"
        time.sleep(0.1)
        with pytest.raises(AuthenticationError):
            cluster.refresh(["t"])


@pytest.fixture
def server_context(tmp_path: Path) -> ssl.SSLContext:
    authority = Authority()
    signed = authority.signed("broker", ["127.0.0.1"])
    (tmp_path / "broker.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "broker.pem")
    return context


def trusting(tmp_path: Path) -> dict[str, Any]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }


def test_an_encrypted_login(tmp_path: Path, server_context: ssl.SSLContext) -> None:
    keys = {**LOGIN, **trusting(tmp_path), "security.protocol": "SASL_SSL"}
    with LoginBroker(tls=server_context) as broker, cluster_of(broker.bootstrap, keys) as cluster:
        assert cluster.refresh(["t"]).topics
        (connection,) = [cluster.network.connection(each.address) for each in cluster.view.brokers.values()]
        assert connection is not None
        assert connection.tls is not None


def test_certificates_and_names_that_are_not_trusted(tmp_path: Path, server_context: ssl.SSLContext) -> None:
    with FakeBroker(tls=server_context) as broker:
        failure = failure_of(broker.bootstrap, {"security.protocol": "SSL"})
        assert isinstance(failure, AuthenticationError)
        assert (failure.stage, "is not trusted" in str(failure)) == (Stage.TLS, True)
        by_name = broker.bootstrap.replace("127.0.0.1", "localhost")
        failure = failure_of(by_name, trusting(tmp_path))
        assert isinstance(failure, AuthenticationError)
        assert (failure.stage, "is not one for localhost" in str(failure)) == (Stage.HOST_NAME, True)
        unchecked = {**trusting(tmp_path), "ssl.endpoint.identification.algorithm": ""}
        with cluster_of(by_name, unchecked) as cluster:
            cluster.refresh()


def test_tls_with_what_does_not_speak_it(tmp_path: Path, server_context: ssl.SSLContext) -> None:
    with FakeBroker() as broker:
        broker.first_bytes = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        failure: ClientError = failure_of(broker.bootstrap, {**trusting(tmp_path), "request.timeout.ms": 500})
        assert isinstance(failure, ConnectError)
        assert failure.stage is Stage.TLS
    with MuteServer() as mute:
        failure = failure_of(mute.bootstrap, {**trusting(tmp_path), "request.timeout.ms": 100})
        assert (failure.stage, "does not answer as a TLS server" in str(failure)) == (Stage.TLS, True)
    failure = failure_of(f"127.0.0.1:{free_port()}", trusting(tmp_path))
    assert failure.stage is Stage.CONNECT
