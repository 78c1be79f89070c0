"""What a consumer reads and how far it is, per partition. Knows no socket and no clock.

A partition is INITIALIZING (its committed position is to be looked up), RESETTING (a position is to be looked up by
time), VALIDATING (its leader changed: the position is to be compared with the new leader's log, KIP-320) or FETCHING.
The fetcher moves positions with :meth:`Subscription.advance`; all others use the other methods.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from pkafka.clients.consumer.errors import IllegalStateError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import NO_EPOCH, NO_LEADER, TopicPartition

_EXCLUSIVE: Final = "Subscription to topics, partitions and pattern are mutually exclusive"


class ConsumerRebalanceListener:
    """What a user gives ``subscribe`` to be told of rebalances; override what is of interest.

    Called by the thread that polls, inside ``poll``, ``unsubscribe`` or ``close``; the methods may call the consumer.
    """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """These go to another member; they are still owned here, so that offsets can be committed."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """These came; nothing was fetched yet, so that positions can be sought."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """These were taken without a word; another member may own them already."""
        self.on_partitions_revoked(partitions)


class Mode(Enum):
    """How partitions come to a consumer; one excludes the others until ``unsubscribe``."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    ASSIGNED = "assigned"


class Status(Enum):
    """What a partition waits for."""

    INITIALIZING = "initializing"
    RESETTING = "resetting"
    VALIDATING = "validating"
    FETCHING = "fetching"


class Leader(NamedTuple):
    """The leader of a partition and its epoch, which goes into fetches, so that a stale leader or reader is told."""

    node: int = NO_LEADER
    epoch: int = NO_EPOCH


NO_KNOWN_LEADER: Final = Leader()


@dataclass(slots=True)
class PartitionState:
    """How far one partition is read."""

    position: int | None = None
    position_epoch: int = NO_EPOCH
    """The leader epoch of the record before the position, as fetched or committed; -1 when not known."""
    leader: Leader = NO_KNOWN_LEADER
    """Whom the position was last found good with."""
    status: Status = Status.INITIALIZING
    reset_to: int | None = None
    """The time to look an offset up for, when there is no position: EARLIEST, LATEST or milliseconds."""
    paused: bool = False
    pending_revocation: bool = False
    """Its position is being committed because it will be given up: nothing is fetched or returned any more."""
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    retry_at_ms: int = 0


class Subscription:
    """What is subscribed, and the assigned partitions with their states."""

    def __init__(self) -> None:
        self.mode = Mode.NONE
        self.wanted_topics: frozenset[str] = frozenset()
        """The topics subscribed: by name, or those that match the pattern now."""
        self.pattern: re.Pattern[str] | None = None
        self.listener: ConsumerRebalanceListener | None = None
        self.changes = 0
        """Grows whenever the assigned partitions become others."""
        self.topic_changes = 0
        """Grows whenever the topics whose metadata matter may have become others."""
        self._states: dict[TopicPartition, PartitionState] = {}
        self._unsettled: set[TopicPartition] = set()
        self._group_topics: frozenset[str] = frozenset()

    # -- what is read --

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None) -> None:
        """Read what the group gives of these topics.

        Raises:
            IllegalStateError: partitions were assigned or a pattern subscribed before.
        """
        self._enter(Mode.TOPICS)
        self.listener = listener
        self.wanted_topics = frozenset(topics)
        self.add_group_topics(self.wanted_topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: ConsumerRebalanceListener | None) -> None:
        """Read what the group gives of the topics whose whole name matches.

        Raises:
            IllegalStateError: topics were subscribed or partitions assigned before.
        """
        self._enter(Mode.PATTERN)
        self.listener = listener
        self.pattern = pattern
        self.topic_changes += 1

    def set_matching(self, topics: Iterable[str]) -> bool:
        """Take note of the topics that match the pattern now.

        Returns:
            Whether they changed.
        """
        found = frozenset(topics)
        if found == self.wanted_topics:
            return False
        self.wanted_topics = found
        self.add_group_topics(found)
        return True

    def add_group_topics(self, topics: Iterable[str]) -> bool:
        """Watch what others of the group subscribe too, as its leader must.

        Returns:
            Whether that is more.
        """
        before = self._group_topics
        self._group_topics = before | frozenset(topics)
        self.topic_changes += self._group_topics != before
        return self._group_topics != before

    def reset_group_topics(self) -> None:
        """Watch one's own topics alone, as all but the leader do."""
        self.topic_changes += self._group_topics != self.wanted_topics
        self._group_topics = self.wanted_topics

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group; those that stay keep their position.

        Raises:
            IllegalStateError: topics or a pattern were subscribed before.
        """
        self._enter(Mode.ASSIGNED)
        self._replace(partitions)

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        """Take over what the group gave; those that stay keep their position and are not paused anew."""
        assert self.is_automatic, self.mode
        self._replace(partitions)

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.mode = Mode.NONE
        self.wanted_topics = self._group_topics = frozenset()
        self.pattern = self.listener = None
        self._replace(())

    @property
    def is_automatic(self) -> bool:
        """Whether the group gives the partitions."""
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    def matches(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment holds nothing that was not subscribed."""
        if self.pattern is not None:
            return all(self.pattern.fullmatch(each.topic) for each in partitions)
        return all(each.topic in self.wanted_topics for each in partitions)

    def topics(self) -> set[str]:
        """The topics whose metadata matter."""
        topics = {partition.topic for partition in self._states}
        return topics | self._group_topics if self.is_automatic else topics

    # -- states --

    @property
    def partitions(self) -> list[TopicPartition]:
        """The assigned partitions, in the order of the assignment."""
        return list(self._states)

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition.

        Raises:
            IllegalStateError: it is not assigned.
        """
        try:
            return self._states[partition]
        except KeyError:
            raise IllegalStateError(f"No current assignment for partition {partition}") from None

    def get(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition, None when it is not assigned (any more)."""
        return self._states.get(partition)

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        """Read on from ``offset``, which needs no check.

        Args:
            epoch: the leader epoch of the record before it, when that is known.
        """
        state = self.state(partition)
        state.position, state.position_epoch = offset, epoch
        state.reset_to, state.retry_at_ms = None, 0
        self._set_status(partition, Status.FETCHING)

    def seek_unvalidated(
        self, partition: TopicPartition, offset: int, epoch: int, leader: Leader | None
    ) -> None:
        """Read on from ``offset`` once the leader's log was found to hold what came before it (KIP-320)."""
        self.seek(partition, offset, epoch)
        state = self.state(partition)
        state.leader = leader or NO_KNOWN_LEADER
        if epoch != NO_EPOCH and state.leader.epoch != NO_EPOCH:
            self._set_status(partition, Status.VALIDATING)

    def reset(self, partition: TopicPartition, to: int) -> None:
        """Forget the position and look it up by time before the next fetch."""
        state = self.state(partition)
        state.position, state.position_epoch = None, NO_EPOCH
        state.reset_to, state.retry_at_ms = to, 0
        self._set_status(partition, Status.RESETTING)

    def advance(self, partition: TopicPartition, offset: int, epoch: int) -> None:
        """The fetcher handed records out; the next one is at ``offset``, the last was written in ``epoch``."""
        state = self._states[partition]
        state.position, state.position_epoch = offset, epoch

    def leader_is(self, partition: TopicPartition, leader: Leader) -> bool:
        """Take note of the leader of a partition.

        Returns:
            Whether its position must be validated with the leader.
        """
        state = self._states.get(partition)
        if state is None or state.position is None or leader == NO_KNOWN_LEADER:
            return False
        if state.leader != leader:
            state.leader = leader
            needed = state.position_epoch != NO_EPOCH and leader.epoch != NO_EPOCH
            self._set_status(partition, Status.VALIDATING if needed else Status.FETCHING)
            state.retry_at_ms = 0
        return state.status is Status.VALIDATING

    def validated(self, partition: TopicPartition) -> None:
        """The leader's log holds what came before the position: it can be fetched from."""
        state = self._states[partition]
        if state.status is Status.VALIDATING:
            self._set_status(partition, Status.FETCHING)

    def fetchable(self, now_ms: int) -> list[TopicPartition]:
        """The partitions that have a good position and are neither paused, given up nor waiting to be tried again."""
        return [
            partition
            for partition, state in self._states.items()
            if state.status is Status.FETCHING
            and not state.paused
            and not state.pending_revocation
            and state.retry_at_ms <= now_ms
        ]

    def is_fetchable(self, partition: TopicPartition) -> bool:
        """Whether records of a partition may be handed out now."""
        state = self._states.get(partition)
        return (
            state is not None
            and state.status is Status.FETCHING
            and not state.paused
            and not state.pending_revocation
        )

    def in_status(self, status: Status, now_ms: int | None = None) -> list[TopicPartition]:
        """The partitions that wait for something, without those whose next try is later than ``now_ms``."""
        if not self._unsettled:
            return []
        return [
            partition
            for partition, state in self._states.items()
            if state.status is status and (now_ms is None or state.retry_at_ms <= now_ms)
        ]

    @property
    def is_settled(self) -> bool:
        """Whether every partition has a good position."""
        return not self._unsettled

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and return no more of these: their positions are about to be committed for the last time."""
        for partition in partitions:
            self._states[partition].pending_revocation = True

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions that a commit of everything stores."""
        return {
            partition: OffsetAndMetadata(
                state.position, "", None if state.position_epoch == NO_EPOCH else state.position_epoch
            )
            for partition, state in self._states.items()
            if state.position is not None and state.status is Status.FETCHING
        }

    def positions(self) -> Mapping[TopicPartition, int]:
        """Every position that is known."""
        return {each: state.position for each, state in self._states.items() if state.position is not None}

    # -- inside --

    def _enter(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise IllegalStateError(_EXCLUSIVE)
        self.mode = mode

    def _replace(self, partitions: Iterable[TopicPartition]) -> None:
        before = self._states
        self._states = {each: before.get(each) or PartitionState() for each in partitions}
        for state in self._states.values():
            state.pending_revocation = False
        self._unsettled = {
            each for each, state in self._states.items() if state.status is not Status.FETCHING
        }
        if before.keys() != self._states.keys():
            self.changes += 1
            self.topic_changes += 1

    def _set_status(self, partition: TopicPartition, status: Status) -> None:
        self._states[partition].status = status
        if status is Status.FETCHING:
            self._unsettled.discard(partition)
        else:
            self._unsettled.add(partition)
