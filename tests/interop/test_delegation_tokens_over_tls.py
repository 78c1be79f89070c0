"""Delegation tokens over TLS: who gets one, for whom, and who gets in by it, on brokers of both kinds."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.delegation_tokens import DelegationToken
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.testing import running_broker
from tests.certificates import Authority
from tests.interop.kafka import running_kafka
from tests.interop.secured_kafka import PLAIN, SCRAM
from tests.sockets import free_port
from tests.token_clients import plain_jaas, token_jaas

NAMES: Final = ("PLAIN_TEXT", "TLS", "MTLS", "LOGIN_TLS")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SSL", "SASL_SSL")

Doors = Mapping[str, str]
"""Addresses of a broker by the names of its listeners."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, authority = tmp_path_factory.mktemp("stores"), Authority()
    (directory / "ca.pem").write_bytes(authority.pem)
    for name, hosts in (("broker", ["127.0.0.1"]), ("client", [])):
        signed = authority.signed(name, hosts)
        (directory / f"{name}.pem").write_bytes(signed.key_pem() + signed.chain_pem)
    return directory


def stores(files: Path, own: str | None) -> dict[str, object]:
    keys: dict[str, object] = {"ssl.truststore.type": "PEM", "ssl.truststore.location": files / "ca.pem"}
    if own is not None:
        keys |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": files / f"{own}.pem"}
    return keys


def settings(files: Path, doors: Doors) -> dict[str, object]:
    prefix = "listener.name.login_tls"
    return {
        "listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *(f"{name}://{at}" for name, at in doors.items())]),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *map(":".join, zip(NAMES, PROTOCOLS, strict=True))]
        ),
        **stores(files, "broker"),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": f'{PLAIN} user_alice="alice";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
        "delegation.token.secret.key": "of-the-tests",
        "offsets.topic.replication.factor": 1,
    }


@pytest.fixture(scope="module")
def sides(
    files: Path, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[Doors]]:
    """Apache Kafka and pkafka."""
    directory = tmp_path_factory.mktemp("sides")
    doors = [{name: f"127.0.0.1:{free_port()}" for name in NAMES} for _ in range(2)]
    with (
        running_kafka(directory / "kafka", overrides=settings(files, doors[0])),
        running_broker(directory / "pkafka", {**settings(files, doors[1]), "pkafka.workers": 2}),
    ):
        yield doors


class Client:
    """Comes to one broker in different ways."""

    def __init__(self, doors: Doors, files: Path) -> None:
        self._doors = doors
        self._files = files

    def by(self, listener: str, own: str | None = None, *, jaas: str = "", mechanism: str = "") -> Admin:
        keys: dict[str, object] = {
            "bootstrap.servers": self._doors[listener],
            "security.protocol": PROTOCOLS[NAMES.index(listener)],
            **stores(self._files, own),
        }
        if jaas:
            keys |= {"sasl.jaas.config": jaas, "sasl.mechanism": mechanism}
        return Admin({key: str(value) for key, value in keys.items()})

    def by_password(self) -> Admin:
        return self.by("LOGIN_TLS", jaas=plain_jaas("alice"), mechanism="PLAIN")

    def by_token(self, token: DelegationToken, mechanism: str) -> Admin:
        return self.by("LOGIN_TLS", jaas=token_jaas(token), mechanism=mechanism)


def answers(client: Client) -> list[tuple[str, object]]:
    """What is answered, step by step."""
    told: list[tuple[str, object]] = []
    made: list[tuple[Admin, DelegationToken]] = []
    ways = {
        "a login": client.by_password(),
        "a certificate": client.by("MTLS", "client"),
        "no certificate": client.by("TLS"),
        "a certificate that nobody wants": client.by("TLS", "client"),
        "no encryption": client.by("PLAIN_TEXT"),
    }
    for way, admin in ways.items():
        try:
            token = admin.create_delegation_token()
        except ApiError as error:
            told.append((way, error.code))
            told.append((f"{way} asks", refusal_to_describe(admin)))
            continue
        made.append((admin, token))
        told.append((way, (token.owner, token.requester)))
    for admin, token in made:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            with client.by_token(token, mechanism) as user:
                told.append((mechanism, len(user.describe_cluster().brokers)))
                told.append(("again", refusal_of_a_second(user)))
                told.append(("asks", refusal_to_describe(user)))
        told.append(
            ("sees", sorted(one.owner.name for one in admin.describe_delegation_tokens([token.owner])))
        )
        admin.expire_delegation_token(token.hmac)
        try:
            with client.by_token(token, "SCRAM-SHA-512") as user:
                user.describe_cluster()
        except PkafkaError as error:
            told.append(("afterwards", type(error)))
    for admin in ways.values():
        admin.close()
    return told


def refusal_of_a_second(user: Admin) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        user.create_delegation_token()
    return refused.value.code


def refusal_to_describe(user: Admin) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        user.describe_delegation_tokens()
    return refused.value.code


def test_who_gets_a_token_and_comes_in_by_it(sides: Sequence[Doors], files: Path) -> None:
    kafkas, ours = (answers(Client(doors, files)) for doors in sides)
    assert ours == kafkas
    told = dict(ours)
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert {name for name, said in told.items() if said == not_allowed} == {
        *("no certificate", "no certificate asks", "no encryption", "no encryption asks"),
        *("a certificate that nobody wants", "a certificate that nobody wants asks"),
        *("again", "asks"),
    }
    assert [str(owner) for owner in told["a certificate"]] == ["User:CN=client"] * 2  # type: ignore[attr-defined]
    assert [str(owner) for owner in told["a login"]] == ["User:alice"] * 2  # type: ignore[attr-defined]
    assert told["sees"] == ["CN=client"]
