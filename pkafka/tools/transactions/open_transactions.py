"""The transactions that are open in partitions, and those among them that no coordinator will end. Does not print."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import ProducerState
    from pkafka.clients.admin.transaction_results import TransactionDescription

T = TypeVar("T")

_BATCH: Final = 500
"""Topics or partitions in one request, as Kafka's tool asks."""


class OpenTransaction(NamedTuple):
    """A transaction in one partition that has no marker yet."""

    partition: TopicPartition
    producer: "ProducerState"

    @property
    def start_offset(self) -> int:
        """The offset of its first record."""
        assert self.producer.transaction_start_offset is not None
        return self.producer.transaction_start_offset


class KnownTransaction(NamedTuple):
    """What the coordinator of a producer's transactional id says of it."""

    transactional_id: str
    description: "TransactionDescription"


def partitions_of(
    admin: "Admin", topics: Iterable[str], *, broker: int | None = None, led: bool = False
) -> list[TopicPartition]:
    """All partitions of topics.

    Args:
        broker: only those of which this broker has a replica.
        led: only those that have a leader, as only these can be asked about.

    Raises:
        ApiError: a topic cannot be described.
    """
    found: list[TopicPartition] = []
    for batch in _batches(topics):
        for name, topic in admin.describe_topics(batch).items():
            if isinstance(topic, ApiError):
                raise topic
            found += [
                TopicPartition(name, each.partition)
                for each in topic.partitions
                if (broker is None or broker in each.replicas) and not (led and each.leader is None)
            ]
    return found


def open_transactions(
    admin: "Admin", partitions: Iterable[TopicPartition], *, broker: int | None = None
) -> list[OpenTransaction]:
    """The transactions that are open in partitions, as their leaders, or the replicas of ``broker``, know them.

    Raises:
        ApiError: a partition cannot be described.
    """
    found: list[OpenTransaction] = []
    for batch in _batches(partitions):
        for partition, producers in admin.describe_producers(batch, broker=broker).items():
            if isinstance(producers, ApiError):
                raise producers
            found += [
                OpenTransaction(partition, each)
                for each in producers
                if each.transaction_start_offset is not None
            ]
    return found


def known_transactions(admin: "Admin", producer_ids: Iterable[int]) -> dict[int, KnownTransaction]:
    """The transactional ids of producers and what they are in; a producer that no coordinator knows is left out.

    Raises:
        ApiError: a coordinator does not say.
    """
    wanted = sorted(set(producer_ids))
    if not wanted:
        return {}
    listed = admin.list_transactions(producer_ids=wanted)
    for error in listed.errors.values():
        raise error
    ids = {
        each.transactional_id: each.producer_id
        for each in listed.transactions
        if each.producer_id in wanted  # a broker may be so old that it lists all
    }
    found: dict[int, KnownTransaction] = {}
    for transactional_id, description in admin.describe_transactions(ids).items():
        if not isinstance(description, ApiError):
            found[ids[transactional_id]] = KnownTransaction(transactional_id, description)
        elif description.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise description
    return found


def hanging(
    transactions: Iterable[OpenTransaction], known: Mapping[int, KnownTransaction]
) -> list[OpenTransaction]:
    """Those that no coordinator will end: no transactional id has their producer, or its transaction is another."""
    return [each for each in transactions if not will_end(each, known.get(each.producer.producer_id))]


def will_end(transaction: OpenTransaction, known: KnownTransaction | None) -> bool:
    """Whether the coordinator of the transaction has this partition on its list, and so will write the marker."""
    return known is not None and transaction.partition in known.description.partitions


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    found = list(items)
    return (found[start : start + _BATCH] for start in range(0, len(found), _BATCH))
