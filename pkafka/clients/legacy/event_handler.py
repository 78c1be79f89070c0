"""What sends the old producer's messages, by the rules of Kafka 0.8's DefaultEventHandler.

A try is one Produce request to each leader. What was not taken is tried again after ``retry.backoff.ms`` and a look at
the metadata, ``message.send.max.retries`` times. Brokers that refuse connections so cost the pauses alone.
"""

import logging
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pkafka.clients.cluster import Broker, Cluster, TopicView
from pkafka.clients.config import ClientConfig
from pkafka.clients.errors import ClientError, ClientTimeoutError, Stage
from pkafka.clients.legacy.config import OldProducerConfig
from pkafka.clients.legacy.errors import FailedToSendMessageError
from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_LEADER, TopicPartition
from pkafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec

Partitioner: TypeAlias = Callable[[Any, int], int]

logger = logging.getLogger(__name__)


class Encoded(NamedTuple):
    """A message as bytes; without a ``partition_key`` any partition will do."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition_key: object


_Batches: TypeAlias = dict[TopicPartition, list[Encoded]]


class EventHandler:
    """Sends messages to the leaders of their partitions. Calls from several threads wait for each other.

    Args:
        partition: chooses a partition by key and number of partitions.
        clock: for time-outs and timestamps.
    """

    def __init__(self, config: OldProducerConfig, partition: Partitioner, clock: Clock) -> None:
        self._config = config
        self._partition = partition
        self._clock = clock
        self._codec = Codec[config.compression_codec.upper()]
        self._cluster = Cluster(ClientConfig.from_properties(config.client_keys()), clock=clock)
        self._lock = threading.Lock()
        self._refreshed_ms = clock.monotonic_ms()
        self._chosen: dict[str, int] = {}
        """For messages without a key: one random partition of a topic, until metadata is looked at again."""

    def handle(self, messages: Sequence[Encoded]) -> None:
        """Send messages; those of one partition stay in order, unless one of them has to be sent again.

        Raises:
            FailedToSendMessageError: some were not taken, whose cause is the latest.
        """
        with self._lock:
            left = list(messages)
            self._refresh_in_time({each.topic for each in left})
            for _ in range(self._config.message_send_max_retries + 1):
                left, cause = self._try(left)
                if not left:
                    return
                self._pause()
                self._refresh({each.topic for each in left})
        text = f"Failed to send messages after {self._config.message_send_max_retries} tries."
        raise FailedToSendMessageError(text) from cause

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self._cluster.close()

    # -- one try ------------------------------------------------------------------------------------------

    def _try(self, messages: Sequence[Encoded]) -> tuple[list[Encoded], Exception | None]:
        """Send messages to the leaders of their partitions; those that were not taken, and why."""
        left: list[Encoded] = []
        cause: Exception | None = None
        by_leader: dict[Broker, _Batches] = {}
        for each in messages:
            try:
                partition, leader = self._place(each)
            except (ClientError, ApiError) as error:
                left.append(each)
                cause = error
            else:
                by_leader.setdefault(leader, {}).setdefault(partition, []).append(each)
        for partition, cause in self._send(by_leader).items():
            logger.info("Produce request for partition %s failed: %s", partition, cause)
            left += next(batches[partition] for batches in by_leader.values() if partition in batches)
        return left, cause

    def _place(self, message: Encoded) -> tuple[TopicPartition, Broker]:
        view = self._cluster.view.topics.get(message.topic)
        if view is None or view.error:
            view = self._ask([message.topic])[message.topic]
        if view.error:
            raise ApiError(view.error)
        if message.partition_key is not None:
            number = self._partition(message.partition_key, len(view.partitions))
        else:
            if message.topic not in self._chosen:
                led = [each.partition for each in view.partitions if each.leader != NO_LEADER]
                if not led:
                    raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
                self._chosen[message.topic] = random.choice(led)  # noqa: S311 - spreads load, guards nothing
            number = self._chosen[message.topic]
        partition = TopicPartition(message.topic, number)
        leader = self._cluster.view.leader(partition)
        if leader is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        return partition, leader

    def _send(self, by_leader: Mapping[Broker, _Batches]) -> dict[TopicPartition, Exception]:
        """One request to each leader, all at once; the partitions that took nothing, and why."""
        network = self._cluster.network
        network.poll(0)  # a connection that its broker closed meanwhile is not to be sent on
        acks, timeout_ms = self._config.request_required_acks, self._config.request_timeout_ms
        pendings = {
            leader: network.send(
                leader.address,
                ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=self._topic_data(batches)),
                expects_answer=acks != 0,
            )
            for leader, batches in by_leader.items()
        }
        network.wait(pendings.values(), deadline_ms=self._clock.monotonic_ms() + timeout_ms)
        failed: dict[TopicPartition, Exception] = {}
        for leader, pending in pendings.items():
            error = pending.error
            if not pending.done:
                network.disconnect(leader.address)  # what it would still say is not waited for
                error = ClientTimeoutError(Stage.REQUEST, f"{leader.address} did not answer in time")
            if error is not None:
                failed.update(dict.fromkeys(by_leader[leader], error))
            elif acks:
                assert isinstance(pending.response, ProduceResponse)
                failed.update(_refused(pending.response))
        return failed

    def _topic_data(self, batches: _Batches) -> list[TopicProduceData]:
        topics: dict[str, TopicProduceData] = {}
        now_ms = self._clock.now_ms()
        for (topic, number), messages in batches.items():
            batch = build_batch(
                [(now_ms, each.key, each.value, ()) for each in messages],
                codec=self._codec if self._config.is_compressed(topic) else Codec.NONE,
            )
            row = topics.setdefault(topic, TopicProduceData(name=topic))
            row.partition_data.append(PartitionProduceData(index=number, records=batch))
        return list(topics.values())

    # -- metadata -----------------------------------------------------------------------------------------

    def _refresh_in_time(self, topics: set[str]) -> None:
        turn_ms = self._config.topic_metadata_refresh_interval_ms
        if 0 <= turn_ms <= self._clock.monotonic_ms() - self._refreshed_ms:
            self._refresh(topics | set(self._cluster.view.topics))

    def _refresh(self, topics: set[str]) -> None:
        """Look at the metadata; a failure shows itself at the next try."""
        try:
            self._ask(topics)
        except (ClientError, ApiError) as error:
            logger.info("metadata of %s cannot be had: %s", ", ".join(sorted(topics)), error)
        self._chosen.clear()
        self._refreshed_ms = self._clock.monotonic_ms()

    def _ask(self, topics: Collection[str]) -> Mapping[str, TopicView]:
        # Each broker may take its time, as in 0.8.
        patience_ms = self._config.request_timeout_ms * len(self._config.metadata_broker_list)
        return self._cluster.refresh(topics, allow_auto_create=True, timeout_ms=patience_ms).topics

    def _pause(self) -> None:
        end_ms = self._clock.monotonic_ms() + self._config.retry_backoff_ms
        while (left_ms := end_ms - self._clock.monotonic_ms()) > 0:
            self._cluster.network.poll(left_ms)


def _refused(response: ProduceResponse) -> dict[TopicPartition, ApiError]:
    return {
        TopicPartition(topic.name, each.index): ApiError(ErrorCode(each.error_code), each.error_message)
        for topic in response.responses
        for each in topic.partition_responses
        if each.error_code
    }
