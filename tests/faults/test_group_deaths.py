"""The worker that coordinates a group dies or hangs: nobody waits in silence, and nothing acknowledged is lost."""

import select

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pkafka.server.coordinator.keyed_topic import partition_of
from pkafka.server.replicas.partitions import owner_of
from pkafka.testing import Broker
from tests.faults.conftest import MakeBroker
from tests.faults.family import family, holder, is_alive, kill, replaced
from tests.faults.wire import eventually
from tests.group_client import GroupClient
from tests.raw_client import ClosedByBroker, fetch_request
from tests.talk import talking, wait_for

TOPIC = "t"
PARTITIONS = 4
KILLED_AFTER_MS = 24_000
"""Of silence. After a third of that the others wait no longer."""


def coordinated_by(worker: int, name: str = "g") -> str:
    """A group of that worker."""
    groups = (f"{name}{number}" for number in range(1_000))
    return next(
        group
        for group in groups
        if owner_of(CONSUMER_OFFSETS_TOPIC, partition_of(group, PARTITIONS), 2) == worker
    )


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    broker = make_broker(
        **{"offsets.topic.num.partitions": PARTITIONS, "pkafka.heartbeat.timeout.ms": KILLED_AFTER_MS}
    )
    broker.start()
    with talking(broker.bootstrap) as talk, GroupClient(broker.bootstrap) as client:
        talk.create(TOPIC, 2)
        client.make_topic_of_groups()
        for worker in range(2):
            client.coordinate(coordinated_by(worker))
    return broker


def client_of(broker: Broker, name: str, *, stays: bool = True) -> GroupClient:
    """One that is connected to the worker of that name, and stays there, as a connection with a fetch session does."""
    while True:
        client = GroupClient(broker.bootstrap)
        if eventually(lambda: holder(broker, client.client.port)) == name:  # noqa: B023 - called at once
            if stays:
                both = fetch_request({(TOPIC, 0): 0, (TOPIC, 1): 0}, session=(0, 0), max_wait_ms=0)
                assert client.client.call(both, 12).session_id
            return client
        client.close()


def test_a_connection_for_the_coordinator_moves_to_it(broker: Broker) -> None:
    """With the request in hand, and for good: heartbeats and commits then reach the group without another process."""
    with client_of(broker, "worker-0", stays=False) as client:
        port = client.client.port
        here, there = coordinated_by(0), coordinated_by(1)
        client.commit(here, {(TOPIC, 0): 1})
        assert holder(broker, port) == "worker-0"
        member, generation = client.settle(there)
        assert holder(broker, port) == "worker-1"
        assert client.heartbeat(there, member, generation) == 0
        client.commit(there, {(TOPIC, 0): 2}, generation=generation, member=member)
        assert client.offsets(here) == {(TOPIC, 0): (1, "")}
        assert client.offsets(there) == {(TOPIC, 0): (2, "")}


def test_a_connection_that_reads_one_group_moves_too(broker: Broker) -> None:
    """Also where it could ask for several: of OffsetFetch v8 on nearly every client asks for its own."""
    with client_of(broker, "worker-0", stays=False) as client:
        here, there = (
            OffsetFetchRequestGroup(group_id=coordinated_by(worker), topics=None) for worker in range(2)
        )
        port = client.client.port
        both = client.client.call(OffsetFetchRequest(groups=[here, there]), 8)
        assert [group.error_code for group in both.groups] == [0, 0]
        assert holder(broker, port) == "worker-0"
        one = client.client.call(OffsetFetchRequest(groups=[there]), 8)
        assert [(group.group_id, group.error_code) for group in one.groups] == [(there.group_id, 0)]
        assert holder(broker, port) == "worker-1"


def parked(broker: Broker, waiting: GroupClient, group: str) -> tuple[str, int]:
    """A group of one member that has not heard yet that ``waiting`` joins; its id and generation."""
    with client_of(broker, "worker-0") as first:
        member, generation = first.settle(group, session_timeout_ms=60_000, rebalance_timeout_ms=60_000)
        waiting.send_join(group)
        wait_for(lambda: first.describe(group).groups[0].group_state == "PreparingRebalance", what="the join")
        assert not select.select([waiting.client.sock], [], [], 0.2)[0]
    return member, generation


def test_who_waits_for_a_coordinator_that_dies_looks_for_another(broker: Broker) -> None:
    group = coordinated_by(1)
    with client_of(broker, "worker-0") as waiting, client_of(broker, "worker-1") as there:
        member, generation = parked(broker, waiting, group)
        there.send_join(group)
        victim = kill(broker, "worker-1")
        assert waiting.client.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(ClosedByBroker):
            there.client.receive()
        replaced(broker, victim, "worker-1")
        waiting.coordinate(group)
        # The rebalance had no outcome; the members of before are those that the log knows.
        assert waiting.heartbeat(group, member, generation) == 0
        assert waiting.heartbeat(coordinated_by(0), "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_for_a_coordinator_that_hangs_looks_for_another(broker: Broker) -> None:
    group = coordinated_by(1)
    with client_of(broker, "worker-0") as waiting, client_of(broker, "worker-0") as other:
        member, generation = parked(broker, waiting, group)
        victim = family(broker)["worker-1"]
        victim.suspend()
        assert waiting.client.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert is_alive(victim), "nobody had to kill it for that"
        assert other.heartbeat(group, member, generation) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert other.describe(group).groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        victim.kill()
        replaced(broker, victim, "worker-1")
        other.coordinate(group)
        assert other.heartbeat(group, member, generation) == 0


def test_an_acknowledged_commit_never_goes_back(broker: Broker) -> None:
    """Whichever worker is killed in the middle of commits to groups of both."""
    acknowledged = {coordinated_by(worker): 0 for worker in range(2)}
    attempt = 0
    for victim_name in ("worker-0", "worker-1", "worker-0"):
        for _ in range(30):
            attempt += 1
            commit_each(broker, acknowledged, attempt)
        victim = kill(broker, victim_name)
        attempt += 1
        commit_each(broker, acknowledged, attempt)
        replaced(broker, victim, victim_name)
        with GroupClient(broker.bootstrap) as client:
            for group, least in acknowledged.items():
                client.coordinate(group)
                [(offset, _metadata)] = client.offsets(group).values()
                assert offset >= least


def commit_each(broker: Broker, acknowledged: dict[str, int], offset: int) -> None:
    """Try to commit; what is acknowledged is noted."""
    for group in acknowledged:
        try:
            with GroupClient(broker.bootstrap) as client:
                code = client.commit(group, {(TOPIC, 0): offset}).topics[0].partitions[0].error_code
        except (ClosedByBroker, ConnectionError):
            continue
        if code == 0:
            acknowledged[group] = offset
        else:
            assert ErrorCode(code).retriable, ErrorCode(code)


def test_groups_do_not_notice_that_the_control_process_dies(broker: Broker) -> None:
    """Its successor tells the workers everything anew, and knows of no topic at first."""
    with GroupClient(broker.bootstrap) as client:
        members = {
            group: client.settle(group, session_timeout_ms=60_000) for group in map(coordinated_by, range(2))
        }
        for _ in range(3):
            victim = kill(broker, "control")
            for group, (member, generation) in members.items():
                assert client.heartbeat(group, member, generation) == 0
                client.commit(group, {(TOPIC, 0): 7, (TOPIC, 1): 8}, generation=generation, member=member)
            replaced(broker, victim, "control")
            with talking(broker.bootstrap) as talk:
                talk.create(f"after-{victim.pid}")  # by then the successor is at work
            for group, (member, generation) in members.items():
                assert client.heartbeat(group, member, generation) == 0
                assert client.offsets(group) == {(TOPIC, 0): (7, ""), (TOPIC, 1): (8, "")}
