"""Records as JSON lines: a pipe from pk-console-consumer to pk-console-producer copies a topic, on both systems."""

import subprocess
import sys

from pkafka.clients.producer import Producer
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.records.reading import Record
from tests.interop.conftest import System
from tests.interop.side_by_side import pk
from tests.open_transactions import ends
from tests.talk import Talk, wait_for

RECORDS = [
    (1_000, b"key", b"value", (("h", b"1"), ("h", None), ("h", b"1"), ("", b""), ("z\u00fc", b"\xff\x00"))),
    (2_000, None, None, ()),
    (1_500, b"", b"", (("none", None),)),
    (3_000, b"\x00\xff", bytes(range(256)), ()),
    (3_001, "schl\u00fcssel".encode(), 'line\r\nend \u2028 "quoted" \\ \U0001f600\x7f\x00'.encode(), ()),
    (4_000, b'{"base64": "AA=="}', b'{"base64": "AA=="}', ()),
    (2**53 + 1, None, b"null", ()),
    (0, b"null", b"x" * 100_000, ()),
]


def copied(system: System, source: str, copy: str, *flags: str) -> None:
    """Copy a topic through a pipe."""
    server = ("--bootstrap-server", system.bootstrap)
    reading = (*server, "--topic", source, "--from-beginning", "--until-end", "--output", "jsonl")
    writing = (*server, "--topic", copy, "--input", "jsonl", *flags)
    consumer, producer = (
        [sys.executable, "-c", f"from pkafka.cli.console_{name} import main; main()", *words]
        for name, words in (("consumer", reading), ("producer", writing))
    )
    with subprocess.Popen(consumer, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as from_there:
        to_there = subprocess.run(
            producer, stdin=from_there.stdout, capture_output=True, timeout=60, check=False
        )
        assert (to_there.returncode, to_there.stdout, to_there.stderr) == (0, b"", b"")
        assert from_there.wait(60) == 0, from_there.stderr


def bare(records: list[Record]) -> list[tuple[object, ...]]:
    """Records without their offsets."""
    return [each[1:] for each in records]


def test_a_pipe_copies_a_topic_byte_for_byte(system: System, talk: Talk, topic: str) -> None:
    copy = f"{topic}-copy"
    for name in (topic, copy):
        # The time of one record is far in the future, which Kafka accepts where it is told to.
        talk.create(name, 3, message_timestamp_after_max_ms=2**63 - 1)
    for partition, codec in ((0, Codec.NONE), (2, Codec.ZSTD)):
        for _ in range(2):
            talk.produce(topic, bytes(build_batch(RECORDS, codec=codec)), partition=partition)
    copied(system, topic, copy)
    for partition in range(3):
        source = talk.read(topic, partition)
        assert len(source) == (0 if partition == 1 else 2 * len(RECORDS))
        assert bare(talk.read(copy, partition)) == bare(source)


def test_a_record_without_a_time_gets_one(system: System, talk: Talk, topic: str) -> None:
    copy = f"{topic}-copy"
    for name in (topic, copy):
        talk.create(name)
    talk.produce(topic, bytes(build_batch([(-1, b"k", b"v", ())])))
    (source,) = talk.read(topic)
    assert source.timestamp == -1
    copied(system, topic, copy, "--sync")
    (record,) = talk.read(copy)
    assert (record.key, record.value) == (b"k", b"v")
    assert record.timestamp > 10**12


def test_the_end_may_be_the_mark_of_a_transaction(system: System, talk: Talk, topic: str) -> None:
    server = {"bootstrap.servers": system.bootstrap}
    with Producer({**server, "transactional.id": topic}) as producer:
        producer.init_transactions()
        for value, is_committed in ((b"a", True), (b"b", False), (b"c", True)):
            producer.begin_transaction()
            producer.send(topic, value)
            producer.flush()
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        # A commit has an answer before its marker is written, and what is not decided has no end.
        wait_for(lambda: len(set(ends(talk.admin, topic))) == 1, what="the last marker")
        words = ("--bootstrap-server", system.bootstrap, "--topic", topic, "--until-end")
        committed = ("--isolation-level", "read_committed")
        assert pk("console_consumer", *words, "--from-beginning").split() == ["a", "b", "c"]
        assert pk("console_consumer", *words, "--from-beginning", *committed).split() == ["a", "c"]
        assert pk("console_consumer", *words, "--tail", 2, *committed).split() == ["c"]
        producer.begin_transaction()
        producer.send(topic, b"open")
        producer.flush()
        # What is not decided is not there yet, so its beginning is the end.
        assert pk("console_consumer", *words, "--from-beginning", *committed).split() == ["a", "c"]
        assert pk("console_consumer", *words, "--from-beginning").split() == ["a", "b", "c", "open"]
        producer.abort_transaction()
