"""When a segment is too old to be appended to: ``log.roll.ms``, less a jitter that keeps logs from rolling at once."""

import random

from pkafka.model import Millis
from pkafka.storage.config import LogConfig


class RollTime:
    """How long the segments of one log are appended to.

    Args:
        config: of the log.
    """

    __slots__ = ("limit_ms",)

    def __init__(self, config: LogConfig) -> None:
        self.draw(config)

    def draw(self, config: LogConfig) -> None:
        """Draw the jitter anew, for the next segment or after a change of the configuration."""
        most = min(config.segment_jitter_ms, config.segment_ms)
        jitter_ms = random.randrange(most) if most > 0 else 0  # noqa: S311 - spreads load, guards nothing
        self.limit_ms: Millis = config.roll_ms - jitter_ms
        """A segment takes no more when it is older than this."""
