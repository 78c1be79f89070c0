"""A client that asks about groups, request by request, as a test says."""

from collections.abc import Mapping
from typing import Any, Self

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.delete_groups import DeleteGroupsRequest
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.list_groups import ListGroupsRequest
from pkafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pkafka.protocol.schema import Message
from tests.group_requests import (
    Commits,
    Places,
    commit_request,
    heartbeat_request,
    join_request,
    leave_request,
    offset_fetch_request,
    sync_request,
)
from tests.raw_client import RawClient
from tests.talk import wait_for


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
        request = offset_fetch_request([(group, {})], 5)
        wait_for(lambda: not self.client.call(request, 5).error_code, what="the coordinator")

    def commit(
        self,
        group: str,
        commits: Commits,
        version: int = 7,
        *,
        generation: int = -1,
        member: str = "",
        **more: Any,
    ) -> Any:
        if version >= 1:
            more |= {"generation": generation, "member": member}
        return self.ask(commit_request(group, commits, **more), version)

    def fetch(self, group: str, wanted: Places | None, version: int = 7) -> Any:
        return self.ask(offset_fetch_request([(group, wanted)], version), version)

    def delete_offsets(self, group: str, *keys: tuple[str, int]) -> Any:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
            )
            for topic, index in keys
        ]
        return self.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)

    def join(self, group: str, *, version: int = 3, **options: Any) -> Any:
        """Join, and wait for the generation to begin."""
        return self.ask(join_request(group, **options), version)

    def send_join(self, group: str, *, version: int = 3, **options: Any) -> None:
        """Join, and leave the answer to whoever receives it."""
        self.client.send(join_request(group, **options), version)

    def sync(self, group: str, member: str, generation: int, shares: Mapping[str, bytes]) -> Any:
        """Sync, as the leader with everybody's shares."""
        return self.ask(sync_request(group, member, generation, shares), 2)

    def settle(self, group: str, **options: Any) -> tuple[str, int]:
        """A group of one member, all the way to Stable: its id and generation."""
        joined = self.join(group, **options)
        self.sync(group, joined.member_id, joined.generation_id, {joined.member_id: b"share"})
        return joined.member_id, joined.generation_id

    def describe(self, *groups: str, version: int = 5) -> Any:
        return self.ask(DescribeGroupsRequest(groups=list(groups)), version)

    def list_all(self) -> list[Any]:
        """Every group. Asks again, as all clients do, while somebody who coordinates some of them does not answer."""
        found: list[Any] = []

        def are_listed() -> bool:
            answer = self.ask(ListGroupsRequest(), 4)
            assert answer.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE), ErrorCode(answer.error_code)
            found[:] = answer.groups
            return not answer.error_code

        wait_for(are_listed, what="all that coordinate groups")
        return found

    def heartbeat(self, group: str, member: str, generation: int) -> int:
        """The error code of a heartbeat."""
        return int(self.ask(heartbeat_request(group, member, generation), 3).error_code)

    def leave(self, group: str, member: str) -> int:
        """The error code of leaving."""
        return int(self.ask(leave_request(group, member), 2).error_code)

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
