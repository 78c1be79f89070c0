"""Commands at Apache Kafka 4 in KRaft mode, over SASL_SSL: who may, who may not, and who has the wrong password."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from tests.forked_commands import commands
from tests.interop.kafka import OracleUnavailableError, jars, java_program
from tests.interop.kraft_doors import MECHANISMS, KraftDoors, kraft_doors
from tests.interop.secured_kafka import SCRAM

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

WRONG: Final = "not-the-password"
DENIED: Final = ExitStatus.AUTHENTICATION
_FILE_FLAGS: Final = {"console_producer": "--producer.config", "console_consumer": "--consumer.config"}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftDoors]:
    try:
        java_program("javac")
        jars("kafka-4")
    except OracleUnavailableError as missing:
        pytest.skip(str(missing))
    with kraft_doors(tmp_path_factory.mktemp("kraft")) as running:
        yield running


class As:
    """Runs commands as a user; each returns what it said, after a look at how it ended."""

    def __init__(self, doors: KraftDoors, folder: Path) -> None:
        self._doors = doors
        self._folder = folder

    def __call__(
        self,
        user: str,
        module: str,
        *words: str,
        status: ExitStatus = ExitStatus.OK,
        stdin: str = "",
        mechanism: str = "SCRAM-SHA-512",
        word: str | None = None,
    ) -> CompletedProcess[str]:
        return self.by(self._doors.keys(user, mechanism, word), module, *words, status=status, stdin=stdin)

    def by(
        self,
        keys: dict[str, str],
        module: str,
        *words: str,
        status: ExitStatus = ExitStatus.OK,
        stdin: str = "",
    ) -> CompletedProcess[str]:
        """As a client with these settings."""
        file = self._folder / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        server = ["--bootstrap-server", self._doors.address]
        flag = _FILE_FLAGS.get(module, "--command-config")
        done = commands.run(module, [*server, flag, str(file), *words], stdin=stdin, timeout_s=120)
        assert done.returncode == status, done
        assert "Traceback" not in done.stderr
        assert "Request(" not in done.stderr
        return done


@pytest.fixture
def run(doors: KraftDoors, tmp_path: Path) -> As:
    return As(doors, tmp_path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_lets_in(run: As, mechanism: str) -> None:
    run("alice", "topics", "--list", mechanism=mechanism)
    if mechanism != "OAUTHBEARER":
        told = run("alice", "topics", "--list", mechanism=mechanism, word=WRONG, status=DENIED)
        assert "Authentication failed" in told.stderr


def test_topics(run: As) -> None:
    run("admin", "topics", "--create", "--topic", "made", "--partitions", "2")
    assert "PartitionCount: 2" in run("admin", "topics", "--describe", "--topic", "made").stdout
    run("admin", "topics", "--alter", "--topic", "made", "--partitions", "3")
    assert "made" in run("admin", "topics", "--list").stdout.split()
    assert run("bob", "topics", "--list").stdout.split() == []  # what one may not see is not there
    run("bob", "topics", "--create", "--topic", "other", status=DENIED)
    run("bob", "topics", "--describe", "--topic", "made", status=ExitStatus.FAILURE)
    run(
        "admin",
        "acls",
        "--add",
        "--allow-principal",
        "User:alice",
        "--operation",
        "Describe",
        "--topic",
        "made",
    )
    assert run("alice", "topics", "--list").stdout.split() == ["made"]
    run("alice", "topics", "--alter", "--topic", "made", "--partitions", "9", status=DENIED)
    run("alice", "topics", "--delete", "--topic", "made", status=DENIED)
    run("admin", "topics", "--delete", "--topic", "made")


def test_rules(run: As) -> None:
    rule = ("--allow-principal", "User:carol", "--operation", "All", "--topic", "of-carol")
    where = (*rule, "--resource-pattern-type", "prefixed")
    run("bob", "acls", "--add", *where, status=DENIED)
    told = run("bob", "acls", "--list", status=DENIED)
    assert "Cluster authorization failed: it needs DESCRIBE permission." in told.stderr
    run("admin", "acls", "--list", word=WRONG, status=DENIED)
    run("admin", "acls", "--add", *where)
    listed = run("admin", "acls", "--list", "--principal", "User:carol").stdout
    assert "name=of-carol, patternType=PREFIXED" in listed
    question = ("--explain", "--principal", "User:carol", "--operation", "Write", "--topic", "of-carol.1")
    assert "may WRITE TOPIC of-carol.1" in run("admin", "acls", *question).stdout
    run("bob", "acls", *question, status=DENIED)
    run("admin", "acls", "--remove", "--force", *where)
    assert "carol" not in run("admin", "acls", "--list").stdout


def test_users_quotas_and_settings(run: As) -> None:
    carol = ("--user", "carol")
    run("bob", "configs", "--alter", *carol, "--add-config", "SCRAM-SHA-256=[password=x]", status=DENIED)
    run("bob", "configs", "--describe", *carol, status=DENIED)
    run("admin", "configs", "--describe", *carol, word=WRONG, status=DENIED)
    run("admin", "configs", "--alter", *carol, "--add-config", "SCRAM-SHA-512=[password=of-carol]")
    assert "SCRAM-SHA-512=iterations=4096" in run("admin", "configs", "--describe", *carol).stdout
    run("carol", "topics", "--list")
    run("admin", "configs", "--alter", *carol, "--delete-config", "SCRAM-SHA-512")
    run("carol", "topics", "--list", status=DENIED)
    run("admin", "configs", "--alter", *carol, "--add-config", "producer_byte_rate=1000")
    assert "producer_byte_rate=1000" in run("admin", "configs", "--describe", *carol).stdout
    run("admin", "topics", "--create", "--topic", "set", "--if-not-exists")
    of_topic = ("--topic", "set")
    run("admin", "configs", "--alter", *of_topic, "--add-config", "retention.ms=100000")
    assert "retention.ms=100000" in run("admin", "configs", "--describe", *of_topic).stdout
    run("bob", "configs", "--alter", *of_topic, "--add-config", "retention.ms=1", status=DENIED)
    run("bob", "configs", "--describe", *of_topic, status=DENIED)


def test_records_and_groups(run: As) -> None:
    run("admin", "topics", "--create", "--topic", "read")
    allowed = ("--producer", "--consumer", "--topic", "read", "--group", "g")
    run("admin", "acls", "--add", "--allow-principal", "User:alice", *allowed)
    send = ("console_producer", "--topic", "read")
    read = ("console_consumer", "--topic", "read", "--group", "g", "--from-beginning", "--max-messages", "2")
    run("alice", *send, stdin="a\nb\n")
    assert run("alice", *read, "--timeout-ms", "60000").stdout == "a\nb\n"
    run("bob", *send, stdin="c\n", status=DENIED)
    run("bob", *read, "--timeout-ms", "60000", status=DENIED)
    run("alice", *send, stdin="c\n", word=WRONG, status=DENIED)
    run("alice", *read, word=WRONG, status=DENIED)

    named = ("--group", "g")
    assert "read" in run("alice", "consumer_groups", "--describe", *named).stdout
    run(
        "alice", "consumer_groups", "--reset-offsets", *named, "--topic", "read", "--to-earliest", "--execute"
    )
    run("bob", "consumer_groups", "--describe", *named, status=DENIED)
    run("alice", "consumer_groups", "--list", word=WRONG, status=DENIED)
    for user in ("alice", "bob"):  # the row of one group says why, as in Kafka
        told = run(user, "consumer_groups", "--delete", *named, status=ExitStatus.FAILURE)
        assert "GroupAuthorizationException" in told.stdout
    run("admin", "consumer_groups", "--delete", *named)


def test_delegation_tokens(run: As, doors: KraftDoors) -> None:
    tokens = "delegation_tokens"
    made = run("alice", tokens, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token, hmac, owner = made.stdout.splitlines()[-1].split()[:3]
    assert owner == "User:alice"
    run("alice", tokens, "--describe", word=WRONG, status=DENIED)
    assert token in run("alice", tokens, "--describe", "--owner-principal", "User:alice").stdout
    assert token in run("bob", tokens, "--describe", "--owner-principal", "User:bob").stdout  # she named him
    assert token not in run("carol", tokens, "--describe", mechanism="OAUTHBEARER").stdout
    run("bob", tokens, "--renew", "--hmac", hmac, "--renew-time-period", "3600000")
    renewal = ("--renew", "--hmac", hmac, "--renew-time-period", "3600000")
    run("admin", tokens, *renewal, status=ExitStatus.FAILURE)  # neither owner nor renewer
    keys = doors.keys("alice") | {
        "sasl.jaas.config": f'{SCRAM} username="{token}" password="{hmac}" tokenauth="true";'
    }
    wrong = keys | {"sasl.jaas.config": keys["sasl.jaas.config"].replace(hmac, hmac[::-1])}
    run.by(keys, "topics", "--list")
    run.by(wrong, "topics", "--list", status=DENIED)
    run.by(keys, tokens, "--create", "--max-life-time-period", "-1", status=ExitStatus.FAILURE)
    run("alice", tokens, "--expire", "--hmac", hmac, "--expiry-time-period", "-1")
    run.by(keys, "topics", "--list", status=DENIED)


def test_the_doctor(run: As) -> None:
    run("admin", "topics", "--create", "--topic", "examined")
    words = ("--security", "--topic", "examined")
    assert "topic examined: READ, WRITE" in run("admin", "doctor", *words).stdout
    assert "cluster: no rights" in run("bob", "doctor", *words, status=DENIED).stdout
    told = run("admin", "doctor", *words, word=WRONG, status=DENIED).stdout
    assert "login      failed" in told
    assert "rights     not reached" in told


OTHERS: Final[dict[str, tuple[tuple[str, ...], ExitStatus]]] = {
    "log_dirs": (("--describe",), ExitStatus.FAILURE),
    "leader_election": (("--election-type", "preferred", "--all-topic-partitions"), DENIED),
    "reassign_partitions": (("--list",), DENIED),
    "broker_api_versions": ((), ExitStatus.OK),
    "features": (("describe",), ExitStatus.OK),
    "transactions": (("list",), ExitStatus.OK),
}
"""Words of other commands, and how they end for who has no rights: what needs none, and lists, end well."""


@pytest.mark.parametrize("module", OTHERS)
def test_other_commands(run: As, module: str) -> None:
    words, denied = OTHERS[module]
    run("admin", module, *words)
    run("bob", module, *words, status=denied)
    run("admin", module, *words, word=WRONG, status=DENIED)
