"""Foresees what a deletion of groups and offsets would do. Decides by what is known of them, and asks nothing.

No request lets a coordinator only check a deletion. Before the real deletion, members may come and go.
"""

from collections.abc import Iterable, Mapping

from pkafka.clients.admin.results import GroupDescription, GroupState, MemberDescription, Outcome
from pkafka.errors import ApiError, ErrorCode, ProtocolError
from pkafka.model import TopicPartition

_CONSUMER_PROTOCOL = "consumer"


def has_no_members(group: Outcome[GroupDescription]) -> bool:
    """Whether a group can be deleted or its offsets changed, or is not there at all."""
    return not isinstance(group, ApiError) and group.state in (GroupState.EMPTY, GroupState.DEAD)


def of_group(group: Outcome[GroupDescription]) -> ApiError | None:
    """What DeleteGroups would answer; None: it would be deleted."""
    if isinstance(group, ApiError):
        return group
    if group.state is GroupState.DEAD:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    return None if group.state is GroupState.EMPTY else ApiError(ErrorCode.NON_EMPTY_GROUP)


def of_offsets(
    group: Outcome[GroupDescription],
    partitions: Iterable[TopicPartition],
    known: Mapping[str, Outcome[list[TopicPartition]]],
) -> dict[TopicPartition, ApiError | None]:
    """What OffsetDelete would answer for each partition (KIP-496); None: its offset would be deleted.

    Args:
        known: the partitions that there are of each topic.
    """
    if isinstance(group, ApiError) or group.state is GroupState.DEAD:
        return dict.fromkeys(partitions, of_group(group))
    is_empty = group.state is GroupState.EMPTY
    if not is_empty and group.protocol_type != _CONSUMER_PROTOCOL:
        return dict.fromkeys(partitions, ApiError(ErrorCode.NON_EMPTY_GROUP))
    outcomes: dict[TopicPartition, ApiError | None] = {}
    for each in partitions:
        there = known.get(each.topic, [])
        if isinstance(there, ApiError):
            outcomes[each] = there
        elif each not in there:
            outcomes[each] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif not is_empty and any(_may_read(member, each.topic) for member in group.members):
            outcomes[each] = ApiError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        else:
            outcomes[each] = None
    return outcomes


def _may_read(member: MemberDescription, topic: str) -> bool:
    """Whether a member has subscribed to a topic; one that does not say so, as while it joins, may have."""
    from pkafka.clients.consumer.assignors.wire import decode_subscription

    if member.assignment and any(each.topic == topic for each in member.assignment):
        return True
    try:
        return topic in decode_subscription(member.metadata).topics
    except ProtocolError:
        return True
