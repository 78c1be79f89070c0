"""What the page of metrics says of groups, beside the beans of an Apache Kafka that has seen the same."""

import re
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from pkafka.clients.consumer import Consumer
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.testing import running_broker
from tests.interop.conftest import JavaTool
from tests.interop.kafka import running_kafka
from tests.sockets import free_port
from tests.talk import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS: Final = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
BEANS: Final = (
    "kafka.server:type=group-coordinator-metrics",
    "kafka.coordinator.group:type=GroupMetadataManager,*",
)


def use_groups(bootstrap: str) -> None:
    """One group that a member has left, and one that only has offsets."""
    config = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        producer.send("t", b"x").result(30)
    with Consumer({**config, "group.id": "members"}) as consumer:
        consumer.subscribe(["t"])
        wait_for(lambda: len(consumer.poll(100)) == 1)
        consumer.commit_sync()
    with Consumer({**config, "group.id": "simple"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.commit_sync({TopicPartition("t", 0): 1})


def as_on_the_page(bean: str) -> str:
    """``domain:type=T,name=N:attribute`` as exporters write it; counts as counters."""
    domain, properties, attribute = bean.split(":")
    words = [domain, *(each.partition("=")[2] for each in properties.split(","))]
    if attribute != "Value":
        words.append(re.sub("-count$", "_total", attribute))
    return re.sub("[.-]", "_", "_".join(words)).lower()


def groups_of_kafka(java_tool: JavaTool, directory: Path) -> Mapping[str, float]:
    port = free_port()
    flags = [
        f"-Dcom.sun.management.jmxremote.{key}"
        for key in (f"port={port}", "authenticate=false", "ssl=false", "host=127.0.0.1")
    ]
    with running_kafka(
        directory, overrides=SETTINGS, jvm_flags=[*flags, "-Djava.rmi.server.hostname=127.0.0.1"]
    ) as broker:
        use_groups(broker.bootstrap)
        done = java_tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"),
            *("--one-time", "--report-format", "properties"),
            *(word for bean in BEANS for word in ("--object-name", bean)),
        )
    assert done.returncode == 0, done
    rows = (line.rpartition("=") for line in done.stdout.splitlines() if line.startswith("kafka."))
    # Rates are left to whoever scrapes the counters.
    return {as_on_the_page(bean): float(value) for bean, _, value in rows if not bean.endswith("-rate")}


def groups_of_pkafka(directory: Path) -> Mapping[str, float]:
    with running_broker(directory, {**SETTINGS, "pkafka.metrics.port": 0}) as broker:
        use_groups(broker.bootstrap)
        found = re.search(r"Metrics on (http://\S+)", broker.log_file.read_text())
        assert found is not None
        with urllib.request.urlopen(found[1], timeout=60) as answer:
            page = answer.read().decode()
    rows = re.findall(
        r"^(kafka_(?:server_group_coordinator|coordinator_group)_\S+) (\S+)$", page, re.MULTILINE
    )
    return {name: float(value) for name, value in rows if not name.endswith("_created")}


def test_groups_are_measured_as_by_kafka(java_tool: JavaTool, tmp_path: Path) -> None:
    theirs, ours = groups_of_kafka(java_tool, tmp_path / "kafka"), groups_of_pkafka(tmp_path / "pkafka")
    times = {name for name in theirs if "load_time" in name}
    assert len(times) == 2
    assert ours.keys() == theirs.keys()
    assert all(ours[name] > 0 for name in times)
    assert {name: ours[name] for name in ours if name not in times} == {
        name: theirs[name] for name in theirs if name not in times
    }
