"""Metrics of a client: totals, rates, averages, maxima and gauges under Kafka's names.

What is measured goes into a :class:`Sensor`, at most once a batch or request, never once a record; what is read is
computed when it is read. Windowed figures look at the last ``metrics.num.samples`` windows of
``metrics.sample.window.ms``, as Kafka's do. One thread records into a sensor; any thread reads.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

import pkafka
from pkafka.clients.config import ClientConfig
from pkafka.clients.plugins import close_quietly, load_all
from pkafka.clock import Clock

# Kafka's default reporter registers with the JVM; here the application reads the figures or names a reporter.
_IGNORED_REPORTERS: Final = frozenset({"JmxReporter", "org.apache.kafka.common.metrics.JmxReporter"})
_NO_COMMIT: Final = "unknown"


class MetricName(NamedTuple):
    """What a metric is called; two with the same name differ in group or tags."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...] = ()

    def tag(self, key: str) -> str | None:
        """The value of a tag, such as ``client-id``."""
        return dict(self.tags).get(key)


class Metric:
    """A metric and what it says now."""

    __slots__ = ("_read", "description", "name")

    def __init__(self, name: MetricName, description: str, read: Callable[[], float | str]) -> None:
        self.name = name
        self.description = description
        self._read = read

    @property
    def value(self) -> Any:  # noqa: ANN401 - as in Kafka: a number, but for what app-info says of versions
        """What it says now; nan where nothing was measured that could say it. Text for a version."""
        return self._read()


class Stat(Enum):
    """What of the recorded values a metric says."""

    TOTAL = "total"
    """Their sum since the client began."""
    COUNT = "count"
    """How many there were since the client began."""
    RATE = "rate"
    """Their sum per second, in the window."""
    SHARE_OF_TIME = "share-of-time"
    """Their sum, of nanoseconds, as a part of the time of the window."""
    OCCURRENCE_RATE = "occurrence-rate"
    """How many there were per second, in the window."""
    AVG = "avg"
    MAX = "max"
    MIN = "min"
    LAST = "last"


class Reporter(Protocol):
    """What ``metric.reporters`` names: is told of every metric, and reads them when it likes."""

    def init(self, metrics: list[Metric]) -> None:
        """The metrics that there are."""

    def metric_change(self, metric: Metric) -> None:
        """One more."""

    def metric_removal(self, metric: Metric) -> None:
        """One less."""

    def close(self) -> None:
        """The client is closed."""


class Sensor:
    """Takes values in; see :meth:`Metrics.sensor`."""

    __slots__ = ("_clock", "_sample", "_samples", "_samples_max", "_window_ms", "count", "last", "total")

    def __init__(self, clock: Clock, samples_max: int, window_ms: int) -> None:
        self._clock = clock
        self._samples_max = samples_max
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._sample = _Sample(clock.monotonic_ms() - window_ms)  # over before it began
        self.count = 0
        self.total = 0.0
        self.last = float("nan")

    def record(self, value: float = 1.0) -> None:
        """Take a value in."""
        now_ms = self._clock.monotonic_ms()
        sample = self._sample
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._sample = _Sample(now_ms)
            self._samples = [*self._samples, sample][-self._samples_max :]
        sample.count += 1
        sample.total += value
        if value > sample.highest:
            sample.highest = value
        if value < sample.lowest:
            sample.lowest = value
        self.count += 1
        self.total += value
        self.last = value

    def read(self, stat: Stat) -> float:
        """What the values so far amount to."""
        if stat is Stat.TOTAL:
            return self.total
        if stat is Stat.COUNT:
            return self.count
        if stat is Stat.LAST:
            return self.last
        now_ms = self._clock.monotonic_ms()
        samples = [
            each for each in self._samples if now_ms - each.start_ms < self._window_ms * self._samples_max
        ]
        count = sum(each.count for each in samples)
        if stat in (Stat.RATE, Stat.OCCURRENCE_RATE, Stat.SHARE_OF_TIME):
            if not count:
                return 0.0
            elapsed_ms = now_ms - samples[0].start_ms
            # As Kafka's Rate: missing windows are added, or the first value would make a huge rate.
            missing = self._samples_max - 1 - elapsed_ms // self._window_ms
            elapsed_ms = max(1, elapsed_ms + max(0, missing) * self._window_ms)
            amount = count if stat is Stat.OCCURRENCE_RATE else sum(each.total for each in samples)
            return amount / elapsed_ms * (1e-6 if stat is Stat.SHARE_OF_TIME else 1000)
        if not count:
            return float("nan")
        if stat is Stat.AVG:
            return sum(each.total for each in samples) / count
        if stat is Stat.MAX:
            return max(each.highest for each in samples)
        return min(each.lowest for each in samples)


class _Sample:
    __slots__ = ("count", "highest", "lowest", "start_ms", "total")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.count = 0
        self.total = 0.0
        self.highest = float("-inf")
        self.lowest = float("inf")


class Metrics:
    """The metrics of one client.

    Args:
        clock: its monotonic side makes the windows.
        tags: what every metric of the client is tagged with, such as ``client-id``.
        samples_max, window_ms: ``metrics.num.samples`` and ``metrics.sample.window.ms``.
        reporters: told of every metric.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        tags: Mapping[str, str] | None = None,
        samples_max: int = 2,
        window_ms: int = 30_000,
        reporters: Iterable[Reporter] = (),
    ) -> None:
        self._clock = clock
        self._tags = dict(tags or {})
        self._samples_max = samples_max
        self._window_ms = window_ms
        self._reporters = list(reporters)
        self._metrics: dict[MetricName, Metric] = {}
        self._sensors: dict[tuple[str, tuple[tuple[str, str], ...]], Sensor] = {}
        self._lock = threading.Lock()
        for reporter in self._reporters:
            reporter.init([])
        self._add_own()

    def sensor(
        self,
        key: str,
        group: str,
        stats: Mapping[str, tuple[Stat, str]],
        *,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """A sensor and the metrics that are read from it; the same one for the same key and tags.

        Args:
            key: what tells it from the client's other sensors.
            group: of its metrics, such as ``producer-metrics``.
            stats: name of a metric to what it says of the values, and a description.
            tags: beside those of the client.
        """
        own = tuple(sorted((tags or {}).items()))
        found = self._sensors.get((key, own))
        if found is not None:
            return found
        with self._lock:
            found = self._sensors.get((key, own))
            if found is None:
                found = Sensor(self._clock, self._samples_max, self._window_ms)
                for name, (stat, description) in stats.items():
                    self._add(self._name(name, group, tags), description, _reading(found, stat))
                self._sensors[key, own] = found
            return found

    def gauge(
        self,
        name: str,
        group: str,
        read: Callable[[], float | str],
        description: str = "",
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """A metric whose value is asked for when it is read; takes the place of one of the same name and tags."""
        with self._lock:
            self._add(self._name(name, group, tags), description, read)

    def remove(self, *, tags: Mapping[str, str]) -> None:
        """Forget the metrics that have these tags, as of a partition that is not consumed any more."""
        wanted = set(tags.items())
        with self._lock:
            for name in [each for each in self._metrics if wanted <= set(each.tags)]:
                metric = self._metrics.pop(name)
                for reporter in self._reporters:
                    reporter.metric_removal(metric)
            for key in [each for each in self._sensors if wanted <= set(each[1])]:
                del self._sensors[key]

    def metrics(self) -> dict[MetricName, Metric]:
        """Every metric by its name."""
        with self._lock:
            return dict(self._metrics)

    def snapshot(self) -> dict[MetricName, Any]:
        """What every metric says now."""
        return {name: metric.value for name, metric in self.metrics().items()}

    def value(self, name: str, group: str | None = None, **tags: str) -> float:
        """What the first metric of this name, group and tags says (``_`` stands for ``-`` in a tag's key).

        Raises:
            KeyError: there is none.
            ValueError: it says no number.
        """
        wanted = {(key.replace("_", "-"), text) for key, text in tags.items()}
        for each, metric in self.metrics().items():
            if each.name == name and group in (None, each.group) and wanted <= set(each.tags):
                return float(metric.value)
        raise KeyError(name)

    def close(self) -> None:
        """Close the reporters."""
        for reporter in self._reporters:
            close_quietly(reporter)
        self._reporters.clear()

    def _name(self, name: str, group: str, tags: Mapping[str, str] | None) -> MetricName:
        return MetricName(name, group, tuple({**self._tags, **(tags or {})}.items()))

    def _add_own(self) -> None:
        """What every client has: how many metrics there are, and which program this is."""
        start_ms = self._clock.now_ms()
        self.gauge("count", "kafka-metrics-count", lambda: len(self._metrics), "How many metrics there are")
        self.gauge("version", "app-info", lambda: pkafka.__version__, "The version of pkafka")
        self.gauge(
            "commit-id", "app-info", lambda: _NO_COMMIT, "Not known, as in a Kafka built outside of git"
        )
        self.gauge("start-time-ms", "app-info", lambda: start_ms, "When the client was made")

    def _add(self, name: MetricName, description: str, read: Callable[[], float | str]) -> None:
        metric = self._metrics[name] = Metric(name, description, read)
        for reporter in self._reporters:
            reporter.metric_change(metric)


def _reading(sensor: Sensor, stat: Stat) -> Callable[[], float]:
    return lambda: sensor.read(stat)


def metrics_of(config: ClientConfig, clock: Clock, originals: Mapping[str, object] | None = None) -> Metrics:
    """The metrics of a client, tagged with its ``client.id`` and told to its ``metric.reporters``.

    Args:
        originals: handed to reporters that want to be configured; those of ``config`` when left out.

    Raises:
        ConfigError: a reporter is not one.
    """
    named = config.metric_reporters
    if isinstance(named, str):
        named = named.split(",")
    if isinstance(named, (list, tuple)):
        texts = (each.strip() if isinstance(each, str) else each for each in named)
        named = [each for each in texts if each != "" and each not in _IGNORED_REPORTERS]
    methods = ("init", "metric_change", "metric_removal")
    return Metrics(
        clock,
        tags={"client-id": config.client_id},
        samples_max=config.metrics_num_samples,
        window_ms=config.metrics_sample_window_ms,
        reporters=load_all("metric.reporters", named, originals or config.originals, methods=methods),
    )
