"""What a consumer counts, under Kafka's names: once a request, poll or rebalance, never once a record."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pkafka.clients.config import ConsumerConfig
from pkafka.clients.metrics import Metrics, Sensor, Stat, metrics_of
from pkafka.clock import Clock
from pkafka.model import TopicPartition

COORDINATOR: Final = "consumer-coordinator-metrics"
FETCH: Final = "consumer-fetch-manager-metrics"
CONSUMER: Final = "consumer-metrics"


class _Traffic:
    """What is fetched in all, or of one topic."""

    __slots__ = ("bytes", "per_request", "records")

    def __init__(self, metrics: Metrics, topic: str | None) -> None:
        tags = {} if topic is None else {"topic": _tagged(topic)}
        of = "" if topic is None else " for a topic"
        self.bytes = metrics.sensor(
            "bytes",
            FETCH,
            {
                "fetch-size-avg": (Stat.AVG, f"The average number of bytes fetched per request{of}"),
                "fetch-size-max": (Stat.MAX, f"The maximum number of bytes fetched per request{of}"),
                "bytes-consumed-rate": (Stat.RATE, f"The average number of bytes consumed per second{of}"),
                "bytes-consumed-total": (Stat.TOTAL, f"The total number of bytes consumed{of}"),
            },
            tags=tags,
        )
        self.records = metrics.sensor(
            "records",
            FETCH,
            {
                "records-consumed-rate": (
                    Stat.RATE,
                    f"The average number of records consumed per second{of}",
                ),
                "records-consumed-total": (Stat.TOTAL, f"The total number of records consumed{of}"),
            },
            tags=tags,
        )
        self.per_request = metrics.sensor(
            "records-per-request",
            FETCH,
            {"records-per-request-avg": (Stat.AVG, f"The average number of records in each request{of}")},
            tags=tags,
        )


class _Distances:
    """The lag and lead of one partition."""

    __slots__ = ("lag", "lead")

    def __init__(self, metrics: Metrics, tags: Mapping[str, str]) -> None:
        self.lag = metrics.sensor(
            "partition-lag",
            FETCH,
            {
                "records-lag-avg": (Stat.AVG, "The average lag of the partition"),
                "records-lag-max": (Stat.MAX, "The max lag of the partition"),
            },
            tags=tags,
        )
        self.lead = metrics.sensor(
            "partition-lead",
            FETCH,
            {
                "records-lead-avg": (Stat.AVG, "The average lead of the partition"),
                "records-lead-min": (Stat.MIN, "The min lead of the partition"),
            },
            tags=tags,
        )


class ConsumerMetrics:
    """The sensors of one consumer.

    Args:
        metrics: where they are registered.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self.registry = metrics
        self._clock = clock
        self._heartbeats = metrics.sensor(
            "heartbeat",
            COORDINATOR,
            {
                "heartbeat-response-time-max": (Stat.MAX, "The max time taken to receive a response, in ms"),
                **_counts("heartbeat", "heartbeats"),
            },
        )
        self._joins = metrics.sensor(
            "join", COORDINATOR, {**_times("join-time", "a group join"), **_counts("join", "group joins")}
        )
        self._syncs = metrics.sensor(
            "sync", COORDINATOR, {**_times("sync-time", "a group sync"), **_counts("sync", "group syncs")}
        )
        self._rebalances = metrics.sensor(
            "rebalance",
            COORDINATOR,
            {
                **_times("rebalance-latency", "a rebalance"),
                "rebalance-latency-total": (Stat.TOTAL, "The milliseconds spent in rebalances"),
                "rebalance-total": (Stat.COUNT, "The rebalances that succeeded"),
            },
        )
        self._failed_rebalances = metrics.sensor(
            "failed-rebalance",
            COORDINATOR,
            {"failed-rebalance-total": (Stat.COUNT, "The rebalances that failed")},
        )
        for name, sensor in (("rebalance", self._rebalances), ("failed-rebalance", self._failed_rebalances)):
            metrics.gauge(
                f"{name}-rate-per-hour",
                COORDINATOR,
                _per_hour(sensor),
                "How many there are an hour",
            )
        self._callbacks = {
            kind: metrics.sensor(
                f"partition-{kind}",
                COORDINATOR,
                _times(f"partition-{kind}-latency", f"the callback for partitions {kind}"),
            )
            for kind in ("revoked", "assigned", "lost")
        }
        self._commits = metrics.sensor(
            "commit",
            COORDINATOR,
            {**_times("commit-latency", "a commit"), **_counts("commit", "commits")},
        )
        self._fetches = metrics.sensor(
            "fetch",
            FETCH,
            {**_times("fetch-latency", "a fetch request"), **_counts("fetch", "fetch requests")},
        )
        self._all = _Traffic(metrics, None)
        self._topics: dict[str, _Traffic] = {}
        self._lag = metrics.sensor(
            "lag", FETCH, {"records-lag-max": (Stat.MAX, "The maximum lag of any partition in the window")}
        )
        self._lead = metrics.sensor(
            "lead", FETCH, {"records-lead-min": (Stat.MIN, "The minimum lead of any partition in the window")}
        )
        self._distances: dict[TopicPartition, _Distances] = {}
        self.preferred_replica: Callable[[TopicPartition], int] = lambda _: -1
        """The node that a partition is fetched from instead of its leader; -1 for none. Set by the fetcher."""
        self._polls = metrics.sensor(
            "poll",
            CONSUMER,
            {
                "time-between-poll-avg": (Stat.AVG, "The average delay between invocations of poll, in ms"),
                "time-between-poll-max": (Stat.MAX, "The max delay between invocations of poll, in ms"),
            },
        )
        self._idle = metrics.sensor(
            "idle",
            CONSUMER,
            {"poll-idle-ratio-avg": (Stat.AVG, "The average fraction of time spent inside poll")},
        )
        self._sync_commit_ns = metrics.sensor(
            "commit-sync",
            CONSUMER,
            {"commit-sync-time-ns-total": (Stat.TOTAL, "The nanoseconds spent in commit_sync")},
        )
        self._committed_ns = metrics.sensor(
            "committed",
            CONSUMER,
            {"committed-time-ns-total": (Stat.TOTAL, "The nanoseconds spent in committed")},
        )
        self._last_poll_ms: int | None = None
        self._last_poll_end_ms: int | None = None
        self._last_heartbeat_ms: int | None = None
        self._last_rebalance_ms: int | None = None
        for name, group, last_ms, what in (
            ("poll", CONSUMER, lambda: self._last_poll_ms, "last call of poll"),
            ("heartbeat", COORDINATOR, lambda: self._last_heartbeat_ms, "last answer to a heartbeat"),
            ("rebalance", COORDINATOR, lambda: self._last_rebalance_ms, "end of the last rebalance"),
        ):
            text = f"The number of seconds since the {what}"
            metrics.gauge(f"last-{name}-seconds-ago", group, self._seconds_since(last_ms), text)

    def watch_assignment(self, count: Callable[[], int]) -> None:
        """Show how many partitions are assigned."""
        self.registry.gauge("assigned-partitions", COORDINATOR, count, "The number of partitions assigned")

    def heartbeat(self, latency_ms: int) -> None:
        """A heartbeat was answered."""
        self._last_heartbeat_ms = self._clock.monotonic_ms()
        self._heartbeats.record(latency_ms)

    def joined(self, latency_ms: int) -> None:
        """JoinGroup was answered."""
        self._joins.record(latency_ms)

    def synced(self, latency_ms: int) -> None:
        """SyncGroup was answered."""
        self._syncs.record(latency_ms)

    def rebalanced(self, latency_ms: int) -> None:
        """A rebalance brought an assignment."""
        self._last_rebalance_ms = self._clock.monotonic_ms()
        self._rebalances.record(latency_ms)

    def rebalance_failed(self) -> None:
        """A rebalance ended without one."""
        self._failed_rebalances.record()

    def called_back(self, kind: str, latency_ms: int) -> None:
        """The user's listener returned; ``kind`` is revoked, assigned or lost."""
        self._callbacks[kind].record(latency_ms)

    def committed(self, latency_ms: int) -> None:
        """OffsetCommit was answered."""
        self._commits.record(latency_ms)

    @contextmanager
    def commit_sync_call(self) -> Iterator[None]:
        """Count the time of a ``commit_sync``, also of one that fails."""
        begun_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self._sync_commit_ns.record(time.perf_counter_ns() - begun_ns)

    @contextmanager
    def committed_call(self) -> Iterator[None]:
        """Count the time of a ``committed``, also of one that fails."""
        begun_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self._committed_ns.record(time.perf_counter_ns() - begun_ns)

    def fetched(self, latency_ms: int, sizes: Mapping[str, int]) -> None:
        """A fetch was answered, with so many bytes of records of each topic that it says something of."""
        self._fetches.record(latency_ms)
        if sizes:
            self._all.bytes.record(sum(sizes.values()))
            for topic, size in sizes.items():
                self._topic(topic).bytes.record(size)

    def taken(self, records: Mapping[str, int]) -> None:
        """The last of what a fetch brought is handed out: so many records of each topic in all."""
        self._all.per_request.record(sum(records.values()))
        for topic, count in records.items():
            self._topic(topic).per_request.record(count)

    def consumed(self, records: Mapping[str, int]) -> None:
        """Poll hands out so many records of each topic."""
        self._all.records.record(sum(records.values()))
        for topic, count in records.items():
            self._topic(topic).records.record(count)

    def watch_distances(
        self, partition: TopicPartition, lag: Callable[[], float], lead: Callable[[], float]
    ) -> None:
        """Show what is known of a partition that is assigned from now on."""
        tags = _partition_tags(partition)
        gauge = self.registry.gauge
        gauge("records-lag", FETCH, lag, "The latest lag of the partition", tags=tags)
        gauge("records-lead", FETCH, lead, "The latest lead of the partition", tags=tags)
        gauge(
            "preferred-read-replica",
            FETCH,
            lambda: self.preferred_replica(partition),
            "The current read replica for the partition, or -1 if reading from leader",
            tags=tags,
        )
        self._distances[partition] = _Distances(self.registry, tags)

    def forget_distances(self, partition: TopicPartition) -> None:
        """Show nothing more of a partition."""
        self._distances.pop(partition, None)
        self.registry.remove(tags=_partition_tags(partition))

    def distances(self, partition: TopicPartition, lag: int | None, lead: int | None) -> None:
        """How far a partition's position is from the end and from the beginning of its log."""
        own = self._distances.get(partition)
        if lag is not None:
            self._lag.record(lag)
            if own is not None:
                own.lag.record(lag)
        if lead is not None:
            self._lead.record(lead)
            if own is not None:
                own.lead.record(lead)

    def poll_begins(self, now_ms: int) -> None:
        """The application called poll."""
        if self._last_poll_ms is not None:
            self._polls.record(now_ms - self._last_poll_ms)
        self._last_poll_ms = now_ms

    def poll_ends(self, now_ms: int) -> None:
        """Poll returns."""
        assert self._last_poll_ms is not None
        if self._last_poll_end_ms is not None and now_ms > self._last_poll_end_ms:
            self._idle.record((now_ms - self._last_poll_ms) / (now_ms - self._last_poll_end_ms))
        self._last_poll_end_ms = now_ms

    def close(self) -> None:
        """Close the reporters."""
        self.registry.close()

    def _topic(self, name: str) -> "_Traffic":
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Traffic(self.registry, name)
        return found

    def _seconds_since(self, last_ms: Callable[[], int | None]) -> Callable[[], float]:
        def seconds() -> float:
            then_ms = last_ms()
            return -1.0 if then_ms is None else (self._clock.monotonic_ms() - then_ms) // 1000

        return seconds


def make_metrics(config: ConsumerConfig, clock: Clock) -> ConsumerMetrics:
    """The metrics of a consumer, told to its ``metric.reporters``.

    Raises:
        ConfigError: a reporter is not one.
    """
    return ConsumerMetrics(metrics_of(config, clock), clock)


def _partition_tags(partition: TopicPartition) -> dict[str, str]:
    return {"topic": _tagged(partition.topic), "partition": str(partition.partition)}


def _tagged(topic: str) -> str:
    # Kafka's tags have '_' where a topic's name has '.'.
    return topic.replace(".", "_")


def _times(name: str, what: str) -> dict[str, tuple[Stat, str]]:
    return {
        f"{name}-avg": (Stat.AVG, f"The average time taken for {what}, in ms"),
        f"{name}-max": (Stat.MAX, f"The max time taken for {what}, in ms"),
    }


def _counts(name: str, what: str) -> dict[str, tuple[Stat, str]]:
    return {
        f"{name}-rate": (Stat.OCCURRENCE_RATE, f"The number of {what} per second"),
        f"{name}-total": (Stat.COUNT, f"The total number of {what}"),
    }


def _per_hour(sensor: Sensor) -> Callable[[], float]:
    return lambda: sensor.read(Stat.OCCURRENCE_RATE) * 3600
