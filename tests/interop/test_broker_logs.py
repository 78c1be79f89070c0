"""The request log and the state-change log say the same on Apache Kafka and on pkafka."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pkafka.clients.admin.results import ConfigResource, ResourceType
from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from pkafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from pkafka.server.serving.request_log import is_deprecated
from pkafka.testing import Broker
from tests.differences import first_difference_of_all
from tests.interop.conftest import System
from tests.interop.kafka import ToolServer, compile_java
from tests.talk import Talk, talking, wait_for

REQUESTS, CHANGES = "kafka.request.logger", "state.change.logger"
_COMPLETED = re.compile(r"(DEBUG|INFO) (?:\[\d+\] )?Completed request:(\{.*\}) \(kafka\.request\.logger\)")
_CHANGED = re.compile(r"(TRACE|INFO) (?:\[\d+\] )?\[(.*?)\] (.*) \(state\.change\.logger\)")
_SAME_LINES = re.compile(
    r"Changed (partition|state of replica)|Partition \S+ state changed to|Leader \S+ with"
    r"|Sending (become-leader )?(LeaderAndIsr|StopReplica) request"
)

WANTED = {
    *("API_VERSIONS", "METADATA", "CREATE_TOPICS", "DELETE_TOPICS", "DESCRIBE_CONFIGS"),
    *("INCREMENTAL_ALTER_CONFIGS", "PRODUCE", "INIT_PRODUCER_ID", "FETCH", "LIST_OFFSETS"),
    *("FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "LEAVE_GROUP", "OFFSET_FETCH", "OFFSET_COMMIT"),
}
_NOT_COMPARED = {
    # What Kafka's broker asks itself travels between the processes of a pkafka without requests.
    *("UPDATE_METADATA", "LEADER_AND_ISR", "STOP_REPLICA", "ALLOCATE_PRODUCER_IDS"),
    "HEARTBEAT",  # comes when a rebalance takes its time
}


class Logged:
    """What one system wrote to its logs since they were set to more than usual."""

    def __init__(self, system: System, talk: Talk) -> None:
        self._system = system
        self.talk = talk
        self.bootstrap = system.bootstrap
        self._begin = system.log_file.stat().st_size

    def set_level(self, logger: str, level: str) -> None:
        self.talk.alter(ConfigResource(ResourceType.BROKER_LOGGER, "0"), {logger: level})
        if isinstance(self._system, Broker):
            # Each process takes it over in its own time, and says so.
            broker = psutil.Process(self._system.pid)
            processes = {broker.pid, *(child.pid for child in broker.children(recursive=True))}
            changed = re.compile(rf"\[(\d+)\] log level of {re.escape(logger)}: {level} ")
            wait_for(lambda: {int(match[1]) for match in self.lines(changed)} == processes)

    def begin_anew(self) -> None:
        """Look only at what is written from now on."""
        self._begin = self._system.log_file.stat().st_size

    def lines(self, pattern: re.Pattern[str]) -> list[re.Match[str]]:
        text = self._system.log_file.read_bytes()[self._begin :].decode()
        return [match for line in text.splitlines() if (match := pattern.search(line))]

    def wait_for_line(self, pattern: re.Pattern[str], text: str) -> None:
        wait_for(lambda: any(text in match[0] for match in self.lines(pattern)), what=text)


@pytest.fixture
def both(kafka: System | None, pkafka: System | None) -> Iterator[list[Logged]]:
    """The logs of both systems."""
    if kafka is None or pkafka is None:
        pytest.skip("compares Kafka with pkafka, and PKAFKA_INTEROP_SYSTEMS leaves one out")
    with talking(kafka.bootstrap) as one, talking(pkafka.bootstrap) as other:
        systems = [Logged(kafka, one), Logged(pkafka, other)]
        yield systems
        for logged in systems:
            logged.set_level(REQUESTS, "WARN")
            logged.set_level(CHANGES, "WARN")


def requests(logged: Logged) -> dict[str, Any]:
    """The first document of each API.

    Apache Kafka writes a text in the place of a request that came before the log was turned on, and is completed after.
    """
    by_name: dict[str, Any] = {}
    for match in logged.lines(_COMPLETED):
        document = json.loads(match[2])
        if isinstance(document["request"], str):
            continue
        by_name.setdefault(document["requestHeader"]["requestApiKeyName"], document)
    return {name: document for name, document in by_name.items() if name not in _NOT_COMPARED}


def shape(value: Any) -> Any:
    """The names in a document and the kinds of their values."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def work_in_a_group(bootstrap: str, topic: str, records: int = 1) -> None:
    """Send a record, and read as many as there are then."""
    config = {"bootstrap.servers": bootstrap, "client.id": "me", "auto.offset.reset": "earliest"}
    with Producer(config) as producer:
        producer.send(topic, value=b"c").result(30)
    with Consumer({**config, "group.id": topic, "enable.auto.commit": "false"}) as consumer:
        consumer.subscribe([topic])
        read: list[object] = []
        while len(read) < records:
            read += consumer.poll(1_000)
        consumer.commit_sync()


def test_requests_are_written_as_kafka_writes_them(both: list[Logged], topic: str) -> None:
    for logged in both:
        # Whether an internal topic is there already when it is first asked for depends on the tests before.
        with talking(logged.bootstrap) as talk:
            talk.create(f"{topic}-before")
        work_in_a_group(logged.bootstrap, f"{topic}-before")
        logged.begin_anew()
        logged.set_level(REQUESTS, "DEBUG")
        with talking(logged.bootstrap) as talk:
            talk.create(topic, partitions=1, retention_ms=9)
            talk.send(topic, b"a", b"b")
            talk.read(topic)
            talk.ends(topic)
            work_in_a_group(logged.bootstrap, topic, records=3)
            talk.described(ResourceType.TOPIC, topic)
            talk.alter(ConfigResource(ResourceType.TOPIC, topic), {"retention.ms": "7"})
            talk.delete(topic)
        logged.wait_for_line(_COMPLETED, "DELETE_TOPICS")
        # Each thread of Apache Kafka writes of a request after its client has the answer, be that the last request.
        wait_for(lambda: requests(logged).keys() >= WANTED, what=f"a line of each API by {logged.bootstrap}")  # noqa: B023
    documents = [requests(logged) for logged in both]
    of_kafka, of_pkafka = documents
    assert of_kafka.keys() == of_pkafka.keys()
    for name, document in of_kafka.items():
        assert json.dumps(shape(of_pkafka[name]), indent=1) == json.dumps(shape(document), indent=1), name
        assert (
            of_pkafka[name]["requestHeader"]["requestApiVersion"]
            == document["requestHeader"]["requestApiVersion"]
        )
    create = [one["CREATE_TOPICS"]["request"] for one in documents]
    assert create[0] == create[1]


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_versions_that_end_with_kafka_4_are_marked(both: list[Logged], level: str) -> None:
    marks = []
    for logged in both:
        logged.set_level(REQUESTS, level)
        cluster = logged.talk.admin.cluster
        for version in (1, 0):
            cluster.request(DescribeConfigsRequest(), DescribeConfigsResponse, max_version=version)
            cluster.request(DescribeLogDirsRequest(topics=[]), DescribeLogDirsResponse, max_version=version)
        logged.wait_for_line(_COMPLETED, '"requestApiKey":35,"requestApiVersion":0')
        headers = [(match[1], json.loads(match[2])["requestHeader"]) for match in logged.lines(_COMPLETED)]
        marks.append(
            [
                (level_of_it, each["requestApiKeyName"], each.get("requestApiVersionDeprecated", False))
                for level_of_it, each in headers
                if each["requestApiKey"] in (ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS)
            ]
        )
    names = ("DESCRIBE_CONFIGS", "DESCRIBE_LOG_DIRS")
    newer, older = ([(word, name, old) for name in names] for word, old in (("DEBUG", False), ("INFO", True)))
    assert marks[0] == (newer + older if level == "DEBUG" else older)
    assert marks[1] == marks[0]


def test_every_deprecated_version_is_known(kafka_classpath: str, tmp_path: Path) -> None:
    server = ToolServer(compile_java(kafka_classpath, tmp_path, "ToolServer", "DeprecatedVersions"))
    try:
        lines = server.run("DeprecatedVersions").stdout.splitlines()
    finally:
        server.close()
    theirs = {int(key): [int(version) for version in versions] for key, *versions in map(str.split, lines)}
    assert len(theirs) > 10
    ours = {
        int(key): deprecated
        for key in ApiKey
        if (deprecated := [version for version in registry.versions(key) if is_deprecated(key, version)])
    }
    assert ours == theirs


def come_and_go(logged: Logged, topic: str) -> None:
    """Make a topic, delete it, and wait until the controller has forgotten all of it."""
    logged.talk.create(topic, partitions=2)
    logged.talk.delete(topic)
    for partition in range(2):
        end = f"{topic}-{partition} from ReplicaDeletionSuccessful to NonExistentReplica"
        logged.wait_for_line(_CHANGED, end)


def test_changes_of_states_are_written_in_kafkas_words(both: list[Logged], topic: str) -> None:
    texts = []
    for logged in both:
        logged.set_level(CHANGES, "TRACE")
        # A topic of another test may still be on its way out, which its client did not wait for: one topic ends after
        # the other.
        come_and_go(logged, f"{topic}-before")
        logged.begin_anew()
        come_and_go(logged, topic)
        said = [
            f"{match[1]} [{match[2]}] {match[3]}"
            for match in logged.lines(_CHANGED)
            if _SAME_LINES.match(match[3])
        ]
        text = "\n".join(sorted(re.sub(r"Some\(\S{22}\)", "Some(ID)", line) for line in said))
        texts.append(re.sub(r"(epoch=|controllerEpoch=|ControllerEpoch:)\d+", r"\1N", text))
    assert topic in texts[0]
    assert not first_difference_of_all(texts)
