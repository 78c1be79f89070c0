"""Where a group's progress is kept: in ZooKeeper, in the cluster, or in both while it moves over."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from pkafka.clients.connection import Address
from pkafka.clients.errors import ClientError
from pkafka.clients.legacy.config import OldConsumerConfig
from pkafka.clients.legacy.simple_consumer import STORED_IN_KAFKA, SimpleConsumer
from pkafka.coordination.store import NodeExistsError, NoNodeError, Store
from pkafka.coordination.znodes import ConsumerOffset
from pkafka.errors import ErrorCode
from pkafka.model import NO_OFFSET, TopicPartition

logger = logging.getLogger(__name__)

_LOADING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class OffsetStorage(Protocol):
    """Reads and writes the offsets of one group."""

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int] | None:
        """The stored offset of each partition, -1 without one; None when they cannot be had just now."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Store offsets.

        Returns:
            Whether all are stored.

        Raises:
            StoreError: ZooKeeper did not take them.
        """
        ...

    def close(self) -> None:
        """Let connections go."""
        ...


class ZooKeeperOffsets:
    """``/consumers/G/offsets/T/P``. What is there already is not written again.

    Args:
        store: gives the present session, which changes when one expires.
    """

    def __init__(self, group: str, store: Callable[[], Store]) -> None:
        self._group = group
        self._store = store
        self._written: dict[TopicPartition, int] = {}

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int] | None:
        paths = [ConsumerOffset.path(self._group, each) for each in partitions]
        found = {}
        for partition, node in zip(partitions, self._store().get_many(paths), strict=True):
            found[partition] = NO_OFFSET if node is None else ConsumerOffset.decode(node[0]).offset
        self._written = dict(found)
        return found

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        store = self._store()
        for partition, offset in offsets.items():
            if self._written.get(partition) == offset:
                continue
            path, data = ConsumerOffset.path(self._group, partition), ConsumerOffset(offset).encode()
            try:
                store.set(path, data)
            except NoNodeError:
                try:
                    store.create(path, data, make_parents=True)
                except NodeExistsError:
                    store.set(path, data)
            self._written[partition] = offset
        return True

    def close(self) -> None:
        """Nothing is kept open here."""


class KafkaOffsets:
    """OffsetCommit and OffsetFetch version 1 at the group's coordinator, as a client that is no member of it.

    Args:
        brokers: tells where brokers are, for finding the coordinator.
    """

    def __init__(self, config: OldConsumerConfig, brokers: Callable[[], Sequence[Address]]) -> None:
        self._config = config
        self._brokers = brokers
        self._coordinator: SimpleConsumer | None = None

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int] | None:
        try:
            answer = self._channel().fetch_offsets(self._config.group_id, partitions, version=STORED_IN_KAFKA)
        except ClientError as error:
            self._lose(error)
            return None
        codes = {each.error for each in answer.values()}
        if codes & {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            self._lose(codes)
            return None
        if codes & _LOADING:
            return None
        # Kafka 0.8 answered a code where nothing is stored, today's brokers the offset -1: both mean none.
        return {each: stored.offset for each, stored in answer.items()}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        try:
            codes = self._channel().commit_offsets(self._config.group_id, offsets, version=STORED_IN_KAFKA)
        except ClientError as error:
            self._lose(error)
            return False
        failed = {each for each in codes.values() if each}
        if failed:
            logger.warning("offsets of %s were not committed: %s", self._config.group_id, failed)
        if failed & {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
            self._lose(failed)
        # Too much metadata stays too much; the rest is tried again.
        return not failed - {ErrorCode.OFFSET_METADATA_TOO_LARGE}

    def close(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def _lose(self, why: object) -> None:
        logger.info("the coordinator of %s is looked for again: %s", self._config.group_id, why)
        self.close()

    def _channel(self) -> SimpleConsumer:
        if self._coordinator is None:
            self._coordinator = self._find_coordinator()
        return self._coordinator

    def _find_coordinator(self) -> SimpleConsumer:
        config = self._config
        failure: ClientError | None = None
        for address in self._brokers():
            with self._connect(address) as asked:
                try:
                    found = asked.find_coordinator(config.group_id)
                except ClientError as error:
                    failure = error
                    continue
            if found is not None:
                return self._connect(found)
        time.sleep(config.offsets_channel_backoff_ms / 1000)
        raise failure or ClientError(f"the group {config.group_id} has no coordinator at the moment")

    def _connect(self, address: Address) -> SimpleConsumer:
        config = self._config
        timeout_ms = config.offsets_channel_socket_timeout_ms
        return SimpleConsumer(
            address.host, address.port, so_timeout_ms=timeout_ms, client_id=config.client_id
        )


class DualOffsets:
    """Both of them: a group that moves from ZooKeeper to the cluster begins at the farther offset."""

    def __init__(self, zookeeper: ZooKeeperOffsets, kafka: KafkaOffsets) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int] | None:
        in_kafka = self._kafka.fetch(partitions)
        in_zookeeper = self._zookeeper.fetch(partitions)
        if in_kafka is None or in_zookeeper is None:
            return None
        return {each: max(in_kafka[each], in_zookeeper[each]) for each in partitions}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        self._zookeeper.commit(offsets)
        return self._kafka.commit(offsets)

    def close(self) -> None:
        self._kafka.close()


def offset_storage(
    config: OldConsumerConfig, store: Callable[[], Store], brokers: Callable[[], Sequence[Address]]
) -> OffsetStorage:
    """The storage that ``offsets.storage`` and ``dual.commit.enabled`` ask for."""
    if config.offsets_storage == "zookeeper":
        return ZooKeeperOffsets(config.group_id, store)
    in_kafka = KafkaOffsets(config, brokers)
    if not config.dual_commit_enabled:
        return in_kafka
    return DualOffsets(ZooKeeperOffsets(config.group_id, store), in_kafka)
