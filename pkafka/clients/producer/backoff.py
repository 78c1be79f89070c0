"""How long a producer waits before it repeats something (KIP-580)."""

import random
from typing import Final

from pkafka.clients.config import ProducerConfig

_JITTER: Final = 0.2


def backoff_ms(config: ProducerConfig, attempt: int) -> int:
    """How long to wait after an attempt, counted from 0: twice as long each time, give or take a fifth."""
    exponential_ms = config.retry_backoff_ms * 2 ** min(attempt, 20)
    jittered_ms = exponential_ms * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - guards nothing
    return int(min(jittered_ms, config.retry_backoff_max_ms))
