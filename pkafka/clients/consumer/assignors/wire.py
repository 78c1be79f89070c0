"""Subscriptions and assignments as bytes: what JoinGroup and SyncGroup carry and the coordinator never looks into.

A 16-bit version stands in front. Members of all versions understand each other: a version above the highest that
is known here is read as that one, and what follows the known fields is ignored.
"""

from struct import Struct
from typing import Final, TypeVar

from pkafka.clients.consumer.assignors.api import Assignment, Subscription
from pkafka.errors import ProtocolError
from pkafka.model import TopicPartition
from pkafka.protocol import Buffer
from pkafka.protocol.codec import decode_prefix, encode
from pkafka.protocol.messages.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from pkafka.protocol.schema import Message

VERSION_MAX: Final = 3
_VERSION: Final = Struct(">h")

M = TypeVar("M", bound=Message)


def encode_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    """The metadata of a JoinGroup protocol; topics and partitions are sorted, as Kafka's clients write them.

    Raises:
        ValueError: there is no such version.
    """
    owned: dict[str, list[int]] = {}
    for topic, partition in sorted(subscription.owned_partitions):
        owned.setdefault(topic, []).append(partition)
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in owned.items()
        ],
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id or None,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_subscription(data: Buffer) -> Subscription:
    """What a member wrote, whatever its version; without the group instance id, which is not in there.

    Raises:
        ProtocolError: the bytes are no subscription.
    """
    message = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        topics=message.topics,
        user_data=message.user_data,
        owned_partitions=[
            TopicPartition(each.topic, partition)
            for each in message.owned_partitions
            for partition in each.partitions
        ],
        generation_id=message.generation_id,
        rack_id=message.rack_id or None,
    )


def encode_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    """The assignment of a SyncGroup; partitions keep their order within a topic.

    Raises:
        ValueError: there is no such version.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in assignment.partitions:
        by_topic.setdefault(topic, []).append(partition)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
        user_data=assignment.user_data,
    )
    return _VERSION.pack(version) + encode(message, version)


def decode_assignment(data: Buffer) -> Assignment:
    """What the leader of the group wrote, whatever its version.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    message = _decode(ConsumerProtocolAssignment, data)
    return Assignment(
        [
            TopicPartition(each.topic, partition)
            for each in message.assigned_partitions
            for partition in each.partitions
        ],
        message.user_data,
    )


def _decode(cls: type[M], data: Buffer) -> M:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too few for {cls.__name__}")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return decode_prefix(cls, min(version, VERSION_MAX), data, _VERSION.size)[0]
