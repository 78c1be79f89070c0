"""pk-dump-log and Kafka's DumpLogSegments on what pkafka's broker wrote in transactions: the same text."""

from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.admin.transaction_results import TransactionState
from pkafka.testing import running_broker
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.interop.side_by_side import pk
from tests.open_transactions import begin, ends, transactional_producer
from tests.talk import good, talking, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

JAVA: Final = "kafka.tools.DumpLogSegments"
TOPIC: Final = "paid"
ID: Final = "cashier"
SETTINGS: Final = {
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a broker that had a transaction committed, some aborted, and one open when it stopped."""
    with running_broker(tmp_path_factory.mktemp("written"), SETTINGS) as broker:
        with talking(broker.bootstrap) as talk:
            talk.create(TOPIC, 2, segment_bytes=1_000)
            with transactional_producer(broker.bootstrap, ID) as writer:
                for number in range(6):
                    begin(writer, TOPIC, 0, 1)
                    writer.send(TOPIC, b"v" * 300, partition=0)
                    writer.flush()
                    (writer.abort_transaction if number % 2 else writer.commit_transaction)()
                begin(writer, TOPIC, 0)
                wait_for(lambda: ends(talk.admin, TOPIC, 0)[0] == 18, what="the markers")
                state = good(talk.admin.describe_transactions([ID])[ID]).state
                assert state is TransactionState.ONGOING
                broker.stop()
        return broker.log_dir


def compared(java_tool: JavaTool, files: list[Path], *flags: str) -> str:
    """The text of both tools."""
    words = ["--files", ",".join(map(str, sorted(files))), *flags]
    theirs = java_tool(JAVA, *words)
    assert theirs.returncode == 0, theirs
    ours = pk("dump_log", *words)
    assert not first_difference(ours, theirs.stdout)
    return ours


def test_segments_with_markers(java_tool: JavaTool, logs: Path) -> None:
    shown = compared(java_tool, [*(logs / f"{TOPIC}-0").glob("*.log")], "--print-data-log")
    assert shown.count("endTxnMarker: COMMIT") == shown.count("endTxnMarker: ABORT") == 3
    assert "isTransactional: true isControl: true" in compared(
        java_tool, [*(logs / f"{TOPIC}-1").glob("*.log")]
    )


@pytest.mark.parametrize(
    ("suffix", "word"),
    [("txnindex", "lastStableOffset"), ("snapshot", "producerEpoch"), ("timeindex", "timestamp")],
)
def test_files_beside_segments(java_tool: JavaTool, logs: Path, suffix: str, word: str) -> None:
    shown = [
        compared(java_tool, [*(logs / f"{TOPIC}-{partition}").glob(f"*.{suffix}")]) for partition in range(2)
    ]
    assert word in "".join(shown)


def test_the_states_of_transactions(java_tool: JavaTool, logs: Path) -> None:
    (directory,) = logs.glob("__transaction_state-*")
    files = [*directory.glob("*.log")]
    shown = compared(java_tool, files, "--transaction-log-decoder")
    states = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
    assert all(f",state={state}," in shown for state in states)
    assert f"transaction_metadata::transactionalId={ID} " in shown
    compared(java_tool, files, "--print-data-log")
    compared(java_tool, [*directory.glob("*.snapshot")])
