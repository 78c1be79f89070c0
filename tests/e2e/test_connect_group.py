"""Members of a Connect cluster's group on a pkafka broker: who gets what when workers come, go, hang and disagree."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.consumer import Consumer
from pkafka.connect.distributed.group_protocol import Compatibility
from pkafka.errors import ApiError, ErrorCode
from pkafka.testing import Broker, running_broker
from tests.connect_members import Herds, herds
from tests.raw_client import new_topic_name
from tests.talk import wait_for

CONFIGURED = {"source": 3, "sink": 3}


@pytest.fixture(scope="module")
def broker_settings() -> dict[str, object]:
    return {
        "pkafka.workers": 1,
        "offsets.topic.num.partitions": 1,
        "group.min.session.timeout.ms": 1_000,
        "group.initial.rebalance.delay.ms": 0,
        "pkafka.metrics.port": 0,
    }


@pytest.fixture
def group() -> str:
    return new_topic_name()


@pytest.fixture
def cluster(broker: Broker, group: str) -> Iterator[Herds]:
    with herds(broker.bootstrap, group, CONFIGURED) as cluster:
        yield cluster


def test_a_second_worker_gets_its_share_and_the_first_gets_it_back(cluster: Herds) -> None:
    first = cluster.add("w1")
    wait_for(lambda: cluster.is_shared("w1"))
    assert first.member.owner_url("source") == first.url
    second = cluster.add("w2")
    wait_for(lambda: cluster.is_shared("w1", "w2"))
    assert abs(first.has - second.has) <= 2
    assert first.revocations
    assert not second.revocations
    taken = next(iter(second.tasks))
    wait_for(lambda: first.member.owner_url(taken) == second.url)
    assert second.member.owner_url(taken) is None  # only the leader knows
    assert first.member.member_id == first.assignments[-1].leader == second.assignments[-1].leader
    second.stop()
    wait_for(lambda: cluster.is_shared("w1"))
    assert any(each.delay_ms for each in first.assignments)
    assert first.error is second.error is None


@pytest.mark.nightly  # in time is five seconds; daily tests/scenarios/connect/bounce.txt shows the same
def test_a_worker_that_comes_back_in_time_gets_its_own_again(cluster: Herds) -> None:
    first = cluster.add("w1", max_delay_ms=5_000)
    wait_for(lambda: cluster.is_shared("w1"))
    second = cluster.add("w2")
    wait_for(lambda: cluster.is_shared("w1", "w2"))
    own, kept = set(second.tasks), set(first.tasks)
    second.stop()
    wait_for(lambda: first.assignments[-1].delay_ms > 0)
    assert first.tasks == kept
    again = cluster.add("w2")
    wait_for(lambda: cluster.is_shared("w1", "w2"))
    assert (again.tasks, first.tasks) == (own, kept)


def heartbeats(broker: Broker) -> int:
    """How many the broker has answered."""
    _, _, address = broker.log_file.read_text().rpartition("Metrics on ")
    query = urllib.parse.urlencode(
        {"qry": "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Heartbeat"}
    )
    page = address.split()[0].removesuffix("/metrics")
    with urllib.request.urlopen(f"{page}/jmx?{query}", timeout=60) as answer:
        [found] = json.load(answer)["beans"]
    return int(found["Count"])


def test_a_worker_that_takes_long_to_stop_its_work_stays_a_member(
    cluster: Herds, broker: Broker, group: str
) -> None:
    first = cluster.add("w1")
    wait_for(lambda: cluster.is_shared("w1"))
    first.may_revoke.clear()
    cluster.add("w2")
    assert first.is_revoking.wait(60)
    generation = first.assignments[-1]
    # It goes on sending heartbeats; who joins and waits sends none.
    before = heartbeats(broker)
    wait_for(lambda: heartbeats(broker) >= before + 5, what="heartbeats")
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        described = admin.describe_groups([group])[group]
    assert not isinstance(described, ApiError)
    assert len(described.members) == 2
    assert first.assignments[-1] is generation
    first.may_revoke.set()
    wait_for(lambda: cluster.is_shared("w1", "w2"))


def test_a_worker_that_stops_its_work_for_too_long_leaves_and_comes_back(cluster: Herds) -> None:
    first = cluster.add("w1", rebalance_timeout_ms=1_000)
    wait_for(lambda: cluster.is_shared("w1"))
    first.may_revoke.clear()
    second = cluster.add("w2", rebalance_timeout_ms=1_000)
    assert first.is_revoking.wait(60)
    wait_for(lambda: second.assignments and second.assignments[-1].leader == second.member.member_id)
    first.may_revoke.set()
    wait_for(lambda: cluster.is_shared("w1", "w2"))
    assert first.error is None


def test_workers_of_different_protocols_use_the_one_that_all_know(cluster: Herds) -> None:
    first = cluster.add("w1")
    wait_for(lambda: cluster.is_shared("w1"))
    assert first.member.protocol_version == Compatibility.SESSIONED
    old = cluster.add("w2", compatibility=Compatibility.EAGER)
    wait_for(lambda: cluster.is_shared("w1", "w2"))
    assert first.member.protocol_version == old.member.protocol_version == Compatibility.EAGER
    assert first.revocations[-1] == (old.connectors, old.tasks)  # it is told to stop what others got
    had = old.connectors, old.tasks
    third = cluster.add("w3", compatibility=Compatibility.COMPATIBLE)
    wait_for(lambda: cluster.is_shared("w1", "w2", "w3"))
    assert old.revocations[-1] == had  # all of it, at each rebalance
    old.stop()
    wait_for(lambda: cluster.is_shared("w1", "w3"))
    wait_for(lambda: third.member.protocol_version == Compatibility.COMPATIBLE)


def test_nobody_works_on_a_configuration_that_the_leader_has_not_read(cluster: Herds) -> None:
    first = cluster.add("w1")
    wait_for(lambda: cluster.is_shared("w1"))
    second = cluster.add("w2", offset=2)
    wait_for(lambda: any(each.failed for each in second.assignments))
    assert second.has == 0
    assert first.has == len(CONFIGURED) + sum(CONFIGURED.values())  # what runs goes on
    first.configured = first.configured._replace(offset=2)
    wait_for(lambda: cluster.is_shared("w1", "w2"))
    assert {each.config_offset for each in (first.assignments[-1], second.assignments[-1])} == {2}


def test_a_group_of_something_else_is_refused(cluster: Herds, broker: Broker, group: str) -> None:
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group}) as consumer:
        consumer.subscribe(["t"])
        wait_for(lambda: (consumer.poll(100), consumer.group_metadata().generation_id > 0)[1])
        worker = cluster.add("w1")
        wait_for(lambda: worker.error is not None)
    assert isinstance(worker.error, ApiError)
    assert worker.error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_work_ends_when_no_coordinator_is_found_and_begins_again_with_it(
    tmp_path_factory: pytest.TempPathFactory, broker_settings: dict[str, object], group: str
) -> None:
    directory = tmp_path_factory.mktemp("gone") / "broker"
    with (
        running_broker(directory, broker_settings) as broker,
        herds(broker.bootstrap, group, CONFIGURED) as cluster,
    ):
        worker = cluster.add("w1")
        wait_for(lambda: cluster.is_shared("w1"))
        broker.stop()
        wait_for(lambda: worker.revocations)
        assert worker.has == 0
        broker.start()
        wait_for(lambda: cluster.is_shared("w1"))
        assert worker.error is None
