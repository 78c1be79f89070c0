"""What the admin client asks of the controller alone, of a broker that is not it any more."""

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import ElectionType, Reassignment
from pkafka.clients.errors import UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import alter_partition_reassignments as alter
from pkafka.protocol.messages import elect_leaders as elect
from pkafka.protocol.messages import list_partition_reassignments as listing
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def admin_of(broker: FakeBroker) -> Admin:
    return Admin({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 1, "retry.backoff.max.ms": 1})


def test_elections_find_a_controller_that_moved() -> None:
    codes = [(41, 0), (0, 41), (0, 84)]

    def answer(*_: object) -> Message:
        whole, one = codes.pop(0)
        rows = [elect.PartitionResult(partition_id=0), elect.PartitionResult(partition_id=1, error_code=one)]
        results = [elect.ReplicaElectionResult(topic="t", partition_result=rows)]
        return elect.ElectLeadersResponse(error_code=whole, replica_election_results=results)

    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.handlers[ApiKey.ELECT_LEADERS] = answer
        found = admin.elect_leaders(ElectionType.PREFERRED, [T0, T1])
    assert found[T0] is None
    refused = found[T1]
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.ELECTION_NOT_NEEDED
    assert not codes


def test_a_broker_that_elects_only_preferred_leaders_is_not_asked_for_others() -> None:
    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.versions[ApiKey.ELECT_LEADERS] = (0, 0)
        broker.handlers[ApiKey.ELECT_LEADERS] = lambda *_: elect.ElectLeadersResponse()
        assert admin.elect_leaders(ElectionType.PREFERRED, [T0]) == {}
        with pytest.raises(UnsupportedApiError):
            admin.elect_leaders(ElectionType.UNCLEAN, [T0])


def test_moves_find_a_controller_that_moved() -> None:
    codes = [(41, 0), (0, 41), (0, 0)]

    def answer(message: Message, *_: object) -> Message:
        assert isinstance(message, alter.AlterPartitionReassignmentsRequest)
        assert [(row.partition_index, row.replicas) for row in message.topics[0].partitions] == [
            (0, [2, 1]),
            (1, None),
        ]
        whole, one = codes.pop(0)
        rows = [
            alter.ReassignablePartitionResponse(partition_index=0, error_code=one),
            alter.ReassignablePartitionResponse(partition_index=1, error_code=85, error_message="none"),
        ]
        topics = [alter.ReassignableTopicResponse(name="t", partitions=rows)]
        return alter.AlterPartitionReassignmentsResponse(error_code=whole, responses=topics)

    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.handlers[ApiKey.ALTER_PARTITION_REASSIGNMENTS] = answer
        found = admin.alter_partition_reassignments({T0: (2, 1), T1: None})
    assert found[T0] is None
    refused = found[T1]
    assert isinstance(refused, ApiError)
    assert (refused.code, refused.message) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none")
    assert not codes


def test_what_moves_is_asked_of_the_controller() -> None:
    codes = [41, 0]

    def answer(message: Message, *_: object) -> Message:
        assert isinstance(message, listing.ListPartitionReassignmentsRequest)
        assert message.topics is not None
        assert message.topics[0].partition_indexes == [0, 1]
        row = listing.OngoingPartitionReassignment(
            partition_index=0, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
        )
        topics = [listing.OngoingTopicReassignment(name="t", partitions=[row])]
        return listing.ListPartitionReassignmentsResponse(error_code=codes.pop(0), topics=topics)

    with FakeBroker() as broker, admin_of(broker) as admin:
        broker.handlers[ApiKey.LIST_PARTITION_REASSIGNMENTS] = answer
        assert admin.list_partition_reassignments([T0, T1]) == {T0: Reassignment((1, 2, 3), (3,), (1,))}
    assert not codes
