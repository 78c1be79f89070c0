"""The settings of compaction, of a topic and of the broker, changed while it runs."""

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.records.builder import build_batch
from pkafka.testing import Broker, running_broker
from tests.e2e.seen import HOUR_MS, checkpointed, segments
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking, wait_for

BACKOFF_MS = 50
SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "pkafka.workers": 2,
    "log.cleaner.backoff.ms": BACKOFF_MS,
    "log.segment.delete.delay.ms": 0,
    "log.retention.check.interval.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.message.timestamp.before.max.ms": 2**62,
    "pkafka.metrics.port": 0,
}
COMPACT: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_bytes": "1100",
    "min_cleanable_dirty_ratio": "0.01",
}


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return SETTINGS


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker


def put(talk: Talk, topic: str, *pairs: tuple[bytes, bytes | None], hours: float = 0) -> None:
    """One batch to each pair, each in a segment of its own, and one more that ends the last of these."""
    now_ms = time.time_ns() // 1_000_000 - int(hours * HOUR_MS)
    for key, value in (*pairs, (b"last", b"")):
        padding = (("padding", b"." * 900),)
        talk.produce(topic, bytes(build_batch([(now_ms, key, value, padding)])))


def kept(talk: Talk, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values but for those that only end segments."""
    return [(one.key, one.value) for one in talk.read(topic) if one.key != b"last"]


def cleaned(broker: Broker, topic: str) -> bool:
    return checkpointed(broker, "cleaner", topic) == segments(broker, topic)[-1]


def after_a_look(broker: Broker, talk: Talk) -> None:
    """Wait until the cleaner has looked at every log once more: what it leaves alone now it has left alone."""
    for _ in range(2):  # it may have been at one of these when it was asked for the others
        probe = new_topic_name("probe")
        talk.create(probe, partitions=1, **COMPACT)
        put(talk, probe, (b"a", b"1"), (b"a", b"2"))
        wait_for(lambda: checkpointed(broker, "cleaner", probe) == 2, what="a look")  # noqa: B023 - called at once


def test_the_last_value_of_each_key_is_kept(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, **COMPACT)
    put(talk, topic, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", None))
    wait_for(lambda: kept(talk, topic) == [(b"a", b"2"), (b"c", b"1"), (b"b", None)])
    assert talk.ends(topic) == (0, 6)


def test_records_without_a_key_are_refused(talk: Talk, topic: str) -> None:
    talk.create(topic, **COMPACT)
    with pytest.raises(ApiError) as refused:
        talk.send(topic, b"x")
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_min_cleanable_dirty_ratio(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, **COMPACT | {"min_cleanable_dirty_ratio": "1.0"})
    put(talk, topic, (b"a", b"1"), (b"a", b"2"))
    after_a_look(broker, talk)
    assert kept(talk, topic) == [(b"a", b"1"), (b"a", b"2")]
    talk.set_topic(topic, min_cleanable_dirty_ratio=0.5)
    wait_for(lambda: kept(talk, topic) == [(b"a", b"2")])


def test_delete_retention_ms(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    talk.create(topic, **COMPACT)
    put(talk, topic, (b"a", b"1"), (b"a", None))
    wait_for(lambda: cleaned(broker, topic))
    put(talk, topic, (b"b", b"1"))
    wait_for(lambda: cleaned(broker, topic))
    assert kept(talk, topic) == [(b"a", None), (b"b", b"1")]
    # What has its time already keeps it; so another key.
    talk.set_topic(topic, delete_retention_ms=0)
    put(talk, topic, (b"b", None))
    wait_for(lambda: cleaned(broker, topic))
    put(talk, topic, (b"c", b"1"))
    wait_for(lambda: kept(talk, topic) == [(b"a", None), (b"c", b"1")])
    talk.set_topic(topic, delete_retention_ms=None)
    inherit(log_cleaner_delete_retention_ms=0)
    put(talk, topic, (b"c", None))
    wait_for(lambda: cleaned(broker, topic))
    put(talk, topic, (b"d", b"1"))
    wait_for(lambda: kept(talk, topic) == [(b"a", None), (b"d", b"1")])


def test_min_compaction_lag_ms(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    other = topic + "-own"
    inherit(log_cleaner_min_compaction_lag_ms=HOUR_MS)
    talk.create(topic, **COMPACT)
    talk.create(other, **COMPACT, min_compaction_lag_ms=3 * HOUR_MS)
    for each in (topic, other):
        put(talk, each, (b"a", b"1"), (b"a", b"2"), hours=2)
        put(talk, each, (b"b", b"1"), (b"b", b"2"))
    wait_for(lambda: kept(talk, topic) == [(b"a", b"2"), (b"b", b"1"), (b"b", b"2")])
    assert len(kept(talk, other)) == 4
    talk.set_topic(other, min_compaction_lag_ms=0)
    wait_for(lambda: kept(talk, other) == [(b"a", b"2"), (b"b", b"2")])
    inherit(log_cleaner_min_compaction_lag_ms=0)
    wait_for(lambda: kept(talk, topic) == [(b"a", b"2"), (b"b", b"2")])


def test_max_compaction_lag_ms(broker: Broker, talk: Talk, topic: str, inherit: Callable[..., None]) -> None:
    other = topic + "-own"
    for each in (topic, other):
        talk.create(each, **COMPACT | {"min_cleanable_dirty_ratio": "1.0"})
        put(talk, each, (b"a", b"1"), (b"a", b"2"), hours=2)
    after_a_look(broker, talk)
    assert len(kept(talk, topic)) == len(kept(talk, other)) == 2
    talk.set_topic(other, max_compaction_lag_ms=HOUR_MS)
    wait_for(lambda: kept(talk, other) == [(b"a", b"2")])
    assert len(kept(talk, topic)) == 2
    inherit(log_cleaner_max_compaction_lag_ms=HOUR_MS)
    wait_for(lambda: kept(talk, topic) == [(b"a", b"2")])


def test_a_policy_may_come_and_go(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, **COMPACT | {"cleanup_policy": "delete"})
    put(talk, topic, (b"a", b"1"), (b"a", b"2"))
    after_a_look(broker, talk)
    assert len(kept(talk, topic)) == 2
    talk.set_topic(topic, cleanup_policy="compact")
    wait_for(lambda: kept(talk, topic) == [(b"a", b"2")])
    talk.set_topic(topic, cleanup_policy="delete")
    put(talk, topic, (b"a", b"3"))
    after_a_look(broker, talk)
    assert kept(talk, topic) == [(b"a", b"2"), (b"a", b"3")]


def test_compaction_and_retention_together(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, **COMPACT | {"cleanup_policy": "compact,delete"}, retention_ms=HOUR_MS)
    put(talk, topic, (b"a", b"1"), (b"a", b"2"), hours=2)
    put(talk, topic, (b"b", b"1"), (b"b", b"2"))

    def left() -> list[tuple[bytes | None, bytes | None]] | None:
        try:
            return kept(talk, topic)
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return None  # the start moved on while this was reading

    wait_for(lambda: left() == [(b"b", b"2")])
    assert talk.ends(topic)[0] > 0


def test_a_topic_made_anew_is_not_taken_for_clean(broker: Broker, talk: Talk, topic: str) -> None:
    for _ in range(2):
        talk.create(topic, **COMPACT)
        put(talk, topic, *[(b"a", b"%d" % number) for number in range(6)])
        wait_for(lambda: kept(talk, topic) == [(b"a", b"5")])
        talk.delete(topic)
        wait_for(lambda: not list(broker.log_dir.glob(f"{topic}-0*")))
    assert checkpointed(broker, "cleaner", topic) is None


def test_the_checkpoint_outlives_the_broker(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker", SETTINGS) as broker:
        with talking(broker.bootstrap) as talk:
            talk.create("t", **COMPACT)
            put(talk, "t", (b"a", b"1"), (b"a", b"2"))
            wait_for(lambda: cleaned(broker, "t"))
        for stop in (broker.stop, broker.kill):
            before = checkpointed(broker, "cleaner", "t")
            stop()
            broker.start()
            with talking(broker.bootstrap) as talk:
                assert checkpointed(broker, "cleaner", "t") == before
                put(talk, "t", (b"a", b"3"))
                wait_for(lambda: cleaned(broker, "t") and kept(talk, "t") == [(b"a", b"3")])
        assert broker.log_file.read_text().count("(dirty section = [0,") == 1


def test_without_the_cleaner_nothing_of_a_compacted_topic_goes(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path / "broker", {**SETTINGS, "log.cleaner.enable": "false"}) as broker,
        talking(broker.bootstrap) as talk,
    ):
        talk.create("both", **COMPACT | {"cleanup_policy": "compact,delete"}, retention_ms=HOUR_MS)
        talk.create("old", segment_bytes=1100, retention_ms=HOUR_MS)
        for topic in ("both", "old"):
            put(talk, topic, (b"a", b"1"), (b"a", b"2"), hours=2)
            put(talk, topic, (b"b", b"1"))
        wait_for(lambda: talk.ends("old")[0] == 3)
        wait_for(lambda: talk.ends("old")[0] == 3)
        assert len(kept(talk, "both")) == 3
        assert talk.ends("both") == (0, 5)


def measured(broker: Broker) -> dict[str, float]:
    """What the page of metrics says of the cleaner."""
    _, _, address = broker.log_file.read_text().rpartition("Metrics on ")
    with urllib.request.urlopen(address.split()[0], timeout=60) as answer:
        rows = [line.split() for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {row[0]: float(row[1]) for row in rows if row[0].startswith("kafka_log_logcleaner")}


def test_the_page_of_metrics_tells_of_the_cleaner(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, **COMPACT)
    put(talk, topic, *[(b"a", b"%d" % number) for number in range(9)])
    wait_for(lambda: cleaned(broker, topic))
    # The log is noted as clean before its cleaner tells how it went.
    wait_for(lambda: 0 < measured(broker)["kafka_log_logcleaner_cleaner_recopy_percent"] < 100)
    found = measured(broker)
    assert found["kafka_log_logcleaner_deadthreadcount"] == 0
    assert found["kafka_log_logcleanermanager_time_since_last_run_ms"] < 60_000
    assert 0 in [value for name, value in found.items() if "uncleanable_partitions_count" in name]
    assert {name.rpartition("_")[2] for name in found} >= {"percent", "secs", "ms"}
