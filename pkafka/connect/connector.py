"""What a connector is: the interface that plug-ins implement; its names are those of Java's.

A connector decides how its work is split; its tasks move the records. A worker makes both, and calls each task from one
thread of its own, but for ``stop`` of a source task, which any thread may call.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from pkafka.connect.config_def import ConfigDef, ConfigValue
from pkafka.connect.data.records import SinkRecord, SourceRecord
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConnectError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.offsets import OffsetAndMetadata
    from pkafka.clients.producer import BatchMetadata, RecordMetadata
    from pkafka.clients.raw_batch import RawBatch

SourcePlace = Mapping[str, Value]
"""A source partition, or an offset in one: names to strings, numbers, booleans or None."""


class ConnectorContext(Protocol):
    """What a worker offers to a connector."""

    def request_task_reconfiguration(self) -> None:
        """Say that :meth:`Connector.task_configs` would answer differently now."""

    def raise_error(self, error: Exception) -> None:
        """Say that the connector cannot go on; it becomes FAILED."""


class Connector(ABC):
    """Splits its work into tasks; see :class:`SourceConnector` and :class:`SinkConnector`."""

    JAVA_NAME: ClassVar[str | None] = None
    """The class of Apache Kafka, or of a third party in Java, whose configurations mean the same here."""

    CONFIG: ClassVar[ConfigDef] = ConfigDef()
    """The connector's own settings."""

    VERSION: ClassVar[str] = "undefined"

    task_class: ClassVar["type[SourceTask] | type[SinkTask]"]
    """What a worker makes for each configuration of :meth:`task_configs`."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        """Take the context; called once, first."""
        self.context = context

    @abstractmethod
    def start(self, configs: Mapping[str, str]) -> None:
        """Begin.

        Raises:
            ConnectError: it cannot; the connector becomes FAILED.
        """

    @abstractmethod
    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """The configurations of at most so many tasks."""

    def stop(self) -> None:  # noqa: B027 - most have nothing to stop
        """End."""

    def config(self) -> ConfigDef:
        """The settings of this connector."""
        return self.CONFIG

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """What is wrong with settings: more than each key by itself, where a connector knows more."""
        return self.config().validate(configs)


class SourceConnector(Connector):
    """Brings records into Kafka."""

    def supports_exactly_once(self, configs: Mapping[str, str]) -> bool | None:
        """Whether no record is lost or read twice when its offset is in one transaction with it (KIP-618).

        Returns:
            None: the connector does not say.
        """
        return None

    def can_define_transactions(self, configs: Mapping[str, str]) -> bool:
        """Whether tasks say by their context where transactions end."""
        return False

    def alter_offsets(
        self, configs: Mapping[str, str], offsets: Mapping[int, tuple[SourcePlace | None, SourcePlace | None]]
    ) -> bool:
        """Check offsets that an operator wants to set (KIP-875).

        Args:
            offsets: partition and offset, None to forget it, by their number. A partition may be missing, which the
                worker refuses afterwards.

        Returns:
            Whether the connector has looked; False: the worker warns that nothing was checked.

        Raises:
            ConnectError: the connector refuses them.
        """
        return False

    def own_offsets(self, configs: Mapping[str, str]) -> Sequence[tuple[SourcePlace, SourcePlace]] | None:
        """How far the connector has come, where it keeps that itself. Java's has no such method.

        To have all of it forgotten, the worker calls :meth:`alter_offsets` of such a connector without any offsets.

        Returns:
            Partitions with their offsets; None: the worker keeps them.

        Raises:
            ConnectError: they cannot be read.
        """
        return None


class SinkConnector(Connector):
    """Takes records out of Kafka."""

    def can_repeat_put(self, configs: Mapping[str, str]) -> bool:
        """Whether records may be put again after ``put`` has raised DataError, as ``pkafka.errors.bisect`` does.

        They may when such a ``put`` leaves nothing behind (one transaction), or when a record that is put twice is as
        good as one that is put once (an upsert by its key). Java's has no such method.

        Args:
            configs: of the connector, which may not be valid yet.
        """
        return False

    def alter_offsets(self, configs: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Check offsets that an operator wants to set; else as for sources."""
        return False


class OffsetReader(Protocol):
    """Reads what a connector's earlier tasks stored."""

    def offset(self, partition: SourcePlace) -> dict[str, Value] | None:
        """Where to read on in a source partition; None: it was never read."""

    def offsets(
        self, partitions: Collection[SourcePlace]
    ) -> list[tuple[SourcePlace, dict[str, Value] | None]]:
        """The same of many."""


class TransactionContext(Protocol):
    """Takes where a source task wants its transactions to end (KIP-618)."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """End the transaction behind a record, or behind the next ``poll``."""

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Give it up there; its records are dropped, and not read again."""


class SourceTaskContext(Protocol):
    """What a worker offers to a source task."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The task's configuration."""

    @property
    def offset_reader(self) -> OffsetReader:
        """What earlier tasks have stored."""

    @property
    def transactions(self) -> "TransactionContext | None":
        """Where to say where transactions end; None: the task has no say, see ``transaction.boundary``."""

    def wait(self, timeout_s: float) -> bool:
        """Wait, but no longer than until the task is to end.

        Returns:
            Whether it is to end.
        """


class TaskMetric(NamedTuple):
    """A number that a task tells of itself.

    Args:
        name: behind ``kafka_connect_``.
        about: for people.
        tags: that tell it from others of its name.
        value: at the moment.
    """

    name: str
    about: str
    tags: Mapping[str, str]
    value: float


class SourceTask(ABC):
    """Reads a source."""

    VERSION: ClassVar[str] = "undefined"
    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        """Take the context; called once, first."""
        self.context = context

    @abstractmethod
    def start(self, configs: Mapping[str, str]) -> None:
        """Begin.

        Raises:
            ConnectError: it cannot.
        """

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records; may wait for some, a second or so, and answer None when there are none.

        Raises:
            RetriableError: the same call may succeed soon.
            Exception: the task fails.
        """

    def commit(self) -> None:  # noqa: B027 - most sources want none
        """Called after offsets were stored."""

    def commit_record(self, record: SourceRecord, metadata: "RecordMetadata | None") -> None:  # noqa: B027 - as above
        """Called for each record that is in Kafka.

        Args:
            metadata: where; None: a transform dropped the record.
        """

    def metrics(self) -> Iterable[TaskMetric]:
        """What the task tells of itself, for the worker's metrics; any thread may ask."""
        return ()

    def pause(self) -> None:  # noqa: B027 - most do nothing between two calls of poll
        """Called when the task is paused, between two calls of ``poll``. Java's has no such method.

        Raises:
            Exception: the task fails.
        """

    @abstractmethod
    def stop(self) -> None:
        """Make :meth:`poll` return soon; called from another thread."""


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Records as a batch of bytes, ready for Kafka.

    Args:
        topic, partition: they are for.
        batch: of them.
        source_partition: where in the source they come from.
        source_offset: from where on the source is read when they are in Kafka.
    """

    topic: str
    partition: int
    batch: "RawBatch"
    source_partition: SourcePlace
    source_offset: SourcePlace


class BatchSourceTask(SourceTask):
    """Reads a source that has whole batches of records, as another Kafka cluster has.

    The worker asks for batches where nothing has to look at records: keys, values and headers are bytes that converters
    leave as they are, and there are no transforms. Else it asks for records.
    """

    @abstractmethod
    def poll_batches(self) -> "Sequence[SourceBatch | SourceRecord] | None":
        """As ``poll``: the next batches, and records among them, in their order."""

    def commit_batch(self, batch: SourceBatch, runs: "Sequence[BatchMetadata]") -> None:
        """Called for each batch that is in Kafka.

        Args:
            runs: where its records went, in their order; one run, unless the batch was too large.
        """


class ErrantRecords(Protocol):
    """Takes records that a sink task cannot write, but that need not end the task (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        """Send a record to the dead letters, or skip it, as the connector's configuration says.

        Raises:
            ConnectError: errors are not tolerated.
        """


class SinkTaskContext(Protocol):
    """What a worker offers to a sink task."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The task's configuration."""

    @property
    def assignment(self) -> Collection[TopicPartition]:
        """The partitions whose records the task gets."""

    @property
    def errant_records(self) -> ErrantRecords | None:
        """Where to report a record; None: nothing is tolerated, so the task should raise."""

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on reading there, from the next round on."""

    def timeout(self, timeout_ms: int) -> None:
        """Call ``put`` again after so long, when it raises RetriableError."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Send no records of these."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Send records of these again."""

    def request_commit(self) -> None:
        """Commit offsets soon, without waiting for the interval."""


class SinkTask(ABC):
    """Writes a target."""

    VERSION: ClassVar[str] = "undefined"
    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        """Take the context; called once, first."""
        self.context = context

    @abstractmethod
    def start(self, configs: Mapping[str, str]) -> None:
        """Begin.

        Raises:
            ConnectError: it cannot.
        """

    def open(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027 - most have nothing to open
        """Records of these partitions come from now on."""

    def close(self, partitions: Collection[TopicPartition]) -> None:  # noqa: B027 - as above
        """No more records of these partitions come."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, none now and then.

        Raises:
            RetriableError: the same records come again after a while.
            DataError: one of them can never be written. With ``pkafka.errors.bisect`` they come again in parts, until
                it is found; see :meth:`SinkConnector.can_repeat_put`.
            Exception: the task fails.
        """

    def flush(self, offsets: "Mapping[TopicPartition, OffsetAndMetadata]") -> None:  # noqa: B027 - see pre_commit
        """Have everything before these offsets written before this returns."""

    def pre_commit(
        self, offsets: "Mapping[TopicPartition, OffsetAndMetadata]"
    ) -> "Mapping[TopicPartition, OffsetAndMetadata]":
        """The offsets that may be committed; by default all, after :meth:`flush`.

        Args:
            offsets: behind the records that ``put`` took.
        """
        self.flush(offsets)
        return offsets

    @abstractmethod
    def stop(self) -> None:
        """End; called after the last ``put`` and ``close``."""


def check_offset_number(value: Value, name: str) -> None:
    """Refuse what is no offset in a file or a sequence.

    Raises:
        ConnectError: it is not a whole number, or negative.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConnectError(f"The value for the '{name}' key in the offset is expected to be a Long value")
    if value < 0:
        raise ConnectError(f"The value for the '{name}' key in the offset should be a non-negative value")
