"""When a member must be heard of, and when it must have heard: three timers of one membership. Pure."""

from typing import Final

_NEVER: Final = 2**62


class Heartbeat:
    """The timers; see AbstractCoordinator's of Kafka.

    Args:
        interval_ms: ``heartbeat.interval.ms``.
        session_timeout_ms: without an answer for so long, the coordinator is looked for again.
        max_poll_interval_ms: without a poll for so long, the member leaves its group.
        retry_backoff_ms: after a heartbeat that failed.
    """

    def __init__(
        self, *, interval_ms: int, session_timeout_ms: int, max_poll_interval_ms: int, retry_backoff_ms: int
    ) -> None:
        self._interval_ms = interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._next_at_ms = 0
        self._session_ends_ms = _NEVER
        self._poll_ends_ms = _NEVER
        self.in_flight = False

    def start(self, now_ms: int) -> None:
        """The member has joined: all timers begin."""
        self._next_at_ms = now_ms + self._interval_ms
        self._session_ends_ms = now_ms + self._session_timeout_ms
        self.polled(now_ms)

    def polled(self, now_ms: int) -> None:
        """The application called poll."""
        self._poll_ends_ms = now_ms + self._max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """A heartbeat is under way."""
        self.in_flight = True
        self._next_at_ms = now_ms + self._interval_ms

    def received(self, now_ms: int) -> None:
        """The coordinator answered that it knows the member."""
        self.in_flight = False
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def failed(self, now_ms: int) -> None:
        """A heartbeat failed; another is due soon."""
        self.in_flight = False
        self._next_at_ms = now_ms + self._retry_backoff_ms

    def reset_session(self, now_ms: int) -> None:
        """A coordinator was found: it gets the whole time to answer."""
        self._session_ends_ms = now_ms + self._session_timeout_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether to send one."""
        return not self.in_flight and now_ms >= self._next_at_ms

    def session_expired(self, now_ms: int) -> bool:
        """Whether the coordinator was silent for too long."""
        return now_ms >= self._session_ends_ms

    def poll_expired(self, now_ms: int) -> bool:
        """Whether the application was."""
        return now_ms >= self._poll_ends_ms

    def wait_ms(self, now_ms: int) -> int:
        """Until one of the timers has something to say."""
        times = [self._session_ends_ms, self._poll_ends_ms]
        if not self.in_flight:
            times.append(self._next_at_ms)
        return max(0, min(times) - now_ms)
