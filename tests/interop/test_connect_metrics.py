"""What a worker of a Connect cluster counts, beside the beans of Java's: the same names, and here and there values."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.connect_workers import (
    ConnectWorker,
    cluster_settings,
    java_command,
    our_distributed_command,
)
from tests.interop.conftest import JavaTool, System
from tests.sockets import free_port
from tests.talk import wait_for

BEANS: Final = (
    "kafka.connect:type=connect-worker-rebalance-metrics",
    "kafka.connect:type=connect-worker-metrics,connector=counting",
)
TEXTS: Final = ("connect-protocol", "leader-name")
"""Attributes whose value is a text: a label on the page."""
CONFIGS: Final = {
    "name": "counting",
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "topic": "counted",
    "file": "/there/is/none",
}


def run_connector(worker: ConnectWorker) -> None:
    """Have the connector made, which is refused while the group comes together, and wait until it runs."""

    def is_made() -> bool:
        return worker.rest.call("PUT", "/connectors/counting/config", CONFIGS).status == 201

    wait_for(is_made, timeout_s=180)
    wait_for(lambda: worker.rest.state("counting") == ("RUNNING", ("RUNNING",)), timeout_s=180)


def of_java(java_tool: JavaTool, bootstrap: str, group: str, directory: Path) -> Mapping[str, str]:
    """Attributes by the names that they have on the page."""
    port = free_port()
    program, *rest = java_command(directory, "Distributed")
    flags = [
        f"-Dcom.sun.management.jmxremote.{key}"
        for key in (f"port={port}", "authenticate=false", "ssl=false", "host=127.0.0.1")
    ]
    command = [program, *flags, "-Djava.rmi.server.hostname=127.0.0.1", *rest]
    worker = ConnectWorker(command, directory / "java", bootstrap, cluster_settings(group))
    try:
        worker.start()
        run_connector(worker)
        done = java_tool(
            "org.apache.kafka.tools.JmxTool",
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"),
            *("--one-time", "--report-format", "properties"),
            *(word for bean in BEANS for word in ("--object-name", bean)),
        )
    finally:
        worker.close()
    assert done.returncode == 0, done
    rows = re.findall(r"^kafka\.connect:type=([\w-]+)[^:]*:([\w-]+)=(.*)$", done.stdout, re.MULTILINE)
    return {f"{type}-{name}".replace("-", "_"): value for type, name, value in rows}


def of_pkafka(bootstrap: str, group: str, directory: Path) -> Mapping[str, str]:
    worker = ConnectWorker(
        our_distributed_command(), directory / "pkafka", bootstrap, cluster_settings(group)
    )
    try:
        worker.start()
        run_connector(worker)
        page = worker.rest.call("GET", "/metrics").body
    finally:
        worker.close()
    rows = re.findall(
        r"^kafka_connect_(connect_worker_(?:rebalance_)?metrics_\w+)(?:\{(.*)\})? (\S+)$", page, re.MULTILINE
    )
    found = {}
    for name, labels, value in rows:
        is_text = name.endswith(tuple(each.replace("-", "_") for each in TEXTS))
        if "rebalance" in name or 'connector="counting"' in labels:
            found[name] = labels.partition('"')[2].rstrip('"') if is_text else value
    return found


@pytest.mark.nightly
@pytest.mark.oracle
@pytest.mark.timeout(600)
def test_a_worker_counts_what_java_counts(
    pkafka: System | None, java_tool: JavaTool, topic: str, tmp_path: Path
) -> None:
    assert pkafka is not None
    java = of_java(java_tool, pkafka.bootstrap, f"{topic}-java", tmp_path)
    ours = of_pkafka(pkafka.bootstrap, f"{topic}-ours", tmp_path)
    startups = {
        each for each in java if "startup" in each
    }  # percentages and totals of starts are not on the page
    assert java.keys() - startups == ours.keys()
    same = [
        *(each for each in java if each.endswith("_task_count")),
        "connect_worker_rebalance_metrics_connect_protocol",
        "connect_worker_rebalance_metrics_rebalancing",
    ]
    assert {each: float_or_text(ours[each]) for each in same} == {
        each: float_or_text(java[each]) for each in same
    }


def float_or_text(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
