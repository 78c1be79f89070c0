"""The consumer client."""

from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.consumer import Consumer
from pkafka.clients.consumer.records import ConsumerRecord, ConsumerRecords
from pkafka.clients.consumer.subscription import ConsumerRebalanceListener
from pkafka.clients.offsets import ConsumerGroupMetadata
from pkafka.clients.raw_batch import RawBatch

__all__ = [
    "Chunk",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "RawBatch",
]
