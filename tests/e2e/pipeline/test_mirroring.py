"""pk-mirror by tasks of Spark's says and does what it does without."""

import json
import time
from pathlib import Path
from typing import Final

import pytest

from pkafka.cli.mirror import main
from pkafka.connect.mirror.records import OffsetSync
from pkafka.records.builder import build_batch
from pkafka.testing import Broker
from tests.e2e.pipeline.conftest import RunCommand
from tests.raw_client import new_topic_name
from tests.spark import END_S
from tests.talk import Talk

pytestmark = pytest.mark.timeout(3 * END_S)


NOW_MS: Final = time.time_ns() // 1_000_000
"""Records of long ago would be deleted by the broker's retention."""


def batch(*numbers: int, value: bytes = b"value %d") -> bytes:
    return bytes(build_batch([(NOW_MS + each, b"key", value % each, ()) for each in numbers]))


def mirrored(talk: Talk) -> str:
    """A topic whose partitions have copies of every kind, and one whose copy is not there."""
    topic = new_topic_name()
    talk.create(topic, 6)
    talk.create(f"A.{topic}", 5)
    everything = batch(*range(20))
    for partition in range(6):
        talk.produce(topic, everything, partition=partition)
    copies = (
        [everything],
        [batch(*range(12)), batch(*range(4, 20))],  # some of it again
        [batch(*range(9)), batch(*range(10, 20))],  # one record is missing
        [batch(*range(9)), batch(9, value=b"other %d"), batch(*range(10, 20))],
        [batch(*range(15))],  # the rest is to come
    )
    for partition, parts in enumerate(copies):
        for each in parts:
            talk.produce(f"A.{topic}", each, partition=partition)
    return topic


def test_copies_are_compared_as_without_spark(
    run_command: RunCommand, talk: Talk, pkafka_broker: Broker
) -> None:
    topic, servers = mirrored(talk), pkafka_broker.bootstrap
    words = ["verify", "--source", servers, "--target", servers, "--include", topic, "--source-alias", "A"]
    words += ["--timeout", "60s", "--output", "json"]
    plain, said = run_command(main, *words, status=1)
    by_spark, said_by_spark = run_command(main, *words, "--spark", status=1)
    assert json.loads(by_spark) == json.loads(plain)
    assert said_by_spark == said
    found = {each["partition"]: each for each in json.loads(plain)["partitions"]}
    verdicts = [found[number]["verdict"] for number in range(6)]
    assert verdicts == ["same", "same", "differs", "differs", "behind", "missing"]
    assert found[1]["repeated"] == 8


@pytest.mark.nightly
def test_history_is_copied_by_tasks(
    run_command: RunCommand, talk: Talk, pkafka_broker: Broker, tmp_path: Path
) -> None:
    topic, alias, servers = new_topic_name(), new_topic_name("A"), pkafka_broker.bootstrap
    talk.create(topic, 3)
    for partition in range(2):
        talk.produce(topic, batch(*range(50)), partition=partition)
        talk.produce(topic, batch(50), partition=partition)
    clusters = ["--source", servers, "--target", servers, "--include", topic, "--source-alias", alias]
    options = ["--target-alias", alias[::-1], "--timeout", "60s", "--output", "json", "--spark"]
    line = ["back-fill", *clusters, *options, "--offsets-file", tmp_path / "offsets"]
    out, _ = run_command(main, *line)
    found = json.loads(out)
    assert (found["records"], found["created"]) == (102, [f"{alias}.{topic}"])
    assert [each["source_offset"] for each in found["partitions"]] == [50, 50, None]
    syncs = [
        OffsetSync.of(each.key, each.value) for each in talk.read(f"mm2-offset-syncs.{alias[::-1]}.internal")
    ]
    assert {each.partition.partition: each.downstream for each in syncs} == {0: 50, 1: 50}
    out, _ = run_command(main, "verify", *clusters, "--timeout", "60s", "--output", "json")
    assert json.loads(out)["same"] == 102
