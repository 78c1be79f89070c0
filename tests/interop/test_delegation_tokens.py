"""Delegation tokens: every request has Apache Kafka's answer, and a token of one kind of broker is one of the other."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.delegation_tokens import DelegationToken
from pkafka.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from pkafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pkafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pkafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from pkafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from pkafka.protocol.schema import Message
from pkafka.security.acl import Acl, Entry, Operation, Pattern, PatternType, Permission, ResourceType
from pkafka.testing import running_broker
from tests.acl_rules import AUTHORIZER
from tests.differences import differences
from tests.forked_commands import commands
from tests.interop.conftest import JavaTool
from tests.interop.kafka import running_kafka
from tests.interop.test_every_api import comparable
from tests.raw_client import RawClient
from tests.sockets import free_port
from tests.talk import wait_for
from tests.token_clients import USERS, as_user, lets_in, plain_jaas, token_jaas, token_settings

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
LONGEST: Final = (1 << 63) - 1


class Side(NamedTuple):
    """A broker: its plain address and the one where clients log in."""

    bootstrap: str
    secured: str
    zookeeper: str | None = None

    def as_user(self, user: str) -> Admin:
        return as_user(self.secured, user)

    def lets_in(self, token: DelegationToken) -> bool:
        return lets_in(self.secured, token)


def settings(port: int) -> dict[str, object]:
    return {
        **token_settings(port),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "offsets.topic.replication.factor": 1,
    }


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Side]]:
    """Apache Kafka and pkafka, each with the same rules for the same users."""
    directory = tmp_path_factory.mktemp("tokens")
    ports = free_port(), free_port()
    with (
        running_kafka(directory / "kafka", overrides=settings(ports[0])) as kafka,
        running_broker(directory / "pkafka", {**settings(ports[1]), "pkafka.workers": 2}) as pkafka,
    ):
        secured = [f"127.0.0.1:{port}" for port in ports]
        found = [
            Side(kafka.bootstrap, secured[0], kafka.zookeeper),
            Side(pkafka.bootstrap, secured[1]),
        ]
        for side in found:
            allow(side)
        yield found


def allow(side: Side) -> None:
    """Carol may make and see tokens of alice; dave may see alice's."""
    alice = Pattern(ResourceType.USER, "User:alice", PatternType.LITERAL)
    rules = [
        Acl(alice, Entry(f"User:{who}", "*", what, Permission.ALLOW))
        for who, what in (
            ("carol", Operation.CREATE_TOKENS),
            ("dave", Operation.DESCRIBE_TOKENS),
        )
    ]
    with Admin({"bootstrap.servers": side.bootstrap}) as admin:
        assert set(admin.create_acls(rules).values()) == {None}


def create(owner: str | None = None, renewers: Sequence[str] = (), lifetime_ms: int = -1) -> Message:
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (one.partition(":") for one in renewers)
        ],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, _, request.owner_principal_name = owner.partition(":")
    return request


def describe(*owners: str, every: bool = False) -> Message:
    request = DescribeDelegationTokenRequest()
    request.owners = None
    if not every:
        request.owners = [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=one) for one in owners
        ]
    return request


class Step(NamedTuple):
    """A request of a user; of one about a token, the number of the token among those that were made."""

    user: str | None
    request: Message
    version: int
    token: int | None = None


def renew(user: str | None, token: int | None, period_ms: int, version: int = 2) -> Step:
    return Step(user, RenewDelegationTokenRequest(hmac=b"none", renew_period_ms=period_ms), version, token)


def expire(user: str | None, token: int | None, period_ms: int, version: int = 2) -> Step:
    request = ExpireDelegationTokenRequest(hmac=b"none", expiry_time_period_ms=period_ms)
    return Step(user, request, version, token)


STEPS: Final = [
    *(Step("alice", create(renewers=["User:bob"]), version) for version in range(4)),
    Step("alice", create(lifetime_ms=2 * HOUR_MS), 3),
    Step("alice", create(lifetime_ms=0), 3),
    Step("alice", create(lifetime_ms=LONGEST), 3),
    Step("alice", create("User:alice"), 3),
    Step("alice", create("User:"), 3),
    Step("alice", create("User:bob"), 3),
    Step("alice", create("Group:alice"), 3),
    Step("alice", create("User:bob", ["Group:x"]), 3),
    Step("alice", create(renewers=["Group:x"]), 3),
    Step("alice", create(renewers=["User:", "User:bob", "User:bob"]), 3),
    Step("carol", create("User:alice", ["User:dave"]), 3),
    Step("carol", create("User:alice", ["user:dave"]), 3),
    Step(None, create("User:alice", ["Group:x"]), 3),
    *(
        Step(user, describe(*owners, every=every), version)
        for version in range(4)
        for user in USERS
        for owners, every in (((), True), ((), False), (("alice",), False), (("bob", "x"), False))
    ),
    Step(None, describe(every=True), 3),
    *(
        step
        for act in (renew, expire)
        for step in (
            *(act("alice", 0, HOUR_MS, version) for version in range(3)),
            act("bob", 1, 2 * HOUR_MS),
            act("carol", 1, HOUR_MS),
            act("dave", 8, HOUR_MS),
            act("carol", 9, HOUR_MS),
            act("dave", 9, HOUR_MS),
            act("alice", None, HOUR_MS),
            act("bob", 4, -1),
            act(None, 0, HOUR_MS),
            act("alice", 4, 30 * 24 * HOUR_MS),
        )
    ),
    renew("alice", 2, -1),
    renew("alice", 3, -5),
    *(Step(user, describe(every=True), 3) for user in USERS),
    expire("bob", 0, -1),
    renew("bob", 0, HOUR_MS),
    expire("alice", 0, -1),
    *(Step(user, describe(every=True), 3) for user in USERS),
]


def test_every_request_has_the_same_answer(sides: Sequence[Side]) -> None:
    answers = [played(side, STEPS) for side in sides]
    for step, one, other in zip(STEPS, *answers, strict=True):
        assert list(differences(one, other)) == [], (step, one, other)
    for side in sides:
        remove_all(side)


def played(side: Side, steps: Sequence[Step]) -> list[Any]:
    """The answers, with tokens by their numbers and times in minutes from now."""
    clients = {user: logged_in(side, user) for user in (*USERS, None)}
    made: list[Any] = []
    answers = []
    for step in steps:
        if step.token is not None:
            step.request.hmac = made[step.token].hmac  # type: ignore[attr-defined]
        answer = clients[step.user].call(step.request, step.version)
        if getattr(answer, "token_id", ""):
            made.append(answer)
        numbers = {one.token_id: str(number) for number, one in enumerate(made)}
        answers.append(shown(answer, numbers))
    for client in clients.values():
        client.close()
    return answers


def logged_in(side: Side, user: str | None) -> RawClient:
    if user is None:
        return RawClient(side.bootstrap)
    client = RawClient(side.secured)
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    token = f"\0{user}\0{user}".encode()
    assert client.call(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0
    return client


def shown(answer: Any, numbers: Mapping[str, str]) -> Any:
    if isinstance(answer, list):
        return sorted((shown(each, numbers) for each in answer), key=repr)
    if not isinstance(answer, Message):
        return comparable(answer)
    now_ms = time.time() * 1000
    found: dict[str, Any] = {}
    for field in answer.__fields__:
        value = getattr(answer, field.name)
        if "timestamp" in field.name:
            # In tens of minutes: the one broker may be asked a minute later than the other.
            value = value if value <= 0 else f"{10 * round((value - now_ms) / (10 * MINUTE_MS))} min"
        elif field.name == "token_id":
            value = numbers.get(value, value)
        elif field.name == "hmac":
            value = len(value)
        else:
            value = shown(value, numbers)
        found[field.name] = value
    return found


def remove_all(side: Side) -> None:
    for user in USERS:
        with side.as_user(user) as admin:
            for token in admin.describe_delegation_tokens():
                if token.owner.name == user:
                    admin.expire_delegation_token(token.hmac)


def test_a_token_is_good_at_brokers_of_both_kinds(sides: Sequence[Side], tmp_path: Path) -> None:
    """In one cluster, whoever made it; it is changed and removed by either."""
    kafka, port = sides[0], free_port()
    more = {"pkafka.workers": 2, "broker.id": 7, "zookeeper.connect": kafka.zookeeper}
    with running_broker(tmp_path / "pkafka", {**settings(port), **more}) as broker:
        pkafka = Side(broker.bootstrap, f"127.0.0.1:{port}")
        with kafka.as_user("alice") as old:
            before = old.create_delegation_token()
        for one, other in ((kafka, pkafka), (pkafka, kafka)):
            live_at(one, other, before)
        assert pkafka.lets_in(before)
        with pkafka.as_user("alice") as here:
            assert here.describe_delegation_tokens() == [before]
            here.expire_delegation_token(before.hmac)
        # Other tests look at all tokens of Apache Kafka's broker, which hears of the end by a note.
        with kafka.as_user("alice") as old:
            wait_for(lambda: not old.describe_delegation_tokens(), what="the end at the other")


def live_at(one: Side, other: Side, before: DelegationToken) -> None:
    """A token is made at one broker, used at both, renewed and removed at the other."""
    with one.as_user("alice") as here, other.as_user("alice") as there:
        token = here.create_delegation_token(lifetime_max_ms=2 * HOUR_MS)
        for side in (one, other):
            wait_for(partial(side.lets_in, token), what="the token")
        assert token in there.describe_delegation_tokens()
        ends_ms = there.renew_delegation_token(token.hmac, period_ms=HOUR_MS)
        assert ends_ms < token.expires_ms
        renewed = replace(token, expires_ms=ends_ms)
        wait_for(lambda: renewed in here.describe_delegation_tokens(), what="the renewal")
        there.expire_delegation_token(token.hmac)
        wait_for(lambda: here.describe_delegation_tokens() == [before], what="the removal")
        wait_for(lambda: not (one.lets_in(token) or other.lets_in(token)), what="the end")


@pytest.mark.nightly  # a broker of Apache Kafka of its own
def test_without_a_secret_there_are_no_tokens(tmp_path: Path, kafka_classpath: str) -> None:
    """What is checked before that is checked all the same."""
    ports = free_port(), free_port()
    kafkas, ours = ({**settings(port), "delegation.token.secret.key": ""} for port in ports)
    with (
        running_kafka(tmp_path / "kafka", overrides=kafkas) as kafka,
        running_broker(tmp_path / "pkafka", ours) as pkafka,
    ):
        plain = kafka.bootstrap, pkafka.bootstrap
        sides = [Side(one, f"127.0.0.1:{port}") for one, port in zip(plain, ports, strict=True)]
        for side in sides:
            allow(side)
        steps = [step for step in STEPS if step.token is None]
        answers = [played(side, steps) for side in sides]
    for step, one, other in zip(steps, *answers, strict=True):
        assert list(differences(one, other)) == [], (step, one, other)


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, Path]:
    """A client's configuration for each user."""
    found = {user: tmp_path / f"{user}.properties" for user in USERS}
    for user, file in found.items():
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={plain_jaas(user)}\n"
        )
    return found


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_javas_clients_log_in_by_tokens(
    sides: Sequence[Side], tmp_path: Path, java_tool: JavaTool, mechanism: str
) -> None:
    for side in sides:
        with side.as_user("alice") as alice:
            token = alice.create_delegation_token()
        wait_for(partial(side.lets_in, token), what="the token")
        said = []
        for hmac in (token.hmac, token.hmac[::-1]):
            file, jaas = tmp_path / "token.properties", token_jaas(replace(token, hmac=hmac))
            file.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
            )
            words = ("--bootstrap-server", side.secured, "--command-config", str(file), "--list")
            said.append(java_tool("org.apache.kafka.tools.TopicCommand", *words))
        right, wrong = said
        assert right.returncode == 0, right
        assert wrong.returncode == 1, wrong
        assert "SaslAuthenticationException" in wrong.stdout + wrong.stderr
        remove_all(side)


TOOL: Final = "org.apache.kafka.tools.DelegationTokenCommand"
WORDS: Final = [
    ("alice", "--create --max-life-time-period -1"),
    (
        "alice",
        "--create --max-life-time-period 3600000 --renewer-principal User:bob --renewer-principal User:x",
    ),
    ("carol", "--create --max-life-time-period 0 --owner-principal User:alice"),
    ("alice", "--describe"),
    ("alice", "--describe --renewer-principal User:a"),
    ("alice", "--describe --owner-principal User:bob"),
    ("alice", "--describe --owner-principal User:x --owner-principal User:y"),
    ("alice", "--renew --hmac TOKEN0 --renew-time-period -1"),
    ("bob", "--renew --hmac TOKEN1 --renew-time-period 1000000"),
    ("bob", "--expire --hmac TOKEN1 --expiry-time-period 600000"),
    ("bob", "--describe --owner-principal User:bob"),
    ("bob", "--expire --hmac TOKEN1 --expiry-time-period -1"),
    ("alice", "--expire --hmac TOKEN0 --expiry-time-period -1"),
    ("alice", "--describe --owner-principal User:alice"),
    ("alice", "--expire --hmac TOKEN2 --expiry-time-period -1"),
]
REFUSED: Final = [
    ("bob", "--create --max-life-time-period -1 --owner-principal User:alice"),
    ("bob", "--create --max-life-time-period -1 --owner-principal alice"),
    ("alice", "--expire --hmac TOKEN0 --expiry-time-period -1"),
    ("alice", "--renew --hmac AAAA --renew-time-period -1"),
    ("alice", "--create"),
    ("alice", "--renew --hmac AAAA"),
    ("alice", "--renew --renew-time-period 1"),
    ("alice", "--expire"),
    ("alice", "--create --describe"),
    ("alice", "--create --max-life-time-period 1 --hmac a"),
    ("alice", "--create --max-life-time-period 1 --renew-time-period 0"),
    ("alice", "--describe --hmac a"),
    ("alice", "--describe --max-life-time-period 1"),
    ("alice", "--renew --hmac a --renew-time-period 1 --owner-principal User:a"),
    ("alice", "--expire --hmac a --expiry-time-period 1 --owner-principal User:a"),
]
_OF_ONE: Final = re.compile(r"\S{80,}|tokenId : \S+|^\S{22}(?= \S{80,})", re.MULTILINE)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def test_the_tools_say_the_same(
    sides: Sequence[Side], files: Mapping[str, Path], java_tool: JavaTool
) -> None:
    """Each at its own kind of broker, with the same statuses; ours in fewer lines where something is wrong."""
    kafka, pkafka = sides
    made: list[tuple[DelegationToken, DelegationToken]] = []
    for number, (user, words) in enumerate([*WORDS, *REFUSED]):
        theirs, ours = (
            ["--bootstrap-server", side.secured, "--command-config", str(files[user])]
            + [
                made[int(each[-1])][place].password if each.startswith("TOKEN") else each
                for each in words.split()
            ]
            for place, side in enumerate(sides)
        )
        one = java_tool(TOOL, *theirs)
        other = commands.run("delegation_tokens", ours)
        assert told(other.stdout) == told(one.stdout), (words, one, other)
        assert bool(other.returncode) == bool(one.returncode) == (number >= len(WORDS)), (one, other)
        if one.returncode:
            assert complaint(one.stderr) in other.stderr, (one, other)
            assert other.stderr.count("\n") <= 2, other  # no traceback
        elif "--create" in words:
            made.append((newest(kafka), newest(pkafka)))


def told(text: str) -> list[str]:
    """The lines, without what is another token's and without the time."""
    return [_DATE.sub("DATE", _OF_ONE.sub("*", one)).strip() for one in text.strip().splitlines()]


def complaint(text: str) -> str:
    """What Kafka's tool says of wrong flags; brokers' errors have sentences of their own here."""
    first = text.splitlines()[0]
    return first if first.startswith(("Option", "Missing", "Command", "expected")) else ""


def newest(side: Side) -> DelegationToken:
    with side.as_user("alice") as admin:
        wait_for(admin.describe_delegation_tokens)
        return max(admin.describe_delegation_tokens(), key=lambda one: one.issued_ms)
