"""pk-transactions beside Kafka's tool, on the same cluster of either make: the same text, the same end."""

import json
import re
import time
from typing import Any, Final

import pytest

from pkafka.clients.admin.transaction_results import TransactionState
from pkafka.clients.producer import ProducerFencedError
from pkafka.errors import ApiError
from tests.differences import first_difference
from tests.interop.conftest import JavaTool, System
from tests.interop.side_by_side import SideBySide, pk
from tests.names import new_name
from tests.open_transactions import begin, ends, hang, transactional_producer
from tests.talk import Talk, good, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

NAMES: Final = ("transactions", "org.apache.kafka.tools.TransactionsCommand")
DURATION_COLUMN: Final = 7
PARTITIONS: Final = 14
"""More than twelve: so many make Java's table of them grow."""


@pytest.fixture
def side(java_tool: JavaTool, system: System) -> SideBySide:
    return SideBySide(java_tool, system)


@pytest.fixture
def transactional_id() -> str:
    return new_name("id-")


def state_of(talk: Talk, transactional_id: str) -> TransactionState:
    return good(talk.admin.describe_transactions([transactional_id])[transactional_id]).state


def document(system: System, *words: object, code: int = 0) -> Any:
    """What pk-transactions prints with --output json."""
    flags = ("--bootstrap-server", system.bootstrap, "--output", "json")
    return json.loads(pk("transactions", *flags, *words, code=code))


# -- looking -----------------------------------------------------------------------------------------------


def test_ids_are_listed_alike(
    side: SideBySide, system: System, talk: Talk, topic: str, transactional_id: str
) -> None:
    talk.create(topic)
    with transactional_producer(system.bootstrap, transactional_id) as writer:
        assert re.search(rf"^{transactional_id} *\t0 +\t\d+ *\tEmpty +\t$", side.same(NAMES, "list"), re.M)
        begin(writer, topic, 0)
        shown = side.same(NAMES, "list", "--duration-filter", 0)
        assert re.search(rf"^{transactional_id} *\t0 +\t\d+ *\tOngoing +\t$", shown, re.M)
        assert transactional_id not in side.same(NAMES, "list", "--duration-filter", 3_600_000)
        assert transactional_id in side.same(NAMES, "l", "--duration-filter", -5)
        (row,) = [
            each
            for each in document(system, "list")["transactions"]
            if each["transactional_id"] == transactional_id
        ]
        assert (row["coordinator"], row["state"]) == (0, "Ongoing")
        writer.abort_transaction()


def same_but_duration(side: SideBySide, java_tool: JavaTool, *words: str) -> str:
    """What both makes print that look at a running transaction one after the other."""
    server = ("--bootstrap-server", side.bootstrap)
    theirs = java_tool(NAMES[1], *server, *words)
    shown = [_without_duration(text) for text in (pk(NAMES[0], *server, *words), theirs.stdout)]
    assert theirs.returncode == 0
    assert not first_difference(*shown)
    return shown[0]


def _without_duration(text: str) -> str:
    lines = [line.split("\t") for line in text.splitlines()]
    for cells in lines[1:]:
        assert re.fullmatch(r"\d+ *|None *", cells[DURATION_COLUMN])
        cells[DURATION_COLUMN] = f"#{len(cells[DURATION_COLUMN])}"
    return "\n".join("\t".join(cells) for cells in lines)


def test_an_id_is_described_alike_in_every_state(
    side: SideBySide,
    java_tool: JavaTool,
    system: System,
    talk: Talk,
    topic: str,
    transactional_id: str,
) -> None:
    talk.create(topic, PARTITIONS)
    words = ("describe", "--transactional-id", transactional_id)
    with transactional_producer(system.bootstrap, transactional_id) as writer:
        assert "\tEmpty " in side.same(NAMES, *words)
        begin(writer, topic, 3)
        assert "\tOngoing " in same_but_duration(side, java_tool, *words)
        for partition in range(PARTITIONS):
            writer.send(topic, b"v", partition=partition)
        writer.flush()
        shown = same_but_duration(side, java_tool, *words)
        assert shown.count(f"{topic}-") == PARTITIONS
        (row,) = document(system, *words)["transactions"]
        assert [each["partition"] for each in row["partitions"]] == list(range(PARTITIONS))
        assert row["duration_ms"] < 60_000
        writer.commit_transaction()
        wait_for(lambda: state_of(talk, transactional_id) is TransactionState.COMPLETE_COMMIT)
        same_but_duration(side, java_tool, *words)
        begin(writer, topic, 0)
        writer.abort_transaction()
        wait_for(lambda: state_of(talk, transactional_id) is TransactionState.COMPLETE_ABORT)
        same_but_duration(side, java_tool, *words)


def test_producers_are_described_alike(
    side: SideBySide, system: System, talk: Talk, topic: str, transactional_id: str
) -> None:
    talk.create(topic, 2)
    words = ("describe-producers", "--topic", topic, "--partition")
    assert side.same(NAMES, *words, 0).count("\n") == 1
    with transactional_producer(system.bootstrap, transactional_id) as writer:
        begin(writer, topic, 0)
        assert re.search(r"\t0 +\t-1 +\t0 +\t\d{13}\t0 +\t$", side.same(NAMES, *words, 0), re.M)
        writer.commit_transaction()
        wait_for(lambda: ends(talk.admin, topic) == (2, 2))
        assert re.search(r"\t0 +\t0 +\t0 +\t\d{13}\tNone +\t$", side.same(NAMES, *words, 0), re.M)
        begin(writer, topic, 0)
        side.same(NAMES, *words, 0, "--broker-id", 0)
        (row,) = document(system, *words, 0)["producers"]
        assert (row["coordinator_epoch"], row["transaction_start_offset"]) == (0, 2)
        writer.abort_transaction()
    assert side.same(NAMES, *words, 1).count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(("describe", "--transactional-id", "never-there"), 1, id="no such id"),
        pytest.param(
            ("abort", "--topic", "TOPIC", "--partition", "0", "--start-offset", "5"),
            1,
            id="none begins there",
        ),
        pytest.param(
            ("abort", "--topic", "TOPIC", "--partition", "0", "--start-offset", "x"), 2, id="no number"
        ),
        pytest.param(("abort", "--topic", "TOPIC", "--partition", "0"), 2, id="which transaction"),
        pytest.param(
            ("abort", "--topic", "TOPIC", "--partition", "0", "--producer-id", "5"), 2, id="which epoch"
        ),
        pytest.param(
            *(
                (
                    "abort",
                    "--topic",
                    "TOPIC",
                    "--partition",
                    "0",
                    "--producer-id",
                    "5",
                    "--producer-epoch",
                    "1",
                ),
                2,
            ),
            id="which coordinator",
        ),
        pytest.param(("abort", "--topic", "TOPIC", "--start-offset", "5"), 2, id="which partition"),
        pytest.param(("find-hanging",), 2, id="where to look"),
        pytest.param(("find-hanging", "--broker-id", "0", "--partition", "0"), 2, id="partition of what"),
        pytest.param(("describe-producers", "--topic", "TOPIC"), 2, id="producers of which partition"),
        pytest.param(("describe",), 2, id="describe what"),
        pytest.param(("list", "--duration-filter", "soon"), 2, id="no duration"),
        pytest.param(("forceTerminate",), 2, id="no such verb in 3.9"),
        pytest.param((), 2, id="no verb"),
    ],
)
def test_failures_end_alike(
    java_tool: JavaTool,
    system: System,
    talk: Talk,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
) -> None:
    talk.create(topic)
    given = ["--bootstrap-server", system.bootstrap, *(topic if each == "TOPIC" else each for each in words)]
    theirs = java_tool(NAMES[1], *given)
    assert (theirs.returncode, theirs.stdout) == (1, "")
    assert pk(NAMES[0], *given, code=code) == ""
    monkeypatch.setenv("PK_COMPAT", "3.9")
    assert pk(NAMES[0], *given, code=1) == ""


# -- ending ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["pk", "kafka"])
@pytest.mark.parametrize("by", ["start offset", "producer"])
def test_what_hangs_is_found_alike_and_ended(
    side: SideBySide, java_tool: JavaTool, system: System, talk: Talk, topic: str, make: str, by: str
) -> None:
    talk.create(topic, retention_ms=-1)
    written_ms = int(time.time() * 1_000) - 20 * 60_000 - 2_000  # nearly a minute is left until they are 21
    producer_id, _ = talk.new_producer()
    talk.send(topic, b"before")
    hang(talk, topic, producer_id=producer_id, written_ms=written_ms, epoch=2)
    talk.send(topic, b"behind")
    assert ends(talk.admin, topic) == (1, 3)
    found = side.same(NAMES, "find-hanging", "--topic", topic)
    assert re.search(rf"^{topic} *\t0 +\t{producer_id} +\t2 +\t-1 +\t1 +\t{written_ms}\t20 +\t$", found, re.M)
    assert side.same(NAMES, "find-hanging", "--topic", topic, "--partition", 0) == found
    assert (
        side.same(NAMES, "find-hanging", "--topic", topic, "--max-transaction-timeout", 21).count("\n") == 1
    )
    assert topic in side.same(NAMES, "find-hanging", "--broker-id", 0, unordered=True)
    words: tuple[object, ...] = ("abort", "--topic", topic, "--partition", 0)
    if by == "producer":
        words += ("--producer-id", producer_id, "--producer-epoch", 2, "--coordinator-epoch", -1)
    else:
        words += ("--start-offset", 1)
    (row,) = document(system, *words, "--dry-run")["transactions"]
    assert (row["producer_id"], row["coordinator_epoch"], row["transactional_id"]) == (producer_id, 0, None)
    assert ends(talk.admin, topic) == (1, 3)
    if make == "pk":
        assert pk(NAMES[0], "--bootstrap-server", system.bootstrap, *words) == ""
    else:
        done = java_tool(NAMES[1], "--bootstrap-server", system.bootstrap, *map(str, words))
        assert (done.returncode, done.stdout) == (0, "")
    wait_for(lambda: ends(talk.admin, topic) == (4, 4), what="the marker")
    assert side.same(NAMES, "find-hanging", "--topic", topic).count("\n") == 1


def test_a_marker_of_an_older_epoch_is_refused_alike(side: SideBySide, talk: Talk, topic: str) -> None:
    talk.create(topic, retention_ms=-1)
    producer_id, _ = talk.new_producer()
    hang(talk, topic, producer_id=producer_id, written_ms=int(time.time() * 1_000), epoch=2)
    words = ("abort", "--topic", topic, "--partition", 0, "--producer-id", producer_id)
    assert side.fail_alike(NAMES, *words, "--producer-epoch", 1, "--coordinator-epoch", 0) == ""
    assert ends(talk.admin, topic) == (0, 1)


def test_a_transaction_that_goes_on_does_not_hang(
    side: SideBySide, system: System, talk: Talk, topic: str, transactional_id: str
) -> None:
    talk.create(topic)
    with transactional_producer(system.bootstrap, transactional_id) as writer:
        begin(writer, topic, 0)
        words = ("find-hanging", "--topic", topic, "--max-transaction-timeout", -1)
        assert side.same(NAMES, *words).count("\n") == 1
        writer.abort_transaction()


def test_a_coordinator_aborts_by_id_and_shuts_the_producer_out(
    system: System, talk: Talk, topic: str, transactional_id: str
) -> None:
    talk.create(topic, 2)
    words = ("abort", "--transactional-id", transactional_id)
    missing = document(system, *words, code=1)["error"]
    assert (missing["code"], transactional_id in missing["message"]) == (105, True)
    with transactional_producer(system.bootstrap, transactional_id) as writer:
        idle = document(system, *words, code=1)["error"]["message"]
        assert idle.endswith("it is in state Empty, so there is nothing to abort")
        begin(writer, topic, 0, 1)
        planned = document(system, *words, "--dry-run")
        assert planned["dry_run"] is True
        assert [each["partition"] for each in planned["transactions"]] == [0, 1]
        assert ends(talk.admin, topic) == (0, 1)
        assert document(system, *words)["transactions"] == planned["transactions"]
        for partition in range(2):
            wait_for(lambda: ends(talk.admin, topic, partition) == (2, 2))  # noqa: B023 - called at once
        with pytest.raises((ProducerFencedError, ApiError)):
            writer.commit_transaction()


# -- what holds readers back -------------------------------------------------------------------------------


def show_elsewhere(system: System, topic: str, hung: Any, open_one: Any) -> None:
    """pk-topics and pk-top show the same, but for how old it is."""
    flags = ("--bootstrap-server", system.bootstrap, "--topic", topic)
    words = (*flags, "--describe", "--held-back-partitions")
    (found,) = json.loads(pk("topics", *words, "--output", "json"))["topics"]
    shown = [each["held_back"] for each in found["partitions"]]
    (look,) = json.loads(pk("top", *flags, "--interval", "0.1", "--output", "json"))["looks"]
    by_age = sorted(look["held"], key=lambda each: each["partition"])
    for rows in (shown, by_age):
        assert [each | {"age_ms": 0} for each in rows] == [each | {"age_ms": 0} for each in (hung, open_one)]
    first, second = pk("topics", *words).splitlines()
    assert "\tLastStableOffset: 0\tHighWatermark: 1\tLag: 1\tAgeMs: " in first
    assert first.endswith("\tTransactionalId: none\tHanging: true")
    assert second.endswith(f"\tTransactionalId: {open_one['transactional_id']}\tHanging: false")


def test_what_holds_readers_back_is_shown_and_ended(
    system: System, talk: Talk, topic: str, transactional_id: str
) -> None:
    talk.create(topic, 3, retention_ms=-1)
    producer_id, _ = talk.new_producer()
    hang(talk, topic, producer_id=producer_id, written_ms=int(time.time() * 1_000) - 90_000)
    with transactional_producer(system.bootstrap, transactional_id) as writer:
        begin(writer, topic, 1)
        talk.send(topic, b"a", b"b", partition=1)
        talk.send(topic, b"a", partition=2)
        hung, open_one = document(system, "holders", "--topic", topic)["partitions"]
        assert (hung["partition"], hung["producer_id"], hung["hanging"]) == (0, producer_id, True)
        assert (hung["lag"], hung["transactional_id"], 90_000 <= hung["age_ms"] < 150_000) == (1, None, True)
        expected = {"partition": 1, "last_stable_offset": 0, "high_watermark": 3, "lag": 3, "hanging": False}
        assert expected.items() <= open_one.items()
        assert (open_one["transactional_id"], open_one["state"]) == (transactional_id, "Ongoing")
        shown = pk("transactions", "--bootstrap-server", system.bootstrap, "holders", "--topic", topic)
        assert [line.split()[0] for line in shown.splitlines()] == ["TOPIC", topic, topic]

        show_elsewhere(system, topic, hung, open_one)

        first = document(system, "unstick", topic, "--dry-run")
        assert [each["remedy"] for each in first["partitions"]] == ["marker", "young"]
        assert ends(talk.admin, topic) == (0, 1)
        assert [each["error"] for each in document(system, "unstick", topic)["partitions"]] == [None, None]
        assert (ends(talk.admin, topic), ends(talk.admin, topic, 1)) == ((2, 2), (0, 3))

        done = document(system, "unstick", topic, "--older-than", 0)["partitions"]
        assert [(each["partition"], each["remedy"], each["error"]) for each in done] == [(1, "fence", None)]
        assert ends(talk.admin, topic, 1) == (4, 4)
        assert document(system, "unstick", topic)["partitions"] == []
        with pytest.raises((ProducerFencedError, ApiError)):
            writer.commit_transaction()
