"""pk-consumer-groups beside Kafka's ConsumerGroupCommand on the same cluster, in every state of a group.

What may differ: the order of rows, which is that of hash tables in Kafka; a line end behind the last row, which Kafka
forgets; and rows of new and deleted offsets, which Kafka 3.9 joins into one line.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pkafka.clients.admin import Admin
from pkafka.clients.consumer.assignors.api import Subscription
from pkafka.clients.consumer.assignors.wire import encode_subscription
from pkafka.protocol.messages import offset_commit
from pkafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from pkafka.tools.servers.local_broker import running_broker
from tests.differences import first_difference
from tests.interop.conftest import SAME_SETTINGS, SYSTEMS, JavaTool, System
from tests.interop.kafka import running_kafka
from tests.interop.members import member
from tests.interop.side_by_side import SideBySide
from tests.raw_client import RawClient
from tests.talk import talking, wait_for

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OURS = "from pkafka.cli.consumer_groups import main; main()"


class BothTools:
    """Runs both makes with the same arguments and compares what they say."""

    def __init__(self, tool: JavaTool, system: System) -> None:
        self.side = SideBySide(tool, system)
        self._tool = tool
        # Kafka's 5 seconds are short for the first group of a cluster on a busy machine.
        self._server = ("--bootstrap-server", system.bootstrap, "--timeout", "30000")

    def ours(self, *args: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", OURS, *self._server, *[str(each) for each in args]]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **environment},
        )

    def theirs(self, *args: object) -> subprocess.CompletedProcess[str]:
        return self._tool(GROUPS, *self._server, *[str(each) for each in args])

    def same(
        self,
        *args: object,
        code: int = 0,
        joined: bool = False,
        notes: bool = True,
        of_all: bool = False,
    ) -> list[str]:
        """Both say the same lines in some order on either stream.

        Args:
            code: how pkafka's ends; Kafka's ends with 0.
            joined: whether Kafka joins its last rows into one line.
            notes: whether standard error is compared too.
            of_all: they say something of all groups of the broker: of those that other tests left, whose members'
                sessions end at some time, too.

        Returns:
            pkafka's lines, without blank ones.
        """
        theirs, ours = self.theirs(*args), self.ours(*args)
        while of_all and sorted((then := self.theirs(*args)).stdout) != sorted(theirs.stdout):
            theirs, ours = then, self.ours(*args)
        assert (ours.returncode, theirs.returncode) == (code, 0), (ours, theirs)
        said, expected = _lines(ours.stdout), _lines(theirs.stdout)
        if joined:
            expected += _cut(expected.pop(), said)
        assert not first_difference(sorted(said), sorted(expected))
        if notes:
            logged = [re.sub(r"^\[.*?\] | \(org\.apache\..*\)$", "", each) for each in _lines(theirs.stderr)]
            assert not first_difference(_lines(ours.stderr), logged)
        return [each for each in said if each]

    def send(self, topic: str, records: int) -> None:
        with talking(self.side.bootstrap) as talk:
            talk.send(topic, *[b"v"] * records)

    def offsets_of(self, *args: object) -> list[tuple[str, ...]]:
        """The cells of --describe."""
        return [tuple(each.split()) for each in self.same("--describe", *args)[1:]]


def _lines(text: str) -> list[str]:
    lines = [each for each in text.split("\n") if not each.startswith(("\tat ", "Caused by", "\t..."))]
    return lines[:-1] if not lines[-1] else lines


def _cut(joined: str, rows: list[str]) -> list[str]:
    """The rows of which a line is made, and what is left of it."""
    found = []
    for row in rows:
        if row and row in joined:
            joined = joined.replace(row, "", 1)
            found.append(row)
    return [*found, *([joined] if joined else [])]


@pytest.fixture
def both(java_tool: JavaTool, system: System) -> BothTools:
    return BothTools(java_tool, system)


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


def test_a_group_that_is_not_there(both: BothTools) -> None:
    assert both.same("--describe", "--group", "nope", code=1) == [
        "Error: Consumer group 'nope' does not exist."
    ]
    both.same("--describe", "--group", "nope", "--members", code=1)
    both.same("--describe", "--group", "nope", "--state", code=1)
    both.same("--describe", "--group", "nope", "--group", "neither", code=1)
    both.same("--delete", "--group", "nope", code=1)
    assert both.ours("--describe", "--group", "nope", PK_COMPAT="3.9").returncode == 0


def test_a_group_of_offsets_alone(both: BothTools, topic: str, group: str) -> None:
    both.side.create(topic, "--partitions", 2)
    both.send(topic, 3)
    both.same(
        "--reset-offsets",
        "--group",
        group,
        "--topic",
        topic,
        "--to-earliest",
        "--execute",
        joined=True,
    )
    rows = both.offsets_of("--group", group)
    assert sorted(row[2:4] for row in rows) == [("0", "0"), ("1", "0")]
    assert sum(int(row[5]) for row in rows) == 3
    for view in (
        (),
        ("--offsets",),
        ("--members",),
        ("--members", "--verbose"),
        ("--state",),
        ("--verbose",),
    ):
        both.same("--describe", "--group", group, *view)
    both.same("--describe", "--group", group, "--group", "nope", code=1)


@pytest.fixture(params=["kafka", "pkafka"])
def alone(request: pytest.FixtureRequest, java_tool: JavaTool, tmp_path: Path) -> Iterator[BothTools]:
    """Both tools at a broker that has seen no other group."""
    if request.param not in SYSTEMS:
        pytest.skip("PKAFKA_INTEROP_SYSTEMS leaves it out")
    start = running_kafka if request.param == "kafka" else running_broker
    with start(tmp_path / "broker", overrides=SAME_SETTINGS) as broker:
        yield BothTools(java_tool, broker)


def test_a_negative_offset_is_none(both: BothTools, system: System, topic: str, group: str) -> None:
    both.side.create(topic, "--partitions", 3)
    both.send(topic, 3)
    to_start = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    both.same(
        *("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute"), joined=True
    )
    committed = [
        offset_commit.OffsetCommitRequestPartition(partition_index=at, committed_offset=offset)
        for at, offset in enumerate((-1, -5, 1))
    ]
    with RawClient(system.bootstrap) as client:
        (answer,) = client.call(
            offset_commit.OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=-1,
                topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=committed)],
            ),
            2,
        ).topics
    assert [each.error_code for each in answer.partitions] == [0, 0, 0]
    rows = both.offsets_of("--group", group)
    assert sorted(row[2:4] for row in rows) == [("0", "-"), ("1", "-"), ("2", "1")]
    both.same(*to_start, joined=True)


def test_lists(alone: BothTools, topic: str, group: str) -> None:
    both = alone
    both.side.create(topic)
    for name in (group, f"{group}-{'x' * 30}"):
        both.same(
            "--reset-offsets",
            "--group",
            name,
            "--topic",
            topic,
            "--to-latest",
            "--execute",
            joined=True,
        )
    assert group in both.same("--list")
    filtered: list[tuple[str, ...]] = [
        ("--state",),
        ("--type",),
        ("--state", "--type"),
        ("--state", "Empty, stable"),
        ("--state", "dead"),
    ]
    for filters in filtered:
        both.same("--list", *filters)
    both.same("--list", "--type", "classic", "--state", "empty")
    both.same("--list", "--type", "consumer")
    both.same("--describe", "--all-groups")
    both.same("--describe", "--all-groups", "--state")


def test_a_group_with_members(both: BothTools, system: System, topic: str, group: str) -> None:
    both.side.create(topic, "--partitions", 3)
    both.send(topic, 3)
    both.same(
        *("--reset-offsets", "--group", group, "--topic", f"{topic}:0,1", "--to-offset", 1, "--execute"),
        joined=True,
    )
    with member(system.bootstrap, group, topic, client_id="first"):
        rows = both.offsets_of("--group", group)
        assert {row[8] for row in rows} == {"first"}
        for view in (("--members",), ("--members", "--verbose"), ("--state",)):
            both.same("--describe", "--group", group, *view)
        both.same("--list", "--state", "stable", of_all=True)
        both.same("--delete", "--group", group, code=1)
        both.same("--delete-offsets", "--group", group, "--topic", topic, code=1, joined=True)
        refused = both.same(
            *("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--dry-run"),
            code=1,
            joined=True,
        )
        assert "is inactive, but the current state is Stable" in refused[0]
    with member(system.bootstrap, group, topic, client_id="static", group_instance_id="instance"):
        for shown in ((), ("--members",), ("--members", "--verbose")):
            both.same("--describe", "--group", group, *shown)


@pytest.mark.nightly  # in each change the session "groups" resets in most of them
def test_every_way_to_reset(both: BothTools, topic: str, group: str, tmp_path: Path) -> None:
    both.side.create(topic)
    both.send(topic, 5)
    scope = ("--reset-offsets", "--group", group, "--topic", topic)
    for way, expected in (
        (("--to-current",), "5"),
        (("--to-offset", 2), "2"),
        (("--shift-by", 2), "4"),
        (("--shift-by", -1), "3"),
        (("--to-current",), "3"),
        (("--shift-by", 100), "5"),
        (("--shift-by", -100), "0"),
        (("--to-offset", 99), "5"),
        (("--to-latest",), "5"),
        (("--to-earliest",), "0"),
        (("--to-datetime", "2099-01-01T00:00:00.000"), "5"),
        (("--to-datetime", "2020-01-01T00:00:00.000+02:00"), "0"),
        (("--by-duration", "P1DT2H"), "0"),
        (("--by-duration", "PT0S"), "5"),
    ):
        # What is stored decides the next step, so that one of the makes only shows what it would do.
        rows = both.same(*scope, *way, "--dry-run", joined=True)
        assert rows[-1].split() == [group, topic, "0", expected], way
        assert both.ours(*scope, *way, "--execute").returncode == 0
        assert both.offsets_of("--group", group)[0][3] == expected
    both.same(*scope, "--to-earliest", joined=True)
    both.same("--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--dry-run", joined=True)
    plan = tmp_path / "plan.csv"
    plan.write_text("\n".join(both.same(*scope, "--to-offset", 3, "--dry-run", "--export")))
    from_file = ("--reset-offsets", "--from-file", plan, "--dry-run", "--group")
    assert both.same(*from_file, group, joined=True)[-1].split() == [group, topic, "0", "3"]
    two = (
        "--reset-offsets",
        "--group",
        group,
        "--group",
        f"{group}-2",
        "--topic",
        topic,
        "--dry-run",
        "--export",
    )
    plan.write_text("\n".join(both.same(*two, "--to-offset", 1)))
    assert set(plan.read_text().split()) == {f"{group}-2,{topic},0,1", f"{group},{topic},0,1"}
    shown = both.ours(*from_file, group, "--group", f"{group}-2")
    assert sorted(shown.stdout.split()[-8:]) == sorted(
        [group, topic, "0", "1", f"{group}-2", topic, "0", "1"]
    )


def test_resets_that_fail(both: BothTools, topic: str, group: str, tmp_path: Path) -> None:
    both.side.create(topic)
    scope = ("--reset-offsets", "--group", group, "--execute", "--topic")
    missing = both.ours(*scope, f"{topic}-nowhere", "--to-earliest")
    assert (missing.returncode, missing.stdout[:55]) == (
        1,
        "\nError: Executing consumer group command failed due to ",
    )
    assert both.ours(*scope, f"{topic}:7", "--to-earliest").returncode == 1
    assert both.ours(*scope, f"{topic}:x", "--to-earliest").returncode != 0
    assert both.ours(*scope, topic, "--shift-by", 1).returncode == 1
    bad_time = both.ours(*scope, topic, "--to-datetime", "noon")
    assert bad_time.returncode == 2
    assert "It does not contain a 'T' according to ISO8601 format" in bad_time.stdout
    assert both.ours(*scope, topic, "--by-duration", "1h").returncode == 2
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{group}-other,{topic},0,1\n")
    both.same(
        "--reset-offsets",
        "--group",
        f"{group}-3",
        "--from-file",
        plan,
        "--dry-run",
        code=1,
        joined=True,
        notes=False,
    )
    assert both.ours("--describe", "--group", group).returncode == 1  # nothing was stored


def test_offsets_and_groups_are_deleted(both: BothTools, topic: str, group: str) -> None:
    both.side.create(topic, "--partitions", 2)

    def reset(name: str) -> None:
        assert (
            both.ours(
                "--reset-offsets", "--group", name, "--topic", topic, "--to-latest", "--execute"
            ).returncode
            == 0
        )

    reset(group)
    delete = ("--delete-offsets", "--group", group, "--topic")
    both.same(*delete, f"{topic}:0", joined=True)
    assert [row[2] for row in both.offsets_of("--group", group)] == ["1"]
    failed = both.ours(*delete, topic, "--topic", f"{topic}-nowhere")
    assert failed.returncode == 1
    assert (
        "UnknownTopicOrPartitionException: This server does not host this topic-partition." in failed.stdout
    )
    both.same("--delete-offsets", "--group", f"{group}-none", "--topic", topic, code=1, joined=True)
    reset(group)
    deleted = both.ours("--delete", "--group", group)
    assert (deleted.returncode, deleted.stdout) == (
        0,
        f"Deletion of requested consumer groups ('{group}') was successful.\n",
    )
    both.same("--describe", "--group", group, code=1)


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--describe",),
        ("--delete",),
        ("--delete-offsets", "--group", "g"),
        ("--list", "--describe", "--all-groups"),
        ("--describe", "--group", "g", "--all-groups"),
        ("--describe", "--group", "g", "--members", "--state"),
        ("--describe", "--group", "g", "--state", "stable"),
        ("--describe", "--group", "g", "--topic", "t"),
        ("--list", "--group", "g"),
        ("--list", "--verbose"),
        ("--list", "--state", "nonsense"),
        ("--list", "--type", "nonsense"),
        ("--delete", "--group", "g", "--topic", "t"),
        ("--reset-offsets", "--group", "g", "--topic", "t"),
        ("--reset-offsets", "--group", "g", "--to-latest"),
        ("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--to-offset", "0"),
        ("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--execute", "--dry-run"),
        ("--reset-offsets", "--group", "g", "--topic", "t:x", "--to-latest", "--dry-run"),
    ],
    ids=" ".join,
)
def test_what_is_no_command_for_kafka_is_none_here(
    both: BothTools, java_tool: JavaTool, wrong: tuple[str, ...]
) -> None:
    if "t" in wrong:
        both.side.create("t", "--if-not-exists")  # otherwise Kafka's complaint is about the topic
    theirs = java_tool(GROUPS, "--bootstrap-server", both.side.bootstrap, *wrong)
    ours = both.ours(*wrong)
    assert (theirs.returncode, ours.stdout) == (1, "")
    assert ours.returncode == 2, ours
    assert both.ours(*wrong, PK_COMPAT="3.9").returncode == 1


def test_lag_as_one_document_and_as_a_verdict(both: BothTools, topic: str, group: str) -> None:
    both.side.create(topic, "--partitions", 2)
    both.send(topic, 3)
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 1, "--execute")
    assert json.loads(both.ours(*reset, "--output", "json").stdout) == {
        "offsets": [
            {"group": group, "topic": topic, "partition": 0, "new_offset": 1},
            {"group": group, "topic": topic, "partition": 1, "new_offset": 0},
        ],
        "dry_run": False,
        "failures": [],
    }
    shown = both.ours("--describe", "--group", group, "--group", "nope", "--output", "json")
    document = json.loads(shown.stdout)
    assert shown.returncode == 1
    nobody = {"consumer_id": None, "host": None, "client_id": None}
    lag = {"topic": topic, "partition": 0, "current_offset": 1, "log_end_offset": 3, "lag": 2, **nobody}
    assert document["groups"][0]["partitions"][0] == lag
    known, missing = (each["error"] for each in document["groups"])
    assert (known, missing["name"]) == (None, "GROUP_ID_NOT_FOUND")
    assert document["failures"] == ["Consumer group 'nope' does not exist."]
    lagging = both.ours("--describe", "--group", group, "--only-lagging", "--max-lag", 2, "--output", "csv")
    assert lagging.returncode == 0
    assert [each.split(",")[:6] for each in lagging.stdout.splitlines()[1:]] == [
        [group, topic, "0", "1", "3", "2"]
    ]
    too_much = both.ours("--describe", "--group", group, "--max-lag", 1)
    assert too_much.returncode == 1
    assert f"{group} lags by 2 in {topic}-0, which is more than 1" in too_much.stderr


@pytest.mark.parametrize("is_terminal", [False, True])
def test_watching_shows_the_lag_as_it_grows(
    both: BothTools, topic: str, group: str, is_terminal: bool
) -> None:
    both.side.create(topic)
    both.send(topic, 11)
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert both.ours(*reset).returncode == 0
    seen = bytearray()
    read_end, write_end = pty.openpty() if is_terminal else os.pipe()
    command = [
        "env",
        "--default-signal=INT",  # which is ignored in what a shell without a terminal runs in the background
        sys.executable,
        "-c",
        OURS,
        "--bootstrap-server",
        both.side.bootstrap,
        "--describe",
        "--watch",
        "0.1",
    ]
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    watching = subprocess.Popen(
        [*command, "--group", group], stdout=write_end, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(write_end)
    try:

        def shows(text: bytes) -> bool:
            if select.select([read_end], [], [], 0.1)[0]:
                seen.extend(os.read(read_end, 65_536))
            return re.search(text, seen) is not None

        wait_for(lambda: shows(rb"\b11 +11\b|\b11\b.*\b11\b"), timeout_s=60, what="the lag")
        both.send(topic, 2)
        wait_for(lambda: shows(rb"\b13 +13\b|\b13\b.*\b13\b"), timeout_s=60, what="the greater lag")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 130
    finally:
        watching.kill()
        watching.wait()
        os.close(read_end)


def test_a_group_that_is_rebalancing(both: BothTools, system: System, topic: str, group: str) -> None:
    both.side.create(topic)
    assert (
        both.ours(
            "--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute"
        ).returncode
        == 0
    )
    # A leader that never says who reads what: the group waits for it, as long as the member's session lasts.
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=600_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription([topic])))
        ],
    )
    with Admin({"bootstrap.servers": system.bootstrap, "client.id": "waiting"}) as admin:
        wait_for(lambda: not admin.cluster.request(join, JoinGroupResponse, max_version=3).error_code)
        for view in ((), ("--members",), ("--members", "--verbose"), ("--state",)):
            both.same("--describe", "--group", group, *view)
        shown = both.ours("--describe", "--group", group)
        assert shown.stderr == f"\nWarning: Consumer group '{group}' is rebalancing.\n"
        both.same("--list", "--state", "CompletingRebalance", of_all=True)
        both.same("--delete", "--group", group, code=1)
        refused = both.same(
            "--reset-offsets",
            "--group",
            group,
            "--topic",
            topic,
            "--to-latest",
            "--execute",
            code=1,
            joined=True,
        )
        assert "but the current state is CompletingRebalance." in refused[0]
        (removed,) = admin.remove_members(group).values()
        assert removed is None


def test_lag_behind_an_open_transaction(system: System, java_tool: JavaTool, topic: str, group: str) -> None:
    both = BothTools(java_tool, system)
    both.side.create(topic)
    both.send(topic, 3)
    # It stays open while commands run: by itself it would be aborted after a minute.
    keys = {"transactional.id": f"tx-{topic}", "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": system.bootstrap, **keys})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.flush(30)
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 1, "--execute")
    assert both.ours(*reset).returncode == 0

    def lag(*flags: object) -> int:
        shown = both.ours("--describe", "--group", group, "--output", "json", *flags)
        return int(json.loads(shown.stdout)["groups"][0]["partitions"][0]["lag"])

    assert lag() == 3
    both.same("--describe", "--group", group)
    assert lag("--isolation-level", "read_committed") == 2
    producer.abort_transaction(30)
    wait_for(lambda: lag("--isolation-level", "read_committed") == 4, what="the abort marker")
