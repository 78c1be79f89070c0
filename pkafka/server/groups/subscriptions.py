"""The topics to which classic consumers subscribe, read from the metadata of group members."""

from collections.abc import Iterable

from pkafka.errors import ProtocolError
from pkafka.protocol.codec import decode_prefix
from pkafka.protocol.messages.records.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics in the metadata of all members; None when one member's cannot be read.

    Every version of the consumer protocol begins like version 0, so all are read as version 0.
    """
    topics: set[str] = set()
    try:
        for each in metadata:
            subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, each, _VERSION_BYTES)
            topics.update(subscription.topics)
    except ProtocolError:
        return None
    return frozenset(topics)
