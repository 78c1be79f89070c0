"""Three brokers on one machine: what replication costs, and for how long nobody can write when a broker goes."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from benchmarks.clusters import SIZE, Cluster, running_cluster
from benchmarks.model import WARM_UP_S, Figure, Scenario, Settings
from benchmarks.pacing import produce_at, replicate_at
from benchmarks.producing import Load, produce
from benchmarks.scenarios.latency import PARTS
from benchmarks.scenarios.produce import BATCH_BYTES
from benchmarks.systems import Target
from pkafka.clients.producer import Producer
from tests.talk import wait_for

_PARTITIONS = 6
_PRODUCERS = 4
"""What is in flight of one would be too little to keep three brokers busy: each record waits for two followers."""
_MANY = 1000
_MOST = 10_000
_IN_SYNC_S = 900.0
_POLL_S = 0.05
_PACED = Load(record_bytes=1000, batch_bytes=16_000, replicas=SIZE)
_HIGHEST = "highest rate with replicas"
_TOPIC = "load"


def _throughput(target: Target, settings: Settings, load: Load) -> dict[str, float]:
    outcome = produce(_beside(target), load, settings.seconds)
    return {
        "throughput": outcome.mb_per_s,
        "brokers' CPU": outcome.server_cpu_s_per_gb,
        "generator": outcome.generator_share,
    }


def _warm_up(target: Target, settings: Settings, load: Load) -> None:
    """Three JVMs that share the cores of one take three times as long until they have compiled what they need."""
    usual_s = WARM_UP_S if target.name == "kafka" else WARM_UP_S / SIZE
    produce(_beside(target), load, settings.seconds if settings.quick else SIZE * usual_s)


def _learn_rate(target: Target, settings: Settings) -> None:
    """The highest rate of Kafka's brokers, for latencies at parts of it."""
    _warm_up(target, settings, _PACED)
    if target.name == "kafka":
        rate = produce(_beside(target), _PACED, settings.scaled(20, 5)).requests_per_s
        settings.kafka[_HIGHEST] = rate


def _latency(target: Target, settings: Settings) -> dict[str, float]:
    figures = {}
    for part in PARTS:
        rate = settings.kafka[_HIGHEST] * part / 100
        latencies = produce_at(_beside(target), _PACED, settings.seconds, requests_per_s=rate)
        figures[f"p50 at {part} %"] = latencies.p50_ms
        figures[f"p99 at {part} %"] = latencies.p99_ms
        least = replicate_at(target.broker.log_dir.parent, _PACED, settings.seconds, requests_per_s=rate)
        figures[f"machine's p50 at {part} %"] = least.p50_ms
        figures[f"machine's p99 at {part} %"] = least.p99_ms
    return figures


def _beside(target: Target) -> Cluster:
    assert isinstance(target.beside, Cluster)
    return target.beside


class _Writer:
    """Writes one record after the other, acknowledged by all in sync, and keeps when each was."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._ended = threading.Event()
        self._bootstrap = bootstrap
        self._topic = topic
        self.times: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Writer":
        self._thread.start()
        wait_for(lambda: len(self.times) > 50)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def goes_on(self) -> None:
        """Well after whatever has just happened."""
        before = len(self.times)
        wait_for(lambda: len(self.times) > before + 50, timeout_s=60)

    def longest_gap_s(self) -> float:
        """Between two acknowledgements."""
        return max(later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False))

    def _run(self) -> None:
        with Producer({"bootstrap.servers": self._bootstrap}) as producer:
            while not self._ended.is_set():
                producer.send(self._topic, b"x" * 100, partition=0).result(120)
                self.times.append(time.perf_counter())


def _gap(target: Target, _settings: Settings, harm: Callable[[Cluster, int], None]) -> dict[str, float]:
    with _cluster(target) as cluster:
        cluster.create_topic(_TOPIC, 1)
        wait_for(lambda: cluster.in_sync(_TOPIC))
        with _Writer(cluster.bootstrap, _TOPIC) as writer:
            harm(cluster, cluster.leader(_TOPIC))
            writer.goes_on()
        return {"longest gap": writer.longest_gap_s()}


def _restart(cluster: Cluster, number: int) -> None:
    cluster.brokers[number].stop()
    cluster.brokers[number].start()
    wait_for(lambda: cluster.in_sync(_TOPIC), timeout_s=60)


def _fail_over(target: Target, settings: Settings) -> dict[str, float]:
    return _measure_fail_over(target, settings.scaled(_MANY, 100))


def _fail_over_of_most(target: Target, settings: Settings) -> dict[str, float]:
    return _measure_fail_over(target, settings.scaled(_MOST, 200))


def _measure_fail_over(target: Target, partitions: int) -> dict[str, float]:
    with _cluster(target) as cluster:
        began = time.perf_counter()
        cluster.create_topic(_TOPIC, partitions)
        figures = {"made": time.perf_counter() - began}
        for role in ("broker", "controller"):
            wait_for(lambda: cluster.in_sync(_TOPIC), timeout_s=_IN_SYNC_S)
            victim = cluster.controller()
            if role == "broker":
                victim = (victim + 1) % SIZE
            began = time.perf_counter()
            cluster.kill(victim)
            while not cluster.is_led_everywhere(_TOPIC, partitions, without=victim):
                time.sleep(_POLL_S)
            figures[f"led after a {role}'s death"] = time.perf_counter() - began
            cluster.brokers[victim].kill()  # waits for its end
            began = time.perf_counter()
            cluster.brokers[victim].start()
            wait_for(lambda: cluster.in_sync(_TOPIC), timeout_s=_IN_SYNC_S)
            figures[f"whole after a {role}'s start"] = time.perf_counter() - began
        return figures


def _cluster(target: Target, *, shares_cores: bool = False) -> AbstractContextManager[Cluster]:
    directory = target.broker.log_dir.parent / f"cluster-{time.monotonic_ns():x}"
    return running_cluster(target.name, directory, shares_cores=shares_cores)


def _sharing(target: Target) -> AbstractContextManager[Cluster]:
    return _cluster(target, shares_cores=True)


def _produce(record_bytes: int) -> Scenario:
    size = "1k" if record_bytes == 1000 else f"{record_bytes}b"
    load = Load(record_bytes, BATCH_BYTES, _PARTITIONS, _PRODUCERS, replicas=SIZE)
    return Scenario(
        name=f"cluster_produce_{size}",
        about=(
            f"three brokers, RF 3, acks=all: produce {record_bytes} B records, {BATCH_BYTES // 1000} kB batches, "
            f"no codec, {_PARTITIONS} partitions, {_PRODUCERS} connections to each broker, 5 requests in flight on each"
        ),
        figures=(
            Figure("throughput", "MB/s", more_is_better=True, bar=2.5),
            Figure("brokers' CPU", "s/GB", more_is_better=False),
            Figure("generator", "cores", more_is_better=False),
        ),
        measure=lambda target, settings: _throughput(target, settings, load),
        started=False,
        warm_up=False,
        prepare=lambda target, settings: _warm_up(target, settings, load),
        beside=_sharing,
    )


SCENARIOS = (
    _produce(100),
    _produce(1000),
    Scenario(
        name="cluster_latency",
        about=(
            "three brokers, RF 3, acks=all: 16 kB Produce requests (1 KB records, 1 partition, 1 connection), time from"
            " when due until answered, at parts of the highest rate that Kafka reaches with them; the machine's are"
            " those of three processes that only write and pass on the same frames (benchmarks/least_replication.py)"
        ),
        figures=tuple(
            Figure(f"{name} at {part} %", "ms", more_is_better=False, bar=bar)
            for part in PARTS
            for name, bar in (("p50", 1.1), ("p99", 0.5), ("machine's p50", None), ("machine's p99", None))
        ),
        measure=_latency,
        started=False,
        warm_up=False,
        prepare=_learn_rate,
        beside=_sharing,
    ),
    Scenario(
        name="cluster_kill",
        about="three brokers, RF 3, acks=all, default settings: kill -9 of all processes of a partition's leader",
        figures=(Figure("longest gap", "s", more_is_better=False, bar=0.1),),
        measure=lambda target, settings: _gap(target, settings, Cluster.kill),
        started=False,
        warm_up=False,
    ),
    Scenario(
        name="cluster_restart",
        about="three brokers, RF 3, acks=all, default settings: stop and start of a partition's leader",
        figures=(Figure("longest gap", "s", more_is_better=False, bar=1.0),),
        measure=lambda target, settings: _gap(target, settings, _restart),
        started=False,
        warm_up=False,
    ),
    Scenario(
        name="cluster_fail_over",
        about=(
            f"three brokers, RF 3, {_MANY} partitions, default settings: how long until all have leaders again after"
            " kill -9 of all processes of a broker, which leads a third of them, and of the controller, which does too"
        ),
        figures=(
            Figure("made", "s", more_is_better=False),
            Figure("led after a broker's death", "s", more_is_better=False, floor=3.0),
            Figure("whole after a broker's start", "s", more_is_better=False),
            Figure("led after a controller's death", "s", more_is_better=False, floor=3.0),
            Figure("whole after a controller's start", "s", more_is_better=False),
        ),
        measure=_fail_over,
        started=False,
        warm_up=False,
    ),
    Scenario(
        name="cluster_fail_over_10k",
        about=(
            f"three brokers, RF 3, {_MOST:,} partitions, default settings: how long until all have leaders again after"
            " kill -9 of all processes of a broker, which leads a third of them, and of the controller, which does too"
        ),
        figures=(
            Figure("made", "s", more_is_better=False),
            Figure("led after a broker's death", "s", more_is_better=False),
            Figure("whole after a broker's start", "s", more_is_better=False),
            Figure("led after a controller's death", "s", more_is_better=False),
            Figure("whole after a controller's start", "s", more_is_better=False),
        ),
        measure=_fail_over_of_most,
        started=False,
        warm_up=False,
    ),
)
