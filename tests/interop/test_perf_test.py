"""pk-perf-test drives Apache Kafka as it drives pkafka."""

import json
from collections import Counter
from typing import Any

import pytest

from pkafka.cli import perf_test
from tests.interop.conftest import System
from tests.perf_reports import remarks_of
from tests.talk import Talk


@pytest.fixture
def report(system: System, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a load test on the system and gives its report."""
    monkeypatch.delenv("PK_COMPAT", raising=False)

    def run(*args: object) -> dict[str, Any]:
        words = ["--bootstrap-server", system.bootstrap, "--timeout", "30s", "--output", "json", *args]
        status = perf_test.main.run([str(word) for word in words])
        printed = capsys.readouterr()
        assert status == 0, printed.err
        document: dict[str, Any] = json.loads(printed.out)
        return document

    return run


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_record_arrives(report: Any, talk: Talk, topic: str, codec: str, acks: str) -> None:
    talk.create(topic, partitions=3)
    options = (
        "--topic",
        topic,
        "--num-records",
        5_000,
        "--producers",
        2,
        "--consumers",
        2,
        "--key",
        "zipf:50",
    )
    found = report(*options, "--codec", codec, "--acks", acks, "--record-size", "uniform:50:150")
    produced, consumed = found["results"]
    assert (produced["records"], consumed["records"]) == (5_000, 5_000)
    assert produced["size_bytes"] == consumed["size_bytes"]
    assert (produced["failed"], found["missing"], remarks_of(found)) == (0, 0, [])
    records = [record for partition in range(3) for record in talk.read(topic, partition)]
    keys = Counter(record.key for record in records)
    assert sum(keys.values()) == 5_000
    assert keys[b"0"] == max(keys.values())
    assert {len(record.value or b"") for record in records} <= set(range(50, 151))


def test_a_rate_in_a_group(report: Any, topic: str) -> None:
    group = ("--group", f"perf-{topic}", "--consumers", 2, "--partitions", 4, "--replication-factor", 1)
    found = report("--topic", topic, "--rate", 500, "--duration", "2s", "--warmup", "1s", *group)
    for side in found["results"]:
        # A machine that is too busy to send in time says what it owes.
        assert side["records"] + side["warm_up_records"] + found["missed"] == 1_500
        assert not side["records"] or side["percentiles_ms"]["50"] > 0
    assert found["end_to_end_clock"] == "value, in microseconds"


def test_what_is_there_is_read(report: Any, talk: Talk, topic: str) -> None:
    talk.create(topic, partitions=2)
    report("--topic", topic, "--num-records", 3_000, "--consumers", 0)
    (consumed,) = report("--topic", topic, "--producers", 0, "--consumers", 2)["results"]
    assert consumed["records"] == 3_000


def test_the_topic_is_deleted_that_was_made(report: Any, talk: Talk, topic: str) -> None:
    report("--topic", topic, "--num-records", 10)
    report(
        "--topic", f"{topic}-kept", "--num-records", 10, "--keep-topic", "--topic-config", "retention.ms=5000"
    )
    names = {each.name for each in talk.admin.list_topics()}
    assert topic not in names
    assert f"{topic}-kept" in names


@pytest.mark.parametrize(("isolation", "read"), [(None, 800), ("read_uncommitted", 1_000)])
def test_transactions_are_committed_and_aborted(
    report: Any, topic: str, isolation: str | None, read: int
) -> None:
    options = ("--topic", topic, "--num-records", 1_000, "--producers", 2, "--transaction-records", 50)
    levels = () if isolation is None else ("--consumer-property", f"isolation.level={isolation}")
    found = report(*options, "--abort-share", 0.2, "--replication-factor", 1, *levels)
    produced, consumed = found["results"]
    assert (produced["records"], produced["failed"], consumed["records"]) == (1_000, 0, read)
    assert (found["missing"], remarks_of(found)) == (0, [])
    ended = found["transactions"]
    assert (ended["committed"], ended["aborted"], ended["aborted_records"]) == (16, 4, 200)
    assert 0 < ended["commit_percentiles_ms"]["50"] <= ended["commit_max_ms"]


def test_transactions_at_a_rate_have_their_records_and_the_last_one_the_rest(report: Any, topic: str) -> None:
    options = ("--topic", topic, "--num-records", 130, "--rate", 2_000, "--replication-factor", 1)
    found = report(*options, "--transaction-records", 50)
    assert [row["records"] for row in found["results"]] == [130, 130]
    assert (found["transactions"]["committed"], found["transactions"]["aborted"]) == (3, 0)
