"""How far one follower is, as the leader of its partition learns from its fetches.

A follower is in step as long as it had, at some time within ``replica.lag.time.max.ms``, all that the leader had then.
That it is a few records behind under load says nothing: what counts is whether it keeps reaching the end of before.
"""

from typing import Final

from pkafka.model import NO_OFFSET, BrokerId, Millis, Offset

_NEVER_MS: Final[Millis] = -(1 << 62)
"""Further back than any lag that is allowed, on a clock that began at 0 a moment ago too."""


class Follower:
    """One remote replica of a partition that this broker leads.

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
        """The controller would not have it in the ISR when that was last proposed: its broker stops, or is gone."""
        self._fetched_ms: Millis = _NEVER_MS
        self._leader_end_then: Offset = NO_OFFSET

    def begin_epoch(self, *, now_ms: Millis, leader_end: Offset, is_new_leader: bool, in_sync: bool) -> None:
        """A leader epoch begins, or goes on under another ISR.

        Args:
            leader_end: where the leader's log ends.
            is_new_leader: this broker did not lead before: what it knew of its followers, it knew as a follower.
            in_sync: the follower is in the ISR, so it has ``replica.lag.time.max.ms`` to show itself.
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
        """The follower asked for records from ``offset`` on: it has all before.

        Args:
            log_start_offset: where its log begins.
            leader_end: where the leader's log ended when the fetch was read.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._leader_end_then:
            # It now has what there was at its fetch before this one: then it had caught up.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self._leader_end_then = leader_end
        self._fetched_ms = now_ms

    def is_caught_up(self, leader_end: Offset, now_ms: Millis, lag_max_ms: Millis) -> bool:
        """Whether the follower is in step with a leader whose log ends at ``leader_end``."""
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
