"""What the parts of the transaction coordinator share: the entry of a transactional id, settings, markers."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pkafka.model import Millis, ProducerId
from pkafka.records.compression import Codec
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.coordinator.topic_log import TopicLogSettings
from pkafka.server.transactions.transaction import PartitionKey, Transaction


class Marker(NamedTuple):
    """Ends the transaction of a producer in the partitions that get it."""

    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


class Debt(Protocol):
    """Markers of one transaction that are still to be written."""

    @property
    def partitions(self) -> Collection[PartitionKey]:
        """Those without a marker yet."""
        ...

    def cancel(self) -> None:
        """Send no more of them, and do not say that they are written."""
        ...


class Markers(Protocol):
    """Has markers written by the leaders of partitions, however long that takes."""

    def owe(
        self,
        transactional_id: str,
        marker: Marker,
        partitions: Sequence[PartitionKey],
        paid: Callable[[], None],
    ) -> Debt:
        """Begin to write the markers of one transaction.

        Args:
            transactional_id: for log lines.
            marker: for all partitions.
            partitions: at least one.
            paid: called once all have it, or are deleted; never before this method has returned.
        """
        ...


@dataclass(slots=True, eq=False)
class Entry:
    """Holds one transactional id."""

    transactional_id: str
    partition: int
    """Of __transaction_state."""
    coordinator_epoch: int
    """The leader epoch under which this worker loaded the partition."""
    transaction: Transaction
    debt: Debt | None = None
    """Markers that the decided transaction still lacks."""
    is_gone: bool = False
    """Whether this worker coordinates the id no more, or has read it anew."""
    waiting: list[Callable[[], None]] = field(default_factory=list)
    """Called when the transaction is complete."""


def state_log_settings(config: BrokerConfig) -> TopicLogSettings:
    """Take the settings of the log of __transaction_state from the broker's configuration."""
    return TopicLogSettings(
        acks=-1,
        codec=Codec.NONE,
        commit_timeout_ms=config.request_timeout_ms,
        load_buffer_bytes=config.transaction_state_log_load_buffer_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Holds the broker's keys for transactions; none of them changes while the broker runs."""

    max_timeout_ms: Millis = 900_000
    expiration_ms: Millis = 7 * 24 * 3_600_000
    abort_interval_ms: Millis = 10_000
    """How often the coordinator looks for transactions that have had their time."""
    expire_interval_ms: Millis = 3_600_000
    """How often the coordinator looks for ids that were not used for long."""
    ids_max: int = 1_000_000
    """How many ids this worker keeps."""

    @classmethod
    def of(cls, config: BrokerConfig, workers: int) -> "CoordinatorSettings":
        """Take the settings from the broker's configuration; so many workers share its bounds."""
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expire_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ids_max=max(config.transactional_ids_max // workers, 1),
        )
