"""The consumer client."""

from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.consumer import Consumer, ConsumerGroupMetadata
from pkafka.clients.consumer.records import ConsumerRecord, ConsumerRecords
from pkafka.clients.consumer.subscription import ConsumerRebalanceListener

__all__ = [
    "Chunk",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
]
