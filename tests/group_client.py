"""A client that asks about groups, request by request, as a test says."""

from collections.abc import Mapping
from typing import Any, Self

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pkafka.protocol.messages.leave_group import LeaveGroupRequest
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pkafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pkafka.protocol.schema import Message
from tests.raw_client import RawClient
from tests.talk import wait_for

Commits = dict[tuple[str, int], int | tuple[int, str | None]]


class GroupClient:
    """One connection to ``bootstrap``."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def ask(self, message: Message, version: int) -> Any:
        """Ask, and give back what is answered."""
        return self.client.call(message, version)

    def make_topic_of_groups(self) -> None:
        """Have __consumer_offsets made, and wait until somebody coordinates groups."""
        find = FindCoordinatorRequest(key="g")
        wait_for(lambda: not self.client.call(find, 1).error_code, what="a coordinator")

    def coordinate(self, group: str) -> None:
        """Wait until the group's coordinator serves."""
        request = OffsetFetchRequest(group_id=group, topics=[])
        wait_for(lambda: not self.client.call(request, 5).error_code, what="the coordinator")

    def commit(
        self,
        group: str,
        commits: Commits,
        version: int = 7,
        *,
        generation: int = -1,
        member: str = "",
        commit_timestamp: int = -1,
        **more: Any,
    ) -> Any:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), what in commits.items():
            offset, metadata = what if isinstance(what, tuple) else (what, "")
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    commit_timestamp=commit_timestamp,
                )
            )
        request = OffsetCommitRequest(
            group_id=group,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
            **more,
        )
        if version >= 1:
            request.generation_id_or_member_epoch, request.member_id = generation, member
        return self.ask(request, version)

    def fetch(self, group: str, wanted: dict[str, list[int]] | None, version: int = 7) -> Any:
        if version >= 8:
            topics = (
                None
                if wanted is None
                else [
                    OffsetFetchRequestTopics(name=name, partition_indexes=at) for name, at in wanted.items()
                ]
            )
            return self.ask(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)]), version
            )
        old = (
            None
            if wanted is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=at) for name, at in wanted.items()]
        )
        return self.ask(OffsetFetchRequest(group_id=group, topics=old), version)

    def delete_offsets(self, group: str, *keys: tuple[str, int]) -> Any:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
            )
            for topic, index in keys
        ]
        return self.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)

    def join_request(
        self,
        group: str,
        *,
        member: str = "",
        protocol_type: str = "consumer",
        metadata: bytes = b"",
        session_timeout_ms: int = 10_000,
        **more: Any,
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=10_000,
            member_id=member,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            **more,
        )

    def join(self, group: str, *, version: int = 3, **options: Any) -> Any:
        """Join, and wait for the generation to begin."""
        return self.ask(self.join_request(group, **options), version)

    def send_join(self, group: str, *, version: int = 3, **options: Any) -> None:
        """Join, and leave the answer to whoever receives it."""
        self.client.send(self.join_request(group, **options), version)

    def sync(self, group: str, member: str, generation: int, shares: Mapping[str, bytes]) -> Any:
        """Sync, as the leader with everybody's shares."""
        assignments = [
            SyncGroupRequestAssignment(member_id=one, assignment=share) for one, share in shares.items()
        ]
        request = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member, assignments=assignments
        )
        return self.ask(request, 2)

    def settle(self, group: str, **options: Any) -> tuple[str, int]:
        """A group of one member, all the way to Stable: its id and generation."""
        joined = self.join(group, **options)
        self.sync(group, joined.member_id, joined.generation_id, {joined.member_id: b"share"})
        return joined.member_id, joined.generation_id

    def describe(self, *groups: str, version: int = 5) -> Any:
        return self.ask(DescribeGroupsRequest(groups=list(groups)), version)

    def list_all(self) -> list[Any]:
        """Every group."""
        answer = self.ask(ListGroupsRequest(), 4)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return list(answer.groups)

    def heartbeat(self, group: str, member: str, generation: int) -> int:
        """The error code of a heartbeat."""
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        return int(self.ask(request, 3).error_code)

    def leave(self, group: str, member: str) -> int:
        """The error code of leaving."""
        return int(self.ask(LeaveGroupRequest(group_id=group, member_id=member), 2).error_code)

    def delete_groups(self, *groups: str) -> Any:
        return self.ask(DeleteGroupsRequest(groups_names=list(groups)), 1)

    def offsets(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """All that a group has committed, with the metadata."""
        answer = self.fetch(group, None, 5)
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        return {
            (topic.name, one.partition_index): (one.committed_offset, one.metadata)
            for topic in answer.topics
            for one in topic.partitions
        }


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    body = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big") + body + (0).to_bytes(4, "big")
