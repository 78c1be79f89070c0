"""The decisions of a partition's leader: which replicas are in sync, what is committed, when a producer gets its
answer.

Nothing here does I/O or waits. The leader proposes another ISR, the controller decides. Until it has answered, the
leader counts with the maximal ISR: a proposed member counts at once, a member that is to leave counts until it has
left. So a record that counts as committed is committed under both ISRs.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import BrokerId, LeaderEpoch, Millis, Offset
from pkafka.server.replicas.followers import Follower

Eligible: TypeAlias = Callable[[BrokerId], bool]
"""Says whether a broker is alive and so may join an ISR."""


class IsrProposal(NamedTuple):
    """Holds an ISR that a leader proposes to the controller (AlterPartition)."""

    isr: tuple[BrokerId, ...]
    leader_epoch: LeaderEpoch
    partition_epoch: int


class Verdict(Enum):
    """Says what to do after the controller's answer to a proposal."""

    DONE = "done"
    """The controller has decided: look again at the high watermark, and at the producers that wait for it."""
    AGAIN = "again"
    """Send the same proposal again."""
    WAIT = "wait"
    """Leave it pending: the controller has newer facts, and its LeaderAndIsr is on its way."""
    GIVE_UP = "give up"
    """The ISR has not changed, nor has what is committed."""


_WAIT_FOR_CONTROLLER: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
_NOT_ATTEMPTED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})


def is_final(code: ErrorCode) -> bool:
    """Whether this answer tells for certain if the proposal was carried out; after others it may still be later."""
    return code is ErrorCode.NONE or code in _WAIT_FOR_CONTROLLER or code in _NOT_ATTEMPTED


class Leadership:
    """Decides for one partition that this broker leads, over one leader epoch or several in a row.

    Args:
        broker_id: this broker, the leader.
        lag_max_ms: ``replica.lag.time.max.ms``.
    """

    __slots__ = (
        "_followers",
        "_is_refused",
        "_lag_max_ms",
        "_proposed",
        "broker_id",
        "epoch_start_offset",
        "has_followers",
        "isr",
        "leader_epoch",
        "partition_epoch",
    )

    def __init__(self, broker_id: BrokerId, lag_max_ms: Millis) -> None:
        self.broker_id = broker_id
        self._lag_max_ms = lag_max_ms
        self._followers: dict[BrokerId, Follower] = {}
        self.has_followers = False
        """Whether the partition has other replicas than the leader's; every append asks."""
        self._proposed: IsrProposal | None = None
        self._is_refused = False
        self.isr: tuple[BrokerId, ...] = ()
        """The ISR that the controller decided last."""
        self.leader_epoch: LeaderEpoch = -1
        self.partition_epoch = -1
        self.epoch_start_offset: Offset = 0

    @property
    def followers(self) -> Mapping[BrokerId, Follower]:
        """The remote replicas by broker."""
        return MappingProxyType(self._followers)

    @property
    def proposed(self) -> IsrProposal | None:
        """The proposal that the controller has not answered yet."""
        return self._proposed

    @property
    def maximal_isr(self) -> tuple[BrokerId, ...]:
        """The replicas that are in sync, or may be when the controller has answered."""
        if self._proposed is None or len(self._proposed.isr) < len(self.isr):
            return self.isr
        return self._proposed.isr

    def begin(
        self,
        *,
        replicas: Iterable[BrokerId],
        isr: Iterable[BrokerId],
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        log_end: Offset,
        now_ms: Millis,
        is_new_leader: bool,
    ) -> None:
        """Take the controller's decision (LeaderAndIsr), which makes an earlier proposal void.

        A new controller may only repeat what was decided before the proposal. Then the proposal may still be on its way
        and be carried out, so it stays pending.

        Args:
            log_end: where the leader's log ends; a new epoch starts there.
            is_new_leader: this broker did not lead before.
        """
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        asked_for = (leader_epoch, partition_epoch)
        if self._proposed is not None and (self._is_refused or self._proposed[1:] != asked_for):
            self._proposed = None
        others = [broker for broker in replicas if broker != self.broker_id]
        self._followers = {broker: self._followers.get(broker) or Follower(broker) for broker in others}
        self.has_followers = bool(others)
        for follower in self._followers.values():
            follower.is_refused = False
        if leader_epoch > self.leader_epoch or is_new_leader:
            # Followers may have cut their logs for a leader of which this broker never heard, so their positions count
            # only when this broker led in every epoch between.
            others_may_have_led = leader_epoch > self.leader_epoch + 1
            self.leader_epoch = leader_epoch
            self.epoch_start_offset = log_end
            for follower in self._followers.values():
                follower.begin_epoch(
                    now_ms=now_ms,
                    leader_end=log_end,
                    is_new_leader=is_new_leader or others_may_have_led,
                    in_sync=follower.broker_id in self.isr,
                )

    # -- the ISR --

    def resume(self, proposal: IsrProposal) -> None:
        """Take over the proposal of this process's predecessor, which died before it heard the answer.

        The proposal may still be carried out, and is sent again. It is ignored when the controller has decided since.
        """
        if self._proposed is None and proposal[1:] == (self.leader_epoch, self.partition_epoch):
            self._proposed = proposal
            self._is_refused = False

    def expansion(
        self, broker_id: BrokerId, *, high_watermark: Offset, is_eligible: Eligible
    ) -> IsrProposal | None:
        """The ISR with a follower that has just fetched, when it may join.

        It must have all committed records and have reached the start of this leader epoch: before that, its log may
        hold records that the leader lacks.
        """
        follower = self._followers.get(broker_id)
        if self._proposed is not None or follower is None or broker_id in self.isr:
            return None
        if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not is_eligible(broker_id):
            return None
        follower.is_refused = False
        return self._propose((*self.isr, broker_id))

    def shrinkage(self, *, log_end: Offset, now_ms: Millis) -> IsrProposal | None:
        """The ISR without the followers that have fallen behind; None when none has."""
        if self._proposed is not None:
            return None
        stays = tuple(broker for broker in self.isr if not self._has_fallen_behind(broker, log_end, now_ms))
        return self._propose(stays) if len(stays) < len(self.isr) else None

    def answered(self, proposal: IsrProposal, code: ErrorCode) -> Verdict:
        """Take the controller's refusal of the proposal."""
        if proposal is not self._proposed:
            return Verdict.WAIT  # the controller has decided something else meanwhile
        if code in _NOT_ATTEMPTED:
            self._proposed = None
            if code is ErrorCode.INELIGIBLE_REPLICA:
                for broker in set(proposal.isr).difference(self.isr):
                    self._followers[broker].is_refused = True
            return Verdict.GIVE_UP
        self._is_refused = code in _WAIT_FOR_CONTROLLER
        return Verdict.WAIT if self._is_refused else Verdict.AGAIN

    def decided(self, isr: Iterable[BrokerId], *, leader_epoch: LeaderEpoch, partition_epoch: int) -> Verdict:
        """Take the controller's answer to the proposal: the present state of the partition."""
        if leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return Verdict.WAIT  # the answer is older than the last LeaderAndIsr
        self.isr = tuple(isr)
        self.partition_epoch = partition_epoch
        self._proposed = None
        return Verdict.DONE

    def broker_changed(self, broker_id: BrokerId) -> None:
        """Note that a broker is gone or has come: an earlier refusal of it does not count any more."""
        follower = self._followers.get(broker_id)
        if follower is not None:
            follower.is_refused = False

    def _propose(self, isr: tuple[BrokerId, ...]) -> IsrProposal:
        self._is_refused = False
        self._proposed = IsrProposal(isr, self.leader_epoch, self.partition_epoch)
        return self._proposed

    def _has_fallen_behind(self, broker: BrokerId, log_end: Offset, now_ms: Millis) -> bool:
        follower = self._followers.get(broker)
        if follower is None:
            return broker != self.broker_id  # not a replica any more
        return not follower.is_caught_up(log_end, now_ms, self._lag_max_ms)

    # -- what is committed --

    def in_sync_min(self, min_insync_replicas: int) -> int:
        """``min.insync.replicas``, but at most the number of replicas: with fewer, no record could be written."""
        return min(min_insync_replicas, len(self._followers) + 1)

    def high_watermark(
        self, *, log_end: Offset, now_ms: Millis, min_insync_replicas: int, is_eligible: Eligible
    ) -> Offset | None:
        """The offset up to which all replicas of the maximal ISR have the log.

        None when the high watermark must not move: with fewer than ``min.insync.replicas`` in sync nothing is
        committed.
        """
        if len(self.isr) < self.in_sync_min(min_insync_replicas):
            return None
        counted = self.maximal_isr
        end = log_end
        for follower in self._followers.values():
            if follower.log_end_offset < end and (
                follower.broker_id in counted
                # This follower will join in a moment, and must have all committed records then. (Kafka waits for a
                # broker that stops, too; that one still fetches from the new leader, but never joins.)
                or (
                    not follower.is_refused
                    and follower.is_caught_up(log_end, now_ms, self._lag_max_ms)
                    and is_eligible(follower.broker_id)
                )
            ):
                end = follower.log_end_offset
        return end

    def is_enough_in_sync(self, min_insync_replicas: int) -> bool:
        """Whether enough replicas are in sync for a producer with acks=all to append."""
        return len(self.isr) >= self.in_sync_min(min_insync_replicas)

    def acknowledges(
        self, required: Offset, *, high_watermark: Offset, min_insync_replicas: int
    ) -> ErrorCode | None:
        """The outcome for a producer with acks=all whose records end at ``required``; None while it has to wait."""
        if high_watermark < required:
            return None
        if len(self.maximal_isr) < self.in_sync_min(min_insync_replicas):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def low_watermark(self, own_log_start: Offset, is_alive: Eligible) -> Offset:
        """The highest start of all live replicas' logs: all of them have deleted the records below it."""
        others = self._followers.values()
        return min([own_log_start, *(one.log_start_offset for one in others if is_alive(one.broker_id))])
