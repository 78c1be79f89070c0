"""The position of one follower, as the leader of its partition learns it from the follower's fetches.

A follower is in step when, at some time within the last ``replica.lag.time.max.ms``, it had all that the leader had at
that time. Under load it may always be some records behind; it is in step as long as it keeps reaching the leader's
former ends.
"""

from typing import Final

from pkafka.model import NO_OFFSET, BrokerId, Millis, Offset

_NEVER_MS: Final[Millis] = -(1 << 62)
"""A time further back than any allowed lag, even on a clock that has just begun at 0."""


class Follower:
    """Tracks one remote replica of a partition that this broker leads.

    Times are readings of one monotonic clock, in milliseconds.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_then",
        "broker_id",
        "caught_up_ms",
        "is_refused",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.log_end_offset: Offset = NO_OFFSET
        self.log_start_offset: Offset = NO_OFFSET
        self.caught_up_ms: Millis = _NEVER_MS
        self.is_refused = False
        """The controller refused the last proposal to add it to the ISR: its broker stops, or is gone."""
        self._fetched_ms: Millis = _NEVER_MS
        self._leader_end_then: Offset = NO_OFFSET

    def begin_epoch(self, *, now_ms: Millis, leader_end: Offset, is_new_leader: bool, in_sync: bool) -> None:
        """Begin a leader epoch, or go on with it under another ISR.

        Args:
            leader_end: where the leader's log ends.
            is_new_leader: this broker did not lead before, so it knows nothing of its followers yet.
            in_sync: the follower is in the ISR, so it has ``replica.lag.time.max.ms`` for its first fetch.
        """
        self.caught_up_ms = now_ms if in_sync else _NEVER_MS
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = self._leader_end_then = NO_OFFSET
            self._fetched_ms = _NEVER_MS
        else:
            self._leader_end_then = leader_end
            self._fetched_ms = now_ms if in_sync else _NEVER_MS

    def fetched(
        self,
        *,
        offset: Offset,
        log_start_offset: Offset,
        leader_end: Offset,
        now_ms: Millis,
    ) -> None:
        """Note that the follower asked for records from ``offset`` on, so it has all records before.

        Args:
            log_start_offset: where its log begins.
            leader_end: where the leader's log ended when the fetch was read.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_then:
            # It has now all that the leader had at its fetch before this one: it was caught up at that time.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self._leader_end_then = leader_end
        self._fetched_ms = now_ms

    def is_caught_up(self, leader_end: Offset, now_ms: Millis, lag_max_ms: Millis) -> bool:
        """Whether the follower is in step with a leader whose log ends at ``leader_end``."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
