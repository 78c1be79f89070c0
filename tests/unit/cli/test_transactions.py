"""pk-transactions where a question is asked, and where a coordinator says what a real broker rarely does."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pkafka import KAFKA_VERSION
from pkafka.cli import transactions
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import (
    describe_producers,
    describe_transactions,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    write_txn_markers,
)
from pkafka.protocol.schema import Message
from pkafka.tools.transactions import unsticking
from tests.fakes.broker import FakeBroker

ENDING = (ApiKey.INIT_PRODUCER_ID, ApiKey.WRITE_TXN_MARKERS)
ABORT = ["abort", "--topic", "t", "--partition", "0", "--start-offset", "5"]
UNSTICK = ["unstick", "t", "--older-than", "0"]


class Terminal(io.StringIO):
    """Standard input where a person types."""

    def isatty(self) -> bool:
        return True


class Cluster:
    """A broker with a partition whose readers are held back at offset 5 by producer 7, until something ends that."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.state: str | None = "Ongoing"
        """What the coordinator says; None: it does not know the producer."""
        self.refusal = ErrorCode.NONE
        self.is_held = True
        broker.handlers |= {
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.DESCRIBE_PRODUCERS: self._describe_producers,
            ApiKey.LIST_TRANSACTIONS: self._list,
            ApiKey.DESCRIBE_TRANSACTIONS: self._describe,
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.INIT_PRODUCER_ID: self._fence,
            ApiKey.WRITE_TXN_MARKERS: self._mark,
        }

    def _list_offsets(self, request: Message, _version: int) -> Message:
        assert isinstance(request, list_offsets.ListOffsetsRequest)
        stable = 5 if self.is_held and request.isolation_level else 9
        partition = list_offsets.ListOffsetsPartitionResponse(partition_index=0, offset=stable)
        return list_offsets.ListOffsetsResponse(
            topics=[list_offsets.ListOffsetsTopicResponse(name="t", partitions=[partition])]
        )

    def _describe_producers(self, _request: Message, _version: int) -> Message:
        producer = describe_producers.ProducerState(
            producer_id=7, producer_epoch=3, coordinator_epoch=2, current_txn_start_offset=5, last_timestamp=1
        )
        partition = describe_producers.PartitionResponse(partition_index=0, active_producers=[producer])
        return describe_producers.DescribeProducersResponse(
            topics=[describe_producers.TopicResponse(name="t", partitions=[partition])]
        )

    def _list(self, _request: Message, _version: int) -> Message:
        found = list_transactions.TransactionState(
            transactional_id="a", producer_id=7, transaction_state=self.state or ""
        )
        return list_transactions.ListTransactionsResponse(
            transaction_states=[] if self.state is None else [found]
        )

    def _describe(self, _request: Message, _version: int) -> Message:
        found = describe_transactions.TransactionState(
            transactional_id="a",
            transaction_state=self.state or "",
            transaction_start_time_ms=1,
            producer_id=7,
            producer_epoch=3,
            topics=[describe_transactions.TopicData(topic="t", partitions=[0])],
        )
        return describe_transactions.DescribeTransactionsResponse(transaction_states=[found])

    def _find(self, _request: Message, _version: int) -> Message:
        where = find_coordinator.Coordinator(key="a", node_id=1, host="127.0.0.1", port=self.broker.port)
        return find_coordinator.FindCoordinatorResponse(coordinators=[where])

    def _fence(self, _request: Message, _version: int) -> Message:
        self.is_held = bool(self.refusal)
        return init_producer_id.InitProducerIdResponse(
            error_code=self.refusal, producer_id=7, producer_epoch=4
        )

    def _mark(self, _request: Message, _version: int) -> Message:
        self.is_held = bool(self.refusal)
        result = write_txn_markers.WritableTxnMarkerPartitionResult(
            partition_index=0, error_code=self.refusal
        )
        topic = write_txn_markers.WritableTxnMarkerTopicResult(name="t", partitions=[result])
        marker = write_txn_markers.WritableTxnMarkerResult(producer_id=7, topics=[topic])
        return write_txn_markers.WriteTxnMarkersResponse(markers=[marker])

    def run(self, *words: str) -> int:
        return transactions.main.run(["--bootstrap-server", self.broker.bootstrap, *words])

    @property
    def endings(self) -> list[ApiKey]:
        """The requests that end something."""
        return [key for key, _, _ in self.broker.requests if key in ENDING]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with FakeBroker({"t": 1}) as broker:
        yield Cluster(broker)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "request_key"), [(ABORT, ApiKey.WRITE_TXN_MARKERS), (UNSTICK, ApiKey.INIT_PRODUCER_ID)]
)
@pytest.mark.parametrize(
    ("answer", "more", "is_asked", "ends"),
    [
        ("y\n", [], True, True),
        ("n\n", [], True, False),
        ("", [], True, False),
        ("", ["--yes"], False, True),
        ("", ["--dry-run"], False, False),
        (None, [], False, True),
    ],
    ids=["yes", "no", "end", "told not to", "dry run", "script"],
)
def test_a_transaction_that_is_alive_is_ended_after_a_question(
    cluster: Cluster,
    words: list[str],
    request_key: ApiKey,
    answer: str | None,
    more: list[str],
    is_asked: bool,
    ends: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO() if answer is None else Terminal(answer))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    status = cluster.run(*words, *more)
    assert status == (ExitStatus.OK if ends or "--dry-run" in more else ExitStatus.FAILURE)
    assert ("(y/n)" in capsys.readouterr().err) == is_asked
    assert cluster.endings == ([request_key] if ends else [])


def test_what_hangs_by_name_is_ended_without_a_question(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.state = None
    monkeypatch.setattr("sys.stdin", Terminal(""))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cluster.run(*ABORT) == ExitStatus.OK
    assert "(y/n)" not in capsys.readouterr().err
    assert cluster.endings == [ApiKey.WRITE_TXN_MARKERS]


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_what_is_decided_is_left_to_its_coordinator(
    cluster: Cluster, state: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_ms: list[int] = []
    wait = unsticking.wait_until_moved

    def wait_shortly(admin: Any, before: Any, *, timeout_ms: int) -> Any:
        """The requests have the time that was given, which the test does not wait out."""
        waited_ms.append(timeout_ms)
        return wait(admin, before, timeout_ms=200)

    monkeypatch.setattr(unsticking, "wait_until_moved", wait_shortly)
    cluster.state = state
    assert cluster.run("abort", "--transactional-id", "a") == ExitStatus.FAILURE
    assert f"it is in state {state}, so there is nothing to abort" in capsys.readouterr().err
    assert cluster.run("--timeout", "45000", "--output", "json", *UNSTICK) == ExitStatus.FAILURE
    (row,) = document(capsys)["partitions"]
    assert (row["remedy"], row["error"]["name"]) == ("wait", "REQUEST_TIMED_OUT")
    assert row["error"]["message"] == "The last stable offset is 5 still"
    assert waited_ms == [45_000]
    assert cluster.endings == []


def test_an_end_that_is_refused_is_told(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.refusal = ErrorCode.PRODUCER_FENCED
    assert cluster.run("--output", "json", *UNSTICK) == ExitStatus.FAILURE
    (row,) = document(capsys)["partitions"]
    assert (row["remedy"], row["error"]["code"]) == ("fence", ErrorCode.PRODUCER_FENCED)
    cluster.state = None
    cluster.refusal = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert cluster.run(*UNSTICK) == ExitStatus.FAILURE
    assert capsys.readouterr().out.startswith("Could not end what holds t-0 at 5: ")
    assert cluster.endings == list(ENDING)


def test_an_end_is_told_in_a_sentence(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert cluster.run(*UNSTICK) == ExitStatus.OK
    assert capsys.readouterr().out.startswith(
        "Aborted transactional-id `a`, which held t-0 at 5 (4 behind the high watermark, "
    )
    assert cluster.run(*UNSTICK) == ExitStatus.OK
    assert capsys.readouterr().out == "No transaction holds t back.\n"


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_version_has_a_short_flag_as_in_kafkas_tool(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transactions.main.run([flag]) == ExitStatus.OK
    assert capsys.readouterr().out == f"{KAFKA_VERSION}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["abort", "--transactional-id", "a", "--topic", "t"],
        ["abort", "--transactional-id", "a", "--producer-epoch", "0"],
        ["abort", "--partition", "0", "--start-offset", "0"],
        ["unstick"],
        ["unstick", "t", "--older-than", "soon"],
    ],
    ids=" ".join,
)
def test_flags_that_do_not_go_together(cluster: Cluster, words: list[str]) -> None:
    assert cluster.run(*words) == ExitStatus.USAGE
    assert cluster.broker.requests == []
