"""Creates MirrorMaker's own topics: of one partition, and compacted."""

import logging
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.clients.admin.topic_results import NewTopic
from pkafka.connect.errors import ConnectError
from pkafka.errors import ApiError, ErrorCode

log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorUtils")

_NOT_OURS: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Somebody else has created the topic then, or will."""


def create_compacted(admin: Admin, topic: str, replicas: int) -> None:
    """Create a topic unless it is there.

    Raises:
        ConnectError: it cannot be created.
        ClientError: the cluster does not answer.
    """
    outcome = admin.create_topics([NewTopic(topic, 1, replicas, configs={"cleanup.policy": "compact"})])[
        topic
    ]
    if not isinstance(outcome, ApiError):
        log.info("Created topic '%s'", topic)
    elif outcome.code in _NOT_OURS:
        log.debug("Not authorized to create the topic '%s'", topic)
    elif outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise ConnectError(f"Unable to create topic {topic}: {outcome}") from outcome
