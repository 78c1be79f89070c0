"""The metrics page: counters of all workers, added up under Kafka's names."""

import copy
import math
import urllib.request
from typing import Any

import pytest

from pkafka.server.config.metrics_access import MetricsAccess
from pkafka.server.metrics.access import PageAccess
from pkafka.server.metrics.counters import FOLLOWERS_FETCH
from pkafka.server.metrics.page import BrokerFacts, families
from pkafka.server.metrics.server import MetricsServer
from tests.unit.server.metrics.metrics_snapshots import FACTS, worker


def values(
    workers: list[dict[str, Any]], facts: BrokerFacts = FACTS
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(workers, facts)
        for sample in family.samples
    }


def test_counters_of_all_workers_are_added_up() -> None:
    found = values([worker(), worker(logs=[["t", 1, 7000, 0, 20, 2, 20, False]])])
    topic = (("topic", "t"),)
    assert found["kafka_server_brokertopicmetrics_messagesin_total", topic] == 20
    assert found["kafka_server_brokertopicmetrics_bytesin_total", topic] == 2000
    produce = (("request", "Produce"), ("version", "9"))
    assert found["kafka_network_requestmetrics_requests_total", produce] == 6
    assert found["kafka_server_replicamanager_partitioncount", ()] == 6
    assert found["kafka_server_socketservermetrics_connectioncount", (("listener", "PLAINTEXT"),)] == 4
    assert found["kafka_log_log_size", (("partition", "0"), ("topic", "t"))] == 5000
    on_its_way = (("is_future", "true"), ("partition", "0"), ("topic", "t"))
    assert found["kafka_log_log_size", on_its_way] == 300
    assert found["kafka_log_log_size", (("partition", "1"), ("topic", "t"))] == 7000


def test_the_logins_of_all_workers_are_counted_by_listener() -> None:
    found = values([worker(), worker()])
    listener = (("listener", "CLIENTS"),)
    for name, count in (
        ("successfulauthentication", 6),
        ("failedauthentication", 4),
        ("successfulreauthentication", 0),
        ("expiredconnectionskilled", 0),
    ):
        assert found[f"kafka_server_socketservermetrics_{name}_total", listener] == count


def test_what_was_denied_is_counted_by_principal_over_all_processes() -> None:
    found = values([worker(), worker()])
    for principal, count in (("User:alice", 5), ("User:bob", 2)):
        assert found["pkafka_authorizer_denials_total", (("principal", principal),)] == count


def test_the_groups_of_all_workers_are_counted_under_kafkas_names() -> None:
    found = values([worker(), worker(groups={"NumOffsets": 1, "NumGroups": 1, "NumGroupsStable": 0})])
    assert found["kafka_coordinator_group_groupmetadatamanager_numoffsets", ()] == 6
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroups", ()] == 3
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroupsstable", ()] == 1
    assert found["kafka_server_group_coordinator_metrics_offset_commit_total", ()] == 14
    assert found["kafka_server_group_coordinator_metrics_group_completed_rebalance_total", ()] == 2


def test_the_markers_of_all_workers_are_counted() -> None:
    waiting = {"UnknownDestinationQueueSize": 3, "LogAppendRetryQueueSize": 0}
    found = values([worker(), worker(transaction_markers=waiting)])
    bean = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
    assert found[f"{bean}_unknowndestinationqueuesize", ()] == 5
    assert found[f"{bean}_logappendretryqueuesize", ()] == 1


def test_verifications_of_transactions_are_those_of_all_workers() -> None:
    found = values([worker(), worker(verification_failures=5)])
    bean = "kafka_server_addpartitionstotxnmanager"
    assert found[f"{bean}_verificationfailure_total", ()] == 7
    assert found[f"{bean}_verificationtimems_count", ()] == 2
    assert found[f"{bean}_verificationtimems_sum", ()] == 6.0
    assert found["kafka_server_replicamanager_partitionswithlatetransactionscount", ()] == 2


def test_what_holds_readers_back_is_told_of_each_partition() -> None:
    found = values([worker(), worker(led=[["u", 3, 1, 1, 1, 0, 0]])])
    first, second = (("partition", "0"), ("topic", "t")), (("partition", "3"), ("topic", "u"))
    assert found["kafka_cluster_partition_laststableoffsetlag", first] == 4
    assert found["kafka_cluster_partition_laststableoffsetlag", second] == 0
    silence = "pkafka_partition_opentransactionsilence_ms"
    assert {labels: value for (name, labels), value in found.items() if name == silence} == {
        (("partition", "0"), ("producer_id", "77"), ("topic", "t")): 5000
    }


@pytest.mark.parametrize("what", ["group", "transaction"])
def test_the_times_of_loading_are_those_of_all_workers(what: str) -> None:
    name = f"kafka_server_{what}_coordinator_metrics_partition_load_time"
    loads: tuple[dict[str, Any], ...] = (
        {f"{what}_loads": [3, 60.0, 40.0]},
        {},
        {f"{what}_loads": [1, 100.0, 100.0]},
    )
    found = values([worker(**one) for one in loads])
    assert (found[f"{name}_avg", ()], found[f"{name}_max", ()]) == (40, 100)
    found = values([worker(), worker()])
    assert math.isnan(found[f"{name}_avg", ()])
    assert math.isnan(found[f"{name}_max", ()])


def test_throttled_replicas_have_one_rate_for_all_workers() -> None:
    rates = {"LeaderReplication": 1000.0}
    found = values([worker(replication_rates=rates), worker(replication_rates=rates)])
    assert found["kafka_server_leaderreplication_byte_rate", ()] == 1000
    assert ("kafka_server_followerreplication_byte_rate", ()) not in found


def test_clients_with_quotas_show_what_they_use() -> None:
    found = values([worker(), worker(client_quotas_given_up=3)])
    labels = (("client_id", ""), ("quota", "producer_byte_rate"), ("user", "alice"))
    assert found["pkafka_client_quota_use", labels] == 700
    assert found["pkafka_client_quota_limit", labels] == 1000
    assert found["pkafka_client_quota_rates_given_up", ()] == 3


def test_what_moves_lags_and_is_deleted_is_on_the_page_too() -> None:
    found = values([worker(), worker(lags=[[0, 3, "u", 0, 70]])])
    assert found["kafka_server_replicamanager_reassigningpartitions", ()] == 2
    assert found["kafka_server_replicafetchermanager_maxlag", ()] == 70
    assert found["kafka_controller_kafkacontroller_topicstodeletecount", ()] == 2
    assert found["kafka_controller_controllereventmanager_eventqueuesize", ()] == 4


def test_fetchers_of_replicas_that_follow_or_move_are_told_of() -> None:
    other = worker(
        fetchers={"failed": 2, "dead": 1, "requests": {}},
        moves={"lags": [["u", 3, 50]], "failed": 1, "dead": 0, "requests": {"1": 100}},
    )
    found = values([worker(), other])
    assert found["kafka_server_replicafetchermanager_failedpartitionscount", ()] == 2
    assert found["kafka_server_replicafetchermanager_deadthreadcount", ()] == 1
    assert found["kafka_server_replicaalterlogdirsmanager_maxlag", ()] == 50
    assert found["kafka_server_replicaalterlogdirsmanager_failedpartitionscount", ()] == 1
    assert found["kafka_server_replicaalterlogdirsmanager_deadthreadcount", ()] == 0


def test_open_files_are_told_of_each_process() -> None:
    found = values([worker(open_files=[1, 90, 2048]), worker()])
    assert found["pkafka_process_openfiledescriptorcount", (("worker", "0"),)] == 40
    assert found["pkafka_process_openfiledescriptorcount", (("worker", "1"),)] == 90
    assert found["pkafka_process_maxfiledescriptorcount", (("worker", "1"),)] == 2048


def test_a_directory_that_failed_counts_once_however_many_workers_say_so() -> None:
    found = values([worker(), worker()])
    assert found["kafka_log_logmanager_offlinelogdirectorycount", ()] == 1


def test_the_cleaners_gauges_have_kafkas_names() -> None:
    found = values([worker(uncleanable=[["/data/a", 2, 500]]), worker(uncleanable=[["/data/a", 1, 50]])])
    assert found["kafka_log_logcleanermanager_max_dirty_percent", ()] == 42
    assert found["kafka_log_logcleaner_deadthreadcount", ()] == 0
    assert found["kafka_log_logcleaner_cleaner_recopy_percent", ()] == 7
    for directory, partitions, size in (("/data/a", 3, 550), ("/data/b", 0, 0)):
        tag = (("logdirectory", directory),)
        assert found["kafka_log_logcleanermanager_uncleanable_partitions_count", tag] == partitions
        assert found["kafka_log_logcleanermanager_uncleanable_bytes", tag] == size


def test_request_times_are_in_milliseconds() -> None:
    found = values([worker(), worker()])
    median = (("quantile", "0.5"), ("request", "Produce"))
    request = (("request", "Produce"),)
    assert 2.0 <= found["kafka_network_requestmetrics_totaltimems", median] <= 2.25
    for part, whole in (("total", 14.0), ("local", 6.0), ("remote", 8.0)):
        assert found[f"kafka_network_requestmetrics_{part}timems_count", request] == 4
        assert found[f"kafka_network_requestmetrics_{part}timems_sum", request] == whole
    assert found["kafka_network_requestmetrics_remotetimems", median] == 0.0


def test_replicas_that_lag_are_counted() -> None:
    found = values(
        [worker(), worker(led=[["t", 0, 3, 2, 2, 0, 0], ["t", 1, 3, 1, 2, 0, 0], ["u", 0, 1, 1, 2, 0, 0]])]
    )
    assert found["kafka_server_replicamanager_underreplicatedpartitions", ()] == 3
    assert found["kafka_server_replicamanager_underminisrpartitioncount", ()] == 1
    assert found["kafka_server_replicamanager_isrshrinks_total", ()] == 4
    assert found["kafka_server_replicamanager_isrexpands_total", ()] == 2


def test_replicas_that_are_being_added_are_not_missed() -> None:
    # A factor of 1 that grows to 2, and one that lost a replica while it grows.
    found = values([worker(led=[["t", 0, 2, 1, 1, 0, 1], ["t", 1, 3, 1, 1, 0, 1]])])
    assert found["kafka_server_replicamanager_underreplicatedpartitions", ()] == 1


def test_who_fetches_is_told_apart() -> None:
    times = worker()["request_times"][0]
    fetches = worker(
        requests=[[1, 12, 5], [FOLLOWERS_FETCH, 12, 7], [FOLLOWERS_FETCH, 17, 1]],
        request_times={1: times, FOLLOWERS_FETCH: times},
    )
    found = values([fetches, worker()])
    requests, total = (
        "kafka_network_requestmetrics_requests_total",
        "kafka_network_requestmetrics_totaltimems_count",
    )
    for name, of_version_12, timed in (("Fetch", 12, 4), ("FetchConsumer", 5, 2), ("FetchFollower", 7, 2)):
        assert found[requests, (("request", name), ("version", "12"))] == of_version_12
        assert found[total, (("request", name),)] == timed
    assert found["kafka_server_brokertopicmetrics_replicationbytesin_total", ()] == 1400
    assert found["kafka_server_brokertopicmetrics_replicationbytesout_total", ()] == 1800
    assert found["kafka_server_brokertopicmetrics_reassignmentbytesin_total", ()] == 140
    assert found["kafka_server_brokertopicmetrics_reassignmentbytesout_total", ()] == 180


def test_of_the_cluster_the_controller_alone_tells() -> None:
    other = copy.copy(FACTS)
    other.active_controller = False
    name = "kafka_controller_kafkacontroller_{}"
    for gauge, known in (
        ("offlinepartitionscount", 1),
        ("globalpartitioncount", 5),
        ("activebrokercount", 3),
    ):
        found = [values([worker()], facts)[name.format(gauge), ()] for facts in (FACTS, other)]
        assert found == [known, 0]


def test_how_long_elections_take() -> None:
    found = values([worker(), worker()])
    election = "kafka_controller_controllerstats_leaderelectionrateandtimems"
    assert (found[f"{election}_count", ()], found[f"{election}_sum", ()]) == (1, 4.0)
    assert found[election, (("quantile", "0.99"),)] == 4.0
    assert found["kafka_controller_controllerstats_uncleanleaderelections_total", ()] == 2
    assert found["pkafka_listener_certificate_days", (("listener", "SSL"),)] == 29.5


def test_logs_tell_how_far_consumers_may_read() -> None:
    found = values([worker()])
    partition = (("partition", "0"), ("topic", "t"))
    assert found["pkafka_log_log_highwatermark", partition] == 9
    assert found["kafka_log_log_logendoffset", partition] == 10


def test_the_page_is_served_over_http_as_text() -> None:
    page = MetricsServer("127.0.0.1", 0, lambda: ([worker()], FACTS), PageAccess(MetricsAccess()))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    finally:
        page.close()
    assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in text
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 10.0' in text
