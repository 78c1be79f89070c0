"""The client of a Schema Registry: what it asks, remembers, repeats and refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.clients.registry import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    NotFoundError,
    RegistryError,
    RegistrySettings,
    SchemaReference,
    SchemaRegistryClient,
    UnauthorizedError,
    UnavailableError,
)
from pkafka.clients.registry.client import SchemaText
from pkafka.errors import ConfigError
from tests.certificates import Authority
from tests.http_server import Reply
from tests.schema_registry import SchemaRegistry, schema_registry

STRING = SchemaText('"string"')


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(registry: SchemaRegistry, waits: list[float]) -> SchemaRegistryClient:
    return SchemaRegistryClient(registry.url, sleep=waits.append)


def test_a_schema_is_registered_once_and_found_by_its_id(
    client: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    first = client.register("t/1-value", STRING)
    assert client.register("t/1-value", STRING) == first
    assert client.schema_of(first) == STRING == client.schema_of(first)
    assert registry.asked == ["POST /subjects/t%2F1-value/versions", f"GET /schemas/ids/{first}"]


def test_a_schema_that_may_not_be_registered_is_looked_up(
    client: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    with pytest.raises(NotFoundError, match="40401: Subject 's' not found"):
        client.id_of("s", STRING)
    known = registry.add("s", "long")
    with pytest.raises(NotFoundError) as caught:
        client.id_of("s", STRING)
    assert (caught.value.status, caught.value.error_code) == (404, 40403)
    assert client.id_of("s", SchemaText("long")) == known


def test_versions_are_told_with_the_schemas_that_they_refer_to(
    client: SchemaRegistryClient, registry: SchemaRegistry
) -> None:
    reference = {"name": "a.B", "subject": "b", "version": 1}
    registry.add("b", "long")
    registry.add("s", "x", schemaType="PROTOBUF", references=[reference])
    found = client.version("s", 1)
    assert found.schema == SchemaText("x", "PROTOBUF", (SchemaReference("a.B", "b", 1),))
    assert (client.subjects(), client.versions("s")) == (["b", "s"], [1])
    assert client.register("s", found.schema) == found.id
    with pytest.raises(NotFoundError, match="Version 2"):
        client.version("s", 2)


def test_the_latest_version_is_asked_for_again_when_it_is_no_longer_kept(registry: SchemaRegistry) -> None:
    registry.add("s", "long")
    keeps, asks = SchemaRegistryClient(registry.url), SchemaRegistryClient(registry.url, latest_kept_s=0)
    assert keeps.latest("s").version == asks.latest("s").version == 1
    registry.add("s", "string")
    assert (keeps.latest("s").version, asks.latest("s").version) == (1, 2)


def test_what_the_registry_refuses_has_a_type(client: SchemaRegistryClient, registry: SchemaRegistry) -> None:
    registry.incompatible.add("s")
    assert not client.is_compatible("s", STRING)
    with pytest.raises(IncompatibleSchemaError, match="incompatible"):
        client.register("s", STRING)
    registry.failures = [Reply(422, b'{"error_code": 42201, "message": "no schema"}')]
    with pytest.raises(InvalidSchemaError, match="42201: no schema"):
        client.register("t", STRING)
    for answer in (b"<html>", b"{}", b"[1]", b'{"id": "1"}'):
        registry.failures = [Reply(200, answer)]
        with pytest.raises(RegistryError):
            client.register("t", STRING)
        registry.failures = [Reply(200, answer)]
        with pytest.raises(RegistryError):
            client.schema_of(1)


def test_a_request_is_repeated_that_may_succeed_later(
    client: SchemaRegistryClient, registry: SchemaRegistry, waits: list[float]
) -> None:
    registry.failures = [Reply(503), Reply(0), Reply(429)]
    assert client.register("s", STRING) == 1
    assert waits == [1, 2, 4]
    registry.failures = [Reply(500, b'{"error_code": 50001, "message": "store"}')] * 4
    with pytest.raises(UnavailableError, match="50001: store"):
        client.latest("s")


def test_the_next_server_is_asked_when_one_does_not_answer(registry: SchemaRegistry) -> None:
    with schema_registry() as gone:
        dead = gone.url
    client = SchemaRegistryClient(RegistrySettings((dead, registry.url), max_retries=0))
    assert client.subjects() == []
    with pytest.raises(UnavailableError, match="does not answer"):
        SchemaRegistryClient(RegistrySettings((dead,), max_retries=0)).subjects()


@pytest.mark.parametrize(
    "configs",
    [
        {"basic.auth.user.info": "ann:a:b", "basic.auth.credentials.source": "USER_INFO"},
        {"schema.registry.basic.auth.user.info": "ann:a:b"},
        {"in_url": "ann:a%3Ab@"},
    ],
)
def test_a_login_is_sent(configs: dict[str, str]) -> None:
    with schema_registry("ann:a:b") as registry:
        user = configs.pop("in_url", "")
        url = registry.url.replace("//", f"//{user}")
        settings = RegistrySettings.of({"schema.registry.url": url, **configs})
        assert SchemaRegistryClient(settings).subjects() == []
        assert "a:b" not in repr(settings)
        with pytest.raises(UnauthorizedError, match="40101"):
            SchemaRegistryClient(registry.url).subjects()


def test_a_server_with_tls_is_asked_when_its_certificate_is_trusted(
    registry: SchemaRegistry, tmp_path: Path
) -> None:
    authority = Authority()
    signed = authority.signed("registry", ["127.0.0.1"])
    (tmp_path / "server.pem").write_bytes(signed.chain_pem + signed.key_pem())
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    registry.server.speak_tls(tmp_path / "server.pem")
    store = {"schema.registry.ssl.truststore.location": str(tmp_path / "ca.pem")}
    keys: dict[str, object] = {"schema.registry.url": registry.url, "max.retries": 0}
    trusting = RegistrySettings.of({**keys, **store, "schema.registry.ssl.truststore.type": "PEM"})
    assert SchemaRegistryClient(trusting).subjects() == []
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        SchemaRegistryClient(RegistrySettings.of(keys)).subjects()


@pytest.mark.parametrize(
    ("configs", "key"),
    [
        ({}, "schema.registry.url"),
        ({"schema.registry.url": "localhost:8081"}, "schema.registry.url"),
        ({"schema.registry.url": "http://h", "max.retries": "x"}, "max.retries"),
        ({"schema.registry.url": "http://h", "max.retries": -1}, "max.retries"),
        (
            {"schema.registry.url": "http://h", "basic.auth.credentials.source": "USER_INFO"},
            "basic.auth.user.info",
        ),
        (
            {"schema.registry.url": "http://h", "basic.auth.credentials.source": "X"},
            "basic.auth.credentials.source",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(configs: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        RegistrySettings.of(configs)
