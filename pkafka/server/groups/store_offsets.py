"""Offsets in the coordination store, under /consumers: OffsetCommit and OffsetFetch of version 0.

Blocking; called on the controller thread.
"""

from collections.abc import Sequence

from pkafka.coordination.store import NoNodeError, Store, StoreError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import ConsumerOffset
from pkafka.errors import ErrorCode
from pkafka.model import NO_OFFSET, TopicPartition


def commit(store: Store, group: str, offsets: Sequence[tuple[TopicPartition, int]]) -> list[int]:
    """Write offsets one by one; returns an error code for each."""
    return [int(_commit_one(store, group, partition, offset)) for partition, offset in offsets]


def _commit_one(store: Store, group: str, partition: TopicPartition, offset: int) -> ErrorCode:
    path, data = ConsumerOffset.path(group, partition), ConsumerOffset(offset).encode()
    try:
        try:
            store.set(path, data)
        except NoNodeError:
            store.create(path, data, make_parents=True)
    except (StoreError, ValueError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def fetch(store: Store, group: str, partitions: Sequence[TopicPartition]) -> list[tuple[int, int]]:
    """Read offsets; returns an error code and an offset for each."""
    return [_fetch_one(store, group, partition) for partition in partitions]


def _fetch_one(store: Store, group: str, partition: TopicPartition) -> tuple[int, int]:
    try:
        data, _stat = store.get(ConsumerOffset.path(group, partition))
        return int(ErrorCode.NONE), ConsumerOffset.decode(data).offset
    except NoNodeError:
        return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), NO_OFFSET
    except (StoreError, ZnodeFormatError, ValueError):
        return int(ErrorCode.UNKNOWN_SERVER_ERROR), NO_OFFSET
