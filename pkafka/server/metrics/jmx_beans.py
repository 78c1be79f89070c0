"""The metrics of the whole broker as JMX beans: Kafka's object names, with Kafka's attributes.

Made of the same counters as the page for Prometheus. What Kafka has and this broker does not measure is not shown at
all rather than as zero; tests/interop/test_metrics.py has the list. Histograms are of all values since the start, where
Kafka's forget what is older than some minutes, and the rates of groups' events are of the last minute.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import pkafka
from pkafka.server.metrics.counters import FOLLOWERS_FETCH
from pkafka.server.metrics.latency import PERCENTILES, Histogram
from pkafka.server.metrics.meters import Meters
from pkafka.server.metrics.object_names import object_name
from pkafka.server.metrics.page import (
    BrokerFacts,
    Snapshot,
    controller_gauges,
    led_partitions,
    max_lag,
    max_lag_of_moves,
    replication_rates,
    request_counts,
    request_names,
    request_times,
    sum_of,
    verification_times,
)
from pkafka.server.metrics.partition_figures import LedPartition
from pkafka.server.metrics.request_times import RequestTimeSums

Beans: TypeAlias = dict[str, dict[str, Any]]
"""Attributes by object name."""

_TOPIC_METERS: Final = {
    "messages_in": ("MessagesInPerSec", "messages"),
    "bytes_in": ("BytesInPerSec", "bytes"),
    "bytes_out": ("BytesOutPerSec", "bytes"),
    "produces": ("TotalProduceRequestsPerSec", "requests"),
    "fetches": ("TotalFetchRequestsPerSec", "requests"),
    "failed_produces": ("FailedProduceRequestsPerSec", "requests"),
    "failed_fetches": ("FailedFetchRequestsPerSec", "requests"),
}
_ISR_EVENTS: Final = {
    "IsrShrinks": "shrinks",
    "IsrExpands": "expands",
    "FailedIsrUpdates": "failedUpdates",
}
_LOG_GAUGES: Final = ("Size", "LogStartOffset", "LogEndOffset", "NumLogSegments")
_CLEANER_GAUGES: Final = {
    "max-buffer-utilization-percent": "LogCleaner",
    "cleaner-recopy-percent": "LogCleaner",
    "max-clean-time-secs": "LogCleaner",
    "max-compaction-delay-secs": "LogCleaner",
    "deadthreadcount": "LogCleaner",
    "max-dirty-percent": "LogCleanerManager",
    "time-since-last-run-ms": "LogCleanerManager",
}
_SPELLED: Final = {"deadthreadcount": "DeadThreadCount"}
_PERCENTILE_NAMES: Final = (
    *("50thPercentile", "75thPercentile", "95thPercentile"),
    *("98thPercentile", "99thPercentile", "999thPercentile"),
)
_OF_LEADERS: Final = (
    *("ReplicasCount", "InSyncReplicasCount"),
    *("UnderReplicated", "UnderMinIsr", "AtMinIsr"),
)
"""What the leader of a partition knows of it."""
_GROUPS: Final = "kafka.server:type=group-coordinator-metrics"
_TRANSACTIONS: Final = "kafka.server:type=transaction-coordinator-metrics"
_FETCHER_MANAGERS: Final = {
    "ReplicaFetcherManager": ("fetchers", "Replica"),
    "ReplicaAlterLogDirsManager": ("moves", "ReplicaAlterLogDirs"),
}
"""Where a worker tells of their fetchers, and the client id that Kafka gives their gauges."""
_RUNNING: Final = 3
"""BrokerState.RUNNING; in other states the page does not exist."""


def meter_counts(workers: Sequence[Snapshot], facts: BrokerFacts) -> dict[str, int]:
    """Every counter that has rates, by the bean's name, or by name and event of a bean with several."""
    counts = {name: count for name, _event, count in _counters(workers, facts)}
    counts.update((name, histogram.count) for name, histogram in _timers(facts))
    for event, count in sum_of(worker["group_events"] for worker in workers).items():
        counts[f"{_GROUPS}:{event}"] = count
    for kind, (key, _client) in _FETCHER_MANAGERS.items():
        counts.update(_fetcher_requests(workers, kind, key))
    return counts


def beans(workers: Sequence[Snapshot], facts: BrokerFacts, meters: Meters, now_s: float) -> Beans:
    """All beans.

    Args:
        workers: what the workers counted.
        facts: what the control process knows.
        meters: the rates of :func:`meter_counts`.
        now_s: the clock of the meters.
    """
    made: Beans = {}
    for name, event, count in _counters(workers, facts):
        made[name] = _meter(meters, name, event, count, now_s)
    for name, histogram in _timers(facts):
        meter = _meter(meters, name, "calls", histogram.count, now_s)
        made[name] = {**_histogram(histogram), **meter, "LatencyUnit": "MILLISECONDS"}
    for name, histogram in _request_times(workers, facts):
        made[name] = _histogram(histogram)
    verification = _bean("kafka.server", "AddPartitionsToTxnManager", "VerificationTimeMs")
    made[verification] = _histogram(verification_times(workers))
    made.update(_group_beans(workers, meters, now_s))
    for name, value in (*_gauges(workers, facts), *_fetcher_managers(workers, meters, now_s)):
        made[name] = {"Value": value}
    for name, rate in replication_rates(workers).items():
        made[f"kafka.server:type={name}"] = {"byte-rate": rate}
    made.update(_identity(workers, facts))
    return made


def _meter(meters: Meters, name: str, event: str, count: int, now_s: float) -> dict[str, Any]:
    rates = meters.rates(name, count, now_s)
    return {"Count": count, "EventType": event, "RateUnit": "SECONDS", **rates}


def _timers(facts: BrokerFacts) -> Iterator[tuple[str, Histogram]]:
    """What is counted together with the time that it takes."""
    for name, histogram in facts.controller_times.items():
        yield _bean("kafka.controller", "ControllerStats", name), histogram


def _counters(workers: Sequence[Snapshot], facts: BrokerFacts) -> Iterator[tuple[str, str, int]]:
    """Name, what is counted and count of what becomes a meter."""
    for key, (name, event) in _TOPIC_METERS.items():
        counts = sum_of(worker[key] for worker in workers)
        yield _bean("kafka.server", "BrokerTopicMetrics", name), event, sum(counts.values())
        for topic, count in counts.items():
            yield _bean("kafka.server", "BrokerTopicMetrics", name, topic=topic), event, count
    # These are the broker's alone, in Kafka, too.
    for name, count in sum_of(worker["replication_bytes"] for worker in workers).items():
        yield _bean("kafka.server", "BrokerTopicMetrics", f"{name}PerSec"), "bytes", count
    for name, count in sum_of(worker["isr_events"] for worker in workers).items():
        yield _bean("kafka.server", "ReplicaManager", f"{name}PerSec"), _ISR_EVENTS[name], count
    failures = sum(worker["verification_failures"] for worker in workers)
    failing = _bean("kafka.server", "AddPartitionsToTxnManager", "VerificationFailureRate")
    yield failing, "failures", failures
    unclean = _bean("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")
    yield unclean, "elections", facts.unclean_elections
    for (request, version), count in request_counts(workers).items():
        name = _bean("kafka.network", "RequestMetrics", "RequestsPerSec", request=request, version=version)
        yield name, "requests", count


def _request_times(workers: Sequence[Snapshot], facts: BrokerFacts) -> Iterator[tuple[str, Histogram]]:
    # A request that has not come yet has a bean, too, so that a tool that lists the beans only once finds it.
    keys = sorted({*facts.served_apis, FOLLOWERS_FETCH})
    served = (request for key in keys for request in request_names(key))
    times = {request: RequestTimeSums() for request in served} | request_times(workers)
    for request, sums in times.items():
        for name, histogram in sums.by_name().items():
            yield _bean("kafka.network", "RequestMetrics", name, request=request), histogram


def _histogram(histogram: Histogram) -> dict[str, Any]:
    """In milliseconds, as all of Kafka's are."""
    smallest, deviation = histogram.spread()
    percentiles = zip(_PERCENTILE_NAMES, histogram.percentiles(PERCENTILES), strict=True)
    return {
        "Count": histogram.count,
        "Min": smallest / 1e6,
        "Max": histogram.largest / 1e6,
        "Mean": histogram.total / histogram.count / 1e6 if histogram.count else 0.0,
        "StdDev": deviation / 1e6,
        **{name: value / 1e6 for name, value in percentiles},
    }


def _group_beans(workers: Sequence[Snapshot], meters: Meters, now_s: float) -> Beans:
    attributes: dict[str, Any] = {}
    for event, count in sum_of(worker["group_events"] for worker in workers).items():
        name = event.replace("_", "-")
        attributes[f"{name}-count"] = float(count)
        attributes[f"{name}-rate"] = meters.rates(f"{_GROUPS}:{event}", count, now_s)["OneMinuteRate"]
    attributes |= _load_times(workers, "group_loads")
    return {_GROUPS: attributes, _TRANSACTIONS: _load_times(workers, "transaction_loads")}


def _load_times(workers: Sequence[Snapshot], figure: str) -> dict[str, float]:
    """How long the last loadings of a coordinator's partitions took."""
    loads = [worker[figure] for worker in workers if worker[figure][0]]
    number = sum(count for count, _, _ in loads)
    return {
        "partition-load-time-max": max((largest for _, _, largest in loads), default=math.nan),
        "partition-load-time-avg": sum(total for _, total, _ in loads) / number if number else math.nan,
    }


def _gauges(workers: Sequence[Snapshot], facts: BrokerFacts) -> Iterator[tuple[str, Any]]:
    yield from _replica_gauges(workers)
    yield _bean("kafka.server", "ReplicaManager", "OfflineReplicaCount"), facts.offline_replicas
    for row in (row for worker in workers for row in worker["logs"]):
        on_its_way = {"is-future": "true"} if row[-1] else {}
        for place, name in enumerate(_LOG_GAUGES, start=2):
            yield _bean("kafka.log", "Log", name, topic=row[0], partition=row[1], **on_its_way), row[place]
    for name, value in sum_of(worker["groups"] for worker in workers).items():
        yield _bean("kafka.coordinator.group", "GroupMetadataManager", name), value
    for name, value in sum_of(worker["transaction_markers"] for worker in workers).items():
        yield _bean("kafka.coordinator.transaction", "TransactionMarkerChannelManager", name), value
    for name, kind in _CLEANER_GAUGES.items():
        if name in facts.log_cleaner:
            yield _bean("kafka.log", kind, _SPELLED.get(name, name)), facts.log_cleaner[name]
    yield from _directory_gauges(workers)
    purgatory = sum_of(worker["purgatory"] for worker in workers)
    for name, value in purgatory.items():
        kind = "DelayedOperationPurgatory"
        for gauge in ("PurgatorySize", "NumDelayedOperations"):
            yield _bean("kafka.server", kind, gauge, delayedOperation=name), value
    sessions = sum(worker["fetch_sessions"] for worker in workers)
    yield _bean("kafka.server", "FetchSessionCache", "NumIncrementalFetchSessions"), sessions
    for name, value in controller_gauges(facts).items():
        yield _bean("kafka.controller", "KafkaController", name), value
    yield _bean("kafka.controller", "ControllerEventManager", "EventQueueSize"), facts.controller_queue
    yield _bean("kafka.server", "KafkaServer", "BrokerState"), _RUNNING
    yield _bean("kafka.server", "KafkaServer", "ClusterId"), facts.cluster_id


def _replica_gauges(workers: Sequence[Snapshot]) -> Iterator[tuple[str, Any]]:
    led = led_partitions(workers)
    under, below = [one.is_under_replicated for one in led], [one.is_under_min_isr for one in led]
    at = [one.is_at_min_isr for one in led]
    totals = {
        "LeaderCount": sum(worker["leaders"] for worker in workers),
        "PartitionCount": sum(worker["partitions"] for worker in workers),
        "ReassigningPartitions": sum(worker["reassigning"] for worker in workers),
        "PartitionsWithLateTransactionsCount": sum(worker["late_transactions"] for worker in workers),
        "ProducerIdCount": sum(worker["producer_ids"] for worker in workers),
        "UnderReplicatedPartitions": sum(under),
        "UnderMinIsrPartitionCount": sum(below),
        "AtMinIsrPartitionCount": sum(at),
    }
    for name, value in totals.items():
        yield _bean("kafka.server", "ReplicaManager", name), value
    for worker in workers:
        for fetcher, leader, topic, partition, lag in worker["lags"]:
            client = f"ReplicaFetcherThread-{fetcher}-{leader}"
            tags = {"clientId": client, "topic": topic, "partition": partition}
            yield _bean("kafka.server", "FetcherLagMetrics", "ConsumerLag", **tags), lag
    yield from _partition_gauges(workers, led)


def _partition_gauges(workers: Sequence[Snapshot], led: Sequence[LedPartition]) -> Iterator[tuple[str, int]]:
    for one in led:
        gauges = {
            "ReplicasCount": one.replication_factor,
            "InSyncReplicasCount": one.in_sync,
            "UnderReplicated": int(one.is_under_replicated),
            "UnderMinIsr": int(one.is_under_min_isr),
            "AtMinIsr": int(one.is_at_min_isr),
            "LastStableOffsetLag": one.unstable,
        }
        for name, value in gauges.items():
            yield _bean("kafka.cluster", "Partition", name, topic=one.topic, partition=one.partition), value
    # Kafka's followers have them, too, with 0, so that a sum over the brokers counts each partition once.
    for topic, partition, unstable in (row for worker in workers for row in worker["followed"]):
        for name in _OF_LEADERS:
            yield _bean("kafka.cluster", "Partition", name, topic=topic, partition=partition), 0
        lag = _bean("kafka.cluster", "Partition", "LastStableOffsetLag", topic=topic, partition=partition)
        yield lag, unstable


def _fetcher_managers(workers: Sequence[Snapshot], meters: Meters, now_s: float) -> Iterator[tuple[str, Any]]:
    lags = {"ReplicaFetcherManager": max_lag, "ReplicaAlterLogDirsManager": max_lag_of_moves}
    for kind, (key, client) in _FETCHER_MANAGERS.items():
        requests = _fetcher_requests(workers, kind, key)
        rates = [meters.rates(name, count, now_s)["OneMinuteRate"] for name, count in requests.items()]
        gauges = {
            "MaxLag": lags[kind](workers),
            "MinFetchRate": min(rates, default=0.0),
            "FailedPartitionsCount": sum(worker[key]["failed"] for worker in workers),
            "DeadThreadCount": sum(worker[key]["dead"] for worker in workers),
        }
        for name, value in gauges.items():
            yield _bean("kafka.server", kind, name, clientId=client), value
    for worker in workers:
        for topic, partition, lag in worker["moves"]["lags"]:
            thread = f"ReplicaAlterLogDirsThread-{worker['open_files'][0]}"
            tags = {"clientId": thread, "topic": topic, "partition": partition}
            yield _bean("kafka.server", "FetcherLagMetrics", "ConsumerLag", **tags), lag


def _fetcher_requests(workers: Sequence[Snapshot], kind: str, key: str) -> dict[str, int]:
    """The requests of each fetcher, by a name for its meter."""
    counts = sum_of(worker[key]["requests"] for worker in workers)
    return {f"{kind}:{fetcher}": count for fetcher, count in counts.items()}


def _directory_gauges(workers: Sequence[Snapshot]) -> Iterator[tuple[str, Any]]:
    offline = {path for worker in workers for path in worker["offline_directories"]}
    yield _bean("kafka.log", "LogManager", "OfflineLogDirectoryCount"), len(offline)
    sums = [
        sum_of({row[0]: row[place]} for worker in workers for row in worker["uncleanable"])
        for place in (1, 2)
    ]
    for path in sorted({path for worker in workers for path in worker["directories"]}):
        yield _bean("kafka.log", "LogManager", "LogDirectoryOffline", logDirectory=path), int(path in offline)
        for name, values in zip(("uncleanable-partitions-count", "uncleanable-bytes"), sums, strict=True):
            yield _bean("kafka.log", "LogCleanerManager", name, logDirectory=path), values.get(path, 0)


def _identity(workers: Sequence[Snapshot], facts: BrokerFacts) -> Beans:
    """The broker's identity and its connections: a worker counts as one of Kafka's network processors."""
    made: Beans = {
        f"kafka.server:type=app-info,id={facts.broker_id}": {
            "CommitId": f"pkafka-{pkafka.__version__}",
            "StartTimeMs": facts.started_ms,
            "Version": pkafka.KAFKA_VERSION,
        }
    }
    for worker in workers:
        logins = worker["logins"]
        for listener in {**worker["connections"], **logins}:
            counts = {"connection-count": worker["connections"].get(listener, 0), **logins.get(listener, {})}
            properties = {
                "type": "socket-server-metrics",
                "listener": listener,
                "networkProcessor": worker["open_files"][0],
            }
            made[object_name("kafka.server", properties)] = {
                name: float(count) for name, count in counts.items()
            }
    return made


def _bean(domain: str, kind: str, name: str, **tags: object) -> str:
    return object_name(domain, {"type": kind, "name": name, **tags})
