"""Beans: their names and patterns of them, rates, what they hold, and where they are served."""

import json
import math
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import pytest

from pkafka.server.config.metrics_access import MetricsAccess
from pkafka.server.metrics.access import PageAccess
from pkafka.server.metrics.counters import FOLLOWERS_FETCH
from pkafka.server.metrics.jmx_beans import beans, meter_counts
from pkafka.server.metrics.latency import Histogram
from pkafka.server.metrics.meters import Meter, Meters
from pkafka.server.metrics.object_names import matcher, object_name
from pkafka.server.metrics.request_times import RequestTimes
from pkafka.server.metrics.server import MetricsServer
from tests.unit.server.metrics.metrics_snapshots import FACTS, worker

MESSAGES = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a:type=b", "a:type=b", True),
        ("a:type=b", "a:type=b,name=c", False),
        ("a:type=b,*", "a:type=b,name=c", True),
        ("a:*", "a:type=b,name=c", True),
        ("*:*", "a:type=b", True),
        ("a.*:type=b", "a.c:type=b", True),
        ("a.*:type=b", "axc:type=b", False),
        ("a:name=c,type=b", "a:type=b,name=c", True),
        ("a:type=b,name=c*", "a:type=b,name=cd", True),
        ("a:type=b,name=c?", "a:type=b,name=c", False),
        ("a:type=b,topic=*", "a:type=b", False),
        ("a:dir=*,*", 'a:dir="/x,y:z=1",type=b', True),
        ('a:type=b,dir="/x,y"', 'a:type=b,dir="/x,y"', True),
    ],
)
def test_patterns(pattern: str, name: str, matches: bool) -> None:
    assert matcher(pattern)(name) is matches


@pytest.mark.parametrize("pattern", ["bogus", "a:", "a:b", "a:type=b,,", 'a:type="b'])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no object name"):
        matcher(pattern)


def test_values_are_quoted_where_kafka_quotes_them() -> None:
    assert object_name("d", {"a": "x.y-z_1 %", "b": 3}) == "d:a=x.y-z_1 %,b=3"
    assert object_name("d", {"a": "/x/y"}) == 'd:a="/x/y"'
    assert object_name("d", {"a": 'q"*?\\\n'}) == r'd:a="q\"\*\?\\\n"'


def test_a_steady_counter_has_its_rate_in_every_average() -> None:
    meter = Meter(0, 0.0)
    for tick in range(1, 500):
        meter.tick(50 * tick, 5.0 * tick)
    rates = meter.rates(50 * 499, 5.0 * 499)
    assert rates == {name: pytest.approx(10.0) for name in rates}


def test_averages_forget_at_their_own_pace() -> None:
    meter = Meter(0, 0.0)
    meter.tick(300, 5.0)
    for tick in range(2, 14):  # a minute of silence
        meter.tick(300, 5.0 * tick)
    rates = meter.rates(300, 65.0)
    assert rates["OneMinuteRate"] == pytest.approx(60 * math.exp(-1))
    assert rates["FiveMinuteRate"] == pytest.approx(60 * math.exp(-1 / 5))
    assert rates["FifteenMinuteRate"] == pytest.approx(60 * math.exp(-1 / 15))
    assert rates["MeanRate"] == pytest.approx(300 / 65)


def test_a_counter_that_begins_anew_does_not_run_backwards() -> None:
    meter = Meter(0, 0.0)
    meter.tick(1000, 5.0)
    meter.tick(10, 10.0)
    assert 0 < meter.rates(10, 10.0)["OneMinuteRate"] < 200


def test_counters_come_and_go() -> None:
    meters = Meters(0.0)
    meters.tick({"a": 10}, 5.0)
    meters.tick({"b": 50}, 105.0)
    assert meters.rates("b", 50, 105.0) == {
        "MeanRate": 10.0,
        "OneMinuteRate": 10.0,
        "FiveMinuteRate": 10.0,
        "FifteenMinuteRate": 10.0,
    }
    assert meters.rates("a", 10, 105.0)["OneMinuteRate"] == 0.0


def made(*workers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    meters = Meters(0.0)
    meters.tick(meter_counts(workers, FACTS), 5.0)
    return beans(workers, FACTS, meters, 5.0)


def test_counters_of_all_workers_and_of_all_topics_are_added_up() -> None:
    found = made(worker(messages_in={"t": 10, "u": 5}), worker())
    assert found[f"{MESSAGES},topic=t"] == {
        "Count": 20,
        "EventType": "messages",
        "RateUnit": "SECONDS",
        "MeanRate": 4.0,
        "OneMinuteRate": 4.0,
        "FiveMinuteRate": 4.0,
        "FifteenMinuteRate": 4.0,
    }
    assert found[MESSAGES]["Count"] == 25
    request = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=9"
    assert found[request]["Count"] == 6


def test_who_fetches_is_told_apart() -> None:
    found = made(worker(requests=[[1, 12, 5], [FOLLOWERS_FETCH, 12, 7]]))
    requests = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request={},version=12"
    counts = {
        name: found[requests.format(name)]["Count"] for name in ("Fetch", "FetchConsumer", "FetchFollower")
    }
    assert counts == {"Fetch": 12, "FetchConsumer": 5, "FetchFollower": 7}
    # Kafka has the times of either from the start.
    assert found["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=FetchFollower"]["Count"] == 0
    replication = found["kafka.server:type=BrokerTopicMetrics,name=ReplicationBytesOutPerSec"]
    assert (replication["Count"], replication["EventType"], replication["OneMinuteRate"]) == (
        900,
        "bytes",
        180.0,
    )


def test_elections_have_a_count_a_rate_and_a_time() -> None:
    found = made(worker(), worker())
    stats = "kafka.controller:type=ControllerStats,name={}"
    timer = found[stats.format("LeaderElectionRateAndTimeMs")]
    assert (timer["Count"], timer["EventType"], timer["RateUnit"], timer["LatencyUnit"]) == (
        1,
        "calls",
        "SECONDS",
        "MILLISECONDS",
    )
    assert (timer["Mean"], timer["Max"], timer["OneMinuteRate"]) == (4.0, 4.0, 0.2)
    unclean = found[stats.format("UncleanLeaderElectionsPerSec")]
    assert (unclean["Count"], unclean["EventType"], unclean["OneMinuteRate"]) == (2, "elections", 0.4)


def test_markers_that_wait_are_those_of_all_workers() -> None:
    beans = made(worker(), worker())
    bean = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
    assert beans[f"{bean}UnknownDestinationQueueSize"] == {"Value": 4}
    assert beans[f"{bean}LogAppendRetryQueueSize"] == {"Value": 2}


def test_verifications_of_transactions_are_those_of_all_workers() -> None:
    beans = made(worker(), worker())
    bean = "kafka.server:type=AddPartitionsToTxnManager,name="
    failures = beans[f"{bean}VerificationFailureRate"]
    assert (failures["Count"], failures["EventType"]) == (4, "failures")
    times = beans[f"{bean}VerificationTimeMs"]
    assert (times["Count"], times["Max"]) == (2, 3.0)
    late = beans["kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount"]
    assert late == {"Value": 2}


def test_events_of_groups_have_a_count_and_a_rate() -> None:
    groups = made(worker(), worker())["kafka.server:type=group-coordinator-metrics"]
    assert (groups["offset-commit-count"], groups["offset-commit-rate"]) == (14.0, 2.8)


def test_the_loading_of_transactional_ids_is_timed() -> None:
    found = made(worker(transaction_loads=[2, 30.0, 20.0]), worker(transaction_loads=[1, 60.0, 60.0]))
    beans = found["kafka.server:type=transaction-coordinator-metrics"]
    assert (beans["partition-load-time-avg"], beans["partition-load-time-max"]) == (30.0, 60.0)


def test_throttled_replicas_have_one_rate_for_all_workers() -> None:
    rates = {"LeaderReplication": 1000.0}
    found = made(worker(replication_rates=rates), worker(replication_rates=rates))
    assert found["kafka.server:type=LeaderReplication"] == {"byte-rate": 1000.0}
    assert "kafka.server:type=FollowerReplication" not in found


def test_partitions_of_which_replicas_lag_are_counted() -> None:
    rows = [
        ["t", 0, 3, 2, 2, 4, 0],
        ["t", 1, 3, 1, 2, 0, 0],
        ["t", 2, 3, 3, 2, 0, 0],
        ["u", 0, 1, 1, 2, 0, 0],
    ]
    found = made(worker(led=rows[:2]), worker(led=rows[2:]))

    def replica_manager(name: str) -> int:
        value: int = found[f"kafka.server:type=ReplicaManager,name={name}"]["Value"]
        return value

    assert replica_manager("UnderReplicatedPartitions") == 2
    assert replica_manager("UnderMinIsrPartitionCount") == 1
    assert replica_manager("AtMinIsrPartitionCount") == 2
    assert replica_manager("ProducerIdCount") == 8
    partition = "kafka.cluster:type=Partition,name={},topic=t,partition=0"
    assert found[partition.format("UnderReplicated")]["Value"] == 1
    assert found[partition.format("InSyncReplicasCount")]["Value"] == 2
    assert found[partition.format("LastStableOffsetLag")]["Value"] == 4


def test_followers_know_only_of_their_own_log() -> None:
    found = made(worker())
    partition = "kafka.cluster:type=Partition,name={},topic={},partition={}"
    names = {
        name.split("name=")[1].split(",")[0]
        for name in found
        if name.startswith("kafka.cluster:type=Partition")
    }
    values = {name: found[partition.format(name, "u", 7)]["Value"] for name in names}
    assert values == {**dict.fromkeys(names, 0), "LastStableOffsetLag": 3}
    assert found[partition.format("ReplicasCount", "t", 0)]["Value"] == 3


def test_replicas_that_are_being_added_are_not_missed() -> None:
    found = made(worker(led=[["t", 0, 2, 1, 2, 0, 1]]))
    assert found["kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"]["Value"] == 0
    partition = "kafka.cluster:type=Partition,name={},topic=t,partition=0"
    assert found[partition.format("UnderReplicated")]["Value"] == 0
    assert found[partition.format("ReplicasCount")]["Value"] == 1
    # For min.insync.replicas those that are being added count to Kafka, too (Partition.effectiveMinIsr).
    assert found[partition.format("UnderMinIsr")]["Value"] == 1


def test_replicas_that_follow_and_partitions_that_move_are_told_of() -> None:
    other = worker(reassigning=2, lags=[[1, 2, "t", 2, 0], [1, 3, "u", 0, 70]])
    found = made(worker(), other)
    assert found["kafka.server:type=ReplicaManager,name=ReassigningPartitions"] == {"Value": 3}
    manager = "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica"
    assert found[manager] == {"Value": 70}
    lag = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=ReplicaFetcherThread-{}"
    assert found[lag.format("0-2,topic=t,partition=1")] == {"Value": 30}
    assert found[lag.format("1-3,topic=u,partition=0")] == {"Value": 70}
    assert made(worker(lags=[]))[manager] == {"Value": 0}


def test_fetchers_of_replicas_that_follow_or_move_are_told_of() -> None:
    other = worker(
        fetchers={"failed": 2, "dead": 1, "requests": {"1-2": 20, "1-3": 50}},
        moves={"lags": [["u", 3, 50], ["u", 5, 0]], "failed": 1, "dead": 0, "requests": {"1": 100}},
        open_files=[1, 40, 1024],
    )

    def told(kind: str, client: str, *workers: dict[str, Any]) -> dict[str, Any]:
        found = made(*workers)
        gauges = ("MaxLag", "MinFetchRate", "FailedPartitionsCount", "DeadThreadCount")
        bean = f"kafka.server:type={kind},name={{}},clientId={client}"
        return {name: found[bean.format(name)]["Value"] for name in gauges}

    # Requests of five seconds; that of the slowest fetcher counts.
    follow = {"MaxLag": 30, "MinFetchRate": 4.0, "FailedPartitionsCount": 2, "DeadThreadCount": 1}
    assert told("ReplicaFetcherManager", "Replica", worker(), other) == follow
    move = {"MaxLag": 50, "MinFetchRate": 20.0, "FailedPartitionsCount": 1, "DeadThreadCount": 0}
    assert told("ReplicaAlterLogDirsManager", "ReplicaAlterLogDirs", worker(), other) == move
    idle = worker(moves={"lags": [], "failed": 0, "dead": 0, "requests": {}})
    nothing = {"MaxLag": 0, "MinFetchRate": 0.0, "FailedPartitionsCount": 0, "DeadThreadCount": 0}
    assert told("ReplicaAlterLogDirsManager", "ReplicaAlterLogDirs", idle) == nothing
    lag = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=ReplicaAlterLogDirsThread-{}"
    assert made(worker(), other)[lag.format("1,topic=u,partition=3")] == {"Value": 50}


def test_only_the_controller_tells_of_the_cluster() -> None:
    controller = "kafka.controller:type=KafkaController,name={}"
    found = made(worker())
    assert found[controller.format("ActiveControllerCount")] == {"Value": 1}
    assert found[controller.format("ActiveBrokerCount")] == {"Value": 3}
    assert found[controller.format("OfflinePartitionsCount")] == {"Value": 1}
    assert found[controller.format("PreferredReplicaImbalanceCount")] == {"Value": 2}
    assert found[controller.format("ReplicasToDeleteCount")] == {"Value": 5}
    assert found[controller.format("TopicsIneligibleToDeleteCount")] == {"Value": 1}
    assert found["kafka.controller:type=ControllerEventManager,name=EventQueueSize"] == {"Value": 4}
    assert found["kafka.server:type=ReplicaManager,name=OfflineReplicaCount"] == {"Value": 1}
    assert found["kafka.server:type=KafkaServer,name=ClusterId"] == {"Value": "cluster"}
    assert found["kafka.server:type=app-info,id=7"]["StartTimeMs"] == 1_700_000_000_000


def test_request_times_are_in_milliseconds() -> None:
    found = made(worker())

    def times(part: str) -> dict[str, Any]:
        return found[f"kafka.network:type=RequestMetrics,name={part}TimeMs,request=Produce"]

    for part, mean, largest in (("Total", 3.5, 5.0), ("Local", 1.5, 2.0), ("Remote", 2.0, 4.0)):
        assert (times(part)["Count"], times(part)["Mean"], times(part)["Max"]) == (2, mean, largest)
        assert times(part)["999thPercentile"] == largest
    assert times("Remote")["Min"] == 0.0


def test_one_value_is_every_percentile() -> None:
    one = RequestTimes()
    one.at_once.record(2_000_000)
    found = made(worker(request_times={0: one.export()}))
    times = found["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Produce"]
    assert times["Min"] == times["50thPercentile"] == times["999thPercentile"] == 2.0
    assert times["StdDev"] == 0.0


def test_requests_that_nobody_sent_have_a_bean_too() -> None:
    times = made(worker())["kafka.network:type=RequestMetrics,name=TotalTimeMs,request=DescribeCluster"]
    assert set(times.values()) == {0}


def test_the_spread_of_times() -> None:
    assert Histogram().spread() == (0, 0.0)
    histogram = Histogram()
    for value in (1, 3):
        histogram.record(value)
    assert histogram.spread() == (1, 1.0)


def test_beans_are_served_over_http_beside_the_page() -> None:
    page = MetricsServer("127.0.0.1", 0, lambda: ([worker()], FACTS), PageAccess(MetricsAccess()))

    def get(query: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/jmx{query}", timeout=60) as answer:
            return json.loads(answer.read())["beans"]

    try:
        [found] = get(f"?qry={quote(MESSAGES)}")
        assert (found["name"], found["Count"]) == (MESSAGES, 10)
        assert [
            each["name"]
            for each in get("?qry=kafka.log:type=Log,name=Size,*&qry=kafka.server:type=app-info,*")
        ] == [
            "kafka.log:type=Log,name=Size,topic=t,partition=0",
            "kafka.log:type=Log,name=Size,topic=t,partition=0,is-future=true",
            "kafka.server:type=app-info,id=7",
        ]
        every = get("")
        assert len(every) > 30
        [groups] = [each for each in every if each["name"] == "kafka.server:type=group-coordinator-metrics"]
        assert groups["partition-load-time-avg"] is None  # no number that JSON knows
        assert groups["offset-commit-count"] == 7.0
        with pytest.raises(urllib.error.HTTPError, match="400"):
            get("?qry=bogus")
    finally:
        page.close()
