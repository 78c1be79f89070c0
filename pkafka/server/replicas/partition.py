"""One replica of a partition on this broker: its log, its leader, and the rules for writing to it."""

import copy
import errno
import os
from collections.abc import Hashable
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_EPOCH, NO_LEADER, BrokerId, Millis, Offset
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from pkafka.records.compression import Codec
from pkafka.records.validation import ProduceRules
from pkafka.server.ipc.words import ProposedIsr
from pkafka.server.replicas.leadership import IsrProposal, Leadership, Verdict
from pkafka.storage.config import LogConfig
from pkafka.storage.log import Log

PartitionKey: TypeAlias = tuple[str, int]

_CODEC_OF_TOPIC: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def _level(config: LogConfig, codec: Codec | None) -> int | None:
    if codec is Codec.GZIP:
        return config.compression_gzip_level
    if codec is Codec.LZ4:
        return config.compression_lz4_level
    if codec is Codec.ZSTD:
        return config.compression_zstd_level
    return None


class Bound(IntEnum):
    """Says where the records end that a reader may have."""

    HIGH_WATERMARK = 0
    """A consumer reads what is committed."""
    LOG_END = 1
    """A follower reads all."""
    LAST_STABLE = 2
    """A consumer of committed transactions reads what is decided."""

    def key(self, topic: str, index: int) -> Hashable:
        """The key under which fetches wait for the bound of a partition to move."""
        return (topic, index) if self is Bound.HIGH_WATERMARK else (self, topic, index)

    def of(self, log: Log) -> Offset:
        """Where it is in a log."""
        if self is Bound.HIGH_WATERMARK:
            return log.high_watermark
        return log.last_stable_offset if self is Bound.LAST_STABLE else log.log_end_offset


class Home(Protocol):
    """Names what a partition needs of its broker."""

    broker_id: BrokerId

    def lag_max_ms(self) -> Millis:
        """``replica.lag.time.max.ms``."""
        ...

    def now_ms(self) -> Millis:
        """A monotonic clock."""
        ...

    def is_alive(self, broker_id: BrokerId) -> bool:
        """Whether a broker is registered."""
        ...


class Partition:
    """Keeps one replica: takes the controller's decisions, and as leader decides what is committed.

    Args:
        topic, index: of the partition.
        partition_log: its log.
        home: the broker.
    """

    __slots__ = (
        "_home",
        "_rules",
        "decided",
        "end_key",
        "index",
        "is_reassigning",
        "isr",
        "key",
        "leader",
        "leader_epoch",
        "leadership",
        "log",
        "partition_epoch",
        "replicas",
        "stable_key",
        "topic",
    )

    def __init__(self, topic: str, index: int, partition_log: Log, home: Home) -> None:
        self._home = home
        self.topic = topic
        self.index = index
        self.key: PartitionKey = (topic, index)
        """The key under which operations wait for committed records."""
        self.end_key = Bound.LOG_END.key(topic, index)
        self.stable_key = Bound.LAST_STABLE.key(topic, index)
        self.log = partition_log
        self.decided: LeaderAndIsrPartitionState | None = None
        """The controller's last decision; None when there is none, or when the replica was told to stop."""
        self.leader: BrokerId = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.isr: list[int] = []
        self.replicas: list[int] = []
        self.is_reassigning = False
        """Whether the controller is adding replicas to it or taking some away."""
        self.leadership: Leadership | None = None
        """Set while this broker leads: the same object over all leader epochs, until the replica follows or stops."""
        self._rules: dict[int, ProduceRules] = {}

    def rules(self, produce_version: int) -> ProduceRules:
        """The topic's rules for a record set in a Produce request of that version."""
        rules = self._rules.get(produce_version)
        if rules is None:
            config = self.log.config
            codec = _CODEC_OF_TOPIC[config.compression_type]
            rules = ProduceRules(
                compacted="compact" in config.cleanup_policy,
                timestamp_type=1 if config.message_timestamp_type == "LogAppendTime" else 0,
                timestamp_before_max_ms=config.timestamp_before_max_ms,
                timestamp_after_max_ms=config.timestamp_after_max_ms,
                message_bytes_max=config.max_message_bytes,
                codec=codec,
                codec_level=_level(config, codec),
                produce_version=produce_version,
                place=f"{self.topic}-{self.index}",
            )
            self._rules[produce_version] = rules
        return rules

    def update_config(self, config: LogConfig) -> None:
        """Live configuration change of the topic or of the broker's defaults."""
        self.log.update_config(config)
        self._rules.clear()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Compare the leader epoch that a client names with the present one (KIP-320).

        Raises:
            ApiError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # -- leading --

    def lead(self, state: LeaderAndIsrPartitionState, proposed: IsrProposal | None = None) -> None:
        """Lead the partition, as the controller has decided.

        Args:
            state: the decision.
            proposed: the proposal of this process's predecessor that has no answer yet.
        """
        is_new_leader = self.leadership is None
        if self.leadership is None:
            self.leadership = Leadership(self._home.broker_id, self._home.lag_max_ms())
        if state.leader_epoch > self.leader_epoch:
            self.log.begin_epoch(state.leader_epoch)
        self._take_over(state)
        self.leadership.begin(
            replicas=state.replicas,
            isr=state.isr,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            log_end=self.log.log_end_offset,
            now_ms=self._home.now_ms(),
            is_new_leader=is_new_leader,
        )
        if proposed is not None:
            self.leadership.resume(proposed)
        self.advance_high_watermark()

    def follow(self, state: LeaderAndIsrPartitionState) -> None:
        """Follow another broker, or wait for a leader, as the controller has decided."""
        self.leadership = None
        self._take_over(state)

    def is_adding(self, broker_id: BrokerId) -> bool:
        """Whether an unfinished reassignment adds the replica of a broker."""
        return self.is_reassigning and self.decided is not None and broker_id in self.decided.adding_replicas

    def stop(self) -> None:
        """Neither lead nor follow any more, as the controller has decided; the log stays."""
        self.leadership = None
        self.decided = None
        self.leader = NO_LEADER

    def fail(self) -> None:
        """Refuse all appends, as the log directory has failed, even if this log has met no error."""
        self.log.fence(OSError(errno.EIO, os.strerror(errno.EIO)), "use")
        self.stop()

    def _take_over(self, state: LeaderAndIsrPartitionState) -> None:
        self.decided = state
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.isr = list(state.isr)
        self.replicas = list(state.replicas)
        self.is_reassigning = bool(state.adding_replicas or state.removing_replicas)

    def as_decided(self) -> LeaderAndIsrPartitionState | None:
        """The controller's last decision, with the ISRs that it has granted since.

        None when there is none, or when the replica was told to stop.
        """
        if self.decided is None:
            return None
        state = copy.copy(self.decided)
        state.isr, state.partition_epoch = list(self.isr), self.partition_epoch
        return state

    def advance_high_watermark(self) -> bool:
        """Move the high watermark after an append, a follower's fetch or a change of the ISR.

        Returns:
            Whether it moved.
        """
        log, leadership = self.log, self.leadership
        if leadership is None:
            return False  # a follower's records beyond its leader's high watermark may be cut off
        end: Offset | None = log.log_end_offset
        if leadership.has_followers:
            end = leadership.high_watermark(
                log_end=log.log_end_offset,
                now_ms=self._home.now_ms(),
                min_insync_replicas=log.config.min_insync_replicas,
                is_eligible=self._home.is_alive,
            )
        if end is None or end <= log.high_watermark:
            return False
        log.set_high_watermark(end)
        return True

    def follower_fetched(
        self, broker_id: BrokerId, offset: Offset, log_start_offset: Offset
    ) -> IsrProposal | None:
        """Note that a follower asked for records from ``offset`` on, so it has all records before.

        Returns:
            The ISR with the follower to propose to the controller, when it may join.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER; it is no replica of this partition.
        """
        follower = None if self.leadership is None else self.leadership.followers.get(broker_id)
        if self.leadership is None or follower is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        follower.fetched(
            offset=offset,
            log_start_offset=log_start_offset,
            leader_end=self.log.log_end_offset,
            now_ms=self._home.now_ms(),
        )
        return self.leadership.expansion(
            broker_id, high_watermark=self.log.high_watermark, is_eligible=self._home.is_alive
        )

    def broker_changed(self, broker_id: BrokerId) -> None:
        """Note that a broker is gone or has come."""
        if self.leadership is not None:
            self.leadership.broker_changed(broker_id)

    def isr_without_laggards(self) -> IsrProposal | None:
        """The ISR without the followers that have fallen behind; None when none has."""
        if self.leadership is None:
            return None
        return self.leadership.shrinkage(log_end=self.log.log_end_offset, now_ms=self._home.now_ms())

    def as_row(self, proposal: IsrProposal) -> ProposedIsr:
        """A proposal as the control process wants it."""
        isr, leader_epoch, partition_epoch = proposal
        return ProposedIsr(*self.key, self.log.topic_id, leader_epoch, isr, partition_epoch)

    def isr_decided(self, isr: list[BrokerId], leader_epoch: int, partition_epoch: int) -> Verdict:
        """Take the controller's answer to a proposal: the present state of the partition."""
        if self.leadership is None:
            return Verdict.WAIT
        verdict = self.leadership.decided(isr, leader_epoch=leader_epoch, partition_epoch=partition_epoch)
        if verdict is Verdict.DONE:
            self.isr = list(isr)
            self.partition_epoch = partition_epoch
        return verdict

    def low_watermark(self) -> Offset:
        """The highest start of all live replicas' logs."""
        own = self.log.log_start_offset
        return own if self.leadership is None else self.leadership.low_watermark(own, self._home.is_alive)

    @property
    def has_followers(self) -> bool:
        """Whether appended records have to reach other brokers."""
        return self.leadership is not None and self.leadership.has_followers

    def acknowledges(self, required: Offset, appended_under: Leadership | None) -> ErrorCode | None:
        """The outcome for a producer with acks=all whose records end at ``required``; None while it has to wait.

        Args:
            required: the end of its records.
            appended_under: the leadership when they were appended. While it lasts this log is not cut, however often
                the leader epoch rises. A later leadership comes after another leader, which may have cut the records
                off.
        """
        if self.log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.leadership is None or self.leadership is not appended_under:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.leadership.acknowledges(
            required,
            high_watermark=self.log.high_watermark,
            min_insync_replicas=self.log.config.min_insync_replicas,
        )

    def check_enough_in_sync(self) -> None:
        """A producer that waits for all replicas is about to append.

        Raises:
            ApiError: NOT_ENOUGH_REPLICAS.
        """
        leadership = self.leadership
        # The leader itself is in sync: what most topics want is there.
        least = self.log.config.min_insync_replicas
        if least > 1 and leadership is not None and not leadership.is_enough_in_sync(least):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
