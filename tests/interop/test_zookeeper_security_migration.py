"""pk-zookeeper-security-migration beside Apache Kafka's tool: the same tree, the same rights, the same text."""

import json
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.forked_commands import commands
from tests.interop.kafka import JAVA_SOURCES, java_program
from tests.json_schemas import check
from tests.zookeeper_with_users import rights, talking, write_jaas, zookeeper_with_users

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("puresasl") is None, reason="pip install 'pkafka[zookeeper-sasl]'"),
]

TREE: Final = (
    "/admin/delete_topics",
    "/brokers/ids/0",
    "/brokers/topics/t/partitions/0/state",
    "/cluster/id",
    "/config/brokers/0",
    "/config/topics/t",
    "/config/users/alice",
    "/config/users-of-others",
    "/consumers/g/offsets/t/0",
    "/controller",
    "/delegation_token/tokens/a",
    "/delegation_token/token_changes/b",
    "/isr_change_notification/isr_change_0000000001",
    "/kafka-acl/Topic/t",
    "/somebody/else",
)
OWN: Final = (31, "sasl", "kafka")
TO_READ: Final = (1, "world", "anyone")
OPEN: Final = (31, "world", "anyone")
CLASS: Final = "kafka.admin.ZkSecurityMigrator"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("migration")


@pytest.fixture(scope="module")
def options(folder: Path) -> Iterator[str]:
    """``KAFKA_OPTS`` of the user ``kafka``."""
    value = write_jaas(folder / "jaas.conf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_OPTS", value)
        yield value


@pytest.fixture(scope="module")
def zookeeper(kafka_classpath: str, options: str, folder: Path) -> Iterator[str]:
    with zookeeper_with_users(folder / "zookeeper", kafka_classpath) as connect:
        with talking(connect) as client:
            for chroot in ("theirs", "ours", "dry", "shell"):
                for path in TREE:
                    client.create(f"/{chroot}{path}", b"", makepath=True)
            for chroot in ("theirs-empty", "ours-empty", "guarded"):
                client.create(f"/{chroot}", b"")
        yield connect


class Tools:
    """Both makes of the tool."""

    def __init__(self, class_path: str, options: str) -> None:
        self._class_path = class_path
        self._options = options

    def theirs(self, *words: str, options: str | None = None) -> subprocess.CompletedProcess[str]:
        flags = (self._options if options is None else options).split()
        quiet = f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}"
        command = [java_program("java"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", quiet, *flags]
        command += ["-cp", self._class_path, CLASS, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    def ours(self, *words: str, options: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = None if options is None else {"KAFKA_OPTS": options}
        return commands.run("zookeeper_security_migration", list(words), environment=environment)

    def both(
        self, zookeeper: str, chroots: tuple[str, str], *words: str
    ) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
        theirs, ours = (f"{zookeeper}/{chroot}" for chroot in chroots)
        return (
            self.theirs("--zookeeper.connect", theirs, *words),
            self.ours("--zookeeper.connect", ours, *words),
        )


@pytest.fixture(scope="module")
def tools(kafka_classpath: str, options: str) -> Tools:
    return Tools(kafka_classpath, options)


@pytest.mark.nightly  # Kafka's tool gives a node six seconds, and every run of it is a JVM
def test_nodes_get_kafkas_rights_and_lose_them_again(zookeeper: str, tools: Tools) -> None:
    chroots = ("theirs", "ours")
    for wanted, own in (("secure", {OWN, TO_READ}), ("unsecure", {OPEN})):
        theirs, ours = tools.both(zookeeper, chroots, f"--zookeeper.acl={wanted}")
        assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout), (ours, theirs)
        assert (ours.returncode, ours.stderr) == (0, "")
        assert ours.stdout.startswith("Warning: The following secure root paths") == (wanted == "secure")
        found = rights(zookeeper, "ours")
        assert found == rights(zookeeper, "theirs")
        assert found["/brokers/topics/t/partitions/0/state"] == found["/controller"] == found[""] == own
        assert found["/config/users/alice"] == found["/delegation_token/tokens/a"] == own - {TO_READ}
        assert found["/somebody/else"] == found["/consumers/g/offsets/t/0"] == {OPEN}


@pytest.mark.nightly  # Kafka's tool gives a node six seconds, and every run of it is a JVM
def test_a_tree_that_is_not_a_clusters(zookeeper: str, tools: Tools) -> None:
    chroots = ("theirs-empty", "ours-empty")
    theirs, ours = tools.both(zookeeper, chroots, "--zookeeper.acl", "secure", "--enable.path.check")
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.returncode == 1
    assert ours.stdout.endswith("Exit the command.\n")
    assert rights(zookeeper, "ours-empty") == rights(zookeeper, "theirs-empty") == {"": {OWN, TO_READ}}
    theirs, ours = tools.both(zookeeper, chroots, "--zookeeper.acl", "secure")
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.returncode == 0
    found = rights(zookeeper, "ours-empty")
    assert found == rights(zookeeper, "theirs-empty")
    assert "/kafka-acl-extended/prefixed" in found
    assert "/controller" not in found
    theirs, ours = tools.both(zookeeper, ("nowhere", "nowhere"), "--zookeeper.acl", "secure")
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.returncode == 1
    assert "there is no /nowhere in ZooKeeper" in ours.stderr


@pytest.mark.nightly  # Kafka's tool gives a node six seconds, and every run of it is a JVM
def test_who_is_not_let_in(zookeeper: str, tools: Tools, folder: Path) -> None:
    words = ("--zookeeper.acl", "secure", "--zookeeper.connect", f"{zookeeper}/guarded")
    assert tools.ours(*words).returncode == 0
    lacking = folder / "lacking.conf"
    lacking.write_text("Other { a.B required; };")
    for options, status, why in (
        (write_jaas(folder / "wrong.conf", password="wrong"), 4, "refuses the name or the password"),
        (f"-Djava.security.auth.login.config={lacking}", 1, "has no section 'Client'"),
        ("", 1, "No JAAS configuration file has been specified"),
    ):
        theirs, ours = tools.theirs(*words, options=options), tools.ours(*words, options=options)
        assert ours.stdout == theirs.stdout
        assert theirs.returncode == 1
        assert ours.returncode == status
        assert why in ours.stderr
        assert len(ours.stderr.splitlines()) == 1
    ours = tools.ours(*words, options=write_jaas(folder / "other.conf", user="other"))
    assert ours.returncode == 4
    assert "Unexpected return code: -102\n" in ours.stdout
    assert "NoAuth" in ours.stderr


def test_a_dry_run_changes_nothing(zookeeper: str, tools: Tools) -> None:
    words = ("--zookeeper.acl", "secure", "--zookeeper.connect", f"{zookeeper}/dry", "--dry-run")
    before = rights(zookeeper, "dry")
    shown = tools.ours(*words)
    assert shown.returncode == 0
    assert "/config/users/alice would get sasl:kafka:cdrwa\n" in shown.stdout
    assert "/migration would be made, with sasl:kafka:cdrwa,world:anyone:r\n" in shown.stdout
    assert rights(zookeeper, "dry") == before
    done = tools.ours(*words[:-1], "--output", "json")
    document = json.loads(done.stdout)
    check(document, "pk-zookeeper-security-migration")
    after = rights(zookeeper, "dry")
    assert (
        after["/brokers/topics/t/partitions/0/state"] == after["/controller"] == after[""] == {OWN, TO_READ}
    )
    assert after["/config/users/alice"] == after["/delegation_token/tokens/a"] == {OWN}
    assert after["/somebody/else"] == after["/consumers/g/offsets/t/0"] == {OPEN}
    results = {row["path"]: row["result"] for row in document["nodes"]}
    assert results["/config/users/alice"] == "set"
    assert results["/migration"] == "created"
    assert after.keys() - before.keys() == {
        *(path for path, result in results.items() if result == "created"),
        "/kafka-acl-extended/prefixed",
    }
    again = json.loads(tools.ours(*words, "--output", "json").stdout)
    assert {row["result"] for row in again["nodes"]} == {"unchanged"}
    assert again["dry_run"] is True


def test_the_shell_logs_in(zookeeper: str, tools: Tools, folder: Path) -> None:
    assert (
        tools.ours("--zookeeper.acl", "secure", "--zookeeper.connect", f"{zookeeper}/shell").returncode == 0
    )
    shell = "zookeeper_shell"
    found = commands.run(shell, [f"{zookeeper}/shell", "getAcl", "/config/users/alice"])
    assert found.returncode == 0, found
    assert "state:SaslAuthenticated" in found.stdout
    assert found.stdout.endswith("'sasl,'kafka\n: cdrwa\n")
    nobody = commands.run(
        shell, [f"{zookeeper}/shell", "get", "/config/users/alice"], environment={"KAFKA_OPTS": ""}
    )
    assert nobody.returncode == 4
    assert "Insufficient permission : /config/users/alice" in nobody.stderr
    options = {"KAFKA_OPTS": write_jaas(folder / "wrong.conf", password="wrong")}
    wrong = commands.run(shell, [f"{zookeeper}/shell", "ls", "/"], environment=options)
    assert wrong.returncode == 4
    assert "refuses the name or the password" in wrong.stderr
