"""Changes of what brokers share, as control makes them: tried again while others are faster, then told to workers."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from pkafka.coordination.store import BadVersionError, NodeExistsError, NoNodeError
from pkafka.errors import ApiError, ErrorCode
from pkafka.server.ipc.peer import PeerGone, Reply

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 11
"""As in Kafka: ten more when another broker was faster."""
_PAUSE_S: Final = 0.1
_PAUSE_JITTER_S: Final = 0.05

T = TypeVar("T")


async def until_written(write: Callable[[], Awaitable[T]]) -> T:
    """Try a change of the store, again when another broker was faster.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR, others were faster each time; and whatever else ``write`` raises.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            # Chance keeps brokers apart that would meet again.
            await asyncio.sleep(_PAUSE_S + random.uniform(0, _PAUSE_JITTER_S))  # noqa: S311 - no secret
        try:
            return await write()
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue
    raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


class Telling:
    """Knows which workers have not said yet that a change is in force. Belongs to one event loop.

    Args:
        what: changes, for the log.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._untold: set[asyncio.Future[Reply]] = set()

    def add(self, asked: "Iterable[asyncio.Future[Reply]]") -> None:
        """Workers are being told."""
        for future in asked:
            self._untold.add(future)
            future.add_done_callback(self._told)

    async def settled(self) -> None:
        """Wait until the workers have taken over what was told to them so far, or are gone."""
        if self._untold:
            await asyncio.wait(list(self._untold))

    def _told(self, future: "asyncio.Future[Any]") -> None:
        self._untold.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, PeerGone):
            log.error("A worker did not take a change of %s over: %s", self._what, error)
