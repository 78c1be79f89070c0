"""Settings changed while a broker runs: they reach the logs in every worker at once, and are there after a restart."""

import re
import time
from pathlib import Path

import psutil
import pytest

from pkafka.clients.admin.results import ConfigResource, ConfigSource, ResourceType
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.testing import Broker, running_broker
from tests.e2e.seen import BLOCK, HOUR_MS, aged, checkpointed, refusal, segments, stored
from tests.faults.family import family, replaced
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking, wait_for

WORKERS = 2
SETTINGS: dict[str, object] = {
    "broker.id": 0,
    "pkafka.workers": WORKERS,
    "log.retention.check.interval.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 100,
    "log.flush.scheduler.interval.ms": 50,
    "log.initial.task.delay.ms": 100,
    "log.segment.delete.delay.ms": 0,
    # A control process that a test suspends is not to be given up meanwhile.
    "pkafka.heartbeat.timeout.ms": 120_000,
}
BATCH_BYTES = len(build_batch([(0, None, BLOCK, ())]))


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return SETTINGS


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker


def after_retention(talk: Talk) -> None:
    """Wait until every worker has looked for old segments: what is there now was left by a whole look at least."""
    for _ in range(
        2
    ):  # the look that finds the first probe may have passed by others before these were there
        probe = new_topic_name("probe")
        talk.create(probe, partitions=WORKERS, segment_bytes=1100, retention_ms=HOUR_MS)
        for partition in range(WORKERS):
            for hours in (2, 0):
                talk.produce(probe, aged(BLOCK, hours=hours), partition=partition)
        for partition in range(WORKERS):
            wait_for(lambda: talk.ends(probe, partition) == (1, 2), what="retention")  # noqa: B023 - called at once


# -- the settings of a topic --


def test_retention_ms_deletes_what_has_become_too_old(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, partitions=2, segment_bytes=1100)
    for partition in (0, 1):
        for hours in (10, 10, 1, 0):
            talk.produce(topic, aged(BLOCK, hours=hours), partition=partition)
    after_retention(talk)
    assert [talk.ends(topic, partition) for partition in (0, 1)] == [(0, 4), (0, 4)]
    talk.set_topic(topic, retention_ms=5 * HOUR_MS)
    wait_for(lambda: [talk.ends(topic, partition) for partition in (0, 1)] == [(2, 4), (2, 4)])
    wait_for(lambda: segments(broker, topic) == [2, 3])
    talk.set_topic(topic, retention_ms=-1)
    talk.produce(topic, aged(BLOCK, hours=100_000))
    after_retention(talk)
    assert talk.ends(topic) == (2, 5)


def test_retention_bytes_keeps_the_newest(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, segment_bytes=1100)
    for _ in range(10):
        talk.send(topic, BLOCK)
    talk.set_topic(topic, retention_bytes=3500)
    # What is deleted is never so much that less than the limit is left.
    wait_for(lambda: talk.ends(topic) == (6, 10))
    assert segments(broker, topic) == [6, 7, 8, 9]


def test_segment_bytes_rolls(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    for _ in range(4):
        talk.send(topic, BLOCK)
    talk.set_topic(topic, segment_bytes=2500)
    for _ in range(4):
        talk.send(topic, BLOCK)
    assert segments(broker, topic) == [0, 4, 6]


def test_preallocate(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, preallocate="true", segment_bytes=2500)
    for _ in range(3):
        talk.send(topic, BLOCK)
    sizes = [path.stat().st_size for path in sorted((broker.log_dir / f"{topic}-0").glob("*.log"))]
    assert sizes == [2 * BATCH_BYTES, 2500]


def test_segment_ms_rolls(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    talk.send(topic, b"one")
    talk.set_topic(topic, segment_ms=50)
    time.sleep(0.1)  # the age is the condition
    talk.send(topic, b"two")
    assert segments(broker, topic) == [0, 1]


def test_index_interval_bytes(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    talk.set_topic(topic, index_interval_bytes=0)
    for _ in range(4):
        talk.send(topic, b"x")
    talk.set_topic(topic, segment_bytes=200)
    talk.send(topic, b"x" * 90)
    assert segments(broker, topic) == [0, 4]
    index = broker.log_dir / f"{topic}-0" / f"{0:020}.index"
    assert index.stat().st_size == 8 * 3, "an entry for every batch but the first"


def test_max_message_bytes_refuses(talk: Talk, topic: str) -> None:
    talk.create(topic, partitions=WORKERS)
    talk.set_topic(topic, max_message_bytes=500)
    for partition in range(WORKERS):
        code = refusal(lambda: talk.send(topic, BLOCK, partition=partition))  # noqa: B023 - called at once
        assert code is ErrorCode.MESSAGE_TOO_LARGE
    talk.set_topic(topic, max_message_bytes=None)
    assert talk.send(topic, BLOCK) == 0


def test_message_timestamp_type(talk: Talk, topic: str) -> None:
    talk.create(topic)
    before = time.time_ns() // 1_000_000
    talk.produce(topic, aged(b"as sent", hours=1))
    talk.set_topic(topic, message_timestamp_type="LogAppendTime")
    talk.produce(topic, aged(b"as appended", hours=1))
    sent, appended = talk.read(topic)
    assert sent.timestamp < before - HOUR_MS // 2 < before <= appended.timestamp


def test_message_timestamp_limits(talk: Talk, topic: str) -> None:
    talk.create(topic, message_timestamp_before_max_ms=2 * HOUR_MS)
    assert refusal(lambda: talk.produce(topic, aged(b"x", hours=3))) is ErrorCode.INVALID_TIMESTAMP
    talk.set_topic(topic, message_timestamp_before_max_ms=5 * HOUR_MS)
    talk.produce(topic, aged(b"x", hours=3))
    talk.produce(topic, aged(b"x", hours=-0.9))
    talk.set_topic(topic, message_timestamp_after_max_ms=60_000)
    assert refusal(lambda: talk.produce(topic, aged(b"x", hours=-0.9))) is ErrorCode.INVALID_TIMESTAMP


def test_cleanup_policy(talk: Talk, topic: str) -> None:
    talk.create(topic, segment_bytes=1100, retention_ms=HOUR_MS, cleanup_policy="compact")
    assert refusal(lambda: talk.send(topic, b"without a key")) is ErrorCode.INVALID_RECORD
    for hours in (9, 9, 0):
        talk.produce(topic, aged(BLOCK, hours=hours, key=b"key"))
    after_retention(talk)
    assert talk.ends(topic) == (0, 3)
    talk.set_topic(topic, cleanup_policy="delete")
    wait_for(lambda: talk.ends(topic) == (2, 3))
    assert talk.send(topic, b"without a key") == 3


def test_compression_type(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic)
    for codec in ("producer", "zstd", "uncompressed"):
        talk.set_topic(topic, compression_type=codec)
        talk.send(topic, BLOCK, codec=Codec.GZIP)
    assert [codec for codec, _size in stored(broker, topic)] == [Codec.GZIP, Codec.ZSTD, Codec.NONE]


def test_flush_messages_and_flush_ms(broker: Broker, talk: Talk, topic: str) -> None:
    def recovery_point() -> int | None:
        return checkpointed(broker, "recovery-point", topic)

    talk.create(topic, flush_ms=HOUR_MS)
    talk.send(topic, b"x")
    wait_for(lambda: recovery_point() is not None)
    time.sleep(0.5)  # ten times as long as it takes to flush by time, which only waiting shows not to happen
    assert recovery_point() == 0
    talk.set_topic(topic, flush_messages=2)
    talk.send(topic, b"x")
    wait_for(lambda: recovery_point() == 2)
    talk.set_topic(topic, flush_messages=None, flush_ms=10)
    talk.send(topic, b"x")
    wait_for(lambda: recovery_point() == 3)


def test_file_delete_delay(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, segment_bytes=1100, file_delete_delay_ms=HOUR_MS)
    for hours in (300, 0, 0):
        talk.produce(topic, aged(BLOCK, hours=hours))
    directory = broker.log_dir / f"{topic}-0"
    wait_for(lambda: [path.name for path in directory.glob("*.log.deleted")] == [f"{0:020}.log.deleted"])
    talk.set_topic(topic, file_delete_delay_ms=0, retention_bytes=1)
    wait_for(lambda: segments(broker, topic) == [2])
    wait_for(lambda: not (directory / f"{1:020}.log.deleted").exists())
    assert (directory / f"{0:020}.log.deleted").exists()


# -- the settings of the broker --


def test_broker_settings_reach_every_topic_that_has_none_of_its_own(
    broker: Broker, talk: Talk, topic: str
) -> None:
    talk.create(topic, partitions=WORKERS)
    talk.create(topic + "-own", max_message_bytes=5000)
    try:
        talk.set_broker("", message_max_bytes=2000)
        for partition in range(WORKERS):
            talk.send(topic, BLOCK, partition=partition)
            code = refusal(lambda: talk.send(topic, BLOCK * 3, partition=partition))  # noqa: B023 - called at once
            assert code is ErrorCode.MESSAGE_TOO_LARGE
        talk.send(topic + "-own", BLOCK * 3)
        talk.set_broker(message_max_bytes=500)
        assert refusal(lambda: talk.send(topic, BLOCK)) is ErrorCode.MESSAGE_TOO_LARGE
        entry = talk.described(ResourceType.TOPIC, topic)["max.message.bytes"]
        assert (entry.value, entry.source) == ("500", ConfigSource.DYNAMIC_BROKER_CONFIG)
        broker.restart()
        assert refusal(lambda: talk.send(topic, BLOCK)) is ErrorCode.MESSAGE_TOO_LARGE
        talk.set_broker(message_max_bytes=None)
        talk.send(topic, BLOCK)
        entry = talk.described(ResourceType.BROKER, "0")["message.max.bytes"]
        assert (entry.value, entry.source) == ("2000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    finally:
        talk.set_broker(message_max_bytes=None)
        talk.set_broker("", message_max_bytes=None)
    talk.send(topic, BLOCK * 3)


def test_broker_retention(talk: Talk, topic: str) -> None:
    talk.create(topic, segment_bytes=1100)
    talk.create(topic + "-own", segment_bytes=1100, retention_ms=-1)
    for name in (topic, topic + "-own"):
        for hours in (2, 2, 0):
            talk.produce(name, aged(BLOCK, hours=hours))
    talk.set_broker(log_retention_ms=HOUR_MS)
    try:
        wait_for(lambda: talk.ends(topic) == (2, 3))
        assert talk.ends(topic + "-own") == (0, 3)
    finally:
        talk.set_broker(log_retention_ms=None)


# -- what must not be lost, or come back --


def test_settings_survive_a_restart(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, segment_bytes=1100, retention_ms=-1)
    talk.set_topic(topic, max_message_bytes=1500)
    talk.produce(topic, aged(BLOCK, hours=100_000))
    talk.send(topic, BLOCK)
    for stop in (broker.stop, broker.kill):
        stop()
        broker.start()
        assert refusal(lambda: talk.send(topic, BLOCK * 2)) is ErrorCode.MESSAGE_TOO_LARGE
        after_retention(talk)
        assert talk.ends(topic) == (0, 2)
        assert talk.described(ResourceType.TOPIC, topic)["max.message.bytes"].value == "1500"


def test_nothing_is_deleted_before_the_settings_of_the_topic_are_known(
    broker: Broker, talk: Talk, topic: str
) -> None:
    talk.create(topic, partitions=WORKERS, segment_bytes=1100, retention_ms=-1)
    for partition in range(WORKERS):
        for hours in (100_000, 0):
            talk.produce(topic, aged(BLOCK, hours=hours), partition=partition)
    # A control process that does not come to itself leaves new workers without a word on what they have.
    control = family(broker)["control"]
    control.suspend()
    try:
        victims = workers(broker)
        for name, victim in victims.items():
            victim.kill()
            replaced(broker, victim, name)
        time.sleep(
            1.5
        )  # for a mistake that only waiting shows: the checks for old segments of workers without a word
    finally:
        control.resume()
    wait_for(lambda: sends(talk, topic, b"x", partition=0))
    wait_for(lambda: sends(talk, topic, b"x", partition=1))
    assert [talk.ends(topic, partition) for partition in range(WORKERS)] == [(0, 3)] * WORKERS


def test_a_worker_that_is_started_again_has_the_settings(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, partitions=WORKERS, max_message_bytes=500)
    for victim in workers(broker).values():
        victim.kill()
    for partition in range(WORKERS):
        wait_for(lambda: sends(talk, topic, b"small", partition=partition))  # noqa: B023 - called at once
        code = refusal(lambda: talk.send(topic, BLOCK, partition=partition))  # noqa: B023 - called at once
        assert code is ErrorCode.MESSAGE_TOO_LARGE


def sends(talk: Talk, topic: str, value: bytes, *, partition: int) -> bool:
    try:
        talk.send(topic, value, partition=partition)
    except ApiError as error:
        if not error.retriable:
            raise
        return False
    return True


def workers(broker: Broker) -> dict[str, psutil.Process]:
    """The workers by name; all of them, also when one has just been killed."""
    wait_for(lambda: len(family(broker)) == WORKERS + 2)
    return {name: child for name, child in family(broker).items() if name.startswith("worker-")}


def test_a_topic_of_the_same_name_begins_without_settings(talk: Talk, topic: str) -> None:
    talk.create(topic, max_message_bytes=500)
    assert refusal(lambda: talk.send(topic, BLOCK)) is ErrorCode.MESSAGE_TOO_LARGE
    talk.delete(topic)
    wait_for(lambda: creates(talk, topic))
    assert talk.send(topic, BLOCK) == 0
    talk.delete(topic)
    wait_for(lambda: creates(talk, topic, max_message_bytes=500))
    assert refusal(lambda: talk.send(topic, BLOCK)) is ErrorCode.MESSAGE_TOO_LARGE


def creates(talk: Talk, topic: str, **configs: int) -> bool:
    """Whether a topic whose deletion may not be over yet could be created again."""
    try:
        talk.create(topic, **configs)
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


# -- loggers --


def test_logger_levels_change_in_every_process(broker: Broker, talk: Talk) -> None:
    resource = ConfigResource(ResourceType.BROKER_LOGGER, "0")
    names = (
        "pkafka.server.processes.worker",
        "pkafka.server.processes.cleaner",
        "pkafka.server.processes.control",
    )
    assert talk.described(ResourceType.BROKER_LOGGER, "0")[names[0]].value == "INFO"
    said_before = len(broker.log_file.read_bytes())
    talk.alter(resource, {"pkafka.server": "DEBUG"})
    described = talk.described(ResourceType.BROKER_LOGGER, "0")
    assert {described[name].value for name in names} == {"DEBUG"}
    assert described["pkafka.server.worker"].value == "DEBUG", "as the worker's logger was called once"

    def changed() -> set[int]:
        said = broker.log_file.read_bytes()[said_before:].decode()
        return {int(pid) for pid in re.findall(r"INFO \[(\d+)\] log level of pkafka.server: DEBUG", said)}

    assert workers(broker)
    processes = {broker.pid, *(child.pid for child in family(broker).values())}
    wait_for(lambda: changed() == processes, what="every process takes the level over")
    # Who is started from now on inherits it: the supervisor tells about that only at level DEBUG.
    workers(broker)["worker-0"].kill()
    wait_for(lambda: re.search(rb"DEBUG \[\d+\] Started worker-", broker.log_file.read_bytes()[said_before:]))
    talk.alter(resource, {"pkafka.server": None})
    assert talk.described(ResourceType.BROKER_LOGGER, "0")[names[0]].value == "INFO"


# -- log start offsets and directories --


def test_deleted_records_stay_deleted(broker: Broker, talk: Talk, topic: str) -> None:
    talk.create(topic, segment_bytes=1100)
    for _ in range(5):
        talk.send(topic, BLOCK)
    key = TopicPartition(topic, 0)
    assert talk.admin.delete_records({key: 3})[key] == 3
    wait_for(lambda: segments(broker, topic) == [3, 4], what="segments before the log start offset go")
    talk.send(topic, b"a", b"b", b"c")
    assert talk.admin.delete_records({key: 6})[key] == 6
    wait_for(lambda: segments(broker, topic) == [5])
    broker.restart()
    assert talk.ends(topic) == (6, 8)
    assert [record.value for record in talk.read(topic)] == [b"b", b"c"]
    assert refusal(lambda: talk.read(topic, start=5)) is ErrorCode.OFFSET_OUT_OF_RANGE
    refused = talk.admin.delete_records({key: 9})[key]
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert talk.admin.delete_records({key: -1})[key] == 8
    broker.restart()
    assert talk.ends(topic) == (8, 8)
    assert talk.send(topic, b"d") == 8


def test_partitions_spread_over_the_log_directories(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("one", "two", "three")]
    settings = {**SETTINGS, "log.dirs": ",".join(map(str, directories))}
    with running_broker(tmp_path, settings) as broker, talking(broker.bootstrap) as talk:
        talk.create("wide", partitions=7)
        for partition in range(7):
            talk.send("wide", BLOCK, partition=partition)
        for stop in (broker.stop, broker.kill):
            held = [len(list(path.glob("wide-*"))) for path in directories]
            assert sorted(held) == [2, 2, 3]
            described = talk.admin.describe_log_dirs()[0]
            assert isinstance(described, list)
            by_path = {each.path: len(each.replicas) for each in described}
            assert by_path == dict(zip(map(str, directories), held, strict=True))
            sizes = {replica.size_bytes for each in described for replica in each.replicas}
            assert sizes == {BATCH_BYTES}
            stop()
            broker.start()
            assert [talk.read("wide", partition)[0].value for partition in range(7)] == [BLOCK] * 7
        texts = [(path / "meta.properties").read_text() for path in directories]
        assert len({re.findall("directory.id=(.*)", text)[0] for text in texts}) == 3
        talk.delete("wide")
        wait_for(lambda: not any(list(path.glob("wide-*")) for path in directories))
