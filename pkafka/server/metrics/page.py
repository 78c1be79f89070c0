"""The metrics of the whole broker as a Prometheus page (``pkafka.metrics.port``).

Names are those of Kafka's JMX beans, domain, type and name joined by underscores in lower case, as JMX exporters
write them. Runs in the control process; each scrape asks every worker for its counters and adds them up.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pkafka.model import NO_PRODUCER_ID
from pkafka.protocol.api import ApiKey
from pkafka.server.metrics import client_quotas, denials
from pkafka.server.metrics.counters import FOLLOWERS_FETCH
from pkafka.server.metrics.latency import PERCENTILES, Histogram
from pkafka.server.metrics.logins import LOGIN_COUNTERS
from pkafka.server.metrics.partition_figures import LedPartition
from pkafka.server.metrics.request_times import RequestTimeSums

if TYPE_CHECKING:
    from prometheus_client.core import Metric, SummaryMetricFamily

_TOPIC_COUNTERS: Final = {
    "messages_in": ("messagesin", "Records appended."),
    "bytes_in": ("bytesin", "Bytes of record batches appended."),
    "bytes_out": ("bytesout", "Bytes of record batches sent to consumers."),
    "produces": ("totalproducerequests", "Partitions of Produce requests."),
    "fetches": ("totalfetchrequests", "Partitions of Fetch requests that were read."),
    "failed_produces": (
        "failedproducerequests",
        "Partitions of Produce requests that were answered with an error.",
    ),
    "failed_fetches": (
        "failedfetchrequests",
        "Partitions of Fetch requests that were answered with an error.",
    ),
}
_REPLICATION_BYTES: Final = {
    "ReplicationBytesIn": "Bytes of record batches that replicas here got from their leaders.",
    "ReplicationBytesOut": "Bytes of record batches sent to replicas elsewhere.",
    "ReassignmentBytesIn": "Bytes of record batches that came for replicas that a reassignment is adding here.",
    "ReassignmentBytesOut": "Bytes of record batches sent to replicas that a reassignment is adding elsewhere.",
}
_LOG_GAUGES: Final = (
    ("kafka_log_log_size", "Bytes of the log's segments."),
    ("kafka_log_log_logstartoffset", "First offset that can be read."),
    ("kafka_log_log_logendoffset", "Next offset to be written."),
    ("kafka_log_log_numlogsegments", "Segments of the log."),
    ("pkafka_log_log_highwatermark", "First offset that consumers cannot read yet."),
)
_TIMES: Final = {
    "TotalTimeMs": "From the whole request to its answer.",
    "LocalTimeMs": "In the request's handler.",
    "RemoteTimeMs": "After the handler, for records to come, for another process or broker.",
}

_CLEANER_GAUGES: Final = {
    "max-buffer-utilization-percent": ("logcleaner", "How full the map of keys was, at the last log."),
    "cleaner-recopy-percent": ("logcleaner", "How much of the last log was kept."),
    "max-clean-time-secs": ("logcleaner", "How long the last log took."),
    "max-compaction-delay-secs": ("logcleaner", "How long a record has been over its largest lag."),
    "deadthreadcount": ("logcleaner", "Threads of the cleaner that have died."),
    "max-dirty-percent": ("logcleanermanager", "The dirty part of the dirtiest log."),
    "time-since-last-run-ms": ("logcleanermanager", "How long ago the cleaner looked for a log last."),
}

_ISR_EVENTS: Final = {
    "IsrShrinks": "Replicas that fell out of an ISR.",
    "IsrExpands": "Replicas that came into an ISR.",
    "FailedIsrUpdates": "Changes of an ISR that the controller refused.",
}

_GROUP_EVENTS: Final = {
    "offset_commit": "Offsets committed.",
    "offset_expiration": "Committed offsets that expired.",
    "offset_deletion": "Committed offsets that were deleted, with their topic or group or alone.",
    "group_completed_rebalance": "Rebalances that ended with an assignment.",
}

_MARKER_GAUGES: Final = {
    "UnknownDestinationQueueSize": "Transaction markers that wait for a leader of their partition.",
    "LogAppendRetryQueueSize": "Transactions whose end is to be written to the log once more.",
}

_CONTROLLER_TIMES: Final = {
    "ControllerChange": "for another controller, or to read everything anew",
    "LeaderElection": "for brokers that came or went, with the elections that this caused",
    "TopicChange": "for topics and partitions that were made",
    "TopicDeletion": "for topics that are deleted",
    "PartitionReassignment": "to begin moves of partitions",
    "ListPartitionReassignment": "to say which partitions move",
    "AutoLeaderBalance": "to bring leaders back by itself",
    "ManualLeaderBalance": "for elections that an administrator asked for",
    "ControlledShutdown": "for brokers that stop",
    "IsrChange": "for ISRs that leaders change",
    "LeaderAndIsrResponseReceived": "for answers of brokers that lead and follow as they were told",
    "LogDirChange": "for log directories that failed",
    "UncleanLeaderElectionEnable": "where all topics may prefer a leader over records",
    "TopicUncleanLeaderElectionEnable": "where a topic may prefer a leader over records",
    "ControllerShutdown": "to give its role up",
}
_CONTROLLER_GAUGES: Final = {
    "ActiveControllerCount": "Whether this broker is the controller.",
    "ActiveBrokerCount": "Brokers that are alive.",
    "GlobalTopicCount": "Topics of the cluster.",
    "GlobalPartitionCount": "Partitions of the cluster.",
    "OfflinePartitionsCount": "Partitions without a leader.",
    "PreferredReplicaImbalanceCount": "Partitions that another than their preferred replica leads.",
    "TopicsToDeleteCount": "Topics that are to be deleted.",
    "ReplicasToDeleteCount": "Replicas of them that are not deleted yet.",
    "TopicsIneligibleToDeleteCount": "Topics whose deletion waits for a broker or a reassignment.",
    "ReplicasIneligibleToDeleteCount": "Replicas whose broker is away, or failed to delete them.",
}

Snapshot = Mapping[str, Any]


def led_partitions(workers: Sequence[Snapshot]) -> list[LedPartition]:
    """All partitions that this broker leads."""
    return [LedPartition(*row) for worker in workers for row in worker["led"]]


class BrokerFacts:
    """Holds what the control process itself adds to the page.

    Args:
        active_controller: whether this broker is the controller.
        topics: how many topics the cluster has.
        partitions: how many partitions the cluster has.
        offline_partitions: how many of them have no leader.
        log_cleaner: the gauges of the cleaner process, by Kafka's names.
        preferred_imbalance: how many of them are not led by their preferred replica.
        offline_replicas: how many replicas of this broker are in directories that failed.
        live_brokers: how many brokers the cluster has now.
        cluster_id, broker_id: of this broker.
        started_ms: when, in milliseconds since the epoch.
        deletion: the controller's gauges of what is left to delete, by Kafka's names; empty when it is too busy to say.
        controller_queue: how many events wait for the controller.
        controller_times: how long its events took, by the name of Kafka's timer.
        unclean_elections: how many leaders it elected that lacked records.
        served_apis: the keys of the APIs that this broker serves.
        certificate_days: after how many days the certificate of each listener with TLS ends.
        denials: what the control process refused, by principal.
    """

    def __init__(
        self,
        *,
        active_controller: bool,
        topics: int,
        partitions: int,
        offline_partitions: int,
        log_cleaner: Mapping[str, int],
        preferred_imbalance: int,
        offline_replicas: int,
        live_brokers: int,
        cluster_id: str,
        broker_id: int,
        started_ms: int,
        deletion: Mapping[str, int],
        controller_queue: int,
        controller_times: Mapping[str, Histogram],
        unclean_elections: int,
        served_apis: Collection[int],
        certificate_days: Mapping[str, float],
        denials: Mapping[str, int],
    ) -> None:
        self.active_controller = active_controller
        self.topics = topics
        self.partitions = partitions
        self.offline_partitions = offline_partitions
        self.log_cleaner = log_cleaner
        self.preferred_imbalance = preferred_imbalance
        self.offline_replicas = offline_replicas
        self.live_brokers = live_brokers
        self.cluster_id = cluster_id
        self.broker_id = broker_id
        self.started_ms = started_ms
        self.deletion = deletion
        self.controller_queue = controller_queue
        self.controller_times = controller_times
        self.unclean_elections = unclean_elections
        self.served_apis = served_apis
        self.certificate_days = certificate_days
        self.denials = denials


def controller_gauges(facts: BrokerFacts) -> dict[str, int]:
    """The gauges of the controller, under Kafka's names. Other brokers show 0, so that a sum over brokers is right."""
    gauges = {
        "ActiveControllerCount": int(facts.active_controller),
        "ActiveBrokerCount": facts.live_brokers,
        "GlobalTopicCount": facts.topics,
        "GlobalPartitionCount": facts.partitions,
        "OfflinePartitionsCount": facts.offline_partitions,
        "PreferredReplicaImbalanceCount": facts.preferred_imbalance,
        **facts.deletion,
    }
    return gauges if facts.active_controller else dict.fromkeys(gauges, 0)


def families(workers: Sequence[Snapshot], facts: BrokerFacts) -> "Iterable[Metric]":
    """The page's metric families, from the counters of all workers."""
    yield from _topic_families(workers)
    yield from _request_families(workers)
    yield from _log_families(workers)
    yield from _marker_families(workers)
    yield from _verification_families(workers)
    yield from _group_families(workers)
    yield from _cleaner_families(workers, facts)
    yield from _process_families(workers)
    yield from _controller_families(facts)
    yield _certificate_family(facts)
    yield denials.family(sum_of([facts.denials, *(worker["denials"] for worker in workers)]))
    yield from _gauge_families(workers, facts)
    yield from _transaction_families(workers)


def _topic_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import CounterMetricFamily

    for key, (name, text) in _TOPIC_COUNTERS.items():
        family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", text, labels=["topic"])
        for topic, count in sorted(sum_of(worker[key] for worker in workers).items()):
            family.add_metric([topic], count)
        yield family
    for name, count in sum_of(worker["replication_bytes"] for worker in workers).items():
        family = CounterMetricFamily(
            f"kafka_server_brokertopicmetrics_{name.lower()}", _REPLICATION_BYTES[name]
        )
        family.add_metric([], count)
        yield family


def _request_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests served.", labels=["request", "version"]
    )
    for (name, version), count in sorted(request_counts(workers).items()):
        requests.add_metric([name, str(version)], count)
    yield requests
    for name, count in sum_of(worker["isr_events"] for worker in workers).items():
        changes = CounterMetricFamily(f"kafka_server_replicamanager_{name.lower()}", _ISR_EVENTS[name])
        changes.add_metric([], count)
        yield changes
    refused = CounterMetricFamily("pkafka_network_refusedrequests", "Frames that were no request.")
    refused.add_metric([], sum(worker["refused_requests"] for worker in workers))
    yield refused
    yield from _login_families(workers)
    times = request_times(workers)
    for part, text in _TIMES.items():
        summary = SummaryMetricFamily(
            f"kafka_network_requestmetrics_{part.lower()}", text, labels=["request"]
        )
        for name, sums in sorted(times.items()):
            _summarize(summary, sums.by_name()[part], request=name)
        yield summary


def _login_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import CounterMetricFamily

    for key, text in LOGIN_COUNTERS.items():
        name = key.removesuffix("-total").removesuffix("-count").replace("-", "")
        family = CounterMetricFamily(f"kafka_server_socketservermetrics_{name}", text, labels=["listener"])
        counts = (
            {listener: counters[key] for listener, counters in worker["logins"].items()} for worker in workers
        )
        for listener, count in sorted(sum_of(counts).items()):
            family.add_metric([listener], count)
        yield family


def _summarize(summary: "SummaryMetricFamily", histogram: Histogram, **labels: str) -> None:
    """Add nanoseconds in milliseconds."""
    summary.add_metric([*labels.values()], histogram.count, histogram.total / 1e6)
    for fraction, value in zip(PERCENTILES, histogram.percentiles(), strict=True):
        summary.add_sample(summary.name, {**labels, "quantile": str(fraction)}, round(value / 1e6, 4))


def _controller_families(facts: BrokerFacts) -> "Iterable[Metric]":
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    for name, histogram in facts.controller_times.items():
        summary = SummaryMetricFamily(
            f"kafka_controller_controllerstats_{name.lower()}",
            f"What the controller took {_CONTROLLER_TIMES[name.removesuffix('RateAndTimeMs')]}, in ms.",
        )
        _summarize(summary, histogram)
        yield summary
    unclean = CounterMetricFamily(
        "kafka_controller_controllerstats_uncleanleaderelections", "Leaders elected that lacked records."
    )
    unclean.add_metric([], facts.unclean_elections)
    yield unclean


def _certificate_family(facts: BrokerFacts) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    days = GaugeMetricFamily(
        "pkafka_listener_certificate_days",
        "Days until the certificate ends that the listener shows to new connections.",
        labels=["listener"],
    )
    for listener, left in sorted(facts.certificate_days.items()):
        days.add_metric([listener], round(left, 3))
    return days


def _log_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    rows = sorted(row for worker in workers for row in worker["logs"])
    for place, (name, text) in enumerate(_LOG_GAUGES, start=2):
        family = GaugeMetricFamily(name, text)
        for row in rows:
            labels = {"topic": row[0], "partition": str(row[1])}
            if row[-1]:
                labels["is_future"] = "true"  # on its way to another log directory
            family.add_sample(name, labels, row[place])
        yield family


def _transaction_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    """What holds readers of committed records back in the partitions that this broker leads."""
    from prometheus_client.core import GaugeMetricFamily

    led = sorted(led_partitions(workers))
    lag = GaugeMetricFamily(
        "kafka_cluster_partition_laststableoffsetlag",
        "Records that readers of committed records cannot see yet.",
        labels=["topic", "partition"],
    )
    silence = GaugeMetricFamily(
        "pkafka_partition_opentransactionsilence_ms",
        "How long ago the producer of the oldest open transaction wrote last; only where one is open.",
        labels=["topic", "partition", "producer_id"],
    )
    for one in led:
        lag.add_metric([one.topic, str(one.partition)], one.unstable)
        if one.holder != NO_PRODUCER_ID:
            silence.add_metric([one.topic, str(one.partition), str(one.holder)], one.silent_ms)
    yield lag
    yield silence


def _marker_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    for name, count in sum_of(worker["transaction_markers"] for worker in workers).items():
        bean = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
        gauge = GaugeMetricFamily(f"{bean}_{name.lower()}", _MARKER_GAUGES[name])
        gauge.add_metric([], count)
        yield gauge


def verification_times(workers: Sequence[Snapshot]) -> Histogram:
    """How long the coordinators of transactions took to answer the leaders of partitions."""
    times = Histogram()
    for worker in workers:
        times.add(worker["verification_times"])
    return times


def _verification_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    bean = "kafka_server_addpartitionstotxnmanager"
    failures = CounterMetricFamily(
        f"{bean}_verificationfailure",
        "Partitions led here that were not confirmed to belong to a transaction.",
    )
    failures.add_metric([], sum(worker["verification_failures"] for worker in workers))
    yield failures
    times = SummaryMetricFamily(
        f"{bean}_verificationtimems",
        "Until the coordinator of a transaction had confirmed its partitions, in ms.",
    )
    _summarize(times, verification_times(workers))
    yield times


def _group_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    for name, count in sum_of(worker["groups"] for worker in workers).items():
        text = "Committed offsets." if name == "NumOffsets" else "Groups that this broker coordinates."
        gauge = GaugeMetricFamily(f"kafka_coordinator_group_groupmetadatamanager_{name.lower()}", text)
        gauge.add_metric([], count)
        yield gauge
    for name, count in sum_of(worker["group_events"] for worker in workers).items():
        counter = CounterMetricFamily(f"kafka_server_group_coordinator_metrics_{name}", _GROUP_EVENTS[name])
        counter.add_metric([], count)
        yield counter
    yield from _load_time_families([worker["group_loads"] for worker in workers], "group", "groups")
    loads = [worker["transaction_loads"] for worker in workers]
    yield from _load_time_families(loads, "transaction", "transactional ids")


def _load_time_families(loads: Sequence[Sequence[float]], coordinator: str, what: str) -> "Iterable[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    count = sum(each[0] for each in loads)
    for name, text, value in (
        ("avg", "The average", sum(each[1] for each in loads) / count if count else math.nan),
        ("max", "The longest", max(each[2] for each in loads) if count else math.nan),
    ):
        gauge = GaugeMetricFamily(
            f"kafka_server_{coordinator}_coordinator_metrics_partition_load_time_{name}",
            f"{text} time in ms that it took to load the {what} of a partition, in the last minute.",
        )
        gauge.add_metric([], value)
        yield gauge


def _cleaner_families(workers: Sequence[Snapshot], facts: BrokerFacts) -> "Iterable[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    for name, (bean, text) in _CLEANER_GAUGES.items():
        if name in facts.log_cleaner:
            family = GaugeMetricFamily(f"kafka_log_{bean}_{name.replace('-', '_')}", text)
            family.add_metric([], facts.log_cleaner[name])
            yield family
    for place, (name, text) in enumerate(
        (
            ("partitions_count", "Partitions that could not be cleaned."),
            ("bytes", "Dirty bytes in them."),
        ),
        start=1,
    ):
        family = GaugeMetricFamily(
            f"kafka_log_logcleanermanager_uncleanable_{name}", text, labels=["logdirectory"]
        )
        sums = sum_of({row[0]: row[place]} for worker in workers for row in worker["uncleanable"])
        for directory in sorted({path for worker in workers for path in worker["directories"]}):
            family.add_metric([directory], sums.get(directory, 0))
        yield family


def _process_families(workers: Sequence[Snapshot]) -> "Iterable[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    for place, (name, text) in enumerate(
        (("open", "Files and connections that are open."), ("max", "How many may be.")), start=1
    ):
        family = GaugeMetricFamily(f"pkafka_process_{name}filedescriptorcount", text, labels=["worker"])
        for row in sorted(worker["open_files"] for worker in workers):
            family.add_metric([str(row[0])], row[place])
        yield family


def _gauge_families(workers: Sequence[Snapshot], facts: BrokerFacts) -> "Iterable[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    offline = {path for worker in workers for path in worker["offline_directories"]}
    led = led_partitions(workers)
    plain = {
        "kafka_server_replicamanager_leadercount": ("Partitions led.", sum(w["leaders"] for w in workers)),
        "kafka_server_replicamanager_partitioncount": (
            "Replicas here.",
            sum(w["partitions"] for w in workers),
        ),
        "kafka_server_replicamanager_underreplicatedpartitions": (
            "Partitions led here of which a replica is not in sync.",
            sum(one.is_under_replicated for one in led),
        ),
        "kafka_server_replicamanager_underminisrpartitioncount": (
            "Partitions led here with fewer replicas in sync than min.insync.replicas.",
            sum(one.is_under_min_isr for one in led),
        ),
        "kafka_server_replicamanager_reassigningpartitions": (
            "Partitions led here to which replicas are added, or from which they are taken.",
            sum(w["reassigning"] for w in workers),
        ),
        "kafka_server_replicamanager_partitionswithlatetransactionscount": (
            "Partitions led here whose oldest open transaction should have ended long ago.",
            sum(w["late_transactions"] for w in workers),
        ),
        "kafka_server_replicafetchermanager_maxlag": (
            "Records that the replica here furthest behind its leader misses.",
            max_lag(workers),
        ),
        "kafka_server_replicaalterlogdirsmanager_maxlag": (
            "Committed records that the copy furthest behind its replica misses, which moves to another log directory.",
            max_lag_of_moves(workers),
        ),
        "kafka_server_replicaalterlogdirsmanager_failedpartitionscount": (
            "Replicas whose move to another log directory does not get on.",
            sum(w["moves"]["failed"] for w in workers),
        ),
        "kafka_server_replicaalterlogdirsmanager_deadthreadcount": (
            "Tasks that move replicas, and have died.",
            sum(w["moves"]["dead"] for w in workers),
        ),
        "kafka_server_replicafetchermanager_failedpartitionscount": (
            "Replicas here whose leader does not let them follow it any more.",
            sum(w["fetchers"]["failed"] for w in workers),
        ),
        "kafka_server_replicafetchermanager_deadthreadcount": (
            "Fetchers that have died.",
            sum(w["fetchers"]["dead"] for w in workers),
        ),
        "kafka_server_fetchsessioncache_numincrementalfetchsessions": (
            "Fetch sessions kept.",
            sum(w["fetch_sessions"] for w in workers),
        ),
        "kafka_log_logmanager_offlinelogdirectorycount": ("Log directories that failed.", len(offline)),
        "kafka_controller_controllereventmanager_eventqueuesize": (
            "Events that the controller has before it.",
            facts.controller_queue,
        ),
        **{
            f"kafka_controller_kafkacontroller_{name.lower()}": (_CONTROLLER_GAUGES[name], value)
            for name, value in controller_gauges(facts).items()
        },
        "pkafka_server_workers": ("Worker processes that answered this scrape.", len(workers)),
    }
    for name, (text, value) in plain.items():
        family = GaugeMetricFamily(name, text)
        family.add_metric([], value)
        yield family
    for name, rate in replication_rates(workers).items():
        family = GaugeMetricFamily(
            f"kafka_server_{name.lower()}_byte_rate", "Bytes a second of throttled replicas."
        )
        family.add_metric([], rate)
        yield family
    yield from client_quotas.families(workers)
    for name, text, label, key in (
        ("kafka_server_socketservermetrics_connectioncount", "Open connections.", "listener", "connections"),
        (
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait.",
            "delayedoperation",
            "purgatory",
        ),
    ):
        family = GaugeMetricFamily(name, text, labels=[label])
        for value, count in sorted(sum_of(worker[key] for worker in workers).items()):
            family.add_metric([value], count)
        yield family


def max_lag(workers: Sequence[Snapshot]) -> int:
    """The largest number of records that a follower on this broker lacks; 0 without followers."""
    return max((row[-1] for worker in workers for row in worker["lags"]), default=0)


def max_lag_of_moves(workers: Sequence[Snapshot]) -> int:
    """The same of replicas that move to another log directory, and their copies there."""
    return max((row[-1] for worker in workers for row in worker["moves"]["lags"]), default=0)


def replication_rates(workers: Sequence[Snapshot]) -> dict[str, float]:
    """The rates of throttled replicas, by the name of the quota; all workers measure them together and show the
    same."""
    return {name: rate for worker in workers for name, rate in worker["replication_rates"].items()}


def request_counts(workers: Sequence[Snapshot]) -> dict[tuple[str, int], int]:
    """How many requests there were, by name and version."""
    return sum_of(
        {(name, version): count}
        for worker in workers
        for key, version, count in worker["requests"]
        for name in request_names(key)
    )


def request_times(workers: Sequence[Snapshot]) -> dict[str, RequestTimeSums]:
    """The times of all requests by name."""
    times: defaultdict[str, RequestTimeSums] = defaultdict(RequestTimeSums)
    for worker in workers:
        for key, exported in worker["request_times"].items():
            for name in request_names(key):
                times[name].add(exported)
    return times


def sum_of(counts: "Iterable[Mapping[Any, int]]") -> dict[Any, int]:
    """Counters of several processes, added up by name."""
    sums: defaultdict[Any, int] = defaultdict(int)
    for each in counts:
        for key, count in each.items():
            sums[key] += count
    return sums


def request_names(key: int) -> tuple[str, ...]:
    """The names under which Kafka counts a request: a fetch counts under its own, and as one of followers or
    consumers."""
    if key == FOLLOWERS_FETCH:
        return "Fetch", "FetchFollower"
    name = "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    return (name, "FetchConsumer") if key == ApiKey.FETCH else (name,)
