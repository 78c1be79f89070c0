"""The shape of the topics that the coordinators keep for themselves, as Kafka makes them."""

from collections.abc import Mapping
from typing import NamedTuple

from pkafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from pkafka.server.config.broker_config import BrokerConfig


class TopicShape(NamedTuple):
    """What a topic is created with."""

    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


def shape_of(topic: str, config: BrokerConfig) -> TopicShape | None:
    """How a coordinator's topic is made by a broker of that configuration; None for every other topic."""
    if topic == CONSUMER_OFFSETS_TOPIC:
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }
        return TopicShape(
            config.offsets_topic_num_partitions, config.offsets_topic_replication_factor, settings
        )
    if topic == TRANSACTION_STATE_TOPIC:
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
        }
        return TopicShape(
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            settings,
        )
    return None
