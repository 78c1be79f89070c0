"""The consumer client."""

from pkafka.clients.consumer.consumer import Consumer, ConsumerRecord
from pkafka.clients.consumer.fetcher import Chunk

__all__ = ["Chunk", "Consumer", "ConsumerRecord"]
