"""The way of a newcomer: a secured cluster in one word, a refusal, a rule, and then it works; nowhere a password."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, find_jars, find_java
from tests.e2e.test_commands import Shell
from tests.talk import wait_for

PROTOCOLS: Final = (
    "sasl_ssl",
    *(pytest.param(each, marks=pytest.mark.nightly) for each in ("ssl", "sasl_plaintext")),
)
"""What is special about the others is shown by unit tests, and by the lines of docs/security.md."""
_PASSWORD: Final = re.compile(r"^sasl\.password=(.+)$", re.M)


@pytest.fixture
def pk(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell("dev", "down", "--all")


def up(pk: Shell, *args: object) -> tuple[str, Path]:
    """Where the brokers are, and the folder of the users' files."""
    done = pk("dev", "up", "--workers", 1, *args)
    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    admin = Path(said["CLIENT_PROPERTIES"])
    assert Path(said["LIBRDKAFKA_CONF"]) == admin.with_name("librdkafka.conf")
    assert admin.parent.name == "admin"
    return said["BOOTSTRAP"], admin.parent.parent


def passwords(users: Path) -> list[str]:
    """Every password that a cluster has."""
    found = [_PASSWORD.findall(each.read_text()) for each in users.glob("*/librdkafka.conf")]
    return [password for each in found for password in each]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_newcomer_is_refused_and_then_let_in(pk: Shell, protocol: str) -> None:
    bootstrap, users = up(pk, "--security", protocol)

    def run(command: str, user: str, *args: object) -> subprocess.CompletedProcess[str]:
        flags = ("--bootstrap-server", bootstrap, "--command-config", users / user / "client.properties")
        return pk(command, *flags, *args)

    def produce(user: str) -> subprocess.CompletedProcess[str]:
        flags = ("--producer.config", users / user / "client.properties", "--topic", "orders")
        return pk("console_producer:main", "--bootstrap-server", bootstrap, *flags, stdin="hello\n")

    made = run("topics:main", "admin", "--create", "--topic", "orders")
    assert made.returncode == 0, made.stderr
    refused = produce("alice")
    assert refused.returncode == ExitStatus.AUTHENTICATION, refused.stderr
    assert "pk-acls" in refused.stderr
    added = run(
        *("acls:main", "admin", "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    )
    assert added.returncode == 0, added.stderr
    let_in = produce("alice")
    assert (let_in.returncode, let_in.stderr) == (0, "")
    assert produce("bob").returncode == ExitStatus.AUTHENTICATION
    why = ("--explain", "--principal", "User:alice", "--operation", "Write", "--topic", "orders")
    explained = run("acls:main", "admin", *why)
    assert explained.returncode == 0, explained.stderr
    assert "User:alice" in explained.stdout
    looked = run("doctor:main", "alice", "--security", "--topic", "orders")
    assert looked.returncode == 0, looked.stdout + looked.stderr
    stranger = pk("topics:main", "--bootstrap-server", bootstrap, "--list", "--timeout", "1s")
    assert stranger.returncode in (ExitStatus.UNREACHABLE, ExitStatus.AUTHENTICATION), stranger.stderr


def test_passwords_are_in_files_of_the_owner_and_nowhere_else(pk: Shell) -> None:
    given = pk.folder / "users.properties"
    given.write_text("alice=of-alice\ncarol=of-carol\n")
    bootstrap, users = up(pk, "--security", "SASL_SSL", "--users", given)
    secrets = passwords(users)
    assert len(secrets) == 4
    assert {"of-alice", "of-carol"} <= set(secrets)
    document = json.loads(pk("dev", "status", "--output", "json").stdout)
    (broker,) = document["brokers"]
    assert (broker["security"], broker["client_properties"]) == (
        "SASL_SSL",
        str(users / "admin" / "client.properties"),
    )
    directory = Path(broker["directory"])
    carol = ("--command-config", users / "carol" / "client.properties")
    assert pk("topics:main", "--bootstrap-server", bootstrap, *carol, "--list").returncode == 0
    wrong = pk.folder / "wrong.properties"
    text = carol[1].read_text()
    wrong.write_text(text.replace("of-carol", "of-nobody"))
    refused = pk("topics:main", "--bootstrap-server", bootstrap, "--command-config", wrong, "--list")
    assert refused.returncode == ExitStatus.AUTHENTICATION
    log = (directory / "server.log").read_text()
    assert "Failed authentication" in log
    family = [psutil.Process(broker["pid"]), *psutil.Process(broker["pid"]).children(recursive=True)]
    lines = [word for each in family for word in each.cmdline()]
    seen = "\n".join([log, *lines, json.dumps(document), pk("dev", "status").stdout, refused.stderr])
    secrets += ["of-nobody", *broker_passwords(directory)]
    assert not [secret for secret in secrets if secret in seen]
    tree = [each for folder in ("users", "security") for each in (directory / folder).rglob("*")]
    assert {each.stat().st_mode & 0o077 for each in tree} == {0}

    again = pk("dev", "up", "--security", "ssl")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == f"pk-dev: a broker named default runs already on {bootstrap}\n"
    assert pk("dev", "down").returncode == 0
    assert not directory.exists()
    bootstrap, users = up(pk, "--security", "sasl_plaintext")
    assert not set(passwords(users)) & set(secrets)


def broker_passwords(directory: Path) -> list[str]:
    """What brokers know of passwords."""
    return re.findall(r'="([^"]+)"', (directory / "security" / "broker.properties").read_text())[1:]


def test_a_wrong_use_is_named(pk: Shell) -> None:
    file = pk.folder / "users.properties"
    file.write_text("alice=secret\n")
    for flags, status, words in (
        (("--users", file), ExitStatus.USAGE, "--users goes with --security"),
        (("--security", "kerberos"), ExitStatus.USAGE, "'kerberos' is not one of"),
        (("--security", "ssl", "--users", file), ExitStatus.FAILURE, "certificates in place of passwords"),
    ):
        refused = pk("dev", "up", *flags)
        assert (refused.returncode, refused.stdout) == (status, "")
        assert words in refused.stderr
        assert "secret" not in refused.stderr
    assert not list((pk.folder / "tmp").iterdir())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kcat_takes_its_file(pk: Shell, protocol: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("there is no kcat")
    _, users = up(pk, "--security", protocol)
    file = str(users / "admin" / "librdkafka.conf")
    told = subprocess.run(
        ["kcat", "-F", file, "-L", "-J", "-m", "60"], capture_output=True, text=True, timeout=90, check=True
    )
    assert len(json.loads(told.stdout)["brokers"]) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_brokers_of_a_cluster_let_each_other_in(pk: Shell, protocol: str) -> None:
    try:
        find_jars()
        find_java()
    except ZooKeeperUnavailableError as error:
        pytest.skip(str(error))
    bootstrap, users = up(pk, "--security", protocol, "--brokers", 2)
    assert bootstrap.count(",") == 1
    flags = (
        "--bootstrap-server",
        bootstrap,
        "--command-config",
        users / "admin" / "client.properties",
        *("--topic", "t", "--output", "json"),
    )
    assert pk("topics:main", *flags, "--create", "--partitions", 4).returncode == 0
    producer = ("--producer.config", users / "admin" / "client.properties", "--producer-property", "acks=all")
    sent = pk(
        *("console_producer:main", "--bootstrap-server", bootstrap, "--topic", "t", *producer),
        stdin="a\nb\nc\n",
    )
    assert (sent.returncode, sent.stderr) == (0, "")

    def in_sync() -> bool:
        (topic,) = json.loads(pk("topics:main", *flags, "--describe").stdout)["topics"]
        return all(sorted(each["isr"]) == [0, 1] for each in topic["partitions"])

    wait_for(in_sync, what="replicas in sync")
    assert pk("dev", "down").returncode == 0
