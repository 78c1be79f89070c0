"""Coordinators that move, load and disappear, as the admin client sees them."""

from collections.abc import Iterator

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import GroupDescription, GroupState, GroupType
from pkafka.clients.errors import UnsupportedApiError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import consumer_group_describe as new
from pkafka.protocol.messages import describe_groups
from pkafka.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from pkafka.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pkafka.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker, Handler
from tests.skipped_time import LaterClock

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.FIND_COORDINATOR] = coordinator_is(broker)
        yield broker


@pytest.fixture
def admin(broker: FakeBroker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 1}) as admin:
        admin.cluster.refresh()
        yield admin


def coordinator_is(broker: FakeBroker, node: int = 1) -> Handler:
    def find(request: Message, version: int) -> FindCoordinatorResponse:
        assert isinstance(request, FindCoordinatorRequest)
        if version < 4:
            return FindCoordinatorResponse(node_id=node, host="127.0.0.1", port=broker.port)
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=node, host="127.0.0.1", port=broker.port)
                for key in request.coordinator_keys
            ]
        )

    return find


def deleting(*codes: ErrorCode) -> Handler:
    """Answers DeleteGroups with one code after another, the last one for good."""
    left = list(codes)

    def delete(request: Message, _version: int) -> DeleteGroupsResponse:
        assert isinstance(request, DeleteGroupsRequest)
        code = left.pop(0) if len(left) > 1 else left[0]
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=each, error_code=code) for each in request.groups_names]
        )

    return delete


def test_a_coordinator_that_moved_is_looked_up_again(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ApiKey.DELETE_GROUPS] = deleting(
        ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE
    )
    assert admin.delete_groups(["a", "b"]) == {"a": None, "b": None}
    assert broker.count(ApiKey.DELETE_GROUPS) == broker.count(ApiKey.FIND_COORDINATOR) == 3


def test_a_coordinator_that_never_settles_costs_no_more_than_the_time_out(
    broker: FakeBroker, admin: Admin
) -> None:
    clock = admin.cluster.clock = LaterClock()
    broker.handlers[ApiKey.DELETE_GROUPS] = clock.skips_at(3, deleting(ErrorCode.NOT_COORDINATOR))
    outcome = admin.delete_groups(["a"], timeout_ms=60_000)["a"]
    assert isinstance(outcome, ApiError)
    assert outcome.code is ErrorCode.NOT_COORDINATOR
    assert broker.count(ApiKey.DELETE_GROUPS) == 3


def test_a_coordinator_that_is_no_broker_is_not_available(broker: FakeBroker, admin: Admin) -> None:
    clock = admin.cluster.clock = LaterClock()
    broker.handlers[ApiKey.FIND_COORDINATOR] = clock.skips_at(3, coordinator_is(broker, node=9))
    outcome = admin.delete_groups(["a"], timeout_ms=60_000)["a"]
    assert isinstance(outcome, ApiError)
    assert outcome.code is ErrorCode.NETWORK_EXCEPTION
    assert "broker 9 is not part of the cluster" in outcome.message
    assert broker.count(ApiKey.DELETE_GROUPS) == 0


def test_a_commit_is_sent_again_when_its_partitions_say_that_the_coordinator_moved(
    broker: FakeBroker, admin: Admin
) -> None:
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]

    def commit(_request: Message, _version: int) -> OffsetCommitResponse:
        row = OffsetCommitResponsePartition(partition_index=0, error_code=codes.pop(0))
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])

    broker.handlers[ApiKey.OFFSET_COMMIT] = commit
    assert admin.alter_group_offsets("g", {PARTITION: OffsetAndMetadata(1)}) == {PARTITION: None}


def test_offsets_to_store_are_plain_numbers_too(broker: FakeBroker, admin: Admin) -> None:
    asked: list[tuple[int, int, str | None]] = []

    def commit(request: Message, _version: int) -> OffsetCommitResponse:
        assert isinstance(request, OffsetCommitRequest)
        for each in request.topics[0].partitions:
            asked.append((each.committed_offset, each.committed_leader_epoch, each.committed_metadata))
        row = OffsetCommitResponsePartition(partition_index=0)
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[row])])

    broker.handlers[ApiKey.OFFSET_COMMIT] = commit
    assert admin.alter_group_offsets("g", {PARTITION: 7}) == {PARTITION: None}
    assert admin.alter_group_offsets("g", {PARTITION: OffsetAndMetadata(8, "m", 3)}) == {PARTITION: None}
    assert asked == [(7, -1, ""), (8, 3, "m")]
    with pytest.raises(ValueError, match="Invalid negative offset"):
        admin.alter_group_offsets("g", {PARTITION: -1})
    assert len(asked) == 2


def test_a_broker_that_knows_one_group_at_a_time_is_asked_so() -> None:
    versions = {key: (0, registry.versions(key)[-1]) for key in (ApiKey.METADATA, ApiKey.API_VERSIONS)}
    versions |= {ApiKey.FIND_COORDINATOR: (0, 3), ApiKey.OFFSET_FETCH: (0, 7)}

    def fetch(request: Message, _version: int) -> OffsetFetchResponse:
        assert isinstance(request, OffsetFetchRequest)
        at = 7 if request.group_id == "a" else -1
        row = OffsetFetchResponsePartition(partition_index=0, committed_offset=at, metadata="")
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[row])])

    with FakeBroker({"t": 1}, versions) as broker, Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        broker.handlers[ApiKey.FIND_COORDINATOR] = coordinator_is(broker)
        broker.handlers[ApiKey.OFFSET_FETCH] = fetch
        found = admin.list_group_offsets({"a": None, "b": [PARTITION]})
    assert found == {"a": {PARTITION: OffsetAndMetadata(7)}, "b": {PARTITION: None}}


def test_a_broker_that_loads_its_groups_is_asked_again(broker: FakeBroker, admin: Admin) -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]

    def list_groups(_request: Message, _version: int) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=codes.pop(0), groups=[ListedGroup(group_id="g")])

    broker.handlers[ApiKey.LIST_GROUPS] = list_groups
    found = admin.list_groups()
    assert [each.group_id for each in found.groups] == ["g"]
    assert found.errors == {}


def test_a_broker_without_groups_says_so() -> None:
    versions = {key: (0, registry.versions(key)[-1]) for key in (ApiKey.METADATA, ApiKey.API_VERSIONS)}
    with (
        FakeBroker({}, versions) as broker,
        Admin({"bootstrap.servers": broker.bootstrap}) as admin,
        pytest.raises(UnsupportedApiError, match="FindCoordinator"),
    ):
        admin.describe_groups(["g"])


def dead(request: Message, _version: int) -> DescribeGroupsResponse:
    assert isinstance(request, DescribeGroupsRequest)
    return DescribeGroupsResponse(
        groups=[describe_groups.DescribedGroup(group_id=each, group_state="Dead") for each in request.groups]
    )


def test_groups_of_the_newer_protocol_are_described(broker: FakeBroker, admin: Admin) -> None:
    def describe(request: Message, _version: int) -> new.ConsumerGroupDescribeResponse:
        assert isinstance(request, new.ConsumerGroupDescribeRequest)
        missing = new.DescribedGroup(group_id="none", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        reads = new.TopicPartitions(topic_id=bytes(16), topic_name="t", partitions=[0, 2])
        member = new.Member(
            member_id="m",
            client_id="c",
            client_host="/127.0.0.1",
            assignment=new.Assignment(topic_partitions=[reads]),
        )
        found = new.DescribedGroup(
            group_id="new", group_state="Stable", assignor_name="uniform", members=[member]
        )
        return new.ConsumerGroupDescribeResponse(groups=[missing, found])

    broker.handlers[ApiKey.DESCRIBE_GROUPS] = dead
    broker.handlers[ApiKey.CONSUMER_GROUP_DESCRIBE] = describe
    described = admin.describe_groups(["new", "none"])
    found, missing = described["new"], described["none"]
    assert isinstance(found, GroupDescription)
    assert isinstance(missing, GroupDescription)
    assert (found.state, found.type, found.assignor) == (GroupState.STABLE, GroupType.CONSUMER, "uniform")
    assert found.members[0].assignment == (TopicPartition("t", 0), TopicPartition("t", 2))
    assert missing.state is GroupState.DEAD


def test_a_broker_without_the_newer_protocol_has_classic_groups() -> None:
    keys = (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS)
    versions = {key: (0, registry.versions(key)[-1]) for key in keys}
    with FakeBroker({}, versions) as broker, Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        broker.handlers[ApiKey.FIND_COORDINATOR] = coordinator_is(broker)
        broker.handlers[ApiKey.DESCRIBE_GROUPS] = dead
        outcome = admin.describe_groups(["g"])["g"]
    assert isinstance(outcome, GroupDescription)
    assert outcome.state is GroupState.DEAD
