"""pk-connect-mirror-maker: flows between two clusters from one file, by several processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from pkafka.java.properties import format_properties
from pkafka.testing import Broker
from tests.connect_fixtures import source_broker
from tests.raw_client import new_topic_name
from tests.sockets import free_port
from tests.talk import Talk, talking, wait_for

__all__ = ["source_broker"]

COMMAND = [sys.executable, "-c", "from pkafka.cli.connect_mirror_maker import main; main()"]


def flows(
    source: Broker, target: Broker, topic: str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "A->B.topics": f"{topic}.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "emit.heartbeats.interval.seconds": "1",
        # Of the workers, whose settings are named by the cluster: without these, what a killed one has waits for it.
        **{f"{alias}.session.timeout.ms": "6000" for alias in "AB"},
        **{f"{alias}.scheduled.rebalance.max.delay.ms": "0" for alias in "AB"},
        **(more or {}),
    }


class Maker:
    """One process."""

    def __init__(self, directory: Path, properties: Mapping[str, str], *arguments: str) -> None:
        directory.mkdir()
        file = directory / "mm2.properties"
        file.write_text(format_properties(properties))
        self.log = directory / "maker.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, str(file), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
            )

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


def holds(talk: Talk, topic: str, count: int) -> bool:
    return exists(talk, topic) and len(talk.read(topic)) == count


def exists(talk: Talk, topic: str) -> bool:
    return any(each.name == topic for each in talk.admin.list_topics())


def test_a_flow_is_copied_through_the_end_of_a_process(
    source: Broker, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic_name()
    port = str(free_port())
    makers: list[Maker] = []
    speaking = {"dedicated.mode.enable.internal.rest": "true"}
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(f"{topic}-1")
        a.send(f"{topic}-1", *[b"x"] * 10)
        try:
            for number, each in enumerate((port, str(free_port()))):
                properties = flows(source, broker, topic, speaking)
                properties["listeners"] = properties["B.listeners"] = f"http://127.0.0.1:{each}"
                properties["A.listeners"] = properties["B.listeners"]
                makers.append(Maker(tmp_path / str(number), properties))
            wait_for(partial(holds, b, f"A.{topic}-1", 10))
            a.create(
                f"{topic}-2"
            )  # a new topic is other tasks, which whoever does not lead sends to the leader
            a.send(f"{topic}-2", *[b"y"] * 5)
            wait_for(partial(holds, b, f"A.{topic}-2", 5))
            makers[0].end(signal.SIGKILL)
            a.send(f"{topic}-1", *[b"z"] * 7)
            wait_for(partial(holds, b, f"A.{topic}-1", 17))
            wait_for(partial(exists, b, "heartbeats"))
            assert makers[1].end(signal.SIGTERM) == 0
        finally:
            for maker in makers:
                if maker.process.poll() is None:
                    maker.end(signal.SIGKILL)


@pytest.mark.parametrize(
    ("change", "arguments", "text"),
    [
        ({"clusters": None}, (), 'Missing required configuration "clusters"'),
        ({}, ("--clusters", "C"), "There is no cluster C; there are A, B"),
        ({"A->B.enabled": "false", "emit.heartbeats.enabled": "false"}, (), "No flow is enabled"),
    ],
)
def test_a_file_that_says_nothing_to_do_is_refused(
    broker: Broker, tmp_path: Path, change: dict[str, str | None], arguments: tuple[str, ...], text: str
) -> None:
    properties = {**flows(broker, broker, "t"), **change}
    file = tmp_path / "mm2.properties"
    file.write_text(format_properties({key: value for key, value in properties.items() if value is not None}))
    done = subprocess.run(
        [*COMMAND, str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("pk-connect-mirror-maker: ")
    assert text in done.stderr
