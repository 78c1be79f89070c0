"""pk-acls beside kafka-acls.sh: the same lines and the same rules, at brokers of both kinds and in ZooKeeper."""

from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Final

import pytest

from pkafka.clients.admin import Admin
from pkafka.security.acl import Acl, AclFilter, EntryFilter, PatternFilter
from tests.forked_commands import commands
from tests.interop.conftest import SYSTEMS, JavaTool, System
from tests.interop.guarded import guarded_systems
from tests.talk import wait_for

TOOL: Final = "kafka.admin.AclCommand"
ALICE: Final = ("--allow-principal", "User:alice")

STEPS: Final[list[tuple[list[str], str]]] = [
    (["--list"], ""),
    (["--add", *ALICE, "--operation", "Read", "--topic", "a"], ""),
    (
        [
            "--add",
            *ALICE,
            "--operation",
            "Read",
            "--operation",
            "describeconfigs",
            "--topic",
            "a",
            "--topic",
            "b",
        ],
        "",
    ),
    (
        [
            "--add",
            *ALICE,
            "--deny-principal",
            "User:bob",
            "--allow-host",
            "10.0.0.1",
            "--allow-host",
            "10.0.0.2",
            "--operation",
            "Write",
            "--topic",
            "a",
        ],
        "",
    ),
    (["--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.9", "--group", "*"], ""),
    (["--add", *ALICE, "--producer", "--topic", "a"], ""),
    (["--add", *ALICE, "--producer", "--idempotent", "--transactional-id", "t", "--topic", "c"], ""),
    (["--add", *ALICE, "--consumer", "--topic", "a", "--group", "g"], ""),
    (["--add", *ALICE, "--producer", "--consumer", "--topic", "d", "--group", "g"], ""),
    (["--add", *ALICE, "--cluster", "--operation", "Alter"], ""),
    (["--add", *ALICE, "--topic", "pre", "--resource-pattern-type", "prefixed"], ""),
    (["--add", *ALICE, "--delegation-token", "x", "--operation", "Describe"], ""),
    (["--add", *ALICE, "--user-principal", "User:carol", "--operation", "CreateTokens"], ""),
    (["--add", "--allow-principal", "Group:a:b", "--topic", "a"], ""),
    (["--list", "--topic", "a"], ""),
    (["--list", "--topic", "prefix", "--resource-pattern-type", "match"], ""),
    (["--list", "--topic", "pre", "--resource-pattern-type", "any"], ""),
    (["--list", "--topic", "pre", "--resource-pattern-type", "PREFIXED"], ""),
    (["--list", "--cluster"], ""),
    (["--list", "--topic", "none"], ""),
    (["--list", "--principal", "User:bob"], ""),
    (["--list", "--principal", "User:bob", "--principal", "User:*", "--principal", "User:none"], ""),
    (["--remove", *ALICE, "--operation", "Read", "--topic", "a"], "n\n"),
    (["--remove", *ALICE, "--operation", "Read", "--topic", "a"], "Y\n"),
    (["--remove", *ALICE, "--operation", "Read", "--topic", "b", "--force"], ""),
    (["--remove", "--topic", "a", "--topic", "c"], "y\ny\n"),
    (["--remove", "--topic", "none", "--force"], ""),
    (["--remove", *ALICE, "--consumer", "--topic", "d", "--group", "g", "--force"], ""),
    (["--remove", "--topic", "prefix", "--resource-pattern-type", "match", "--force"], ""),
    (["--list"], ""),
]
"""What is asked, and what is answered to questions."""

WRONG: Final[list[list[str]]] = [
    ["--list", "--add"],
    ["--add", "--topic", "a"],
    ["--add", *ALICE],
    ["--add", *ALICE, "--topic", "a", "--resource-pattern-type", "any"],
    ["--add", *ALICE, "--topic", "a", "--resource-pattern-type", "nothing"],
    ["--add", *ALICE, "--operation", "ClusterAction", "--topic", "a"],
    ["--add", *ALICE, "--producer"],
    ["--add", *ALICE, "--consumer", "--topic", "a"],
    ["--add", *ALICE, "--consumer", "--topic", "a", "--group", "g", "--cluster"],
    ["--add", *ALICE, "--idempotent", "--topic", "a"],
    ["--add", *ALICE, "--producer", "--topic", "a", "--operation", "Read"],
    ["--add", *ALICE, "--topic", "a", "--principal", "User:a"],
    ["--list", "--allow-principal", "User:a"],
    ["--list", "--authorizer", "kafka.security.authorizer.AclAuthorizer"],
    ["--list", "--authorizer-properties", "zookeeper.connect=x:1"],
]
"""What both refuse."""


@pytest.fixture(scope="module")
def guarded(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[System]]:
    """Both systems; whoever asks may do everything."""
    directory = tmp_path_factory.mktemp("guarded")
    with guarded_systems(directory, kafka_classpath, {"super.users": "User:ANONYMOUS"}) as systems:
        if len(systems) < len(SYSTEMS) or len(SYSTEMS) < 2:
            pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves one system out")
        yield systems


def ours(words: list[str], stdin: str = "") -> CompletedProcess[str]:
    return commands.run("acls", words, stdin=stdin)


def lines(done: CompletedProcess[str]) -> list[str]:
    """What a tool printed; the order of rules, and so the blanks around the last one, are those of Java's hashes."""
    return sorted(line.strip() for line in done.stdout.splitlines())


@pytest.mark.parametrize("place", [0, pytest.param(1, marks=pytest.mark.nightly)], ids=["kafka", "pkafka"])
def test_the_tools_say_and_do_the_same(guarded: list[System], java_tool: JavaTool, place: int) -> None:
    """pk-acls at one broker, Kafka's tool at the other."""
    system, other = guarded[place], guarded[1 - place]
    before = rules_of(system)
    for words, stdin in STEPS:
        theirs = java_tool(TOOL, "--bootstrap-server", other.bootstrap, *words, stdin=stdin)
        found = ours(["--bootstrap-server", system.bootstrap, *words], stdin)
        assert (found.returncode, lines(found)) == (0, lines(theirs)), (words, theirs)
        assert rules_of(system) == rules_of(other), words
    # Back to the beginning, for the other tests.
    for each in guarded:
        restore(each, before)
        assert rules_of(each) == before


def rules_of(system: System) -> set[Acl]:
    with Admin({"bootstrap.servers": system.bootstrap}) as admin:
        return set(admin.describe_acls())


def restore(system: System, acls: set[Acl]) -> None:
    """Have these rules and no others."""
    there = rules_of(system)
    gone = [AclFilter(PatternFilter(*acl.pattern), EntryFilter(*acl.entry)) for acl in there - acls]
    with Admin({"bootstrap.servers": system.bootstrap}) as admin:
        admin.delete_acls(gone)
        admin.create_acls(list(acls - there))


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_one_refuses_the_other_refuses(
    guarded: list[System], java_tool: JavaTool, words: list[str]
) -> None:
    server = ["--bootstrap-server", guarded[0].bootstrap]
    theirs = java_tool(TOOL, *server, *words)
    found = ours([*server, *words])
    assert theirs.returncode == 1
    assert found.returncode != 0
    if "nothing" in words:
        return  # Java's parser throws, and says nothing else
    first = theirs.stderr.strip().splitlines()[0].strip()
    if "only supports operations" in first:
        first = first.partition(" operations ")[0]
    assert first in found.stderr, (theirs, found)


def test_a_wrong_principal_is_told_as_kafka_tells_it(guarded: list[System], java_tool: JavaTool) -> None:
    words = [
        "--bootstrap-server",
        guarded[1].bootstrap,
        "--add",
        "--allow-principal",
        "alice",
        "--topic",
        "a",
    ]
    theirs, found = java_tool(TOOL, *words), ours(words)
    assert theirs.returncode == 1
    assert found.returncode != 0
    assert found.stdout.splitlines()[0] == theirs.stdout.splitlines()[0]


def test_rules_are_written_before_a_broker_runs(guarded: list[System], java_tool: JavaTool) -> None:
    """By either tool, in ZooKeeper itself; the other tool reads them."""
    zookeeper = guarded[0].zookeeper.partition("/")[0]  # type: ignore[attr-defined]
    where = ["--authorizer-properties", f"zookeeper.connect={zookeeper}/kafka"]
    words = [*ALICE, "--operation", "Read", "--topic", "early", "--topic", "earlier"]

    def heard_of() -> int:
        """How many of these rules the broker acts by, which runs already and hears of them by notes."""
        return sum(acl.pattern.name in ("early", "earlier") for acl in rules_of(guarded[0]))

    try:
        theirs, found = None, ours([*where, "--add", *words])
        assert found.returncode == 0, found
        wait_for(lambda: heard_of() == 2, what="the rules at the broker")
        theirs = java_tool(TOOL, *where, "--list", "--topic", "early", alone=True)
        assert lines(theirs) == lines(ours([*where, "--list", "--topic", "early"]))
        assert "principal=User:alice" in theirs.stdout
        done = java_tool(TOOL, *where, "--remove", *words, "--force", alone=True)
        assert done.returncode == 0, done
        assert "early" not in ours([*where, "--list"]).stdout
    finally:
        ours([*where, "--remove", *words, "--force"])
    # Other tests compare all rules of both brokers.
    wait_for(lambda: heard_of() == 0, what="the end of the rules at the broker")
