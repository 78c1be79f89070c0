"""Streams of Spark's whose driver is killed: files hold every record once, a topic at least once."""

import random
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pkafka.clients.producer import Producer
from pkafka.testing import Broker
from tests.faults.spark_kills import kill, kill_somewhere
from tests.spark import END_S, of_program
from tests.talk import talking

PARTITIONS = 2
RECORDS_PER_SECOND = 500


class Source:
    """Writes 0, 1, 2, ... to a topic until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent = 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source")
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer({"bootstrap.servers": self._bootstrap}) as producer:
            while not self._ended.wait(0.05):
                count = RECORDS_PER_SECOND // 20
                values = [b"%d" % number for number in range(self.sent, self.sent + count)]
                producer.send_batch(self._topic, values).result(30)
                self.sent += count


@contextmanager
def driver(directory: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """The program, killed at the end of the block where it has not ended by itself."""
    command = [sys.executable, "-m", "tests.faults.spark_stream", *map(str, arguments)]
    # Of its temporary files a kill of all of it leaves some.
    process = subprocess.Popen(command, env=of_program(directory / "tmp"))
    try:
        yield process
    finally:
        if process.poll() is None:
            kill(process)


@pytest.mark.nightly  # minutes even with two kills: Spark starts each time
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.timeout(3600))])
@pytest.mark.timeout(1200)
def test_a_killed_driver_loses_and_repeats_nothing_in_files(
    kills: int, pkafka_broker: Broker, tmp_path: Path
) -> None:
    source, sink = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("source", "sink"))
    when = random.Random(kills)
    with talking(pkafka_broker.bootstrap) as talk:
        talk.create(source, PARTITIONS)
        talk.create(sink, PARTITIONS)
        records = Source(pkafka_broker.bootstrap, source)
        try:
            for _ in range(kills):
                with driver(tmp_path, pkafka_broker.bootstrap, source, sink, tmp_path, "for-ever") as running:
                    name, sink_files = when.choice((("files", tmp_path / "files"), ("topic", None)))
                    kill_somewhere(running, when, tmp_path / f"{name}-checkpoint", sink_files)
        finally:
            records.stop()
        with driver(tmp_path, pkafka_broker.bootstrap, source, sink, tmp_path, "to-the-end") as last:
            assert last.wait(2 * END_S) == 0
        expected = {b"%d" % number for number in range(records.sent)}
        files = [line for part in (tmp_path / "result").glob("*.txt") for line in part.read_bytes().split()]
        assert [each for each, times in Counter(files).items() if times > 1] == []
        assert set(files) == expected
        copied = [record.value for partition in range(PARTITIONS) for record in talk.read(sink, partition)]
        assert set(copied) == expected
