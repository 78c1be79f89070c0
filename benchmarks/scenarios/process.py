"""The broker as a process: its start, its memory, a thousand partitions."""

import threading
import time

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.producing import Load, produce
from benchmarks.systems import Target, free_port, pss_mb

PARTITIONS = 1_000


def _start(target: Target, settings: Settings) -> dict[str, float]:
    """From the start of the process to the first answer, on the data directory of the round before."""
    target.use_port(free_port())
    answered: list[float] = []

    def ask() -> None:
        while time.perf_counter() - begin < wire.TIMEOUT_S:
            if wire.answers(target.address):
                answered.append(time.perf_counter() - begin)
                return
            time.sleep(0.005)

    # What the system itself calls its start is not asked: the first answer counts.
    asking = threading.Thread(target=ask)
    begin = time.perf_counter()
    asking.start()
    target.broker.start()
    asking.join()
    target.broker.stop()
    return {"start": answered[0]}


def _memory(target: Target, settings: Settings) -> dict[str, float]:
    """Of a broker just started, and of the same one after a load."""
    target.broker.restart()
    time.sleep(3)
    idle = target.pss_mb()
    produce(target, Load(1000, 64_000, partitions=12, connections=16), settings.seconds)
    loaded = target.pss_mb()
    zookeeper = pss_mb(target.zookeeper_pid) if target.zookeeper_pid else 0.0
    return {"idle": idle, "after load": loaded, "ZooKeeper, apart": zookeeper}


def _partitions(target: Target, settings: Settings) -> dict[str, float]:
    """Create a topic of a thousand partitions, start again, produce to every one of them."""
    count = settings.scaled(PARTITIONS, 200)
    topic = f"wide-{time.time_ns():x}"
    begin = time.perf_counter()
    wire.create_topic(target.address, topic, count)
    created = time.perf_counter() - begin
    target.broker.stop()
    begin = time.perf_counter()
    target.broker.start()
    wire.wait_for_leaders(target.address, topic, count)
    restarted = time.perf_counter() - begin
    begin = time.perf_counter()
    _produce_to_all(target, topic, count)
    produced = time.perf_counter() - begin
    if wire.end_offsets(target.address, topic, count) != [1] * count:
        raise RuntimeError("not every partition has its record")
    figures = {
        "create": created,
        "start again": restarted,
        "produce to all": produced,
        "memory": target.pss_mb(),
    }
    wire.delete_topic(target.address, topic)
    return figures


def _produce_to_all(target: Target, topic: str, count: int) -> None:
    records, _ = wire.batch(100, 1, bytes(range(256)) * 4)
    size, error_at = wire.produce_answer_layout(topic)
    (connection,) = wire.connect(target.address, 1)
    with connection:
        connection.settimeout(wire.TIMEOUT_S)
        answers = connection.makefile("rb")
        for index in range(count):
            connection.sendall(wire.produce_frame(topic, index, records, index, acks=-1))
        for _ in range(count):
            answer = answers.read(size)
            if len(answer) < size or answer[error_at : error_at + 2] != b"\0\0":
                raise RuntimeError(f"an error was answered: {answer.hex(' ')}")
        answers.close()


SCENARIOS = (
    Scenario(
        name="start",
        about="from the start of the process to the first answer, empty broker (ZooKeeper runs already)",
        figures=(Figure("start", "s", more_is_better=False, bar=0.25),),
        measure=_start,
        started=False,
        warm_up=False,
    ),
    Scenario(
        name="memory",
        about="PSS summed over all processes: 3 s after the start, and after producing 1 KB records to 12 partitions",
        figures=(
            Figure("idle", "MB", more_is_better=False, bar=0.35),
            Figure("after load", "MB", more_is_better=False, bar=0.2),
            Figure("ZooKeeper, apart", "MB", more_is_better=False),
        ),
        measure=_memory,
        warm_up=False,
    ),
    Scenario(
        name="partitions",
        about=f"{PARTITIONS} partitions on one broker: create, start again until all are led, one record to each",
        figures=(
            Figure("create", "s", more_is_better=False),
            Figure("start again", "s", more_is_better=False),
            Figure("produce to all", "s", more_is_better=False),
            Figure("memory", "MB", more_is_better=False),
        ),
        measure=_partitions,
        warm_up=False,
    ),
)
