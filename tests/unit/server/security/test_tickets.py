"""Keytabs of listeners: looked at before the start, and by which users come in."""

import pytest

from pkafka.errors import ConfigError
from pkafka.security.kerberos import Krb5Options
from pkafka.security.sasl import SaslError
from pkafka.security.sasl.gssapi import GssError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.sasl import KerberosService
from pkafka.server.security import tickets
from pkafka.server.security.tickets import Tickets, check_keytabs

JAAS = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
KEYS = {
    "broker.id": "0",
    "listeners": "PLAINTEXT://localhost:1,SASL_PLAINTEXT://localhost:2",
    "sasl.kerberos.service.name": "kafka",
    JAAS: (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        ' keyTab="/no/such.keytab" principal="kafka/host@REALM";'
    ),
}


class FakeAcceptor:
    """Knows one principal, whom all clients are; its keytab is not there."""

    principal = "alice@REALM"

    def __init__(self, options: Krb5Options) -> None:
        self._keytab = options.keytab

    def check(self) -> None:
        raise GssError(f"Key table file '{self._keytab}' not found")

    def context(self) -> "FakeContext":
        return FakeContext(self.principal)


class FakeContext:
    """Is established with the first token, and wraps nothing."""

    def __init__(self, principal: str) -> None:
        self._principal = principal
        self.is_established = False

    def step(self, token: bytes | None) -> bytes | None:
        self.is_established = True
        return None

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data

    def initiator(self) -> str:
        return self._principal


@pytest.fixture(autouse=True)
def no_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkafka.security.kerberos.find_spec", lambda name: name)
    monkeypatch.setattr(tickets, "Acceptor", FakeAcceptor)
    monkeypatch.setattr(tickets, "default_realm", lambda: "REALM")


def test_a_keytab_that_is_not_there_stops_the_start() -> None:
    with pytest.raises(
        ConfigError, match=r"of no use: Key table file '/no/such.keytab' not found"
    ) as refused:
        check_keytabs(BrokerConfig(KEYS))
    assert refused.value.key == JAAS


def test_listeners_without_kerberos_have_no_keytab() -> None:
    check_keytabs(BrokerConfig({"broker.id": "0"}))


@pytest.mark.parametrize(("rules", "user"), [(("DEFAULT",), "alice"), (("RULE:[1:$1]/U",), "ALICE")])
def test_principals_become_users(rules: tuple[str, ...], user: str) -> None:
    exchange = Tickets(KerberosService(Krb5Options.of({}), "kafka", rules)).exchange()
    exchange.answer(b"ticket")
    exchange.answer(b"\x01\0\0\0")
    assert exchange.user == user


def test_a_principal_that_no_rule_makes_a_user_is_not_let_in() -> None:
    exchange = Tickets(KerberosService(Krb5Options.of({}), "kafka", ("RULE:[2:$1]",))).exchange()
    exchange.answer(b"ticket")
    with pytest.raises(SaslError, match="is for alice@REALM"):
        exchange.answer(b"\x01\0\0\0")
