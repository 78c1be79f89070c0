"""What is in a producer's transaction: partitions, and offsets of groups; and what its coordinator knows of them.

Before transaction.version 2 the producer tells the coordinator of each of them first. From that version on (KIP-890,
part 2) the requests that carry records and offsets do that, too. No socket, no clock: a part of the machine in
``transactions.py``.
"""

from collections import deque

from pkafka.clients.offsets import ConsumerGroupMetadata
from pkafka.clients.producer.transaction_requests import ProducerIdentity, Request
from pkafka.clients.producer.transaction_states import GroupOffsets, Offsets, Outcome
from pkafka.model import TopicPartition
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pkafka.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest


class Parts:
    """The parts of one transaction after the other."""

    def __init__(self) -> None:
        self.are_implicit = False
        """Whether records and offsets put themselves into the transaction; does not change while there is one."""
        self.is_started = False
        """Whether the coordinator may know of the transaction; before version 2: whether it does."""
        self._wanted: set[TopicPartition] = set()
        self._adding: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()
        self._offsets: deque[GroupOffsets] = deque()

    @property
    def has_partitions(self) -> bool:
        """Whether partitions were added."""
        return bool(self._added)

    @property
    def offsets(self) -> GroupOffsets | None:
        """Those that are on their way."""
        return self._offsets[0] if self._offsets else None

    # -- what the transaction is to have ------------------------------------------------------------------

    def admits(self, partition: TopicPartition, *, may_grow: bool) -> bool:
        """Whether batches of a partition may go.

        Args:
            may_grow: whether a partition that is not in the transaction is to be put into it.
        """
        if partition in self._added:
            return True
        if may_grow and self.are_implicit:
            self.is_started = True
            self._added.add(partition)
            return True
        if may_grow:
            self._wanted.add(partition)
        return False

    def add_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> Outcome:
        """Store offsets; the same ones again wait for the same outcome."""
        for item in self._offsets:
            if item.all == offsets and item.group == group:
                return item.outcome
        item = GroupOffsets(offsets, group)
        if self.are_implicit:
            self.is_started = item.is_added = True
        self._offsets.append(item)
        return item.outcome

    # -- what the coordinator is to hear ------------------------------------------------------------------

    def next_request(self, identity: ProducerIdentity) -> Request | None:
        """What to ask for next; None when all parts are there."""
        if self._wanted or self._adding:
            return identity.add_partitions(self._wanted | self._adding)
        item = self.offsets
        if item is None:
            return None
        return (
            identity.store_offsets(item.left, item.group)
            if item.is_added
            else identity.add_group(item.group.group_id)
        )

    def was_asked(self, request: Request) -> None:
        """A request is on its way to its coordinator."""
        if isinstance(request, AddOffsetsToTxnRequest):
            self._offsets[0].was_asked = True
        elif isinstance(request, AddPartitionsToTxnRequest):
            self._adding |= self._wanted
            self._wanted.clear()

    def partitions_added(self) -> None:
        """The coordinator has added the partitions that it was asked for."""
        self._added |= self._adding
        self._adding.clear()
        self.is_started = True

    def partitions_refused(self) -> None:
        """It will never add them."""
        self._adding.clear()

    def group_added(self) -> None:
        """It has added the group whose offsets are next."""
        self.is_started = True
        if self._offsets:
            self._offsets[0].is_added = True

    def group_refused(self) -> None:
        """It will never add that group."""
        if self._offsets:
            self._offsets[0].was_asked = False

    def offsets_stored(self) -> None:
        """The group's coordinator has answered; offsets that it took are not :attr:`GroupOffsets.left`."""
        if self._offsets and not self._offsets[0].left:
            self._offsets.popleft().outcome.settle()

    # -- its end ------------------------------------------------------------------------------------------

    def drop_wanted(self) -> None:
        """Forget partitions that the coordinator has not heard of."""
        self._wanted.clear()

    def drop_offsets(self, error: Exception, *, keep_asked: bool) -> None:
        """Forget offsets that are not stored.

        Args:
            keep_asked: whether a group that the coordinator may have added is to be asked for again.
        """
        for item in self._offsets:
            item.outcome.settle(error)
        kept = [each for each in self._offsets if keep_asked and each.was_asked and not each.is_added]
        self._offsets = deque(kept)

    def forget_offsets(self) -> None:
        """Forget offsets whose outcome is told already."""
        self._offsets.clear()

    def clear(self) -> None:
        """The transaction is over."""
        self.is_started = False
        self._wanted.clear()
        self._adding.clear()
        self._added.clear()
        self._offsets.clear()
