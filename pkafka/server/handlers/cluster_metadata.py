"""Metadata as the workers serve it: from the encoded answer where nothing has to be created, else with the creation;
and of leaders that were alive a moment ago."""

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Final

from pkafka.errors import ErrorCode
from pkafka.model import BrokerId
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.schema import Message
from pkafka.server.config import BrokerConfig
from pkafka.server.connection_state import ConnectionState
from pkafka.server.dispatch import RequestContext
from pkafka.server.handlers import metadata
from pkafka.server.metadata import MetadataCache

_NOBODY: Final[frozenset[BrokerId]] = frozenset()
_TOLD_S: Final = 1.0
"""A client that was told of a death as long ago as this is told of another one."""


class _Context:
    """The worker and the connection, as the Metadata handler wants to see them."""

    def __init__(self, context: RequestContext, dead: frozenset[BrokerId]) -> None:
        self._context = context
        self.dead = dead

    @property
    def metadata(self) -> MetadataCache:
        return self._context.worker.metadata

    @property
    def config(self) -> BrokerConfig:
        return self._context.worker.config

    @property
    def listener_name(self) -> str:
        return self._context.listener_name

    async def auto_create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        return await self._context.worker.auto_create(names)


def handle(
    context: RequestContext, request: MetadataRequest, version: int
) -> bytes | Message | Awaitable[bytes | Message]:
    """Answer from the cache at once where this broker leads all that is asked for; else when those that do have given
    a sign of life. What is missing is created first."""
    worker = context.worker
    leaders = metadata.leaders_named(worker.metadata, request, version)
    if any(leader != worker.partitions.broker_id for leader in leaders):
        return _of_living_leaders(context, leaders, request, version)
    return _answer(context, _NOBODY, request, version)


async def _of_living_leaders(
    context: RequestContext, leaders: Collection[BrokerId], request: MetadataRequest, version: int
) -> bytes | Message:
    dead = await context.worker.pulses.refusing(leaders)
    answer = _answer(context, dead, request, version)
    return answer if isinstance(answer, bytes) else await answer


def _answer(
    context: RequestContext, dead: frozenset[BrokerId], request: MetadataRequest, version: int
) -> bytes | Awaitable[Message]:
    if dead or context.worker.metadata.departed:
        dead = _told_dead(context, dead)
    view = _Context(context, dead)
    encoded = metadata.handle_encoded(view, request, version)
    return encoded if encoded is not None else metadata.handle(view, request, version)


def _told_dead(context: RequestContext, dead: frozenset[BrokerId]) -> frozenset[BrokerId]:
    """Who is dead for this client: also who has departed just now, where it has to hear that first.

    A client of librdkafka that learns by one and the same answer that a broker is gone, and that what it led has
    another leader, forgets with the broker who leads, and asks again only a second later. Told first that there is no
    leader, it asks again after a tenth of a second, as it does while the controller decides.
    """
    worker, state = context.worker, context.connection.state
    assert isinstance(state, ConnectionState)
    if not any("rdkafka" in text for text in state.software or ()):
        return dead
    now_s = worker.loop.time()
    departed = worker.metadata.departed
    news = [one for one in departed if state.told_dead.get(one, -_TOLD_S) <= now_s - _TOLD_S]
    state.told_dead.update(dict.fromkeys([*dead, *news], now_s))
    return dead.union(news)
