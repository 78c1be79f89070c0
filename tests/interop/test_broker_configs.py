"""Whether a server.properties is refused: every key with values that may be mistakes, and the rules between keys.

Apache Kafka's own ``KafkaConfig`` says of each file whether it stands; so must pkafka, but for what is named here.
"""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.errors import ConfigError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.keys import broker_keys
from pkafka.server.policies import Policies
from pkafka.server.security import authorizer
from tests.interop.kafka import running_kafka
from tests.interop.line_oracle import LineOracle, line_oracle

BASE: Final = {
    "broker.id": "0",
    "zookeeper.connect": "localhost:2181",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "/tmp/a",
}
EMPTY: Final = ("", " ", ",")
VALUES: Final = (
    *EMPTY,
    "a,,b",
    "a,a",
    ",a",
    "-1",
    "0",
    "1",
    "-2",
    "+5",
    "1.5",
    "NaN",
    "true",
    "maybe",
    "9" * 20,
)
PROTOCOLS: Final = "listener.security.protocol.map"
TWO: Final = {"listeners": "PLAINTEXT://a:1,B://b:2", PROTOCOLS: "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"}
GROUP: Final = "group.coordinator.rebalance.protocols"
RELEASE: Final = "inter.broker.protocol.version"

STRICTER: Final[Mapping[str, str]] = {
    "authorizer.class.name": "Kafka finds at its start that there is no such class",
    "log.dir": "see log.dirs",
    "log.dirs": "Kafka finds at its start, and not in its configuration, that two directories are one",
    "num.replica.fetchers": "with none, Kafka fails when it first follows",
    "remote.log.storage.system.enable": "there is no tiered storage",
    "replica.selector.class": "Kafka finds at its start that there is no such class",
    "zookeeper.connect": "Kafka finds at its start that there is no such server; from none, pkafka needs none",
    "zookeeper.metadata.migration.enable": "there is no migration to KRaft",
    "zookeeper.ssl.crl.enable": "pkafka looks at no list of certificates that are revoked",
    "zookeeper.ssl.ocsp.enable": "pkafka asks no service whether a certificate is revoked",
}
"""Keys of which pkafka refuses what Kafka's configuration lets through, and why."""

TOGETHER: Final[tuple[dict[str, str], ...]] = (
    {"broker.id": "-1", "broker.id.generation.enable": "false"},
    {"broker.id": "1001"},
    {"broker.id": "5", "node.id": "6"},
    {"log.roll.ms": "0"},
    {"log.roll.jitter.ms": "-1"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-5"},
    {"log.retention.hours": "0"},
    {"log.cleaner.threads": "200"},
    {"log.cleaner.dedupe.buffer.size": "1048576"},
    {"log.cleaner.dedupe.buffer.size": "1048577"},
    {"replica.fetch.wait.max.ms": "40000"},
    {"replica.fetch.wait.max.ms": "31000", "replica.socket.timeout.ms": "60000"},
    {"offsets.commit.required.acks": "3"},
    {"offsets.topic.replication.factor": "1", "offsets.commit.required.acks": "2"},
    {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"},
    {**TWO, "listeners": "PLAINTEXT://a:1,B://b:1"},
    {**TWO, "listeners": "PLAINTEXT://127.0.0.1:1,B://[::1]:1"},
    {**TWO, "listeners": "PLAINTEXT://a:1,,B://b:2,"},
    {"listeners": "B://b:1", PROTOCOLS: "B:PLAINTEXT"},
    {"listeners": "b://b:1", PROTOCOLS: "b:plaintext", "inter.broker.listener.name": "B"},
    {"listeners": "PLAINTEXT://0.0.0.0:1"},
    {"listeners": "PLAINTEXT://0.0.0.0:1", "advertised.listeners": "PLAINTEXT://h:1"},
    {"listeners": "PLAINTEXT://a b:1"},
    {"listeners": "PLAINTEXT://a_b:1"},
    {"listeners": "p t://a:1"},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
    {"advertised.listeners": "B://h:1"},
    {**TWO, "advertised.listeners": "B://a:1"},
    {**TWO, "advertised.listeners": "PLAINTEXT://a:1,B://a:1"},
    {PROTOCOLS: "PLAINTEXT"},
    {PROTOCOLS: "PLAINTEXT:"},
    {PROTOCOLS: ":PLAINTEXT"},
    {PROTOCOLS: "PLAINTEXT:PLAINTEXT,X:NOPE"},
    {PROTOCOLS: "PLAINTEXT:PLAINTEXT,,"},
    {"security.inter.broker.protocol": "SSL"},
    {"security.inter.broker.protocol": "PLAINTEXT", "inter.broker.listener.name": "PLAINTEXT"},
    {"inter.broker.listener.name": "X"},
    {**TWO, "control.plane.listener.name": "b"},
    {"control.plane.listener.name": "PLAINTEXT"},
    {"control.plane.listener.name": "X"},
    {"early.start.listeners": "PLAINTEXT"},
    {"early.start.listeners": "plaintext"},
    {RELEASE: "0.8.0"},
    {RELEASE: "0.10.2", "log.message.format.version": "0.10.2"},
    {RELEASE: "0.9.0", "log.message.format.version": "0.10.0"},
    {RELEASE: "0.9.0", "log.message.format.version": "0.8.2"},
    {RELEASE: "0.11.0-IV2"},
    {RELEASE: "2.0", "log.message.format.version": "2.8"},
    {RELEASE: "4.0"},
    {RELEASE: "4.0-IV1"},
    {"offsets.topic.compression.codec": "5"},
    {"queued.max.request.bytes": "104857599"},
    {"queued.max.request.bytes": "104857600"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
    {"max.connections.per.ip.overrides": "127.0.0.1:x"},
    {"max.connections.per.ip.overrides": "a b:5"},
    {"max.connections.per.ip.overrides": "::1:5"},
    {"max.connections.per.ip.overrides": "[::1]:5"},
    {"connections.max.idle.ms": "100"},
    {"connections.max.idle.ms": "101"},
    {"connection.failed.authentication.delay.ms": "700000"},
    {"controller.quorum.voters": "1@a:1, 2@b:2"},
    {"controller.quorum.voters": "1@[::1]:1"},
    {"controller.quorum.voters": "a:1"},
    {"controller.quorum.bootstrap.servers": "[::1]:5"},
    {"controller.listener.names": "C"},
    {"zookeeper.metadata.migration.enable": "true"},
    {GROUP: "classic,consumer"},
    {GROUP: "consumer"},
    {GROUP: "classic,share"},
    {GROUP: "CLASSIC"},
    {"group.consumer.assignors": "range,uniform"},
    {"group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor"},
    {"group.consumer.min.session.timeout.ms": "99999999"},
    {"group.consumer.heartbeat.interval.ms": "50000"},
    {"group.consumer.session.timeout.ms": "50000", "group.consumer.heartbeat.interval.ms": "15000"},
    {"group.share.max.heartbeat.interval.ms": "1"},
    {"principal.builder.class": "java.lang.String"},
    {"log.cleanup.policy": "delete,"},
    {"log.cleaner.min.compaction.lag.ms": "100", "log.cleaner.max.compaction.lag.ms": "50"},
    {"log.local.retention.ms": "5", "log.retention.ms": "3"},
    {"transaction.state.log.min.isr": "5", "transaction.state.log.replication.factor": "1"},
)


@pytest.fixture(scope="module")
def oracle(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "BrokerConfigs") as started:
        yield started


def _text(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _theirs(oracle: LineOracle, settings: Mapping[str, str]) -> str:
    """Why Kafka refuses; empty when it does not."""
    answer = oracle.ask(base64.b64encode(_text(settings).encode()).decode())
    return "" if answer == "ok" else base64.b64decode(answer).decode()


def _ours(file: Path, settings: Mapping[str, str]) -> str:
    """Why pkafka refuses, before anything is started."""
    file.write_text(_text(settings))
    try:
        config = BrokerConfig.load(file)
        Policies.check(config)
        authorizer.check(config)
    except ConfigError as error:
        refusal = str(error)
    else:
        return ""
    assert "\n" not in refusal
    return refusal


def _differences(oracle: LineOracle, file: Path, cases: list[dict[str, str]]) -> list[str]:
    found = []
    for changes in cases:
        settings = {**BASE, **changes}
        if "log.dir" in changes:
            settings.pop("log.dirs")
        theirs, ours = _theirs(oracle, settings), _ours(file, settings)
        if bool(theirs) != bool(ours) and not (ours and not theirs and changes.keys() & STRICTER.keys()):
            found.append(f"{changes}: Kafka {theirs or 'takes it'!r}, pkafka {ours or 'takes it'!r}")
    return found


def _every_key(values: tuple[str, ...]) -> list[dict[str, str]]:
    keys = [key for key in broker_keys() if not key.startswith("pkafka.")]
    return [{key: value} for key in keys for value in values]


def test_what_is_empty_is_refused_where_kafka_refuses_it(oracle: LineOracle, tmp_path: Path) -> None:
    assert _differences(oracle, tmp_path / "server.properties", _every_key(EMPTY)) == []


def test_the_rules_between_keys_are_kafkas(oracle: LineOracle, tmp_path: Path) -> None:
    assert _differences(oracle, tmp_path / "server.properties", list(TOGETHER)) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_key_with_values_that_may_be_mistakes(oracle: LineOracle, tmp_path: Path) -> None:
    assert _differences(oracle, tmp_path / "server.properties", _every_key(VALUES)) == []


@pytest.mark.oracle
def test_kafka_refuses_one_directory_that_is_named_twice(tmp_path: Path) -> None:
    """At its start, hence here and not above."""
    overrides = {"log.dirs": f"{tmp_path}/d,{tmp_path}/d"}
    with (
        pytest.raises(RuntimeError, match="Duplicate log directory found"),
        running_kafka(tmp_path / "kafka", overrides=overrides),
    ):
        pass
