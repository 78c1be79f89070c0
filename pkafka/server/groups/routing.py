"""Brings a group's request to the worker that coordinates the group, in one hop.

A group belongs to the worker that owns its partition of __consumer_offsets. Another worker that receives the request
sends it there unchanged, in its own version, with the facts about the client that the coordinator needs; the answer
comes back encoded. When the coordinating worker has died or hangs, the client gets an error that makes it look for its
coordinator.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pkafka.clock import Clock
from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.net.connection import Detach, ServerConnection
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.registry import response_class
from pkafka.protocol.schema import Message
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.offset_keeper import OffsetKeeper
from pkafka.server.ipc.peer import Handler, Payload, Peer, PeerGone, Reply
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.context import Caller, Forwarded, RequestContext
from pkafka.server.serving.peers import Peers

_OPERATION: Final = "group"


class Groups(NamedTuple):
    """The groups of one worker, as requests about them see them."""

    coordinator: GroupCoordinator
    offsets: OffsetKeeper
    metadata: MetadataCache
    """Tells which partitions there are, so that offsets of others are refused."""
    clock: Clock


Serve: TypeAlias = Callable[[Groups, Caller, Any, int], Message | Awaitable[Message]]
"""Serves a request about groups of this worker: groups, caller, request, version -> response."""
Routed: TypeAlias = Message | bytes | Detach | Awaitable[Message | bytes]
"""What a handler returns when another worker may answer its request."""
ServeAtOnce: TypeAlias = Callable[[Groups, Caller, Any, int], Message]
"""The same, but never waits."""
Merge: TypeAlias = Callable[[Sequence[Any]], Message]
"""Merges the answers of several workers into one."""
Refuse: TypeAlias = Callable[[Any, int, ErrorCode], Message]
"""Makes the answer to a request that did not reach its coordinator: request, version, error."""


class GroupRouter:
    """Knows which worker coordinates a group, and has it answer.

    Args:
        groups: of this worker.
        workers: how many there are.
        partitions: tells which worker owns a partition.
        peers: the other workers.
        hand_over: moves a connection to another worker where that pays.
    """

    def __init__(
        self,
        groups: Groups,
        workers: int,
        partitions: Partitions,
        peers: Peers,
        hand_over: Callable[[ServerConnection, int], Detach | None],
    ) -> None:
        self._groups = groups
        self._workers = range(workers)
        self._partitions = partitions
        self._peers = peers
        self._hand_over = hand_over

    def owner_of(self, group_id: str) -> int:
        """Return the worker that coordinates a group when this broker does."""
        partition = self._groups.coordinator.partition_of(group_id)
        return self._partitions.owner(CONSUMER_OFFSETS_TOPIC, partition)

    def to_owner(
        self, context: RequestContext[object], group_id: str, request: Message, serve: Serve, refuse: Refuse
    ) -> Routed:
        """Answer a request about one group here, or have the group's worker answer it.

        Clients have a connection for their coordinator alone; it moves to that worker with its first request.
        """
        version = context.header.api_version
        owner = self.owner_of(group_id)
        if owner == self._peers.index:
            return serve(self._groups, context.caller, request, version)
        detach = self._hand_over(context.connection, owner)
        if detach is not None:
            return detach

        async def forwarded() -> Message | bytes:
            answer = await self._ask(owner, context.caller, request, version)
            return refuse(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE) if answer is None else answer

        return forwarded()

    def to_owners(
        self,
        context: RequestContext[object],
        parts: Mapping[int, Message],
        serve: ServeAtOnce,
        refuse: Refuse,
        merge: Merge,
    ) -> Message | Awaitable[Message]:
        """Have each worker answer its part of a request, and merge the answers.

        Args:
            parts: the part of each worker.
            merge: gets the answers in the order of ``parts``.
        """
        version = context.header.api_version
        caller = context.caller
        if not parts.keys() - {self._peers.index}:
            answers = [serve(self._groups, caller, request, version) for request in parts.values()]
            return merge(answers)

        async def part(owner: int, request: Message) -> Message:
            if owner == self._peers.index:
                return serve(self._groups, caller, request, version)
            assert request.__api_key__ is not None
            body = await self._ask(owner, caller, request, version)
            if body is None:
                return refuse(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return decode(response_class(request.__api_key__), version, body)

        async def together() -> Message:
            return merge(await asyncio.gather(*(part(owner, request) for owner, request in parts.items())))

        return together()

    def to_all(
        self,
        context: RequestContext[object],
        request: Message,
        serve: ServeAtOnce,
        refuse: Refuse,
        merge: Merge,
    ) -> Message | Awaitable[Message]:
        """Have every worker answer the whole request, and merge the answers."""
        return self.to_owners(context, dict.fromkeys(self._workers, request), serve, refuse, merge)

    def by_owner(self, group_ids: Iterable[str]) -> dict[int, list[int]]:
        """Group the places of groups in a request by the worker that coordinates them."""
        places: dict[int, list[int]] = {}
        for place, group_id in enumerate(group_ids):
            places.setdefault(self.owner_of(group_id), []).append(place)
        return places

    def operations(self, apis: Mapping[int, Serve]) -> dict[str, Handler]:
        """What other workers may ask: requests that they received for groups of this one."""

        def serve(
            _peer: Peer, payload: Payload, body: memoryview, _fds: list[int]
        ) -> Reply | Awaitable[Reply]:
            facts = Forwarded.of(payload)
            version = facts.api_version
            answer = apis[facts.api_key](self._groups, facts.caller, facts.request(body), version)
            if isinstance(answer, Awaitable):
                return _encoded_later(answer, version)
            return None, encode(answer, version), ()

        return {_OPERATION: serve}

    async def _ask(self, owner: int, caller: Caller, request: Message, version: int) -> bytes | None:
        """Ask another worker; returns its encoded answer, or None when it has died or hangs."""
        assert request.__api_key__ is not None
        facts = Forwarded(request.__api_key__, version, caller)
        try:
            _payload, body, _fds = await self._peers.ask(owner, _OPERATION, facts, encode(request, version))
        except PeerGone:
            return None
        return bytes(body)


async def _encoded_later(answer: Awaitable[Message], version: int) -> Reply:
    return None, encode(await answer, version), ()
