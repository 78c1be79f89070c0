"""Configuration requests to Apache Kafka 3.9.1 in ZooKeeper mode and to pkafka: the same answers.

Both brokers have the same server.properties and go through the same script of changes; every answer and, after each
change, every described setting is compared in all fields but the documentation.
"""

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages import alter_configs, create_topics, describe_configs, incremental_alter_configs
from pkafka.protocol.schema import Message
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.handlers import alter_configs as alter_handler
from pkafka.server.handlers import describe_configs as describe_handler
from pkafka.server.handlers import incremental_alter_configs as incremental_handler
from tests.fakes.config_context import FakeControl
from tests.interop import kafka as oracle
from tests.zookeeper import ZooKeeper

BROKER_ID: Final = 7
TOPIC: Final = "t1"
SET, DELETE, APPEND, SUBTRACT = range(4)
T, B, L, METRICS = 2, 4, 8, 16

PROPERTIES: Final = {
    "broker.id": str(BROKER_ID),
    "offsets.topic.replication.factor": "1",
    "log.retention.hours": "48",
    "log.retention.minutes": "4000",
    "num.partitions": "3",
    "my.own.key": "hello",
    "ssl.keystore.password": "secret",
    "log.segment.bytes": "1000000",
    "log.cleanup.policy": "delete, compact",
    "log.cleaner.min.cleanable.ratio": ".25",
    "unclean.leader.election.enable": "FALSE",
    "zookeeper.set.acl": " false ",
}
"""Written by both brokers' operator, with the spellings that people use."""


class Step(NamedTuple):
    """One change of one resource."""

    type: int
    name: str
    changes: tuple[tuple[str, int, str | None], ...]
    validate_only: bool = False


def _topic(*changes: tuple[str, int, str | None], validate_only: bool = False) -> Step:
    return Step(T, TOPIC, changes, validate_only)


def _broker(*changes: tuple[str, int, str | None], validate_only: bool = False) -> Step:
    return Step(B, str(BROKER_ID), changes, validate_only)


def _all_brokers(*changes: tuple[str, int, str | None]) -> Step:
    return Step(B, "", changes)


SCRIPT: Final = (
    _topic(("retention.ms", SET, "1000")),
    _topic(("retention.ms", SET, "1000"), ("retention.ms", SET, "2000")),
    _topic(("retention.ms", SET, None), ("retention.ms", SET, None)),
    Step(T, "nope", (("retention.ms", SET, "1000"),)),
    Step(T, "bad/name", (("retention.ms", SET, "1000"),)),
    Step(T, "", (("retention.ms", SET, "1000"),)),
    _topic(("no.such", SET, "1")),
    _topic(("no.such", DELETE, None)),
    _topic(("retention.ms", SET, "abc")),
    _topic(("retention.ms", SET, "-5")),
    _topic(("retention.ms", SET, None)),
    _topic(("retention.ms", SET, "")),
    _topic(("retention.ms", SET, "99999999999999999999")),
    _topic(("retention.ms", APPEND, "5")),
    _topic(("retention.ms", SUBTRACT, "5")),
    _topic(("cleanup.policy", APPEND, "compact")),
    _topic(("cleanup.policy", APPEND, "compact")),
    _topic(("cleanup.policy", SUBTRACT, "delete")),
    _topic(("cleanup.policy", SUBTRACT, "foo")),
    _topic(("cleanup.policy", APPEND, "foo")),
    _topic(("cleanup.policy", SET, "delete, compact")),
    _topic(("cleanup.policy", SET, "compact,foo,bar")),
    _topic(("cleanup.policy", SET, "")),
    _topic(("cleanup.policy", DELETE, None)),
    _topic(("compression.type", SET, "foo")),
    _topic(("compression.type", SET, "zstd"), ("compression.zstd.level", SET, "-131073")),
    _topic(("compression.type", SET, "zstd"), ("compression.zstd.level", SET, "7")),
    _topic(("compression.gzip.level", SET, "0")),
    _topic(("min.cleanable.dirty.ratio", SET, "1.5")),
    _topic(("min.cleanable.dirty.ratio", SET, "-.5")),
    _topic(("min.cleanable.dirty.ratio", SET, "x")),
    _topic(("min.cleanable.dirty.ratio", SET, "0.00012345")),
    _topic(("min.cleanable.dirty.ratio", SET, "1e-9")),
    _topic(("min.cleanable.dirty.ratio", SET, "1")),
    _topic(("preallocate", SET, "yes")),
    _topic(("preallocate", SET, "TRUE")),
    _topic(("message.format.version", SET, "9.9")),
    _topic(("message.format.version", SET, "2.8"), validate_only=True),
    _topic(("message.format.version", SET, "0.11.0"), validate_only=True),
    _topic(("message.format.version", SET, "0.11.0-IV3"), validate_only=True),
    _topic(("leader.replication.throttled.replicas", SET, "x:y")),
    _topic(("leader.replication.throttled.replicas", SET, "0:7,1:7")),
    _topic(("leader.replication.throttled.replicas", APPEND, "2:7")),
    _topic(("leader.replication.throttled.replicas", SUBTRACT, "0:7")),
    _topic(("follower.replication.throttled.replicas", SET, "*")),
    *[
        _topic(("follower.replication.throttled.replicas", SET, text), validate_only=True)
        for text in (",", "1:1,,2:2", "1:1,", "*,1:1", " 1:1 , 2:2 ", "1:1 2:2", "")
    ],
    _topic(("segment.bytes", SET, "99999999999")),
    _topic(("segment.bytes", SET, "13")),
    _topic(("segment.ms", SET, " 5000 ")),
    _topic(("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "50")),
    _topic(("remote.storage.enable", SET, "true")),
    _topic(("remote.log.copy.disable", SET, "true")),
    _topic(("remote.log.delete.on.disable", SET, "true")),
    _topic(("local.retention.ms", SET, "999999999999")),
    _topic(("unclean.leader.election.enable", SET, "true"), validate_only=True),
    _topic(),
    _broker(("num.partitions", SET, "5")),
    _broker(("num.partitions", DELETE, None)),
    _broker(("num.partitions", APPEND, "4")),
    _broker(("no.such", SET, "5")),
    _broker(("no.such", DELETE, None)),
    _broker(("log.cleaner.threads", SET, "2")),
    _broker(("log.cleaner.threads", SET, "x")),
    _broker(("log.cleaner.threads", SET, "10")),
    _all_brokers(("log.cleaner.threads", SET, "1")),
    _broker(("log.cleaner.threads", DELETE, None)),
    _broker(("num.io.threads", SET, "100")),
    _broker(("num.io.threads", SET, "3")),
    _broker(("num.io.threads", SET, "0")),
    _broker(("num.io.threads", SET, "16")),
    _broker(("num.network.threads", SET, "100")),
    _all_brokers(("num.replica.fetchers", SET, "5")),
    _all_brokers(("num.replica.fetchers", SET, "0")),
    _all_brokers(("num.replica.fetchers", SET, "2")),
    _all_brokers(("ssl.keystore.location", SET, "/x")),
    _broker(("ssl.keystore.location", SET, "/x")),
    _all_brokers(("listeners", SET, "PLAINTEXT://:1")),
    _all_brokers(("listeners", SET, "PLAINTEXT://:1"), ("advertised.listeners", SET, "PLAINTEXT://:1")),
    _broker(("compression.type", SET, "x"), ("num.partitions", SET, "1"), ("broker.id", SET, "1")),
    _broker(("advertised.listeners", SET, "PLAINTEXT://foo:1"), validate_only=True),
    _broker(("advertised.listeners", SET, "PLAINTEXT://0.0.0.0:1"), validate_only=True),
    Step(B, "8", (("log.cleaner.threads", SET, "1"),)),
    Step(B, "abc", (("log.cleaner.threads", SET, "1"),)),
    _broker(("message.max.bytes", SET, "2000000"), ("log.retention.ms", SET, "100000")),
    _broker(("message.max.bytes", SET, "-1")),
    _broker(("log.retention.ms", SET, "-5")),
    _broker(("log.retention.ms", SET, "0")),
    _broker(("log.roll.ms", SET, "0")),
    _broker(("log.roll.ms", SET, "3600000")),
    _all_brokers(("log.flush.interval.ms", SET, "7000"), ("log.retention.ms", SET, "777777")),
    _broker(("log.cleanup.policy", APPEND, "compact")),
    _broker(("log.cleanup.policy", SUBTRACT, "compact")),
    _broker(("log.retention.ms", APPEND, "1")),
    _broker(("log.retention.ms", 9, "1")),
    _broker(("min.insync.replicas", SET, "0")),
    _broker(("min.insync.replicas", SET, None)),
    _broker(("log.cleaner.dedupe.buffer.size", SET, "5")),
    _broker(("unclean.leader.election.enable", SET, "maybe")),
    _broker(("log.message.timestamp.type", SET, "x")),
    _broker(("log.message.timestamp.difference.max.ms", SET, "5000000")),
    _topic(("message.timestamp.difference.max.ms", SET, "6000000")),
    _topic(("message.timestamp.difference.max.ms", DELETE, None)),
    _all_brokers(("log.message.timestamp.before.max.ms", SET, "7000000")),
    _all_brokers(("max.connection.creation.rate", SET, "1000")),
    _all_brokers(("max.connection.creation.rate", SET, "-1")),
    _broker(("listener.name.plaintext.max.connection.creation.rate", SET, "500")),
    _broker(("producer.id.expiration.ms", SET, "0")),
    _all_brokers(("producer.id.expiration.ms", SET, "100000")),
    _broker(("leader.replication.throttled.rate", SET, "77")),
    _broker(("leader.replication.throttled.rate", SET, "-1")),
    *[
        _broker(*changes, validate_only=True)
        for changes in (
            [("max.connections", SET, "0")],
            [("max.connection.creation.rate", SET, "0")],
            [("listener.name.plaintext.max.connections", SET, "0")],
            [("log.local.retention.ms", SET, "-1")],
            [("log.local.retention.ms", SET, "999999999999")],
            [("log.local.retention.ms", SET, "-2")],
            [("log.local.retention.ms", SET, "10"), ("log.retention.ms", SET, "5")],
            [("log.local.retention.bytes", SET, "10"), ("log.retention.bytes", SET, "5")],
            [("log.local.retention.bytes", SET, "-1"), ("log.retention.bytes", SET, "5")],
            [("log.local.retention.bytes", SET, "-1")],
            [("advertised.listeners", SET, "")],
            [("advertised.listeners", SET, ",")],
            [("principal.builder.class", SET, "")],
            [("listener.name.plaintext.principal.builder.class", SET, "")],
        )
    ],
    _broker(("listener.name.plaintext.max.connections", SET, "77")),
    _broker(("listener.name.plaintext.connections.max.reauth.ms", SET, "77")),
    _broker(("listener.name.other.sasl.enabled.mechanisms", SET, "PLAIN")),
    _all_brokers(("listener.name.plaintext.max.connections", SET, "78")),
    _all_brokers(("listener.name.plaintext.sasl.enabled.mechanisms", SET, "PLAIN")),
    Step(L, "7", (("root", SET, "INFO"),)),
    Step(L, "7", (("root", SET, "LOUD"),)),
    Step(L, "7", (("root", SET, "info"),)),
    Step(L, "7", (("root", APPEND, "INFO"),)),
    Step(L, "7", (("root", SUBTRACT, "INFO"),)),
    Step(L, "7", (("root", DELETE, None),)),
    Step(L, "7", (("root", SET, None),)),
    Step(L, "7", (("no.logger", SET, "INFO"),)),
    Step(L, "", (("root", SET, "INFO"),)),
    Step(METRICS, "x", (("interval.ms", SET, "1"),)),
    Step(1, "x", (("interval.ms", SET, "1"),)),
    Step(32, "x", (("interval.ms", SET, "1"),)),
)

REPLACEMENTS: Final = (
    _topic(("retention.ms", SET, "1000"), ("segment.ms", SET, "900000")),
    _topic(("retention.ms", SET, "1000"), ("retention.ms", SET, "900000")),
    _topic(("retention.ms", SET, None)),
    _topic(("no.such", SET, "1")),
    Step(T, "nope", (("retention.ms", SET, "1"),)),
    _topic(("retention.ms", SET, "abc")),
    _broker(("num.partitions", SET, "5")),
    _broker(("no.such", SET, "5")),
    Step(B, "8", (("log.cleaner.threads", SET, "2"),)),
    _all_brokers(("ssl.keystore.location", SET, "/x")),
    _broker(("log.cleaner.threads", SET, "2"), validate_only=True),
    _broker(),
    _all_brokers(),
    Step(L, "7", (("root", SET, "INFO"),)),
    Step(METRICS, "x", (("interval.ms", SET, "1"),)),
)

DESCRIBED: Final[tuple[tuple[int, str, list[str] | None], ...]] = (
    (T, TOPIC, None),
    (T, TOPIC, ["retention.ms", "no.such"]),
    (T, TOPIC, []),
    (T, "nope", None),
    (T, "bad/name", None),
    (T, "", None),
    (B, "7", None),
    (B, "", None),
    (B, "8", None),
    (B, "abc", None),
    (L, "", None),
    (L, "9", None),
    (L, "x", None),
    (METRICS, "x", None),
    (METRICS, "", None),
    (1, "x", None),
    (32, "g", None),
)


class Kafka:
    """An Apache Kafka that runs, asked over one connection per request."""

    def __init__(self, broker: oracle.KafkaBroker) -> None:
        self.port = broker.port
        self.log_file = broker.log_file

    def ask(self, key: int, version: int, message: Message) -> Message:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(encode_request(key, version, 1, "configs", message))
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                return decode_response(key, version, stream.read(size))[1]


class Pkafka:
    """pkafka's handlers, asked with what its codec makes of a message at a version."""

    def __init__(self, control: FakeControl) -> None:
        self.control = control

    def ask(self, key: int, version: int, message: Message) -> Message:
        request = decode(type(message), version, encode(message, version))
        if isinstance(request, describe_configs.DescribeConfigsRequest):
            answer: Message = asyncio.run(describe_handler.handle(self.control, request, version))
        elif isinstance(request, alter_configs.AlterConfigsRequest):
            answer = asyncio.run(alter_handler.handle(self.control, request, version))
        else:
            assert isinstance(request, incremental_alter_configs.IncrementalAlterConfigsRequest)
            answer = asyncio.run(incremental_handler.handle(self.control, request, version))
        return decode(type(answer), version, encode(answer, version))


@pytest.fixture(scope="module")
def brokers(
    zookeeper: ZooKeeper, kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Kafka, Pkafka]]:
    """Both, with the same settings and one topic."""
    with both_brokers(zookeeper.connect, kafka_classpath, tmp_path_factory.mktemp("configs")) as pair:
        yield pair


@contextlib.contextmanager
def both_brokers(connect: str, classpath: str, directory: Path) -> Iterator[tuple[Kafka, Pkafka]]:
    """Start Kafka, make a pkafka that thinks it has the same file."""
    chroot = f"{connect}/configs{os.getpid()}"
    # A change of the cleaner makes a second buffer of 128 MB before the first has gone: in a smaller heap the thread
    # that applies changes dies of it, now and then.
    theirs = oracle.KafkaBroker(classpath, chroot, directory, overrides=PROPERTIES, heap="768m")
    try:
        theirs.start()
        control = FakeControl(
            directory, BrokerConfig.load(theirs.properties), broker_id=BROKER_ID, topics=(TOPIC,)
        )
        try:
            kafka = Kafka(theirs)
            topic = create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            answer = kafka.ask(ApiKey.CREATE_TOPICS, 5, request)
            assert isinstance(answer, create_topics.CreateTopicsResponse)
            assert answer.topics[0].error_code == 0
            yield kafka, Pkafka(control)
        finally:
            control.close()
    finally:
        theirs.kill()


def _describe_request(
    resources: tuple[tuple[int, str, list[str] | None], ...], version: int
) -> describe_configs.DescribeConfigsRequest:
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in resources
        ],
        include_synonyms=version >= 1,
    )


def _own_words(message: str | None) -> str | None:
    """A message, but for the one that Kafka gives where it has nothing to say; pkafka words that differently."""
    general = (
        ErrorCode.INVALID_REQUEST.message,
        "This most likely occurs because of a request being malformed",
    )
    return "" if message is not None and message.startswith(general) else message


def _normal(answer: Message) -> object:
    """An answer as comparable values: order of settings is nobody's promise, pkafka's own keys are its own."""
    assert isinstance(answer, describe_configs.DescribeConfigsResponse)
    return [
        (
            result.error_code,
            _own_words(result.error_message),
            result.resource_type,
            result.resource_name,
            {
                each.name: (
                    each.value,
                    each.read_only,
                    each.is_default,
                    each.config_source,
                    each.is_sensitive,
                    each.config_type,
                    [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
                )
                for each in result.configs
                if not each.name.startswith("pkafka.")
            },
        )
        for result in answer.results
    ]


def assert_same_description(kafka: Kafka, pkafka: Pkafka, version: int = 4) -> None:
    """Compare everything that DescribeConfigs tells; waits for Kafka, which applies changes by and by."""
    resources = ((T, TOPIC, None), (B, str(BROKER_ID), None), (B, "", None))
    request = _describe_request(resources, version)
    ours = _normal(pkafka.ask(ApiKey.DESCRIBE_CONFIGS, version, request))
    deadline = time.monotonic() + 60
    while True:
        theirs = _normal(kafka.ask(ApiKey.DESCRIBE_CONFIGS, version, request))
        if theirs == ours or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if theirs != ours:
        # Shown when this fails: perhaps Kafka could not apply a change.
        print(kafka.log_file.read_text(errors="replace")[-10_000:])
    _assert_equal_settings(theirs, ours)


def _assert_equal_settings(theirs: object, ours: object) -> None:
    assert isinstance(theirs, list)
    assert isinstance(ours, list)
    for their_result, our_result in zip(theirs, ours, strict=True):
        assert our_result[:4] == their_result[:4], "(error code, message, resource type, name)"
        different = {
            name: (their_result[4].get(name), our_result[4].get(name))
            for name in their_result[4].keys() | our_result[4].keys()
            if their_result[4].get(name) != our_result[4].get(name)
        }
        assert not different, f"(Kafka, pkafka) of {our_result[2:4]}: {different}"


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("resource", DESCRIBED, ids=str)
def test_description_is_that_of_kafka(
    brokers: tuple[Kafka, Pkafka], resource: tuple[int, str, list[str] | None], version: int
) -> None:
    request = _describe_request((resource,), version)
    theirs, ours = (_normal(each.ask(ApiKey.DESCRIBE_CONFIGS, version, request)) for each in brokers)
    _assert_equal_settings(theirs, ours)


@pytest.mark.timeout(600)
def test_incremental_changes_are_answered_and_applied_as_by_kafka(brokers: tuple[Kafka, Pkafka]) -> None:
    for position, step in enumerate(SCRIPT):
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=step.type,
            resource_name=step.name,
            configs=[
                incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
                for name, operation, value in step.changes
            ],
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=step.validate_only
        )
        _assert_same_answer(brokers, ApiKey.INCREMENTAL_ALTER_CONFIGS, position % 2, request, step)


@pytest.mark.timeout(600)
def test_replacing_changes_are_answered_and_applied_as_by_kafka(brokers: tuple[Kafka, Pkafka]) -> None:
    for position, step in enumerate(REPLACEMENTS):
        resource = alter_configs.AlterConfigsResource(
            resource_type=step.type,
            resource_name=step.name,
            configs=[
                alter_configs.AlterableConfig(name=name, value=value) for name, _, value in step.changes
            ],
        )
        request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=step.validate_only)
        _assert_same_answer(brokers, ApiKey.ALTER_CONFIGS, position % 3, request, step)


def _assert_same_answer(
    brokers: tuple[Kafka, Pkafka], key: int, version: int, request: Message, step: Step
) -> None:
    answers = []
    for broker in brokers:
        answer = broker.ask(key, version, request)
        assert isinstance(
            answer,
            alter_configs.AlterConfigsResponse | incremental_alter_configs.IncrementalAlterConfigsResponse,
        )
        answers.append(
            [
                (each.error_code, each.error_message, each.resource_type, each.resource_name)
                for each in answer.responses
            ]
        )
    assert answers[1] == answers[0], step
    if answers[0][0][0] == 0 and not step.validate_only:
        assert_same_description(*brokers)
