"""The requests about groups, from what a test has to say; for clients that wait for each answer, and for crowds."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.heartbeat import HeartbeatRequest
from pkafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pkafka.protocol.messages.leave_group import LeaveGroupRequest
from pkafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pkafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Commits: TypeAlias = Mapping[tuple[str, int], int | tuple[int, str | None]]
"""By topic and partition the offset, or the offset and its metadata."""
Places: TypeAlias = Mapping[str, list[int]]
"""Partitions by topic."""

T = TypeVar("T", OffsetFetchRequestTopic, OffsetFetchRequestTopics)


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    body = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big") + body + (0).to_bytes(4, "big")


# -- members --


def join_request(
    group: str,
    *,
    member: str = "",
    protocol_type: str = "consumer",
    metadata: bytes = b"",
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 10_000,
    **more: Any,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        **more,
    )


def sync_request(
    group: str, member: str, generation: int, shares: Mapping[str, bytes] | None = None
) -> SyncGroupRequest:
    """As the leader with everybody's shares, or as another member without."""
    assignments = [
        SyncGroupRequestAssignment(member_id=one, assignment=share) for one, share in (shares or {}).items()
    ]
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, assignments=assignments
    )


def heartbeat_request(group: str, member: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)


def leave_request(group: str, member: str) -> LeaveGroupRequest:
    """Before version 3, as later ones name several members."""
    return LeaveGroupRequest(group_id=group, member_id=member)


# -- offsets --


def commit_request(
    group: str,
    commits: Commits,
    *,
    member: str = "",
    generation: int = -1,
    commit_timestamp: int = -1,
    **more: Any,
) -> OffsetCommitRequest:
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
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        **more,
    )


def commit_error(answer: OffsetCommitResponse) -> ErrorCode:
    """The outcome for the first partition."""
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def offset_fetch_request(
    wanted: Sequence[tuple[str, Places | None]], version: int, **more: Any
) -> OffsetFetchRequest:
    """Groups with the places to fetch, None: all that there are. Before version 8 of one group only."""
    if version >= 8:
        groups = [
            OffsetFetchRequestGroup(group_id=group, topics=_topics(OffsetFetchRequestTopics, places))
            for group, places in wanted
        ]
        return OffsetFetchRequest(groups=groups, **more)
    [(group, places)] = wanted
    return OffsetFetchRequest(group_id=group, topics=_topics(OffsetFetchRequestTopic, places), **more)


def _topics(kind: type[T], places: Places | None) -> list[T] | None:
    if places is None:
        return None
    return [kind(name=name, partition_indexes=list(at)) for name, at in places.items()]
