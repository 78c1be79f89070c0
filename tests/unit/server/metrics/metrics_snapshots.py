"""What workers and the control process tell of themselves, for tests of the pages."""

from typing import Any

from pkafka.server.controller.context import DeletionCounts
from pkafka.server.controller.stats import ControllerStats
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS
from pkafka.server.metrics.latency import Histogram
from pkafka.server.metrics.logins import FAILED, SUCCEEDED, no_logins
from pkafka.server.metrics.page import BrokerFacts
from pkafka.server.metrics.request_times import RequestTimes

CLEANER = {"max-dirty-percent": 42, "deadthreadcount": 0, "cleaner-recopy-percent": 7}
CONTROLLER_TIMES = ControllerStats().by_name()
CONTROLLER_TIMES["LeaderElectionRateAndTimeMs"].record(4_000_000)
FACTS = BrokerFacts(
    active_controller=True,
    topics=2,
    partitions=5,
    offline_partitions=1,
    log_cleaner=CLEANER,
    preferred_imbalance=2,
    offline_replicas=1,
    live_brokers=3,
    cluster_id="cluster",
    broker_id=7,
    started_ms=1_700_000_000_000,
    deletion=DeletionCounts(2, 5, 1, 3).by_name(),
    controller_queue=4,
    controller_times=CONTROLLER_TIMES,
    unclean_elections=2,
    served_apis={*FRAME_APIS, *MESSAGE_APIS, *CONTROL_APIS},
    certificate_days={"SSL": 29.5},
    denials={"User:alice": 1},
)


def worker(**changes: Any) -> dict[str, Any]:
    times = RequestTimes()
    times.at_once.record(2_000_000)
    times.waited(1_000_000, 5_000_000)
    verifications = Histogram()
    verifications.record(3_000_000)
    return {
        "messages_in": {"t": 10},
        "bytes_in": {"t": 1000},
        "bytes_out": {},
        "produces": {"t": 4},
        "fetches": {"t": 6},
        "failed_produces": {},
        "failed_fetches": {},
        "replication_bytes": {
            "ReplicationBytesIn": 700,
            "ReplicationBytesOut": 900,
            "ReassignmentBytesIn": 70,
            "ReassignmentBytesOut": 90,
        },
        "refused_requests": 1,
        "requests": [[0, 9, 3]],
        "request_times": {0: times.export()},
        "connections": {"PLAINTEXT": 2},
        "logins": {"CLIENTS": {**no_logins(), SUCCEEDED: 3, FAILED: 2}},
        "denials": {"User:alice": 2, "User:bob": 1},
        "fetch_sessions": 1,
        "purgatory": {"Fetch": 1},
        "isr_events": {"IsrShrinks": 2, "IsrExpands": 1, "FailedIsrUpdates": 0},
        "replication_rates": {"LeaderReplication": 1000.0, "FollowerReplication": 0.0},
        "client_quotas": [("producer_byte_rate", "alice", "", 700.0, 1000.0)],
        "client_quotas_given_up": 0,
        "leaders": 2,
        "reassigning": 1,
        "lags": [[0, 2, "t", 1, 30]],
        "fetchers": {"failed": 0, "dead": 0, "requests": {"0-2": 120}},
        "moves": {"lags": [["t", 0, 6]], "failed": 0, "dead": 0, "requests": {"0": 300}},
        "partitions": 3,
        "open_files": [0, 40, 1024],
        "uncleanable": [],
        "directories": ["/data/a", "/data/b"],
        "offline_directories": ["/data/b"],
        "transaction_markers": {"UnknownDestinationQueueSize": 2, "LogAppendRetryQueueSize": 1},
        "groups": {"NumOffsets": 5, "NumGroups": 2, "NumGroupsStable": 1},
        "group_events": {"offset_commit": 7, "group_completed_rebalance": 1},
        "group_loads": [0, 0.0, 0.0],
        "transaction_loads": [0, 0.0, 0.0],
        "led": [["t", 0, 3, 2, 2, 4, 0, 77, 5000]],
        "followed": [["u", 7, 3]],
        "producer_ids": 4,
        "late_transactions": 1,
        "verification_failures": 2,
        "verification_times": verifications.export(),
        "logs": [["t", 0, 5000, 0, 10, 1, 9, False], ["t", 0, 300, 0, 4, 1, 4, True]],
        **changes,
    }
