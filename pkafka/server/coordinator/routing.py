"""Brings a request to the worker that coordinates what it is about, in one hop.

A group or a transactional id belongs to the worker that owns its partition of the internal topic. Another worker that
receives the request sends it there unchanged, in its own version, with the facts about the client that the coordinator
needs; the answer comes back encoded. When the coordinating worker has died or hangs, the client gets an error that
makes it look for its coordinator.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from pkafka.errors import ApiError, ErrorCode
from pkafka.net.connection import Detach, ServerConnection
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.registry import response_class
from pkafka.protocol.schema import Message
from pkafka.server.coordinator.keyed_topic import KeyedTopic
from pkafka.server.ipc.peer import Handler, Payload, Peer, PeerGone, Reply
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.context import Caller, Forwarded, RequestContext
from pkafka.server.serving.peers import Peers

StateT = TypeVar("StateT")

Serve: TypeAlias = Callable[[StateT, Caller, Any, int], Message | Awaitable[Message]]
"""Serves a request about names of this worker: what it coordinates, caller, request, version -> response."""
Routed: TypeAlias = Message | bytes | Detach | Awaitable[Message | bytes]
"""What a handler returns when another worker may answer its request."""
Merge: TypeAlias = Callable[[Sequence[Any]], Message]
"""Merges the answers of several workers into one."""
Refuse: TypeAlias = Callable[[Any, int, ErrorCode], Message]
"""Makes the answer to a request that did not reach its coordinator: request, version, error."""


class CoordinatorRouter(Generic[StateT]):
    """Knows which worker coordinates a name, and has it answer.

    Args:
        operation: the name by which workers send each other these requests.
        state: what this worker coordinates, as requests see it.
        topic: the internal topic.
        workers: how many there are.
        partitions: tells which worker owns a partition.
        peers: the other workers.
        hand_over: moves a connection to another worker where that pays.
    """

    def __init__(
        self,
        operation: str,
        state: StateT,
        topic: KeyedTopic,
        *,
        workers: int,
        partitions: Partitions,
        peers: Peers,
        hand_over: Callable[[ServerConnection, int], Detach | None],
    ) -> None:
        self.topic = topic
        self._operation = operation
        self._state = state
        self._workers = range(workers)
        self._partitions = partitions
        self._peers = peers
        self._hand_over = hand_over

    def owner_of(self, name: str) -> int:
        """Return the worker that coordinates a name when this broker does."""
        return self._partitions.owner(self.topic.topic, self.topic.partition_of(name))

    def to_owner(
        self,
        context: RequestContext[object],
        name: str,
        request: Message,
        serve: Serve[StateT],
        refuse: Refuse,
    ) -> Routed:
        """Answer a request about one name here, or have the name's worker answer it.

        Members of groups have a connection for their coordinator alone; it moves to that worker with its first request.
        """
        version = context.header.api_version
        owner = self.owner_of(name)
        if owner == self._peers.index:
            return serve(self._state, context.caller, request, version)
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
        serve: Serve[StateT],
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
            answers = [serve(self._state, caller, request, version) for request in parts.values()]
            if not any(isinstance(answer, Awaitable) for answer in answers):
                return merge(answers)
            return _merged_later(answers, merge)

        async def part(owner: int, request: Message) -> Message:
            if owner == self._peers.index:
                answer = serve(self._state, caller, request, version)
                return await answer if isinstance(answer, Awaitable) else answer
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
        serve: Serve[StateT],
        refuse: Refuse,
        merge: Merge,
    ) -> Message | Awaitable[Message]:
        """Have every worker answer the whole request, and merge the answers."""
        return self.to_owners(context, dict.fromkeys(self._workers, request), serve, refuse, merge)

    def by_owner(self, names: Iterable[str]) -> dict[int, list[int]]:
        """Group the places of names in a request by the worker that coordinates them."""
        places: dict[int, list[int]] = {}
        for place, name in enumerate(names):
            places.setdefault(self.owner_of(name), []).append(place)
        return places

    def operations(self, apis: Mapping[int, Serve[StateT]]) -> dict[str, Handler]:
        """What other workers may ask: requests that they received for names of this one."""

        def serve(
            _peer: Peer, payload: Payload, body: memoryview, _fds: list[int]
        ) -> Reply | Awaitable[Reply]:
            facts = Forwarded.of(payload)
            version = facts.api_version
            answer = apis[facts.api_key](self._state, facts.caller, facts.request(body), version)
            if isinstance(answer, Awaitable):
                return _encoded_later(answer, version)
            return None, encode(answer, version), ()

        return {self._operation: serve}

    async def _ask(self, owner: int, caller: Caller, request: Message, version: int) -> bytes | None:
        """Ask another worker; returns its encoded answer, or None when it has died, hangs or has only begun."""
        assert request.__api_key__ is not None
        facts = Forwarded(request.__api_key__, version, caller)
        try:
            _payload, body, _fds = await self._peers.ask(
                owner, self._operation, facts, encode(request, version)
            )
        except PeerGone:
            return None
        except ApiError as error:
            if error.code is ErrorCode.BROKER_NOT_AVAILABLE:  # it does not know yet who may do what
                return None
            raise
        return bytes(body)


async def _merged_later(answers: Sequence[Message | Awaitable[Message]], merge: Merge) -> Message:
    return merge([await answer if isinstance(answer, Awaitable) else answer for answer in answers])


async def _encoded_later(answer: Awaitable[Message], version: int) -> Reply:
    return None, encode(await answer, version), ()
