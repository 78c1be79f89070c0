"""Records as poll returns them, and the deserializers that make keys and values of bytes."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from pkafka.clients.consumer.errors import RecordDeserializationError
from pkafka.clients.consumer.fetcher import Chunk
from pkafka.clients.plugins import close_quietly
from pkafka.clients.serialization import ByteArrayDeserializer, Deserializer, load_deserializer
from pkafka.model import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record with the place it was read from. ``timestamp_type``: 0 = CreateTime, 1 = LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int


class ConsumerRecords(list[ConsumerRecord]):
    """The records of one poll: a list of all, partition after partition, and a view of each partition."""

    def by_partition(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The records of every partition that has some, in their order."""
        groups: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in self:
            groups.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return groups

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records."""
        return list(self.by_partition())

    def records(self, partition: TopicPartition) -> list[ConsumerRecord]:
        """The records of one partition."""
        return [each for each in self if (each.topic, each.partition) == partition]


class RecordReader:
    """Makes records of chunks.

    Args:
        key, value: the deserializers; None leaves bytes.
    """

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = key
        self._value = value

    def read(self, chunks: Iterable[Chunk]) -> tuple[ConsumerRecords, list[RecordDeserializationError]]:
        """Records of chunks; of a partition with a record that cannot be read, those before it.

        Returns:
            The records, and for every such partition the record that ends it.
        """
        records = ConsumerRecords()
        failures: dict[TopicPartition, RecordDeserializationError] = {}
        for chunk in chunks:
            if chunk.partition in failures:
                continue
            try:
                self._read_into(records, chunk)
            except RecordDeserializationError as error:
                failures[chunk.partition] = error
        return records, list(failures.values())

    @classmethod
    def load(cls, key: object, value: object, configs: Mapping[str, object]) -> Self:
        """One with the deserializers that a configuration names; bytes stay bytes, and cost nothing.

        Raises:
            ConfigError: there is no such class.
        """
        return cls(
            _load("key.deserializer", key, configs, is_key=True),
            _load("value.deserializer", value, configs, is_key=False),
        )

    def close(self) -> None:
        """Close the deserializers."""
        for each in (self._key, self._value):
            if each is not None:
                close_quietly(each)

    def _read_into(self, records: ConsumerRecords, chunk: Chunk) -> None:
        topic, partition = chunk.partition
        kind, epoch = chunk.timestamp_type, chunk.leader_epoch
        if self._key is None and self._value is None:
            records += [
                ConsumerRecord(
                    topic,
                    partition,
                    each.offset,
                    each.timestamp,
                    kind,
                    each.key,
                    each.value,
                    each.headers,
                    epoch,
                )
                for each in chunk.records
            ]
            return
        for each in chunk.records:
            part = "key"
            try:
                key = each.key if self._key is None else self._key.deserialize(topic, each.key, each.headers)
                part = "value"
                value = (
                    each.value
                    if self._value is None
                    else self._value.deserialize(topic, each.value, each.headers)
                )
            except Exception as error:
                raise RecordDeserializationError(chunk.partition, each.offset, part, error) from error
            records.append(
                ConsumerRecord(
                    topic,
                    partition,
                    each.offset,
                    each.timestamp,
                    kind,
                    key,
                    value,
                    each.headers,
                    epoch,
                )
            )


def _load(name: str, named: object, configs: Mapping[str, object], *, is_key: bool) -> Deserializer | None:
    if named is None or named == "":
        return None
    made = load_deserializer(name, named, configs, is_key=is_key)
    return None if type(made) is ByteArrayDeserializer else made
