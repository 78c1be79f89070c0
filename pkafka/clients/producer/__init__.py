"""The producer client."""

from pkafka.clients.producer.errors import (
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
)
from pkafka.clients.producer.futures import BatchFuture, BatchMetadata, RecordFuture
from pkafka.clients.producer.interceptors import ProducerInterceptor
from pkafka.clients.producer.partitioner import Partitioner, RoundRobinPartitioner
from pkafka.clients.producer.producer import Producer
from pkafka.clients.producer.record import ProducerRecord
from pkafka.clients.producer.record_metadata import RecordMetadata

__all__ = [
    "BatchFuture",
    "BatchMetadata",
    "Partitioner",
    "Producer",
    "ProducerFencedError",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordFuture",
    "RecordMetadata",
    "RoundRobinPartitioner",
    "TransactionAbortedError",
    "TransactionError",
]
