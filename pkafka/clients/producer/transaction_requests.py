"""The requests of a transaction: how each is made, and which coordinator each goes to."""

from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

from pkafka.clients.offsets import ConsumerGroupMetadata
from pkafka.clients.producer.transaction_states import Offsets
from pkafka.model import NO_EPOCH, TopicPartition
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

_ADD_PARTITIONS_VERSION_MAX: Final = 3  # later ones are for brokers
_IMPLICIT_VERSION_MAX: Final = (
    5  # of TxnOffsetCommit and EndTxn; with 4 the broker takes the transaction for an older one
)
_LAST_VERSION_OF_ONE_KEY: Final = 3
_GROUP: Final = 0
_TRANSACTION: Final = 1

Request: TypeAlias = (
    FindCoordinatorRequest
    | InitProducerIdRequest
    | AddPartitionsToTxnRequest
    | AddOffsetsToTxnRequest
    | TxnOffsetCommitRequest
    | EndTxnRequest
)


class Coordinator(NamedTuple):
    """Where the coordinator of a group or of a transactional id listens."""

    host: str
    port: int


class Ask(NamedTuple):
    """What to send next, and to which broker: None for any."""

    request: Request
    to: Coordinator | None
    max_version: int | None = None


class ProducerIdentity(NamedTuple):
    """By what coordinators know a producer; makes its requests."""

    transactional_id: str
    id: int
    epoch: int

    def init(self, timeout_ms: int) -> InitProducerIdRequest:
        """Ask for an id and an epoch, or for the next epoch of this id."""
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.id,
            producer_epoch=self.epoch,
        )

    def add_partitions(self, partitions: Collection[TopicPartition]) -> AddPartitionsToTxnRequest:
        """Put partitions into the transaction."""
        topics: dict[str, list[int]] = {}
        for partition in sorted(partitions):
            topics.setdefault(partition.topic, []).append(partition.partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )

    def add_group(self, group_id: str) -> AddOffsetsToTxnRequest:
        """Put a group's offsets into the transaction."""
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )

    def store_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> TxnOffsetCommitRequest:
        """Store offsets of a group that is in the transaction."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, offset in offsets.items():
            row = TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
            topics.setdefault(partition.topic, []).append(row)
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

    def end(self, *, committed: bool) -> EndTxnRequest:
        """End the transaction."""
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )


class Coordinators:
    """Where the coordinators of the transactional id and of groups are, as far as the producer knows.

    Args:
        transactional_id: of the producer.
    """

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self._known: dict[tuple[int, str], Coordinator] = {}
        self._asks_one_key = False

    def ask(self, request: Request, *, is_implicit: bool = False) -> Ask:
        """A request with its coordinator; the lookup of that coordinator while it is not known.

        Args:
            is_implicit: whether the transaction is one of transaction.version 2.
        """
        kind, key = self.key_of(request)
        to = self._known.get((kind, key))
        if to is not None:
            if isinstance(request, AddPartitionsToTxnRequest):
                return Ask(request, to, _ADD_PARTITIONS_VERSION_MAX)
            if is_implicit and isinstance(request, TxnOffsetCommitRequest | EndTxnRequest):
                return Ask(request, to, _IMPLICIT_VERSION_MAX)
            return Ask(request, to)
        if self._asks_one_key:
            return Ask(FindCoordinatorRequest(key_type=kind, key=key), None, _LAST_VERSION_OF_ONE_KEY)
        return Ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), None)

    def found(self, lookup: FindCoordinatorRequest, coordinator: Coordinator) -> None:
        """A broker has answered a lookup."""
        self._known[self.key_of(lookup)] = coordinator

    def forget(self, request: Request) -> None:
        """The coordinator that a request went to is not it any more, or does not answer."""
        self._known.pop(self.key_of(request), None)

    def ask_for_one_key(self) -> None:
        """The brokers are too old for lookups of several keys."""
        self._asks_one_key = True

    def key_of(self, request: Request) -> tuple[int, str]:
        """Which coordinator a request goes to, or looks up: its type, and the group or the transactional id."""
        if isinstance(request, FindCoordinatorRequest):
            keys = request.coordinator_keys or [request.key]
            return request.key_type, keys[0]
        if isinstance(request, TxnOffsetCommitRequest):
            return _GROUP, request.group_id
        return _TRANSACTION, self._transactional_id


def kind_of(lookup: FindCoordinatorRequest) -> str:
    """What a lookup looks for, as Kafka's messages call it."""
    return "group" if lookup.key_type == _GROUP else "transaction"
