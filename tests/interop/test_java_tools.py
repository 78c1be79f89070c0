"""Kafka's own command-line tools, with the same words on Apache Kafka and on pkafka with either store."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.differences import first_difference_of_all
from tests.interop.conftest import Everywhere, JavaTool, System
from tests.talk import wait_for

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
API_VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
DUMP_LOG = "kafka.tools.DumpLogSegments"
PATIENCE_MS = 30_000
"""For consumers that are told how many messages to read: it costs nothing where these are there."""


def test_a_topic_is_created_listed_and_described(everywhere: Everywhere, topic: str) -> None:
    created = everywhere.run(TOPICS, "--create", "--topic", topic, "--partitions", 3)
    assert created == f"Created topic {topic}.\n"
    assert topic in everywhere.run(TOPICS, "--list", "--topic", topic).splitlines()
    described = everywhere.run(TOPICS, "--describe", "--topic", topic).splitlines()
    assert "PartitionCount: 3\tReplicationFactor: 1" in described[0]
    assert described[3].startswith(f"\tTopic: {topic}\tPartition: 2\tLeader: 0\tReplicas: 0\tIsr: 0")


def test_a_topic_keeps_the_configuration_it_was_created_with(everywhere: Everywhere, topic: str) -> None:
    settings = ("--config", "retention.ms=3600000", "--config", "cleanup.policy=compact")
    everywhere.run(TOPICS, "--create", "--topic", topic, *settings)
    described = everywhere.run(TOPICS, "--describe", "--topic", topic)
    assert "Configs: " in described
    assert "retention.ms=3600000" in described
    overridden = everywhere.run(TOPICS, "--describe", "--topic", topic, "--topics-with-overrides")
    assert overridden.startswith(f"Topic: {topic}")


def test_a_topic_with_chosen_replicas(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", "0,0")
    assert everywhere.run(TOPICS, "--describe", "--topic", topic).count("Leader: 0") == 2


def test_partitions_are_added_but_not_taken_away(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    everywhere.run(TOPICS, "--alter", "--topic", topic, "--partitions", 4)
    assert everywhere.run(TOPICS, "--describe", "--topic", topic).count("Leader: 0") == 4
    refusal = everywhere.run(TOPICS, "--alter", "--topic", topic, "--partitions", 4, code=1)
    assert "4 partition(s)" in refusal or "4 partitions" in refusal


def test_a_topic_is_deleted(java_tool: JavaTool, everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    assert everywhere.run(TOPICS, "--delete", "--topic", topic) == ""
    for system in everywhere.systems:  # the answer does not wait for the controller
        wait_for(lambda: topic not in _topics(java_tool, system))  # noqa: B023 - called at once
    everywhere.run(TOPICS, "--describe", "--topic", topic, code=1)
    for system in everywhere.systems:
        create = (TOPICS, "--bootstrap-server", system.bootstrap, "--create", "--topic", topic)
        wait_for(lambda: java_tool(*create).returncode == 0)  # noqa: B023 - called at once


def test_what_a_topic_cannot_be(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    for wrong in (
        ("--topic", topic),
        ("--topic", "a/b"),
        ("--topic", "x" * 250),
        ("--topic", f"{topic}-r", "--replication-factor", 2),
        ("--topic", f"{topic}-c", "--config", "retention.ms=soon"),
        ("--topic", f"{topic}-c", "--config", "no.such.key=1"),
        ("--topic", f"{topic}-c", "--config", "min.insync.replicas=0"),
    ):
        assert "Error while executing topic command" in everywhere.run(TOPICS, "--create", *wrong, code=1), (
            wrong
        )
    everywhere.run(TOPICS, "--create", "--if-not-exists", "--topic", topic)


def test_filters_of_describe(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    only = ("--describe", "--topic", topic)
    for condition in ("under-replicated", "unavailable", "under-min-isr"):
        assert everywhere.run(TOPICS, *only, f"--{condition}-partitions") == ""
    assert f"Topic: {topic}" in everywhere.run(TOPICS, *only, "--at-min-isr-partitions")


def test_configs_of_a_topic_are_altered_and_described(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    everywhere.run(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=1000,segment.bytes=20000")
    described = everywhere.run(CONFIGS, "--describe", *entity)
    assert "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000" in described
    everywhere.run(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=" not in everywhere.run(CONFIGS, "--describe", *entity)
    everywhere.run(CONFIGS, "--describe", "--all", *entity)
    everywhere.run(CONFIGS, "--alter", *entity, "--add-config", "retention.ms=soon", code=1)
    everywhere.run(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms", code=1)


def test_configs_of_the_broker(everywhere: Everywhere, java_tool: JavaTool) -> None:
    one = ("--entity-type", "brokers", "--entity-name", "0")
    every = ("--entity-type", "brokers", "--entity-default")

    def wait_for_described(words: tuple[str, ...], condition: Callable[[str], bool]) -> None:
        # Apache Kafka answers before it has read the note of its own change.
        for system in everywhere.systems:
            described = partial(java_tool, CONFIGS, "--bootstrap-server", system.bootstrap, "--describe")
            wait_for(lambda: condition(described(*words).stdout))  # noqa: B023 - called at once

    everywhere.run(CONFIGS, "--alter", *one, "--add-config", "log.cleaner.threads=2")
    everywhere.run(
        CONFIGS, "--alter", *every, "--add-config", "log.cleaner.threads=3,message.max.bytes=2000000"
    )
    wait_for_described(every, lambda text: "message.max.bytes=2000000" in text)
    of_one = everywhere.run(CONFIGS, "--describe", *one)
    assert "log.cleaner.threads=2" in of_one
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=3" in of_one
    assert "message.max.bytes=2000000" in everywhere.run(CONFIGS, "--describe", *every)
    everywhere.run(CONFIGS, "--alter", *one, "--delete-config", "log.cleaner.threads")
    everywhere.run(CONFIGS, "--alter", *every, "--delete-config", "log.cleaner.threads,message.max.bytes")
    wait_for_described(every, lambda text: "message.max.bytes=" not in text)
    assert "message.max.bytes=" not in everywhere.run(CONFIGS, "--describe", *every)
    everywhere.run(CONFIGS, "--alter", *one, "--add-config", "log.dirs=/elsewhere", code=1)


def test_every_configuration_of_the_broker_is_described_alike(
    everywhere: Everywhere, java_tool: JavaTool
) -> None:
    # Where it listens, where its data is and which ZooKeeper it has differ by nature.
    own = (
        r"(?m)^  (advertised\.listeners|listeners|log\.dirs?|zookeeper\.connect|pkafka\.\S+)=.*$\n?",
        r"STATIC_BROKER_CONFIG:(listeners|log\.dirs|zookeeper\.connect)=[^,}]*",
    )
    words = ("--describe", "--all", "--entity-type", "brokers", "--entity-name", "0")
    for system in everywhere.systems:
        # What another test has set and taken back, Apache Kafka has for a moment longer.
        shown = partial(java_tool, CONFIGS, "--bootstrap-server", system.bootstrap, *words)
        wait_for(lambda: "{DYNAMIC_" not in shown().stdout, what="settings of the file alone")  # noqa: B023
    described = everywhere.run(CONFIGS, *words, mask=own)
    assert len(described.splitlines()) > 200


def test_lines_go_in_and_come_out(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic, "--partitions", 2)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    everywhere.run(CONSOLE_PRODUCER, "--topic", topic, *keyed, stdin="a:one\nd:two\na:three\n")
    shown = (
        "--property",
        "print.key=true",
        "--property",
        "print.offset=true",
        "--property",
        "print.partition=true",
    )
    consume = ("--topic", topic, *shown, "--timeout-ms", PATIENCE_MS, "--offset", "earliest")
    assert everywhere.run(CONSOLE_CONSUMER, *consume, "--partition", 1, "--max-messages", 1) == (
        "Partition:1\tOffset:0\td\ttwo\n"
    )
    assert everywhere.run(CONSOLE_CONSUMER, *consume, "--partition", 0, "--max-messages", 2) == (
        "Partition:0\tOffset:0\ta\tone\nPartition:0\tOffset:1\ta\tthree\n"
    )


def test_every_codec_of_the_console_producer(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = "".join(f"{codec} {number}\n" for number in range(100))
        everywhere.run(CONSOLE_PRODUCER, "--topic", topic, "--compression-codec", codec, stdin=lines)
    output = everywhere.run(
        CONSOLE_CONSUMER,
        *(
            "--topic",
            topic,
            "--partition",
            0,
            "--offset",
            "earliest",
            "--max-messages",
            500,
            "--timeout-ms",
            PATIENCE_MS,
        ),
    )
    assert len(output.splitlines()) == 500
    assert output.endswith("zstd 98\nzstd 99\n")


def test_a_consumer_begins_in_the_middle(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    everywhere.run(CONSOLE_PRODUCER, "--topic", topic, stdin="".join(f"{number}\n" for number in range(10)))
    consume = ("--topic", topic, "--partition", 0, "--timeout-ms", PATIENCE_MS)
    assert everywhere.run(CONSOLE_CONSUMER, *consume, "--offset", 7, "--max-messages", 3) == "7\n8\n9\n"
    assert everywhere.run(CONSOLE_CONSUMER, *consume, "--offset", 2, "--max-messages", 1) == "2\n"


def test_the_perf_tool_produces(java_tool: JavaTool, everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic, "--partitions", 3)
    for system in everywhere.systems:
        done = java_tool(
            PRODUCER_PERF,
            *("--topic", topic, "--num-records", 20_000, "--record-size", 100, "--throughput", -1),
            *("--producer-props", f"bootstrap.servers={system.bootstrap}"),
        )
        assert done.returncode == 0, done
        assert re.search(r"^20000 records sent, .* 99\.9th\.$", done.stdout.strip().splitlines()[-1]), (
            done.stdout
        )
    latest = everywhere.run(GET_OFFSETS, "--topic", topic, mask=(r"(?m):\d+$",))
    assert len(latest.splitlines()) == 3


def test_offsets_by_every_kind_of_time(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic, "--partitions", 2)
    # The keys decide about the partition: without them each producer chooses one at random.
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    everywhere.run(CONSOLE_PRODUCER, "--topic", topic, *keyed, stdin="a:1\nd:2\n")
    assert everywhere.run(GET_OFFSETS, "--topic", topic) == f"{topic}:0:1\n{topic}:1:1\n"
    for time in ("-1", "-2", "-3", "-4", "latest", "earliest", "max-timestamp", "0", "4102444800000"):
        everywhere.run(GET_OFFSETS, "--topic", topic, "--time", time)
    everywhere.run(GET_OFFSETS, "--topic-partitions", f"{topic}:0-1")
    everywhere.run(GET_OFFSETS, "--topic", f"{topic}-none", code=1)


def test_records_are_deleted(everywhere: Everywhere, topic: str, tmp_path: Path) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    everywhere.run(CONSOLE_PRODUCER, "--topic", topic, stdin="".join(f"{number}\n" for number in range(10)))
    request = tmp_path / "offsets.json"

    def delete_before(offset: int) -> str:
        partitions = [{"topic": topic, "partition": 0, "offset": offset}]
        request.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return everywhere.run(DELETE_RECORDS, "--offset-json-file", request)

    assert f"partition: {topic}-0\tlow_watermark: 4" in delete_before(4)
    assert everywhere.run(GET_OFFSETS, "--topic", topic, "--time", "earliest") == f"{topic}:0:4\n"
    assert "error" in delete_before(99)
    assert f"partition: {topic}-0\tlow_watermark: 10" in delete_before(-1)


def test_log_dirs_have_the_same_bytes(everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic, "--partitions", 2)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    everywhere.run(CONSOLE_PRODUCER, "--topic", topic, *keyed, stdin="d:same bytes\n")
    output = everywhere.run(LOG_DIRS, "--describe", "--topic-list", topic)
    answer = json.loads(output.splitlines()[-1])
    partitions = answer["brokers"][0]["logDirs"][0]["partitions"]
    assert {entry["partition"] for entry in partitions} == {f"{topic}-0", f"{topic}-1"}
    assert sum(entry["size"] for entry in partitions) > 0


def test_api_versions_are_a_subset_of_kafkas(java_tool: JavaTool, everywhere: Everywhere) -> None:
    served = []
    for system in everywhere.systems:
        done = java_tool(API_VERSIONS, "--bootstrap-server", system.bootstrap)
        assert done.returncode == 0, done
        served.append(dict(re.findall(r"(\w+\(\d+\)): (.*?),?$", done.stdout, re.MULTILINE)))
    kafka, *others = served
    assert len(kafka) > 50
    for other in others:
        known = {api: versions for api, versions in other.items() if versions != "UNSUPPORTED"}
        assert known.items() <= kafka.items()
        assert len(known) > 15


def test_kafka_dumps_the_segments(java_tool: JavaTool, everywhere: Everywhere, topic: str) -> None:
    everywhere.run(TOPICS, "--create", "--topic", topic)
    for codec in ("none", "lz4"):
        everywhere.run(CONSOLE_PRODUCER, "--topic", topic, "--compression-codec", codec, stdin="a\nb\nc\n")
    dumps = []
    for system in everywhere.systems:
        segment = _segment(system, topic)
        done = java_tool(DUMP_LOG, "--files", segment, "--print-data-log", "--deep-iteration")
        assert done.returncode == 0, done
        text = done.stdout.replace(str(system.log_dir), "LOG_DIR")
        dumps.append(re.sub(r"((Create|LogAppend)Time: |crc: |producerId: )-?\d+", r"\1*", text))
        index = java_tool(DUMP_LOG, "--files", segment.with_suffix(".index"), "--index-sanity-check")
        assert "passed sanity check" in index.stdout, index
        assert java_tool(DUMP_LOG, "--files", segment.with_suffix(".timeindex")).returncode == 0
    assert not first_difference_of_all(dumps)
    assert dumps[0].count("payload:") == 6
    assert "compresscodec: lz4" in dumps[0]


def _topics(java_tool: JavaTool, system: System) -> list[str]:
    done = java_tool(TOPICS, "--bootstrap-server", system.bootstrap, "--list")
    return done.stdout.splitlines()


def _segment(system: System, topic: str) -> Path:
    return system.log_dir / f"{topic}-0" / f"{0:020}.log"
