"""Certificates are exchanged while the broker runs: what is refused, and what new connections see, on either system."""

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.errors import ApiError, ErrorCode
from pkafka.testing import running_broker
from tests.certificates import Authority
from tests.interop.conftest import EITHER, System
from tests.interop.kafka import KafkaBroker, running_kafka
from tests.sockets import free_port
from tests.talk import Talk, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

AUTHORITY: Final = Authority()
NAMES: Final = ["127.0.0.1", "one.example"]
BROKER: Final = ConfigResource(ResourceType.BROKER, "0")


class Exchanged:
    """A broker with two listeners, and files of certificates that it may be told to use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.one, self.two, self.three = free_port(), free_port(), free_port()
        self.system: System
        (directory / "ca.pem").write_bytes(AUTHORITY.pem)
        self.write("one", "broker", NAMES)
        self.write("two", "broker", NAMES)
        self.write("first", "broker", NAMES, password="first password")
        self.settings = {
            "listeners": (
                f"PLAINTEXT://127.0.0.1:0,ONE://127.0.0.1:{self.one},TWO://127.0.0.1:{self.two},THREE://127.0.0.1:{self.three}"
            ),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ONE:SSL,TWO:SSL,THREE:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "listener.name.one.ssl.keystore.location": directory / "one.pem",
            "listener.name.one.ssl.truststore.location": directory / "ca.pem",
            "listener.name.two.ssl.keystore.location": directory / "two.pem",
            "listener.name.three.ssl.keystore.type": "PKCS12",
            "listener.name.three.ssl.keystore.location": directory / "first.p12",
            "listener.name.three.ssl.keystore.password": "first password",
            "listener.name.three.ssl.key.password": "first password",
            "password.encoder.secret": "secret",
        }

    def write(self, name: str, subject: str, hosts: list[str], *, password: str = "") -> int:
        """A fresh certificate in a file of PEM, or with a password of PKCS#12; its serial number."""
        signed = AUTHORITY.signed(subject, hosts)
        if password:
            (self.directory / f"{name}.p12").write_bytes(signed.pkcs12(password))
            return signed.certificate.serial_number
        fresh = self.directory / "fresh"
        fresh.write_bytes(signed.key_pem() + signed.chain_pem)
        os.rename(fresh, self.directory / f"{name}.pem")
        return signed.certificate.serial_number

    def shown(self, port: int) -> int:
        """The serial number of the certificate that a new connection sees."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=AUTHORITY.pem.decode())
        with (
            socket.create_connection(("127.0.0.1", port), 20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            certificate = secured.getpeercert()
            assert certificate
            return int(str(certificate["serialNumber"]), 16)


@pytest.fixture(scope="module", params=EITHER)
def exchanged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Exchanged]:
    made = Exchanged(tmp_path_factory.mktemp("exchanged"))
    if request.param == "kafka":
        request.getfixturevalue("kafka_classpath")
        with running_kafka(made.directory / "kafka", overrides=made.settings) as kafka:
            made.system = kafka
            yield made
    else:
        with running_broker(made.directory / "pkafka", made.settings) as pkafka:
            made.system = pkafka
            yield made


@pytest.fixture
def talk(exchanged: Exchanged) -> Iterator[Talk]:
    with talking(exchanged.system.bootstrap) as talk:
        yield talk


def alter(talk: Talk, **settings: object) -> ApiError | None:
    """What the broker says to a change of its settings; ``one__ssl_key=...`` is of the listener ONE."""
    changes = []
    for name, value in settings.items():
        listener, _, key = name.partition("__")
        full = f"listener.name.{listener}.{key.replace('_', '.')}"
        operation = AlterOp.DELETE if value is None else AlterOp.SET
        changes.append(ConfigChange(full, operation, None if value is None else str(value)))
    answer = talk.admin.alter_configs({BROKER: changes})[BROKER]
    return answer if isinstance(answer, ApiError) else None


def test_a_certificate_for_the_same_name_counts_for_new_connections(exchanged: Exchanged, talk: Talk) -> None:
    serial = exchanged.write("other", "broker", [*NAMES, "more.example"])
    assert alter(talk, one__ssl_keystore_location=exchanged.directory / "other.pem") is None
    wait_for(lambda: exchanged.shown(exchanged.one) == serial)


def test_the_same_path_is_read_again_when_the_file_is_newer(exchanged: Exchanged, talk: Talk) -> None:
    serial = exchanged.write("two", "broker", NAMES)
    assert alter(talk, two__ssl_keystore_location=exchanged.directory / "two.pem") is None
    wait_for(lambda: exchanged.shown(exchanged.two) == serial)


def test_what_is_refused(exchanged: Exchanged, talk: Talk) -> None:
    exchanged.write("subject", "another", NAMES)
    exchanged.write("fewer", "broker", ["127.0.0.1"])
    (exchanged.directory / "bad.pem").write_text("nothing")
    before = exchanged.shown(exchanged.one)
    refused = {
        "subject.pem": "DistinguishedName does not match",
        "fewer.pem": "SubjectAltNames do not match",
        "bad.pem": "Validation of dynamic config update of SSLFactory failed",
        "none.pem": "Validation of dynamic config update of SSLFactory failed",
    }
    for name, problem in refused.items():
        answer = alter(talk, one__ssl_keystore_location=exchanged.directory / name)
        assert answer is not None
        assert answer.code == ErrorCode.INVALID_REQUEST
        assert problem in (answer.message or "")
    for change in (
        {"one__ssl_truststore_location": exchanged.directory / "bad.pem"},
        {"one__ssl_truststore_type": "JKS"},
        {"one__ssl_keystore_type": "PKCS12"},
        {"one__ssl_keystore_location": ""},
        {"two__ssl_truststore_location": exchanged.directory / "ca.pem"},
    ):
        answer = alter(talk, **change)
        assert answer is not None, change
        assert answer.code == ErrorCode.INVALID_REQUEST, change
    if not isinstance(exchanged.system, KafkaBroker):  # which shows another one by then
        assert exchanged.shown(exchanged.one) == before


def test_a_store_with_another_password_needs_both(exchanged: Exchanged, talk: Talk) -> None:
    serial = exchanged.write("second", "broker", NAMES, password="second password")
    location = {"three__ssl_keystore_location": exchanged.directory / "second.p12"}
    passwords = {
        "three__ssl_keystore_password": "second password",
        "three__ssl_key_password": "second password",
    }
    for alone in (location, passwords):
        answer = alter(talk, **alone)
        assert answer is not None
        assert answer.code == ErrorCode.INVALID_REQUEST
        assert "second password" not in (answer.message or "")
    assert alter(talk, **location, **passwords) is None
    wait_for(lambda: exchanged.shown(exchanged.three) == serial)


def test_a_file_that_changes_counts_without_an_alter(exchanged: Exchanged) -> None:
    """Apache Kafka waits to be told."""
    before = exchanged.shown(exchanged.two)
    serial = exchanged.write("two", "broker", NAMES)
    expected = before if isinstance(exchanged.system, KafkaBroker) else serial
    wait_for(lambda: exchanged.shown(exchanged.two) == expected)
