"""The clients of Kafka 0.8: consumers that coordinate themselves through ZooKeeper, SimpleConsumer, the old producer.

Their keys, defaults and semantics are those of 0.8.2 and 0.9 (the last before they were deprecated); on the wire they
speak today's versions. New programs use :mod:`pkafka.clients.consumer` and :mod:`pkafka.clients.producer`;
docs/old-clients.md says why. The only clients that know the coordination store.
"""

from pkafka.clients.legacy.config import OldConsumerConfig, OldProducerConfig
from pkafka.clients.legacy.connector import ZookeeperConsumerConnector
from pkafka.clients.legacy.errors import (
    ConsumerRebalanceFailedError,
    ConsumerTimeoutError,
    FailedToSendMessageError,
    MessageStreamsExistError,
    QueueFullError,
)
from pkafka.clients.legacy.producer import KeyedMessage, OldProducer
from pkafka.clients.legacy.simple_consumer import SimpleConsumer
from pkafka.clients.legacy.streams import KafkaStream, MessageAndMetadata
from pkafka.clients.legacy.topic_filter import Blacklist, TopicFilter, Whitelist

__all__ = [
    "Blacklist",
    "ConsumerRebalanceFailedError",
    "ConsumerTimeoutError",
    "FailedToSendMessageError",
    "KafkaStream",
    "KeyedMessage",
    "MessageAndMetadata",
    "MessageStreamsExistError",
    "OldConsumerConfig",
    "OldProducer",
    "OldProducerConfig",
    "QueueFullError",
    "SimpleConsumer",
    "TopicFilter",
    "Whitelist",
    "ZookeeperConsumerConnector",
]
