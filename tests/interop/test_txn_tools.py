"""What tools show of a topic with an open transaction: pk-* and Kafka's on the same cluster, of either kind."""

import re
from collections.abc import Callable, Iterator

import pytest

from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from tests.differences import first_difference
from tests.interop.conftest import JavaTool, System
from tests.interop.side_by_side import SideBySide, pk
from tests.interop.test_tools_text import CONSUMER, DUMP_LOG, GET_OFFSETS
from tests.talk import Talk

pytestmark = pytest.mark.interop

PRODUCER_ID = re.compile(r" producerId: (\d+) ")


@pytest.fixture
def open_one(system: System, talk: Talk, topic: str) -> Iterator[Producer]:
    """Two committed records, an aborted one, an open one and a plain one."""
    talk.create(topic)
    with Producer({"bootstrap.servers": system.bootstrap, "transactional.id": topic}) as producer:
        producer.init_transactions()
        for values, is_committed in (((b"a", b"b"), True), ((b"aborted",), False)):
            producer.begin_transaction()
            for value in values:
                producer.send(topic, value).result(30)
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open").result(30)
        talk.send(topic, b"plain")
        yield producer


def test_ends_and_records_beside_an_open_transaction(
    java_tool: JavaTool, system: System, open_one: Producer, topic: str
) -> None:
    side = SideBySide(java_tool, system)
    for time in ("latest", "earliest", "max-timestamp"):
        side.same(GET_OFFSETS, "--topic", topic, "--time", time)
    # Of either make the tool asks for the high watermark: markers and undecided records count.
    assert side.same(GET_OFFSETS, "--topic", topic) == f"{topic}:0:7\n"
    place = ("--topic", topic, "--partition", 0, "--offset", "earliest")
    committed = (*place, "--isolation-level", "read_committed")
    assert side.same(CONSUMER, *place, "--max-messages", 5).split() == ["a", "b", "aborted", "open", "plain"]
    assert side.same(CONSUMER, *committed, "--max-messages", 2).split() == ["a", "b"]
    # There is no third one, however long a consumer waits.
    server = ("--bootstrap-server", side.bootstrap)
    until_quiet = [str(each) for each in (*server, *committed, "--timeout-ms", 5_000)]
    read_to_the_end(lambda: pk(CONSUMER[0], *until_quiet), ["a", "b"])
    read_to_the_end(lambda: java_tool(CONSUMER[1], *until_quiet).stdout, ["a", "b"])
    open_one.commit_transaction()
    assert side.same(CONSUMER, *committed, "--max-messages", 4).split() == ["a", "b", "open", "plain"]
    # Into the aborted range.
    seek = ("--topic", topic, "--partition", 0, "--offset", 3, "--isolation-level", "read_committed")
    assert side.same(CONSUMER, *seek, "--max-messages", 2).split() == ["open", "plain"]


def read_to_the_end(read: Callable[[], str], values: list[str]) -> None:
    """Read until it is all that comes: on a busy machine a consumer may find five seconds quiet before that."""
    found: list[str] = []
    while found != values:
        found = read().split()
        assert found == values[: len(found)]


def test_pending_offsets_in_the_log_are_shown_alike(
    java_tool: JavaTool, system: System, open_one: Producer, topic: str
) -> None:
    """Offsets of a committed, an aborted and an open transaction, and their markers."""
    group = f"group-of-{topic}"
    open_one.abort_transaction()
    for offset, end in ((1, open_one.commit_transaction), (2, open_one.abort_transaction), (3, None)):
        open_one.begin_transaction()
        open_one.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, group)
        if end is not None:
            end()
    [written] = [
        path
        for path in system.log_dir.glob("__consumer_offsets-*/*.log")
        if group.encode() in path.read_bytes()
    ]
    flags = ("--offsets-decoder", "--files", written)
    theirs = java_tool(DUMP_LOG[1], *flags)
    shown = pk(DUMP_LOG[0], *flags)
    assert not first_difference(shown, theirs.stdout)
    # Transactions of other tests' groups may share the partition: only this producer's batches count.
    batches = shown.split("baseOffset: ")[1:]
    [producer_id] = {found[1] for batch in batches if group in batch and (found := PRODUCER_ID.search(batch))}
    ours = [batch for batch in batches if f" producerId: {producer_id} " in batch]
    assert sum("isTransactional: true" in batch for batch in ours) >= 5
    assert sum("endTxnMarker: COMMIT" in batch for batch in ours) == 1
    assert sum("endTxnMarker: ABORT" in batch for batch in ours) == 1
