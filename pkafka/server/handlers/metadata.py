"""Metadata as the workers serve it: they create missing topics first and name only leaders that were alive just now.

An answer for which nothing has to be created is encoded once and kept.
"""

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.model import BrokerId
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.protocol.schema import Message
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.cluster.pulses import Pulses
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.handlers import metadata_answer
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.security.rights import Rights
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import RequestContext
from pkafka.server.serving.control_line import ControlLine

_NO_BROKERS: Final[frozenset[BrokerId]] = frozenset()
_DECIDED_S: Final = 0.2
"""How long an answer waits for the controller to elect leaders in place of dead ones."""
_TOLD_S: Final = 1.0
"""A client that heard of a broker's death longer ago than this hears of it again: the broker has died once more."""


class Port(Authorized, Protocol):
    """What Metadata asks of its worker."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def partitions(self) -> Partitions: ...

    @property
    def pulses(self) -> Pulses: ...

    @property
    def control_line(self) -> ControlLine: ...


class _Context:
    """Gives the Metadata handler what it needs of the worker and the connection."""

    def __init__(self, context: RequestContext[Port], dead: frozenset[BrokerId]) -> None:
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

    @property
    def rights(self) -> Rights:
        return rights_in(self._context)

    async def auto_create(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        return await self._context.worker.control_line.auto_create(names, self._context.caller)


def handle(
    context: RequestContext[Port], request: MetadataRequest, version: int
) -> bytes | Message | Awaitable[bytes | Message]:
    """Ask the leaders for a sign of life, create missing topics, and answer from the cache.

    The answer comes at once where no topic is missing and this broker leads all partitions.
    """
    worker = context.worker
    leaders = metadata_answer.leaders_named(worker.metadata, request, version)
    if any(leader != worker.partitions.broker_id for leader in leaders):
        return _of_living_leaders(context, leaders, request, version)
    return _answer(context, _NO_BROKERS, request, version)


async def _of_living_leaders(
    context: RequestContext[Port], leaders: Collection[BrokerId], request: MetadataRequest, version: int
) -> bytes | Message:
    worker = context.worker
    dead = await worker.pulses.refusing(leaders)
    if dead and not _has_to_hear_of(context, dead):

        def is_decided() -> bool:
            return dead.isdisjoint(metadata_answer.leaders_named(worker.metadata, request, version))

        # A client without a leader asks again and again, with longer and longer pauses: waiting here saves it a pause.
        if await worker.metadata.wait_until(is_decided, timeout_s=_DECIDED_S):
            dead = _NO_BROKERS
    answer = _answer(context, dead, request, version)
    return answer if isinstance(answer, bytes) else await answer


def _answer(
    context: RequestContext[Port], dead: frozenset[BrokerId], request: MetadataRequest, version: int
) -> bytes | Awaitable[Message]:
    if dead or context.worker.metadata.departed:
        news = _has_to_hear_of(context, context.worker.metadata.departed)
        dead = dead.union(news)
        _note_told(context, dead)
    view = _Context(context, dead)
    encoded = metadata_answer.handle_encoded(view, request, version)
    return encoded if encoded is not None else metadata_answer.handle(view, request, version)


def _has_to_hear_of(context: RequestContext[Port], dead: Collection[BrokerId]) -> list[BrokerId]:
    """The dead brokers whose partitions this client must first see without a leader, before it sees the new leader.

    When one answer tells a client of librdkafka that a broker is gone and that another broker leads its partitions, the
    client forgets the new leader together with the dead broker, and asks again only a second later. When the client
    hears first that there is no leader, it asks again after a tenth of a second.
    """
    state = context.connection.state
    assert isinstance(state, ConnectionState)
    if not any("rdkafka" in text for text in state.software or ()):
        return []
    told_s = asyncio.get_running_loop().time() - _TOLD_S
    return [one for one in dead if state.told_dead.get(one, told_s) <= told_s]


def _note_told(context: RequestContext[Port], dead: Collection[BrokerId]) -> None:
    state = context.connection.state
    assert isinstance(state, ConnectionState)
    state.told_dead.update(dict.fromkeys(dead, asyncio.get_running_loop().time()))
