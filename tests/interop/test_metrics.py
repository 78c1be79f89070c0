"""The beans of a broker beside those of an Apache Kafka that has seen the same, and pk-metrics beside kafka-jmx."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.testing import running_broker
from tests.interop.conftest import JavaTool
from tests.interop.kafka import running_kafka
from tests.interop.side_by_side import pk
from tests.sockets import free_port
from tests.talk import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

JMX_TOOL: Final = "org.apache.kafka.tools.JmxTool"
SETTINGS: Final = {
    "broker.id": 0,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
# What an Apache Kafka on its own has and this broker has not: replicas that follow, transactions, quotas and the like
# are not there, and requests and answers lie in no queue. Patterns of "domain:type[,name]".
MISSING: Final = (
    "kafka:type=kafka.Log4jController",
    "kafka.controller:type=ControllerChannelManager,.*",
    "kafka.controller:type=ControllerStats,UpdateFeaturesRateAndTimeMs",  # features never change with ZooKeeper
    "kafka.controller:type=ControllerEventManager,EventQueueTimeMs",
    "kafka.controller:type=KafkaController,(ControllerState|FencedBrokerCount|ZkMigrationState)",
    "kafka.log:type=LogFlushStats,.*",
    "kafka.network:type=(Acceptor|Processor|RequestChannel|SocketServer),.*",
    "kafka.network:type=RequestMetrics,(ErrorsPerSec|(RequestQueue|ResponseQueue|Throttle)TimeMs|"
    "ResponseSendTimeMs|MessageConversionsTimeMs|RequestBytes|TemporaryMemoryBytes)",
    "kafka.server:type=BrokerTopicMetrics,(BytesRejected|.*MessageConversions|Invalid.*Records|NoKeyCompacted.*)PerSec",
    "kafka.server:type=(ControllerMutation|Fetch|Produce|Request|kafka-metrics-count)",
    "kafka.server:type=FetchSessionCache,(IncrementalFetchSessionEvictionsPerSec|NumIncrementalFetchPartitionsCached)",
    "kafka.server:type=KafkaRequestHandlerPool,.*",
    "kafka.server:type=KafkaServer,(linux-disk-.*|yammer-metrics-count)",
    "kafka.server:type=MetadataLoader,.*",
    "kafka.server:type=(SessionExpireListener|ZooKeeperClientMetrics),.*",
    "kafka.server:type=(alter-partition|forwarding|controller-channel|txn-marker-channel)-metrics",
    "kafka.server:type=AddPartitionsManager-channel-metrics",
    "kafka.server:type=app-info",  # the same without an id
    "kafka.server:type=socket-server-metrics",  # for all processors, and by the client's software
    "kafka.utils:type=Throttler,.*",
)
# What Kafka has from the first time on that it happens.
MISSING_SOMETIMES: Final = ("kafka.server:type=DelayedFetchMetrics,ExpiresPerSec",)


class Sides(NamedTuple):
    """Where both brokers show their beans."""

    tool: JavaTool
    jmx: str
    url: str

    def theirs(self, *args: object, code: int = 0) -> str:
        done = self.tool(JMX_TOOL, "--jmx-url", self.jmx, *args)
        assert done.returncode == code, done
        return done.stdout

    def ours(self, *args: object, code: int = 0) -> str:
        return pk("metrics", "--url", self.url, *args, code=code)


def use(bootstrap: str) -> None:
    """Two records, and a group that reads them."""
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        for value in (b"x", b"y"):
            producer.send("t", value, partition=0).result(30)
    config = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "group.id": "g"}
    with Consumer(config) as consumer:
        seen: list[object] = []

        def has_both() -> bool:
            seen.extend(consumer.poll(100))
            return len(seen) == 2

        consumer.subscribe(["t"])
        wait_for(has_both)
        consumer.commit_sync()


@pytest.fixture(scope="module")
def sides(java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    directory: Path = tmp_path_factory.mktemp("metrics")
    port = free_port()
    flags = [
        f"-Dcom.sun.management.jmxremote.{key}"
        for key in (f"port={port}", "authenticate=false", "ssl=false", "host=127.0.0.1")
    ]
    flags.append("-Djava.rmi.server.hostname=127.0.0.1")
    with (
        running_kafka(directory / "kafka", overrides=SETTINGS, jvm_flags=flags) as kafka,
        running_broker(directory / "pkafka", {**SETTINGS, "pkafka.metrics.port": 0}) as pkafka,
    ):
        for broker in (kafka, pkafka):
            use(broker.bootstrap)
        found = re.search(r"Metrics on (http://\S+)/metrics", pkafka.log_file.read_text())
        assert found is not None
        yield Sides(java_tool, f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi", found[1])


def values_of(text: str) -> dict[tuple[str, str], str]:
    """Values by bean and attribute, of ``--report-format tsv``."""
    rows = (line.split("\t") for line in text.splitlines() if line.startswith("kafka"))
    return {(key.rpartition(":")[0], key.rpartition(":")[2]): value for key, value in rows}


def family(bean: str) -> str:
    """A bean without what tells it from its siblings: ``domain:type=T,name`` and the keys of tags, sorted."""
    domain, _, rest = bean.partition(":")
    tags = dict(re.findall(r'([^,=]+)=("[^"]*"|[^,]*)', rest))
    kind, name = tags.pop("type"), tags.pop("name", None)
    return (
        f"{domain}:type={kind}" + (f",{name}" if name else "") + "".join(f" [{key}]" for key in sorted(tags))
    )


def attributes_by_family(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for bean, attribute in values_of(text):
        found.setdefault(family(bean), set()).add(attribute)
    return found


def test_beans_have_kafkas_names_and_attributes(sides: Sides) -> None:
    theirs = attributes_by_family(sides.theirs("--one-time", "--report-format", "tsv"))
    ours = attributes_by_family(sides.ours("--one-time", "--report-format", "tsv"))
    assert not ours.keys() - theirs.keys()
    lacking = {
        each
        for each in theirs.keys() - ours.keys()
        if not any(re.fullmatch(f"{one}( .*)?", each) for one in MISSING + MISSING_SOMETIMES)
    }
    assert not lacking
    for name in ours.keys() - {"kafka.server:type=socket-server-metrics [listener] [networkProcessor]"}:
        assert ours[name] == theirs[name], name
    # What is missing is missing: a pattern that means nothing any more is to go.
    unused = [
        one
        for one in MISSING
        if not any(re.fullmatch(f"{one}( .*)?", each) for each in theirs.keys() - ours.keys())
    ]
    assert not unused


def test_requests_are_called_as_by_kafka(sides: Sides) -> None:
    words = ("--object-name", "kafka.network:type=RequestMetrics,name=TotalTimeMs,*", "--attributes", "Count")
    theirs, ours = (
        values_of(run("--one-time", "--report-format", "tsv", *words)).keys()
        for run in (sides.theirs, sides.ours)
    )
    assert len(ours) > 25
    assert ours <= theirs


def test_beans_of_the_same_traffic_have_the_same_values(sides: Sides) -> None:
    patterns = (
        *("kafka.log:type=Log,topic=t,*", "kafka.cluster:type=Partition,topic=t,*"),
        *("kafka.server:type=BrokerTopicMetrics,topic=t,*", "kafka.controller:type=KafkaController,*"),
        *("kafka.server:type=ReplicaManager,*", "kafka.coordinator.group:type=GroupMetadataManager,*"),
        "kafka.server:type=KafkaServer,name=BrokerState",
        "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,*",
    )
    words = [word for each in patterns for word in ("--object-name", each)]
    theirs, ours = (
        values_of(run("--one-time", "--report-format", "tsv", *words)) for run in (sides.theirs, sides.ours)
    )
    shared = {key for key in theirs.keys() & ours.keys() if not key[1].endswith("Rate")}
    assert len(shared) > 35
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


@pytest.mark.parametrize(
    "form", ["original", "properties", pytest.param("csv", marks=pytest.mark.nightly), "tsv", "bogus"]
)
def test_the_text_is_kafkas(sides: Sides, form: str) -> None:
    words = ("--one-time", "true", "--report-format", form, "--date-format", "'at' yyyy")
    names = ("--object-name", "kafka.log:type=Log,name=LogEndOffset,topic=t,*")
    meters = ("--object-name", "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t")
    only = ("--attributes", "Value,Count,EventType,RateUnit")
    assert sides.ours(*words, *names, *meters, *only) == sides.theirs(*words, *names, *meters, *only)


def test_what_matches_nothing_is_an_error(sides: Sides) -> None:
    words = ("--one-time", "--object-name", "kafka.log:type=Nope")
    assert sides.ours(*words, code=1) == sides.theirs(*words, code=1)


def test_waiting(sides: Sides) -> None:
    name = "kafka.server:type=ReplicaManager,name=LeaderCount"
    words = ("--one-time", "--wait", "--object-name", name)
    assert sides.ours(*words).splitlines()[0] == sides.theirs(*words).splitlines()[0]
    sides.ours("--wait", "--timeout", "200ms", "--object-name", "kafka.server:type=Nope", code=1)
    sides.ours("--wait", "--object-name", "kafka.server:*", code=2)


def test_kafkas_own_command_line_asks_a_broker_of_either_make(sides: Sides) -> None:
    name = "kafka.log:type=Log,name=LogEndOffset,topic=t,partition=0"
    words = [
        "--object-name",
        name,
        "--one-time",
        "true",
        "--report-format",
        "properties",
        "--attributes",
        "Value",
    ]
    port = sides.url.rpartition(":")[2]
    words += ["--reporting-interval", "100", "--date-format", "yyyy", "--wait"]
    theirs = sides.theirs(*words)
    program = "from pkafka.cli.metrics import jmx_main; jmx_main()"
    for host in ("", "127.0.0.1"):
        url = f"service:jmx:rmi:///jndi/rmi://{host}:{port}/jmxrmi"
        # Kafka's tool takes --jmx-ssl-enable false for true.
        login = ["--jmx-auth-prop", "me=secret", "--jmx-ssl-enable", "false"] if host else []
        command = [sys.executable, "-c", program, "--jmx-url", url, *words, *login]
        ours = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ours.returncode, ours.stdout) == (0, theirs), ours


def test_other_forms(sides: Sides) -> None:
    name = "kafka.log:type=Log,name=LogEndOffset,topic=t,partition=0"
    shown = json.loads(sides.ours("--output", "json", "--object-name", name))
    assert shown == {"beans": [{"name": name, "attributes": {"Value": 2}}]}
    line = json.loads(sides.ours("--output", "jsonl", "--one-time", "--object-name", name))
    assert line["attributes"] == {f"{name}:Value": 2}
    assert 'kafka_log_log_logendoffset{partition="0",topic="t"} 2.0' in sides.ours("--output", "prometheus")


def test_the_metrics_of_a_cluster_are_the_sum_over_its_brokers(sides: Sides) -> None:
    name = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t"
    words = ("--output", "json", "--object-name", name, "--attributes", "Count")
    (bean,) = json.loads(sides.ours("--url", sides.url, *words))["beans"]
    assert bean == {"name": name, "attributes": {"Count": 4}}
    sides.ours("--url", sides.url, "--output", "prometheus", code=2)


def test_nobody_serves_metrics() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert pk("metrics", "--url", url, "--one-time", code=3) == ""
    pk("metrics", "--jmx-url", "service:jmx:rmi:///jndi/rmi://localhost:1/jmxrmi", "--one-time", code=3)
    pk("metrics", "--jmx-url", "service:jmx:iiop:///x", "--one-time", code=2)
