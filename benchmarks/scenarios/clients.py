"""Loads that people really have: confluent-kafka, Kafka's producer-perf tool, a command line."""

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target
from tests.interop import kafka as oracle

# What kafka-run-class.sh gives the JVM of a tool when no variable says otherwise.
_TOOL_FLAGS: Final = (
    *(
        "-Xmx256M",
        "-server",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
    ),
    *("-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
_PROJECT: Final = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
_STARTS: Final = 15
_NO_OUTPUT: Final = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
_PERF_LINE = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\)")
_CONFLUENT = """\
import sys, time
from confluent_kafka import Producer
bootstrap, topic, size, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5,
                     "queue.buffering.max.kbytes": 512_000, "queue.buffering.max.messages": 1_000_000})
value, count, begin = bytes(size), 0, time.perf_counter()
while time.perf_counter() - begin < seconds:
    for _ in range(1000):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        count += 1
    producer.poll(0)
assert producer.flush(60) == 0
print(count, time.perf_counter() - begin)
"""


def _confluent(target: Target, settings: Settings, record_bytes: int) -> dict[str, float]:
    topic = _topic(target)
    command = [
        sys.executable,
        "-c",
        _CONFLUENT,
        target.broker.bootstrap,
        topic,
        str(record_bytes),
        str(settings.seconds),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=settings.seconds + 120)
    count, seconds = done.stdout.split()
    _check(target, topic, int(count))
    return {"throughput": int(count) * record_bytes / 1e6 / float(seconds)}


def _java_perf(target: Target, settings: Settings, record_bytes: int) -> dict[str, float]:
    topic = _topic(target)
    # The tool counts records, not seconds: as many as take about the time on the systems that were measured.
    count = int(settings.seconds * (80_000 if record_bytes == 1000 else 300_000))
    command = [
        *(oracle.java_program("java"), "-Xmx512m", "-cp", oracle.jars("kafka")),
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(count)),
        *("--record-size", str(record_bytes), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={target.broker.bootstrap}", "acks=all"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = _PERF_LINE.findall(done.stdout)
    _check(target, topic, count)
    return {"throughput": float(found[-1][0]) * record_bytes / 1e6}


def _topic(target: Target) -> str:
    topic = f"client-{time.time_ns():x}"
    wire.create_topic(target.address, topic, 1, {"file.delete.delay.ms": "0"})
    return topic


def _check(target: Target, topic: str, count: int) -> None:
    there = wire.end_offsets(target.address, topic, 1)
    if there != [count]:
        raise RuntimeError(f"{count} records acknowledged, {there} there")
    wire.delete_topic(target.address, topic)


def _tool_start(target: Target, settings: Settings) -> dict[str, float]:
    """``--list`` of a topic tool: pk-topics on pkafka, on Kafka the JVM of kafka-topics.sh without the shell."""
    arguments = ["--bootstrap-server", target.broker.bootstrap, "--list"]
    if target.name == "kafka":
        command = [oracle.java_program("java"), *_TOOL_FLAGS, "-cp", oracle.jars("kafka")]
        command += ["org.apache.kafka.tools.TopicCommand", *arguments]
    else:
        command = [str(Path(sys.executable).with_name("pk-topics")), *arguments]
    return {"list": _median_s(command)}


def _command_start(target: Target, settings: Settings) -> dict[str, float]:
    """What commands say without a cluster, against a Python that does nothing: CPU time, and the slowest of all."""
    nothing = _cpu_s([sys.executable, "-c", "pass"], _STARTS)
    commands = sorted(_PROJECT["scripts"])[: settings.scaled(len(_PROJECT["scripts"]), 3)]
    found = {"python": nothing * 1e3}
    for flag in ("help", "version"):
        programs = [str(Path(sys.executable).with_name(each)) for each in commands]
        took = sorted(_cpu_s([each, f"--{flag}"], _STARTS) for each in programs)
        found |= {f"{flag} / python": median(took) / nothing, f"{flag} / python, slowest": took[-1] / nothing}
    return found


def _cpu_s(command: list[str], times: int) -> float:
    """The CPU time of a command, the least of a few; before them it runs once, as it did on anybody's machine."""
    found = []
    for _ in range(1 + times):
        pid = os.posix_spawn(command[0], command, _environment(), file_actions=_NO_OUTPUT)
        _, status, used = os.wait4(pid, 0)
        if status:
            raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
        found.append(used.ru_utime + used.ru_stime)
    return min(found[1:])


def _environment() -> dict[str, str]:
    # A machine where Python may not keep what it has compiled would compile everything again each time.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _median_s(command: list[str]) -> float:
    """How long a command takes, of five; before them it runs once, as it did on anybody's machine."""
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=60, env=_environment())
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds[1:])[2]


def _client_scenario(
    name: str,
    words: str,
    run: Callable[[Target, Settings, int], dict[str, float]],
    record_bytes: int,
    bar: float | None = None,
) -> Scenario:
    return Scenario(
        name=name,
        about=f"produce {record_bytes} B records with {words}, acks=all, no codec, 1 partition",
        figures=(Figure("throughput", "MB/s", more_is_better=True, bar=bar),),
        measure=lambda target, settings: run(target, settings, record_bytes),
    )


SCENARIOS = (
    _client_scenario("confluent_1k", "confluent-kafka (linger 5 ms)", _confluent, 1000),
    _client_scenario("confluent_100b", "confluent-kafka (linger 5 ms)", _confluent, 100, bar=1.5),
    _client_scenario("java_perf_1k", "Kafka's producer-perf tool", _java_perf, 1000),
    _client_scenario("java_perf_100b", "Kafka's producer-perf tool", _java_perf, 100, bar=1.3),
    Scenario(
        name="tool_start",
        about="pk-topics --list against java ... TopicCommand --list, median of five",
        figures=(Figure("list", "s", more_is_better=False, bar=0.1),),
        measure=_tool_start,
        warm_up=False,
    ),
    Scenario(
        name="command_start",
        about="--help and --version of every command against python -c pass, CPU time, the least of fifteen each",
        figures=(
            Figure("python", "ms", more_is_better=False),
            *(
                figure
                for flag in ("help", "version")
                for figure in (
                    Figure(f"{flag} / python", "x", more_is_better=False, floor=4),
                    Figure(f"{flag} / python, slowest", "x", more_is_better=False, floor=4),
                )
            ),
        ),
        measure=_command_start,
        warm_up=False,
    ),
)
