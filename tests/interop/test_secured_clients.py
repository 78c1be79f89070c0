"""Clients and commands of pkafka against Apache Kafka with a listener for each way of being let in."""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.clients.config import ConsumerConfig, ProducerConfig
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tests.certificates import Authority
from tests.forked_commands import commands
from tests.interop.secured_kafka import (
    OAUTHBEARER,
    PASSWORD,
    RENEWAL_MS,
    SCRAM,
    SecuredKafka,
    login,
    secured_kafka,
)

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
QUICK_S: Final = 50.0
"""Less than any time-out of :data:`PATIENT`; a wrong setting is told at once."""
PATIENT: Final = {
    "request.timeout.ms": 100_000,
    "socket.connection.setup.timeout.ms": 100_000,
    "socket.connection.setup.timeout.max.ms": 100_000,
}


@pytest.fixture(scope="module")
def kafka(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        with Admin(running.of("plaintext")) as admin:
            admin.create_topics([NewTopic("t", 2)])
        yield running


class Said:
    """What a command printed, and how it ended."""

    def __init__(
        self, module: str, keys: Mapping[str, object], tmp_path: Path, *words: str, stdin: str = ""
    ) -> None:
        flag = {"console_producer": "--producer.config", "console_consumer": "--consumer.config"}
        file = tmp_path / f"{time.monotonic_ns()}.properties"
        rows = (
            f"{key}={_escaped(str(value))}\n" for key, value in keys.items() if key != "bootstrap.servers"
        )
        file.write_text("".join(rows), encoding="ascii")
        server = ["--bootstrap-server", str(keys["bootstrap.servers"])]
        begun_s = time.monotonic()
        done = commands.run(
            module, [*server, flag.get(module, "--command-config"), str(file), *words], stdin=stdin
        )
        self.seconds = time.monotonic() - begun_s
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr


def _escaped(text: str) -> str:
    """As a value of Java's properties."""
    signs = {"\\": "\\\\", "\n": "\\n"}
    return "".join(signs.get(each, each if each.isascii() else f"\\u{ord(each):04x}") for each in text)


@pytest.mark.parametrize("listener", ["sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_lets_a_command_in(
    kafka: SecuredKafka, tmp_path: Path, listener: str, mechanism: str
) -> None:
    said = Said("topics", {**kafka.of(listener), **login(mechanism)}, tmp_path, "--list")
    assert said.status == ExitStatus.OK, said.err
    assert "t" in said.out.split()


def test_records_go_in_and_out_encrypted(kafka: SecuredKafka, tmp_path: Path) -> None:
    keys = {**kafka.of("sasl_ssl"), **login("SCRAM-SHA-512")}
    lines = "".join(f"line {number}\n" for number in range(100))
    said = Said("console_producer", keys, tmp_path, "--topic", "t", stdin=lines)
    assert said.status == 0, said.err
    words = ("--topic", "t", "--from-beginning", "--max-messages", "100")
    said = Said("console_consumer", keys, tmp_path, *words)
    assert (said.status, sorted(said.out.splitlines())) == (0, sorted(lines.splitlines())), said.err


@pytest.mark.nightly  # in each change tests/unit/net/test_tls.py moves as many
def test_megabytes_in_both_directions(kafka: SecuredKafka) -> None:
    keys = {**kafka.of("sasl_ssl"), **login("PLAIN")}
    with Admin(keys) as admin:
        admin.create_topics([NewTopic("large", 1)])
    value = bytes(range(256)) * 2_000
    with Producer(ProducerConfig.from_properties({**keys, "linger.ms": 20})) as producer:
        sent = [producer.send("large", value=value, key=str(number).encode()) for number in range(8)]
        assert [each.result(30).offset for each in sent] == list(range(8))
    reading = {**keys, "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(ConsumerConfig.from_properties(reading)) as consumer:
        consumer.subscribe(["large"])
        found: list[bytes | None] = []
        deadline_s = time.monotonic() + 60
        while len(found) < 8 and time.monotonic() < deadline_s:
            found += [record.value for record in consumer.poll(1_000)]
    assert found == [value] * 8


def test_certificates_of_clients_in_every_form(kafka: SecuredKafka, tmp_path: Path) -> None:
    signed = kafka.client
    (tmp_path / "c.p12").write_bytes(signed.pkcs12("secret"))
    (tmp_path / "c.pem").write_bytes(signed.key_pem("secret") + signed.chain_pem)
    (tmp_path / "c.crt").write_bytes(signed.chain_pem)
    (tmp_path / "c.key").write_bytes(signed.key_pem())
    forms: list[dict[str, object]] = [
        {"ssl.keystore.location": tmp_path / "c.p12", "ssl.keystore.password": "secret"},
        {
            "ssl.keystore.location": tmp_path / "c.pem",
            "ssl.keystore.type": "PEM",
            "ssl.key.password": "secret",
        },
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": signed.key_pem().decode(),
            "ssl.keystore.certificate.chain": signed.chain_pem.decode(),
        },
        {"ssl.certificate.location": tmp_path / "c.crt", "ssl.key.location": tmp_path / "c.key"},
    ]
    for form in forms:
        said = Said("topics", {**kafka.of("mtls"), **form}, tmp_path, "--list")
        assert said.status == ExitStatus.OK, (form, said.err)


def wrong_settings(kafka: SecuredKafka, tmp_path: Path) -> dict[str, tuple[dict[str, object], str]]:
    """Settings that are wrong in one place, and what the command says about it."""
    other = Authority("Another CA")
    stranger = other.signed("client")
    (tmp_path / "other.pem").write_bytes(other.pem)
    (tmp_path / "stranger.pem").write_bytes(stranger.key_pem() + stranger.chain_pem)
    by_name = str(kafka.listeners["ssl"]).replace("127.0.0.1", "localhost")
    sasl, encrypted = kafka.of("sasl_plaintext"), kafka.of("sasl_ssl")
    no_scram = {**login("PLAIN"), "sasl.mechanism": "SCRAM-SHA-256"}
    no_scram["sasl.jaas.config"] = f'{SCRAM} username="bob" password="bobs";'
    old_token = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_exp="1000000000"'
    return {
        "authority": (
            {**kafka.of("ssl"), "ssl.truststore.location": tmp_path / "other.pem"},
            "TLS: the certificate",
        ),
        "host name": ({**kafka.of("ssl"), "bootstrap.servers": by_name}, "host name: the certificate"),
        "no certificate": (kafka.of("mtls"), "TLS: the handshake"),
        "strange certificate": (
            {
                **kafka.of("mtls"),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": tmp_path / "stranger.pem",
            },
            "TLS: the handshake",
        ),
        "version": ({**kafka.of("ssl", ssl_enabled_protocols="TLSv1.2"), **_only_13(kafka)}, "TLS"),
        "password by PLAIN": ({**encrypted, **login("PLAIN", password="TOPSECRET")}, "login: "),
        "password by SCRAM": ({**sasl, **login("SCRAM-SHA-256", password="TOPSECRET")}, "login: "),
        "user without SCRAM": ({**sasl, **no_scram}, "login: "),
        "token that is over": (
            {**sasl, **login("OAUTHBEARER"), "sasl.jaas.config": f"{OAUTHBEARER} {old_token};"},
            "login: ",
        ),
        "no login": ({"bootstrap.servers": kafka.listeners["sasl_plaintext"]}, "mechanism: "),
        "login where none is": (
            {**sasl, **login("PLAIN"), "bootstrap.servers": kafka.listeners["plaintext"]},
            "mechanism: the listener",
        ),
    }


def _only_13(kafka: SecuredKafka) -> dict[str, object]:
    """A suite that a broker with an ECDSA key cannot have in TLS 1.2."""
    return {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}


def test_a_wrong_setting_is_told_at_once_with_its_stage(kafka: SecuredKafka, tmp_path: Path) -> None:
    for what, (keys, stage) in wrong_settings(kafka, tmp_path).items():
        said = Said("topics", {**PATIENT, **keys}, tmp_path, "--list", "--timeout", "100s")
        assert said.status == ExitStatus.AUTHENTICATION, (what, said.out, said.err)
        assert said.err.startswith(f"pk-topics: {stage}"), (what, said.err)
        assert said.err.rstrip().endswith(")"), (what, said.err)  # a hint
        assert said.seconds < QUICK_S, what
        shown = said.out + said.err
        assert "TOPSECRET" not in shown
        assert PASSWORD not in shown


def test_ports_of_another_kind_are_told_at_once(kafka: SecuredKafka, tmp_path: Path) -> None:
    cases: dict[str, dict[str, object]] = {
        "TLS: ": {**kafka.of("ssl"), "bootstrap.servers": kafka.listeners["plaintext"]},
        str(kafka.listeners["ssl"]): {"bootstrap.servers": kafka.listeners["ssl"]},
        str(kafka.listeners["sasl_ssl"]): {
            **kafka.of("sasl_plaintext"),
            **login("PLAIN"),
            "bootstrap.servers": kafka.listeners["sasl_ssl"],
        },
    }
    for begin, keys in cases.items():
        said = Said("topics", {**PATIENT, **keys}, tmp_path, "--list", "--timeout", "100s")
        assert said.status == ExitStatus.UNREACHABLE, said.err
        assert said.err.startswith(f"pk-topics: {begin}"), said.err
        assert said.seconds < QUICK_S


def test_a_delegation_token_is_a_login(kafka: SecuredKafka) -> None:
    keys = {**kafka.of("sasl_ssl"), **login("SCRAM-SHA-256")}
    with Admin(keys) as admin:
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        made = admin.cluster.request(request, CreateDelegationTokenResponse)
    assert made.error_code == 0
    password = base64.b64encode(made.hmac).decode()
    jaas = f'{SCRAM} username="{made.token_id}" password="{password}" tokenauth="true";'
    token = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas}
    # Kafka knows tokens by both mechanisms; its cache of them follows ZooKeeper.
    deadline_s = time.monotonic() + 30
    while True:
        try:
            with Admin({**kafka.of("sasl_ssl"), **token}) as admin:
                assert admin.describe_cluster().brokers
                return
        except Exception:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


@pytest.mark.nightly
def test_sessions_are_renewed_under_load(kafka: SecuredKafka) -> None:
    keys = {**kafka.of("renewing"), **login("SCRAM-SHA-256"), "linger.ms": 5}
    with Admin(kafka.of("plaintext")) as admin:
        admin.create_topics([NewTopic("renewed", 1)])
    with Producer(ProducerConfig.from_properties(keys)) as producer:
        deadline_s = time.monotonic() + 5 * RENEWAL_MS / 1_000
        sent = []
        while time.monotonic() < deadline_s:
            sent.append(producer.send("renewed", value=b"x" * 100))
            time.sleep(0.005)
        assert [each.result(30).offset for each in sent] == list(range(len(sent)))
        (created,) = [
            metric.value
            for name, metric in producer.metrics().items()
            if (name.name, name.group) == ("connection-creation-total", "producer-metrics")
        ]
    # Without renewals the broker closes a connection five times. A machine that stands still may cost one or two.
    assert created <= 3


def test_the_doctor_goes_the_way(kafka: SecuredKafka, tmp_path: Path) -> None:
    def verdicts(keys: Mapping[str, object], status: int = ExitStatus.OK) -> dict[str, str]:
        said = Said("doctor", keys, tmp_path, "--security", "--topic", "t", "--output", "json")
        assert said.status == status, said.err + said.out
        found: list[dict[str, Any]] = json.loads(said.out)["findings"]
        return {row["stage"]: row["verdict"] for row in found if row["address"] == keys["bootstrap.servers"]}

    passed = dict.fromkeys(("TCP", "TLS", "host name", "mechanism", "login", "rights"), "ok")
    # The certificates of these tests end in ten days.
    encrypted = {**passed, "TLS": "warning"}
    assert verdicts({**kafka.of("sasl_ssl"), **login("PLAIN")}) == encrypted
    plain = {**passed, "TLS": "not used", "host name": "not used"}
    assert verdicts({**kafka.of("sasl_plaintext"), **login("SCRAM-SHA-512")}) == plain
    open_door = {**plain, "mechanism": "not used", "login": "not used"}
    assert verdicts(kafka.of("plaintext")) == open_door
    failed = {**plain, "mechanism": "failed", "login": "not reached", "rights": "not reached"}
    bare = {"bootstrap.servers": kafka.listeners["sasl_plaintext"]}
    assert verdicts(bare, ExitStatus.AUTHENTICATION) == failed
    refused = {**plain, "login": "failed", "rights": "not reached"}
    wrong = {**kafka.of("sasl_plaintext"), **login("PLAIN", password="x")}
    assert verdicts(wrong, ExitStatus.AUTHENTICATION) == refused


def test_the_doctor_reads_the_names_of_a_certificate(kafka: SecuredKafka, tmp_path: Path) -> None:
    by_name = str(kafka.listeners["ssl"]).replace("127.0.0.1", "localhost")
    said = Said("doctor", {**kafka.of("ssl"), "bootstrap.servers": by_name}, tmp_path, "--security")
    assert said.status == ExitStatus.AUTHENTICATION
    assert "is not one for localhost; it is one for 127.0.0.1" in said.out
