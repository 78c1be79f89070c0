"""Records as poll returns them, and the deserializers that make keys and values of bytes."""

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pkafka.clients.consumer.chunks import Chunk
from pkafka.clients.consumer.errors import RecordDeserializationError
from pkafka.clients.plugins import close_quietly
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.serialization import Deserializer


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


# Without a frame of Python for each record.
_new_record: Final[Callable[[type[ConsumerRecord], tuple[Any, ...]], ConsumerRecord]] = tuple.__new__


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

    def __init__(self, key: "Deserializer | None", value: "Deserializer | None") -> None:
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
        keys, bad_key = _deserialized(self._key, chunk, chunk.keys)
        values, bad_value = _deserialized(self._value, chunk, chunk.values)
        records += map(
            _new_record,
            repeat(ConsumerRecord),
            zip(
                repeat(chunk.partition.topic),
                repeat(chunk.partition.partition),
                chunk.offsets,
                chunk.timestamps,
                repeat(chunk.timestamp_type),
                keys,
                values,
                chunk.headers,
                repeat(chunk.leader_epoch),
                strict=False,  # the columns end where the first of them cannot be read on
            ),
        )
        if bad_key is not None and len(keys) <= len(values):
            raise RecordDeserializationError(chunk.partition, chunk.offsets[len(keys)], "key", bad_key)
        if bad_value is not None:
            raise RecordDeserializationError(chunk.partition, chunk.offsets[len(values)], "value", bad_value)


def _deserialized(
    deserializer: "Deserializer | None", chunk: Chunk, column: list[bytes | None]
) -> tuple[list[Any], Exception | None]:
    """The objects of a column, up to the first that cannot be read, and why it cannot."""
    if deserializer is None:
        return column, None
    read, topic = deserializer.deserialize, chunk.partition.topic
    found: list[Any] = []
    try:
        # extend() keeps what was read before an exception.
        if chunk.has_headers:
            found.extend(map(read, repeat(topic), column, chunk.headers))
        else:
            found.extend(map(read, repeat(topic), column))
    except Exception as error:  # noqa: BLE001 - a deserializer of the user's may raise anything
        return found, error
    return found, None


def _load(name: str, named: object, configs: Mapping[str, object], *, is_key: bool) -> "Deserializer | None":
    if named is None or named == "":
        return None
    from pkafka.clients.serialization import ByteArrayDeserializer, load_deserializer

    made = load_deserializer(name, named, configs, is_key=is_key)
    return None if type(made) is ByteArrayDeserializer else made
