"""pk-* and kafka-* on the same cluster print the same text: Kafka's Java tools beside pkafka's, on both systems."""

import json
import re
from pathlib import Path

import pytest

from tests.differences import first_difference
from tests.interop.conftest import JavaTool, System
from tests.interop.side_by_side import SideBySide, pk
from tests.talk import wait_for

TOPICS = ("topics", "org.apache.kafka.tools.TopicCommand")
CONFIGS = ("configs", "kafka.admin.ConfigCommand")
GET_OFFSETS = ("get_offsets", "org.apache.kafka.tools.GetOffsetShell")
DELETE_RECORDS = ("delete_records", "org.apache.kafka.tools.DeleteRecordsCommand")
LOG_DIRS = ("log_dirs", "org.apache.kafka.tools.LogDirsCommand")
API_VERSIONS = ("broker_api_versions", "kafka.admin.BrokerApiVersionsCommand")
CONSUMER = ("console_consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer")
DUMP_LOG = ("dump_log", "kafka.tools.DumpLogSegments")


@pytest.fixture
def side(java_tool: JavaTool, system: System) -> SideBySide:
    return SideBySide(java_tool, system)


def test_topics(side: SideBySide, topic: str) -> None:
    side.create(
        topic, "--partitions", 3, "--config", "retention.ms=60000", "--config", "segment.bytes=100000"
    )
    assert topic in side.same(TOPICS, "--list")
    described = side.same(TOPICS, "--describe", "--topic", topic)
    assert described.count("\n") == 4
    for flag in ("--under-replicated-partitions", "--at-min-isr-partitions", "--topics-with-overrides"):
        side.same(TOPICS, "--describe", "--topic", topic, flag)
    pk("topics", "--bootstrap-server", side.bootstrap, "--alter", "--topic", topic, "--partitions", 5)
    assert side.same(TOPICS, "--describe", "--topic", topic).count("\n") == 6
    refused = pk("topics", "--bootstrap-server", side.bootstrap, "--create", "--topic", topic, code=1)
    assert refused == f"Error while executing topic command : Topic '{topic}' already exists.\n"
    pk("topics", "--bootstrap-server", side.bootstrap, "--delete", "--topic", topic)
    listing = ("--bootstrap-server", side.bootstrap, "--list")
    wait_for(lambda: topic not in pk("topics", *listing))  # the answer does not wait for the controller
    assert topic not in side.same(TOPICS, "--list")


def test_topics_that_cannot_be(side: SideBySide, topic: str) -> None:
    dotted, dashed = f"{topic}.x", f"{topic}_x"
    side.create(dotted, "--partitions", 2)
    collision = side.fail_alike(TOPICS, "--create", "--topic", dashed)
    assert collision.startswith("WARNING: Due to limitations in metric names")
    assert f"Topic '{dashed}' collides with existing topics: {dotted}" in collision
    for name in (dotted, "bad name", "..", "x" * 250):
        side.fail_alike(TOPICS, "--create", "--topic", name)
    for wish in (
        ("--partitions", 0),
        ("--replication-factor", 9),
        ("--replica-assignment", "0:0:1:1"),
        ("--config", "no.such.key=1"),
        ("--config", "retention.ms=soon"),
    ):
        side.fail_alike(TOPICS, "--create", "--topic", topic, *wish)
    for count in (1, 2):
        side.fail_alike(TOPICS, "--alter", "--topic", dotted, "--partitions", count)


def test_configs(side: SideBySide, topic: str) -> None:
    side.create(topic)
    change = (
        "--alter",
        "--topic",
        topic,
        "--add-config",
        "cleanup.policy=[compact,delete],retention.ms=5000",
    )
    side.same(CONFIGS, *change)
    assert "cleanup.policy=compact,delete" in side.same(CONFIGS, "--describe", "--topic", topic)
    side.same(CONFIGS, "--describe", "--topic", topic, "--all")
    pk(
        "configs",
        "--bootstrap-server",
        side.bootstrap,
        "--alter",
        "--topic",
        topic,
        "--delete-config",
        "retention.ms",
    )
    assert "retention.ms" not in side.same(CONFIGS, "--describe", "--topic", topic)
    side.same(
        CONFIGS,
        "--alter",
        "--entity-type",
        "brokers",
        "--entity-default",
        "--add-config",
        "log.cleaner.threads=2",
    )
    server = ("--bootstrap-server", side.bootstrap)
    described = ("configs", *server, "--describe", "--entity-type", "brokers")
    wait_for(lambda: "log.cleaner.threads=2" in pk(*described), what="the broker that hears of it")
    side.same(CONFIGS, "--describe", "--entity-type", "brokers")
    pk("configs", *server, "--alter", "--broker-defaults", "--delete-config", "log.cleaner.threads")


def test_records_are_shown_alike_and_offsets_too(side: SideBySide, topic: str) -> None:
    side.create(topic)
    reader = (
        "--property",
        "parse.key=true",
        "--property",
        "parse.headers=true",
        "--property",
        "null.marker=NULL",
    )
    side.produce(topic, "h:1,g:NULL\tk1\tv1\nNULL\tk2\tNULL\nNULL\tNULL\tschön\n", *reader)
    columns = [
        f"--property=print.{part}=true" for part in ("timestamp", "partition", "offset", "headers", "key")
    ]
    range_ = ("--topic", topic, "--partition", 0, "--offset", "earliest", "--max-messages", 3)
    assert side.same(CONSUMER, *range_, *columns).count("\n") == 3
    side.same(CONSUMER, *range_)
    for time in ("latest", "earliest", "max-timestamp", "1"):
        side.same(GET_OFFSETS, "--topic", topic, "--time", time)


def test_every_codec_is_read_by_kafka(side: SideBySide, topic: str) -> None:
    side.create(topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        side.produce(
            topic, "".join(f"{codec}-{number}\n" for number in range(50)), "--compression-codec", codec
        )
    shown = side.same(CONSUMER, "--topic", topic, "--partition", 0, "--offset", 0, "--max-messages", 250)
    assert shown.splitlines()[-1] == "zstd-49"


def test_records_are_deleted_and_log_dirs_described(side: SideBySide, topic: str, tmp_path: Path) -> None:
    side.create(topic)
    side.produce(topic, "a\nb\nc\n")
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}))
    shown = side.same(DELETE_RECORDS, "--offset-json-file", file)
    assert f"partition: {topic}-0\tlow_watermark: 2" in shown
    side.same(GET_OFFSETS, "--topic", topic, "--time", "earliest")
    side.same(LOG_DIRS, "--describe", "--topic-list", topic)


def test_api_versions(side: SideBySide) -> None:
    side.same(API_VERSIONS)


@pytest.mark.parametrize(
    "flags",
    [(), ("--deep-iteration",), ("--print-data-log",), ("--print-data-log", "--skip-record-metadata")],
)
def test_segments_and_indexes_are_dumped_alike(
    side: SideBySide, java_tool: JavaTool, topic: str, flags: tuple[str, ...]
) -> None:
    side.create(topic, "--config", "index.interval.bytes=100")
    for codec in ("none", "lz4", "zstd"):
        side.produce(
            topic,
            "".join(f"key-{n}\t{codec}-{n}\n" for n in range(30)),
            "--property",
            "parse.key=true",
            "--compression-codec",
            codec,
        )
    folder = side.log_dir / f"{topic}-0"
    files = ",".join(str(folder / f"{0:020}{suffix}") for suffix in (".log", ".index", ".timeindex"))
    theirs = java_tool(DUMP_LOG[1], "--files", files, *flags)
    assert theirs.returncode == 0, theirs
    assert not first_difference(pk(DUMP_LOG[0], "--files", files, *flags), theirs.stdout)


def test_consumer_performance_has_kafkas_columns(side: SideBySide, java_tool: JavaTool, topic: str) -> None:
    side.create(topic)
    side.produce(topic, "".join(f"value-{number}\n" for number in range(1_000)))
    flags = ("--bootstrap-server", side.bootstrap, "--topic", topic, "--messages")
    for detail in ((), ("--show-detailed-stats", "--reporting-interval", "1"), ("--hide-header",)):
        theirs = java_tool(
            "org.apache.kafka.tools.ConsumerPerformance", *flags, "1000", *detail
        ).stdout.splitlines()
        for group in ((), ("--group", f"g-{topic}-{len(detail)}")):
            ours = pk("consumer_perf_test", *flags, 1_000, *detail, *group).splitlines()
            if "--hide-header" not in detail:
                assert ours[0] == theirs[0]
            assert _shape(ours[-1]) == _shape(theirs[-1])
            if "--show-detailed-stats" not in detail:
                assert ours[-1].split(", ")[4] == theirs[-1].split(", ")[4] == "1000"
                # Both joined a group, and tell the time that took.
                assert int(ours[-1].split(", ")[6]) > 0
                assert int(theirs[-1].split(", ")[6]) > 0
    short = (*flags, 1_001, "--timeout", 1_000)
    warned = java_tool("org.apache.kafka.tools.ConsumerPerformance", *[str(each) for each in short])
    assert pk("consumer_perf_test", *short, code=1).splitlines()[1] == warned.stdout.splitlines()[1]


def test_producer_performance_prints_kafkas_metrics(
    side: SideBySide, java_tool: JavaTool, topic: str
) -> None:
    side.create(topic)
    flags: tuple[str, ...]
    flags = ("--topic", topic, "--num-records", "1000", "--record-size", "100", "--throughput", "-1")
    flags += ("--print-metrics", "--producer-props", f"bootstrap.servers={side.bootstrap}", "client.id=perf")
    ours, theirs = (
        # Every five seconds it says how far it is; the last line goes on behind that.
        [line for line in said.splitlines() if not line.endswith(" max latency.")]
        for said in (
            pk("producer_perf_test", *flags),
            java_tool("org.apache.kafka.tools.ProducerPerformance", *flags).stdout,
        )
    )
    assert ours[0].startswith("1000 records sent, ")
    assert ours[1] == theirs[1] == ""
    values, wanted = (
        {name.strip(): value for name, colon, value in (each.rpartition(" : ") for each in lines) if colon}
        for lines in (ours, theirs)
    )
    # Clients of pkafka speak PLAINTEXT alone: nobody logs in.
    assert values.keys() == {name for name in wanted if "authentication" not in name}
    assert {"producer-metrics:record-send-total:{client-id=perf}"} <= values.keys()
    differing = {
        name: (value, wanted[name])
        for name, value in values.items()
        if "NaN" not in (value, wanted[name]) and _kind(value) != _kind(wanted[name])
    }
    assert not differing


def test_consumer_performance_in_a_group(side: SideBySide, java_tool: JavaTool, topic: str) -> None:
    side.create(topic)
    side.produce(topic, "".join(f"value-{number}\n" for number in range(100)))
    flags = ("--bootstrap-server", side.bootstrap, "--topic", topic, "--print-metrics", "--group")
    row, *metrics = pk(
        "consumer_perf_test", *flags, f"ours-{topic}", "--messages", 100, "--hide-header"
    ).splitlines()
    rebalance_ms, fetch_ms = map(int, row.split(", ")[6:8])
    assert rebalance_ms > 0
    assert fetch_ms >= 0
    theirs = java_tool(
        "org.apache.kafka.tools.ConsumerPerformance", *flags, f"theirs-{topic}", "--messages", "100"
    ).stdout.splitlines()[2:]
    assert [each.split()[0] for each in metrics[1:2]] == [each.split()[0] for each in theirs[1:2]]
    groups = ("consumer-coordinator-metrics:", "consumer-fetch-manager-metrics:")
    ours_named, named = (
        {each.split(" ")[0] for each in lines if each.startswith(groups)} for lines in (metrics, theirs)
    )
    assert len(ours_named & named) > 30, sorted(named - ours_named)
    # What was read is committed, so that the group has nothing left.
    again = pk("consumer_perf_test", *flags, f"ours-{topic}", "--messages", 1, "--timeout", 500, code=1)
    assert ", 0, 0.0000, " in again


def _kind(value: str) -> str:
    """Whether a number is whole or has decimals; text has none of both."""
    found = re.fullmatch(r"-?\d+(\.\d{3})?", value)
    return "text" if found is None else "decimals" if found[1] else "whole"


def _shape(line: str) -> list[str]:
    """Each cell of a row with its digits masked and their number before the point forgotten."""
    return [
        re.sub(r"\d+", lambda each: "9" if each.start() == 0 else "9" * len(each[0]), cell)
        for cell in line.split(", ")
    ]
