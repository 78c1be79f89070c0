"""``sasl.*`` of listeners: what they come to, and what is refused at the start, by key and with the next step."""

import pytest

from pkafka.errors import ConfigError
from pkafka.security import kerberos
from pkafka.security.kerberos import Krb5Options
from pkafka.security.signed_tokens import SignedRules
from pkafka.security.unsecured_tokens import UnsecuredRules
from pkafka.server.config import sasl
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.sasl import KerberosService, SaslListener, SignedTokens, sasl_listener

PACKAGE = "org.apache.kafka.common.security"
PLAIN = (
    f'{PACKAGE}.plain.PlainLoginModule required username="admin" password="TOPSECRET" user_alice="TOPSECRET";'
)
SCRAM = f"{PACKAGE}.scram.ScramLoginModule required;"
BEARER = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;"
OWN = "listener.name.clients"
JAAS = "sasl.jaas.config"
HANDLER = "sasl.server.callback.handler.class"
SIGNED = f"{PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
URL = "sasl.oauthbearer.jwks.endpoint.url"
BASE = {
    "broker.id": "0",
    "listeners": "INSIDE://localhost:1,CLIENTS://localhost:2",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN",
    f"{OWN}.plain.{JAAS}": PLAIN,
}
BETWEEN = {
    "inter.broker.listener.name": "CLIENTS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
KRB5 = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    ' keyTab="/etc/broker.keytab" principal="kafka/host@REALM";'
)
TICKETS: dict[str, str | None] = {
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    f"{OWN}.gssapi.{JAAS}": KRB5,
}
BY_TOKEN = {"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}
TOKENS = {"sasl.enabled.mechanisms": "OAUTHBEARER", f"{OWN}.oauthbearer.{JAAS}": BEARER}


def config(**more: str | None) -> BrokerConfig:
    return with_keys({key.replace("_", "."): text for key, text in more.items()})


def with_keys(more: dict[str, str | None]) -> BrokerConfig:
    return BrokerConfig({key: text for key, text in {**BASE, **more}.items() if text is not None})


def listener(more: dict[str, str | None]) -> SaslListener:
    return sasl_listener(with_keys(more), "CLIENTS")


def test_what_a_listener_has_for_itself_comes_first() -> None:
    found = listener(
        {
            f"{OWN}.sasl.enabled.mechanisms": "SCRAM-SHA-512, PLAIN,SCRAM-SHA-512",
            f"{OWN}.scram-sha-512.{JAAS}": SCRAM,
            "connections.max.reauth.ms": "1000",
            f"{OWN}.connections.max.reauth.ms": "2000",
            f"{OWN}.scram-sha-512.connections.max.reauth.ms": "3000",
            "sasl.server.max.receive.size": "5",
            f"{OWN}.sasl.server.max.receive.size": "6",
        }
    )
    assert found.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert found.sessions_max_ms == {"SCRAM-SHA-512": 3000, "PLAIN": 2000}
    assert found.receive_bytes_max == 6
    assert found.modules["PLAIN"].options["user_alice"] == "TOPSECRET"
    assert "TOPSECRET" not in repr(found)
    assert listener({}).receive_bytes_max == 524_288


def test_the_defaults_of_tokens_take_those_without_a_signature() -> None:
    assert listener({**TOKENS}).tokens == UnsecuredRules()
    options = (
        'unsecuredValidatorPrincipalClaimName="name" unsecuredValidatorScopeClaimName="for" '
        'unsecuredValidatorRequiredScope="a b" unsecuredValidatorAllowableClockSkewMs="7"'
    )
    text = BEARER.replace(";", f" {options};")
    assert listener({**TOKENS, f"{OWN}.oauthbearer.{JAAS}": text}).tokens == UnsecuredRules(
        "name", "for", ("a", "b"), 7
    )


def test_signed_tokens_and_their_rules() -> None:
    signed = {**TOKENS, f"{OWN}.oauthbearer.{HANDLER}": SIGNED, URL: "https://issuer.example/keys"}
    assert listener({**signed}).tokens == SignedTokens(
        SignedRules(), "https://issuer.example/keys", 3_600_000, 100, 10_000
    )
    found = listener(
        {
            **signed,
            f"{OWN}.{URL}": "http://other:1/",
            f"{OWN}.sasl.oauthbearer.expected.audience": "a, b",
            "sasl.oauthbearer.expected.issuer": "i",
            "sasl.oauthbearer.sub.claim.name": "name",
            "sasl.oauthbearer.scope.claim.name": "for",
            "sasl.oauthbearer.clock.skew.seconds": "1",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "2",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "3",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "4",
        }
    ).tokens
    assert found == SignedTokens(SignedRules("name", "for", ("a", "b"), "i", 1), "http://other:1/", 2, 3, 4)


@pytest.mark.parametrize(
    ("more", "key", "problem"),
    [
        (
            {"sasl.enabled.mechanisms": None},
            f"{OWN}.gssapi.{JAAS}",
            "is missing; for GSSAPI, the default of sasl.enabled.mechanisms: com.sun",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
            f"{OWN}.gssapi.{JAAS}",
            "is missing; for GSSAPI: com.sun",
        ),
        (
            {**TICKETS, "sasl.kerberos.service.name": None},
            "sasl.kerberos.service.name",
            "is missing: the first part",
        ),
        (
            {**TICKETS, f"{OWN}.gssapi.{JAAS}": KRB5.replace(";", " serviceName=other;")},
            "sasl.kerberos.service.name",
            "conflicts with serviceName=other",
        ),
        (
            {**TICKETS, f"{OWN}.gssapi.{JAAS}": KRB5.replace("useKeyTab=true", "useTicketCache=true")},
            f"{OWN}.gssapi.{JAAS}",
            "needs useKeyTab=true, keyTab and principal",
        ),
        (
            {**TICKETS, "sasl.kerberos.principal.to.local.rules": "DEFAULT,RULE:[1]"},
            "sasl.kerberos.principal.to.local.rules",
            "has no rule at: RULE:[1]",
        ),
        ({f"{OWN}.sasl.enabled.mechanisms": ""}, f"{OWN}.sasl.enabled.mechanisms", "names no mechanism"),
        (
            {"sasl.enabled.mechanisms": "plain"},
            "sasl.enabled.mechanisms",
            "has plain for the listener CLIENTS",
        ),
        ({f"{OWN}.plain.{JAAS}": None}, f"{OWN}.plain.{JAAS}", "is missing; for PLAIN: org.apache.kafka"),
        ({f"{OWN}.plain.{JAAS}": None, JAAS: PLAIN}, f"{OWN}.plain.{JAAS}", "is missing"),
        ({f"{OWN}.plain.{JAAS}": PLAIN[:-1]}, f"{OWN}.plain.{JAAS}", "does not end with a semicolon"),
        ({f"{OWN}.plain.{JAAS}": SCRAM}, f"{OWN}.plain.{JAAS}", "PLAIN needs PlainLoginModule"),
        ({f"{OWN}.plain.{HANDLER}": "com.example.H"}, f"{OWN}.plain.{HANDLER}", "class of Java"),
        ({**TOKENS, f"{OWN}.oauthbearer.{HANDLER}": "H"}, f"{OWN}.oauthbearer.{HANDLER}", "or name one of"),
        ({**TOKENS, f"{OWN}.oauthbearer.{HANDLER}": SIGNED}, URL, "http or https"),
        ({**TOKENS, f"{OWN}.oauthbearer.{HANDLER}": SIGNED, URL: "file:///etc/passwd"}, URL, "http or https"),
        ({**TOKENS, f"{OWN}.oauthbearer.{HANDLER}": SIGNED, URL: "http://h:x/"}, URL, "http or https"),
        (
            {
                **TOKENS,
                f"{OWN}.oauthbearer.{JAAS}": BEARER.replace(
                    ";", ' unsecuredValidatorAllowableClockSkewMs="x";'
                ),
            },
            f"{OWN}.oauthbearer.{JAAS}",
            "wrong option",
        ),
        (
            {**BETWEEN, "sasl.mechanism.inter.broker.protocol": None},
            "sasl.mechanism.inter.broker.protocol",
            "must be included in sasl.enabled.mechanisms",
        ),
        (
            {**BETWEEN, **TOKENS, "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"},
            f"{OWN}.oauthbearer.{JAAS}",
            "says no name: unsecuredLoginStringClaim_sub",
        ),
        (
            {**BETWEEN, **TOKENS, **BY_TOKEN, "sasl.oauthbearer.token.endpoint.url": "http://h/"},
            f"{OWN}.oauthbearer.{JAAS}",
            "has no clientId for sasl.oauthbearer.token.endpoint.url",
        ),
        (
            {**BETWEEN, **TOKENS, **BY_TOKEN, "sasl.oauthbearer.token.endpoint.url": "file:///x"},
            "sasl.oauthbearer.token.endpoint.url",
            "must be an http or https address",
        ),
        (
            {**BETWEEN, **TOKENS, **BY_TOKEN, f"{OWN}.oauthbearer.sasl.login.callback.handler.class": "a.B"},
            "sasl.login.callback.handler.class",
            "names a class of Java",
        ),
        (
            {**BETWEEN, f"{OWN}.plain.{JAAS}": PLAIN.replace("password=", "pass=")},
            f"{OWN}.plain.{JAAS}",
            "has no password, by which this broker logs in at others",
        ),
    ],
)
def test_what_is_refused(
    more: dict[str, str | None], key: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kerberos, "find_spec", lambda name: name)
    with pytest.raises(ConfigError) as refused:
        with_keys(more)
    assert refused.value.key == key
    assert problem in str(refused.value)
    assert "TOPSECRET" not in str(refused.value)


def test_signed_tokens_need_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pkafka\[oauth\]'"):
        with_keys({**TOKENS, f"{OWN}.oauthbearer.{HANDLER}": SIGNED, URL: "http://h/"})


def test_kerberos_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pkafka\[kerberos\]'") as refused:
        with_keys(TICKETS)
    assert refused.value.key == "sasl.enabled.mechanisms"


def test_what_kerberos_is_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kerberos, "find_spec", lambda name: name)
    rules = "RULE:[1:$1]/L,DEFAULT"
    found = listener({**TICKETS, f"{OWN}.sasl.kerberos.principal.to.local.rules": rules}).kerberos
    options = Krb5Options("kafka/host@REALM", "/etc/broker.keytab", True, False, "", "")
    assert found == KerberosService(options, "kafka", ("RULE:[1:$1]/L", "DEFAULT"))


def test_brokers_that_log_in_at_each_other_and_listeners_without_a_login() -> None:
    assert with_keys({**BETWEEN}).inter_broker_listener_name == "CLIENTS"
    assert config(sasl_enabled_mechanisms="PLAIN").listeners
    assert BrokerConfig({"broker.id": "0", "sasl.enabled.mechanisms": "GSSAPI"}).listeners is not None
