"""pk-mirror on what MirrorMaker 2 has copied: compared from its offset syncs, and drilled with its checkpoints."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.connect.mirror.records import Checkpoint
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.connect_fixtures import source_broker
from tests.connect_workers import ConnectWorker, standalone
from tests.mirrors import CHECKPOINTS, WORKER, connector
from tests.raw_client import new_topic_name
from tests.talk import talking, wait_for

__all__ = ["source_broker"]


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Iterator[ConnectWorker]:
    with standalone(tmp_path / "worker", broker.bootstrap, WORKER) as worker:
        yield worker


def asked(source: Broker, target: Broker, topic: str, verb: str, *words: str) -> tuple[int, Any]:
    """Status and document of a verb."""
    clusters = ["--source", source.bootstrap, "--target", target.bootstrap, "--include", topic]
    aliases = ["--source-alias", "A", "--target-alias", "B"]
    command = [sys.executable, "-m", "pkafka.cli.mirror", verb, *clusters, *aliases, *words]
    done = subprocess.run(
        [*command, "--output", "json"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def made(worker: ConnectWorker, kind: str, source: Broker, target: Broker, topic: str, group: str) -> None:
    configs = connector(
        kind, source.bootstrap, target.bootstrap, {"topics": topic, "groups": group, "offset.lag.max": 0}
    )
    worker.create(configs)
    worker.rest.wait_until(configs["name"], "RUNNING", "RUNNING")


def test_a_mirror_is_compared_from_its_syncs_and_drilled_with_its_checkpoints(
    worker: ConnectWorker, source: Broker, broker: Broker
) -> None:
    topic, group, partition = new_topic_name(), new_topic_name(), 0
    with talking(source.bootstrap) as a, talking(broker.bootstrap) as b:
        a.create(topic)
        a.send(topic, *(b"%d" % number for number in range(20)))
        with Consumer({"bootstrap.servers": source.bootstrap, "group.id": group}) as consumer:
            consumer.commit_sync({TopicPartition(topic, partition): 15})
        status, found = asked(source, broker, topic, "drill", "--groups", group)
        assert (status, found["ready"], found["copies"][0]["lag"]) == (1, False, None)

        for kind in ("Source", "Checkpoint"):
            made(worker, kind, source, broker, topic, group)
        wait_for(lambda: len(b.read(f"A.{topic}")) == 20)

        def is_compared() -> bool:
            """The copy may be there before the last of its offset syncs."""
            status, found = asked(source, broker, topic, "verify")
            return (status, found["same"], found["partitions"][0]["by_offset_sync"]) == (0, 20, True)

        wait_for(is_compared)

        def has_checkpoint() -> bool:
            return any(Checkpoint.of(each.key, each.value).group == group for each in b.read(CHECKPOINTS))

        wait_for(has_checkpoint)
        status, found = asked(source, broker, topic, "drill", "--groups", group, "--max-lag", "0")
        assert (status, found["problems"], found["copies"][0]["by_offset_sync"]) == (0, [], True)
        (position,) = found["positions"]
        assert position["origin"] == "checkpoint"
        assert position["target_offset"] + position["re_read"] == 15

        b.send(f"A.{topic}", b"not of the source")
        status, found = asked(source, broker, topic, "verify")
        assert (status, found["partitions"][0]["difference"]["target_offset"]) == (1, 20)
