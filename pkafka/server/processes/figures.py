"""What a worker tells the metrics: the counters and gauges of all its rooms, as plain values."""

import os
import resource
from typing import TYPE_CHECKING, Any

from pkafka.server.replicas import figures as replica_figures

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker


def figures(worker: "Worker") -> dict[str, Any]:
    """All counters and gauges of a worker."""
    progress, disks, groups = worker.progress, worker.disks, worker.groups
    return {
        **worker.metrics.figures(worker.lookup.topic_name),
        **replica_figures.figures(
            worker.partitions,
            worker.moving.logs(),
            now_ms=worker.clock.now_ms(),
            transaction_max_ms=worker.config.transaction_max_timeout_ms,
        ),
        "verification_failures": worker.questions.failures,
        "verification_times": worker.questions.times.export(),
        "connections": worker.clients.count_by_listener(),
        "logins": worker.doors.counts(),
        "denials": dict(worker.authorizer.denials) if worker.authorizer is not None else {},
        "fetch_sessions": len(worker.fetch_sessions),
        "purgatory": {
            one.name: one.size for one in (progress.fetches, progress.produces, progress.deletions)
        },
        "isr_events": worker.isr_changes.counters(),
        "replication_rates": worker.quotas.byte_rates(),
        "client_quotas": worker.client_quotas.use(),
        "client_quotas_given_up": worker.client_quotas.given_up,
        "lags": [list(row) for row in worker.fetchers.lags()],
        "fetchers": worker.fetchers.gauges(),
        "moves": worker.moves.gauges(),
        "open_files": [
            worker.index,
            len(os.listdir("/dev/fd")),
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ],
        "uncleanable": worker.logs.compaction.uncleanable(),
        "directories": [str(path) for path in disks.log_dirs],
        "offline_directories": [str(path) for path in disks.log_dirs if disks.is_offline(str(path))],
        "transaction_markers": {
            "UnknownDestinationQueueSize": worker.markers.unknown_destinations,
            "LogAppendRetryQueueSize": len(worker.transactions.append_retries),
        },
        "groups": groups.gauges(),
        "group_events": groups.counters.by_name(),
        "group_loads": groups.load_times.figures(groups.timer.now_ms()),
        "transaction_loads": worker.transactions.load_times.figures(worker.timer.now_ms()),
    }
