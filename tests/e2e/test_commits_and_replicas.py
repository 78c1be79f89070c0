"""How long committed offsets wait for replicas, and for which: one of three brokers stands still."""

import time
from collections.abc import Iterator

import pytest

from pkafka.clients.admin.results import GroupDescription
from pkafka.errors import ErrorCode
from tests.cluster import Cluster, hanging
from tests.group_requests import commit_error, commit_request
from tests.raw_client import RawClient
from tests.talk import wait_for
from tests.zookeeper import ZooKeeper

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

VERSION = 8
TIMEOUT_MS = 500
DEFAULT_S = 5.0
LEADER_ALONE, PATIENT = 0, 1
"""What brokers 0 and 1 ask of a commit: the leader's log, or all replicas in sync."""


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("commits"),
        zookeeper.connect,
        # Longer than the test: who stands still remains in the ISR, and in the cluster.
        overrides={"replica.lag.time.max.ms": 60_000, "zookeeper.session.timeout.ms": 60_000},
        overrides_of=lambda number: (
            {"offsets.commit.required.acks": 1}
            if number == LEADER_ALONE
            else {"offsets.commit.timeout.ms": TIMEOUT_MS}
        ),
    ) as started:
        started.create_topic("t")
        yield started


def groups_by_coordinator(cluster: Cluster) -> dict[int, str]:
    """A group of each broker."""
    found: dict[int, str] = {}
    with cluster.admin() as admin:

        def has_all() -> bool:
            for group_id, group in admin.describe_groups([f"g-{number}" for number in range(12)]).items():
                if isinstance(group, GroupDescription):
                    found[group.coordinator.id] = group_id
            return len(found) == len(cluster.brokers)

        wait_for(has_all)
    return found


def commit(cluster: Cluster, broker: int, group: str, offset: int) -> tuple[ErrorCode, float]:
    """What a coordinator says, and how long it took in seconds."""
    with RawClient(cluster.brokers[broker].bootstrap) as client:
        began = time.monotonic()
        answer = client.call(commit_request(group, {("t", 0): offset}), VERSION)
        return commit_error(answer), time.monotonic() - began


def test_a_commit_waits_for_replicas_as_the_settings_say(cluster: Cluster) -> None:
    groups = groups_by_coordinator(cluster)
    for broker in (LEADER_ALONE, PATIENT):
        assert commit(cluster, broker, groups[broker], 1)[0] is ErrorCode.NONE
    with hanging(cluster.brokers[2]):
        assert commit(cluster, LEADER_ALONE, groups[LEADER_ALONE], 2)[0] is ErrorCode.NONE
        waits_s: list[float] = []
        # Once it may be the machine that stands still for as long.
        while len(waits_s) < 2 and min(waits_s, default=DEFAULT_S) >= DEFAULT_S:
            error, seconds = commit(cluster, PATIENT, groups[PATIENT], 2)
            assert error is ErrorCode.REQUEST_TIMED_OUT
            assert seconds >= TIMEOUT_MS / 1_000
            waits_s.append(seconds)
        assert min(waits_s) < DEFAULT_S, "the default was waited for"
    wait_for(lambda: commit(cluster, PATIENT, groups[PATIENT], 3)[0] is ErrorCode.NONE)
