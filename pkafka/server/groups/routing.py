"""Brings a group's request to the worker that coordinates the group, in one hop.

A group belongs to the worker that owns its partition of __consumer_offsets. Another worker that receives the request
sends it there unchanged, in its own version, with the facts about the client that the coordinator needs; the answer
comes back encoded. When the coordinating worker has died or hangs, the client gets an error that makes it look for its
coordinator.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.net.connection import Detach
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.registry import response_class
from pkafka.protocol.schema import Message
from pkafka.server.ipc.peer import Payload, PeerGone, Reply
from pkafka.server.serving.context import Caller, Forwarded

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker
    from pkafka.server.serving.dispatch import RequestContext


Serve: TypeAlias = "Callable[[Worker, Caller, Any, int], Message | Awaitable[Message]]"
"""Serves a request about groups of this worker: worker, caller, request, version -> response."""
Routed: TypeAlias = Message | bytes | Detach | Awaitable[Message | bytes]
"""What a handler returns when another worker may answer its request."""
ServeAtOnce: TypeAlias = "Callable[[Worker, Caller, Any, int], Message]"
"""The same, but never waits."""
Merge: TypeAlias = Callable[[Sequence[Any]], Message]
"""Merges the answers of several workers into one."""
Refuse: TypeAlias = Callable[[Any, int, ErrorCode], Message]
"""Makes the answer to a request that did not reach its coordinator: request, version, error."""


def owner_of(worker: "Worker", group_id: str) -> int:
    """Return the worker that coordinates a group when this broker does."""
    return worker.partitions.owner(CONSUMER_OFFSETS_TOPIC, worker.groups.partition_of(group_id))


def to_owner(
    context: "RequestContext", group_id: str, request: Message, serve: Serve, refuse: Refuse
) -> Routed:
    """Answer a request about one group here, or have the group's worker answer it.

    Clients have a connection for their coordinator alone; it moves to that worker with its first request.
    """
    worker, version = context.worker, context.header.api_version
    owner = owner_of(worker, group_id)
    caller = context.caller
    if owner == worker.index:
        return serve(worker, caller, request, version)
    detach = worker.clients.hand_over(context.connection, owner)
    if detach is not None:
        return detach

    async def forwarded() -> Message | bytes:
        answer = await _ask(worker, owner, caller, request, version)
        return refuse(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE) if answer is None else answer

    return forwarded()


def to_owners(
    context: "RequestContext",
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
    worker, version = context.worker, context.header.api_version
    caller = context.caller
    if not parts.keys() - {worker.index}:
        answers = [serve(worker, caller, request, version) for request in parts.values()]
        return merge(answers)

    async def part(owner: int, request: Message) -> Message:
        if owner == worker.index:
            return serve(worker, caller, request, version)
        assert request.__api_key__ is not None
        body = await _ask(worker, owner, caller, request, version)
        if body is None:
            return refuse(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return decode(response_class(request.__api_key__), version, body)

    async def together() -> Message:
        return merge(await asyncio.gather(*(part(owner, request) for owner, request in parts.items())))

    return together()


def by_owner(worker: "Worker", group_ids: Iterable[str]) -> dict[int, list[int]]:
    """Group the places of groups in a request by the worker that coordinates them."""
    places: dict[int, list[int]] = {}
    for place, group_id in enumerate(group_ids):
        places.setdefault(owner_of(worker, group_id), []).append(place)
    return places


def serve_peer(
    worker: "Worker", apis: Mapping[int, Serve], payload: Payload, blob: memoryview
) -> Reply | Awaitable[Reply]:
    """Answer a request that another worker received for a group of this one."""
    facts = Forwarded.of(payload)
    version = facts.api_version
    answer = apis[facts.api_key](worker, facts.caller, facts.request(blob), version)
    if not isinstance(answer, Awaitable):
        return None, encode(answer, version), ()

    async def later(answer: Awaitable[Message]) -> Reply:
        return None, encode(await answer, version), ()

    return later(answer)


async def _ask(worker: "Worker", owner: int, caller: Caller, request: Message, version: int) -> bytes | None:
    """Ask another worker; returns its encoded answer, or None when it has died or hangs."""
    assert request.__api_key__ is not None
    facts = Forwarded(request.__api_key__, version, caller)
    try:
        _payload, body, _fds = await worker.peers.ask(owner, "group", facts, encode(request, version))
    except PeerGone:
        return None
    return bytes(body)
