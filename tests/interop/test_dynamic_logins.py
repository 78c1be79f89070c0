"""Settings of logins that are altered while a broker runs: Apache Kafka and pkafka give the same answers."""

import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import AlterOp, ConfigChange, ConfigResource, ResourceType
from pkafka.clients.errors import AuthenticationError
from tests.interop.secured_kafka import PLAIN, SCRAM, SecuredKafka, login, secured_kafka
from tests.interop.secured_pkafka import SecuredPkafka, secured_pkafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

OWN: Final = "listener.name.sasl_plaintext."
ENCODER: Final = {"password.encoder.secret": "of-the-tests"}
KEYS: Final = (
    ("sasl.enabled.mechanisms", "PLAIN"),
    ("sasl.jaas.config", f'{PLAIN} user_x="y";'),
    ("sasl.client.callback.handler.class", "org.x.Y"),
    ("sasl.login.callback.handler.class", "org.x.Y"),
    ("sasl.login.class", "org.x.Y"),
    ("sasl.server.callback.handler.class", "org.x.Y"),
    ("sasl.kerberos.service.name", "kafka"),
    ("sasl.kerberos.kinit.cmd", "/x"),
    ("sasl.kerberos.min.time.before.relogin", "1"),
    ("sasl.kerberos.min.time.before.relogin", "x"),
    ("sasl.kerberos.principal.to.local.rules", "DEFAULT"),
    ("sasl.kerberos.ticket.renew.jitter", "0.1"),
    ("sasl.kerberos.ticket.renew.window.factor", "0.7"),
    ("sasl.login.connect.timeout.ms", "1"),
    ("sasl.login.read.timeout.ms", "1"),
    ("sasl.login.refresh.buffer.seconds", "1"),
    ("sasl.login.refresh.buffer.seconds", "99999"),
    ("sasl.login.refresh.min.period.seconds", "1"),
    ("sasl.login.refresh.window.factor", "0.6"),
    ("sasl.login.refresh.window.jitter", "0.1"),
    ("sasl.login.retry.backoff.ms", "1"),
    ("sasl.login.retry.backoff.max.ms", "1"),
    ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
    ("sasl.mechanism.controller.protocol", "PLAIN"),
    ("sasl.oauthbearer.expected.audience", "x"),
    ("sasl.oauthbearer.jwks.endpoint.url", "http://x/"),
    ("sasl.oauthbearer.token.endpoint.url", "http://x/"),
    ("sasl.server.max.receive.size", "1000"),
    ("connections.max.reauth.ms", "5"),
)
PREFIXES: Final = ("", OWN, f"{OWN}plain.", f"{OWN}oauthbearer.")
REFUSED_HERE: Final = (
    ("sasl.enabled.mechanisms", "NOPE"),
    ("sasl.enabled.mechanisms", ""),
    (f"{OWN}plain.sasl.jaas.config", "rubbish"),
)
"""What Apache Kafka stores, and does not start with the next time."""


class Side(NamedTuple):
    """One of the brokers."""

    system: SecuredKafka | SecuredPkafka
    admin: Admin
    number: str

    def alter(
        self, *changes: tuple[str, str | None], is_for_all: bool = False, is_tried: bool = False
    ) -> str:
        """What the broker answers to changes of its settings; empty: it takes them."""
        resource = ConfigResource(ResourceType.BROKER, "" if is_for_all else self.number)
        wanted = [
            ConfigChange(name, AlterOp.DELETE if value is None else AlterOp.SET, value)
            for name, value in changes
        ]
        outcome = self.admin.alter_configs({resource: wanted}, validate_only=is_tried)[resource]
        return "" if outcome is None else str(outcome)

    def lets_in(self, user: str, password: str) -> bool:
        """Whether a client gets in by PLAIN."""
        keys = {"bootstrap.servers": self.system.listeners["sasl_plaintext"]}
        keys |= {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN", user, password)}  # type: ignore[dict-item]
        try:
            with Admin(keys) as client:
                return bool(client.describe_cluster().brokers)
        except AuthenticationError:
            return False


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    directory = tmp_path_factory.mktemp("logins")
    with contextlib.ExitStack() as stack:
        systems: list[SecuredKafka | SecuredPkafka] = [
            stack.enter_context(secured_kafka(directory / "kafka", overrides=ENCODER)),
            stack.enter_context(secured_pkafka(directory / "pkafka", overrides=ENCODER)),
        ]
        made = []
        for system in systems:
            admin = stack.enter_context(Admin({"bootstrap.servers": system.listeners["plaintext"]}))
            made.append(Side(system, admin, str(admin.describe_cluster().brokers[0].id)))
        yield made[0], made[1]


@pytest.mark.parametrize("is_for_all", [False, True], ids=["one broker", "all brokers"])
def test_each_key_gets_the_same_answer(sides: tuple[Side, Side], is_for_all: bool) -> None:
    wanted = [(f"{prefix}{key}", value) for key, value in KEYS for prefix in PREFIXES]
    kafka, pkafka = (
        {change: side.alter(change, is_for_all=is_for_all, is_tried=True) for change in wanted}
        for side in sides
    )
    assert {"", "Cannot update these configs dynamically: Set(sasl.login.class)"} <= set(
        kafka.values()
    ) or is_for_all
    assert pkafka == kafka


@pytest.mark.parametrize("change", REFUSED_HERE)
def test_what_would_keep_the_broker_from_starting_is_refused_here(
    sides: tuple[Side, Side], change: tuple[str, str]
) -> None:
    kafka, pkafka = (side.alter(change, is_tried=True) for side in sides)
    assert kafka == ""
    assert change[0] in pkafka


def test_changes_count_here_at_once_and_there_after_a_restart(sides: tuple[Side, Side]) -> None:
    kafka, pkafka = sides
    jaas = (f"{OWN}plain.sasl.jaas.config", f'{PLAIN} user_zoe="z" username="zoe" password="z";')
    for side in sides:
        assert side.lets_in("bob", "bobs")
        assert side.alter(jaas) == ""
    assert (kafka.lets_in("bob", "bobs"), kafka.lets_in("zoe", "z")) == (True, False)
    assert (pkafka.lets_in("bob", "bobs"), pkafka.lets_in("zoe", "z")) == (False, True)
    # Apache Kafka lets no base key change while such a setting waits for the restart.
    waiting = ("sasl.kerberos.kinit.cmd", "/elsewhere")
    assert "restart broker or create a new listener" in kafka.alter(waiting)
    assert pkafka.alter(waiting) == ""
    for side in sides:
        assert side.alter((jaas[0], None), (waiting[0], None)) == ""
        assert side.lets_in("bob", "bobs")
    # A setting that is of no login keeps both from it.
    for side in sides:
        assert side.alter((f"{OWN}own", "x")) == ""
        assert "restart broker or create a new listener" in side.alter(waiting)
        assert side.alter((f"{OWN}own", None)) == ""


def test_a_mechanism_that_goes_and_comes(sides: tuple[Side, Side]) -> None:
    pkafka = sides[1]
    assert pkafka.alter(("sasl.enabled.mechanisms", "SCRAM-SHA-256")) == ""
    assert not pkafka.lets_in("bob", "bobs")
    own = (f"{OWN}sasl.enabled.mechanisms", "SCRAM-SHA-256,PLAIN")
    more = (f"{OWN}scram-sha-256.sasl.jaas.config", f"{SCRAM};")
    assert pkafka.alter(own, more) == ""
    assert pkafka.lets_in("bob", "bobs")
    assert pkafka.alter(*((name, None) for name in ("sasl.enabled.mechanisms", own[0], more[0]))) == ""
