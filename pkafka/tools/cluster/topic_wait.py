"""Waiting until topics are there whole, or gone: what scripts did with sleep."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from pkafka.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Outcome, TopicDescription

_LOOK_S: Final = 0.1


def what_is_missing(
    topics: "Mapping[str, Outcome[TopicDescription]]", partitions: int | None = None
) -> str | None:
    """The first thing that keeps topics from being whole; None where every partition has a leader and all replicas.

    Args:
        partitions: how many each is to have at least.
    """
    for name, topic in topics.items():
        if isinstance(topic, ApiError):
            if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return f"there is no topic {name}"
            return f"topic {name}: {topic.message}"
        if partitions is not None and len(topic.partitions) < partitions:
            return f"topic {name} has {len(topic.partitions)} of {partitions} partitions"
        for each in topic.partitions:
            if each.leader is None:
                return f"partition {name}-{each.partition} has no leader"
            if len(each.isr) < len(each.replicas):
                return f"partition {name}-{each.partition} has {len(each.isr)} of {len(each.replicas)} replicas in sync"
    return None


def wait_until_whole(
    admin: "Admin", names: Callable[[], Collection[str]], seconds: float, *, partitions: int | None = None
) -> str | None:
    """Look again and again until topics are whole.

    Args:
        names: says which; asked every time, because topics come.

    Returns:
        What was missing still when the time was over; None for nothing.
    """

    def look() -> str | None:
        wanted = names()
        if not wanted:
            return "there is no such topic"
        return what_is_missing(admin.describe_topics(wanted), partitions)

    return _wait(look, seconds)


def wait_until_gone(admin: "Admin", names: Collection[str], seconds: float) -> str | None:
    """Look again and again until no topic has one of these names.

    Returns:
        What is there still when the time is over; None for nothing.
    """

    def look() -> str | None:
        left = sorted({each.name for each in admin.list_topics()} & set(names))
        return f"topic {left[0]} is there still" if left else None

    return _wait(look, seconds)


def _wait(look: Callable[[], str | None], seconds: float) -> str | None:
    deadline = time.monotonic() + seconds
    while (missing := look()) is not None and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return missing
