"""The producer client."""

from pkafka.clients.producer.batch import RecordFuture, RecordMetadata
from pkafka.clients.producer.producer import Producer

__all__ = ["Producer", "RecordFuture", "RecordMetadata"]
