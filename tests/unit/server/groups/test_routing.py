"""Requests about groups find the worker that coordinates them, with what it needs to know of the client."""

from collections.abc import Awaitable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.net.connection import Detach
from pkafka.protocol.api import ApiKey
from pkafka.protocol.codec import decode
from pkafka.protocol.headers import RequestHeader
from pkafka.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from pkafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pkafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pkafka.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from pkafka.protocol.schema import Message
from pkafka.server.handlers import describe_groups, heartbeat, join_group, list_groups
from pkafka.server.processes.worker import Worker
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import RequestContext
from tests.unit.server.workers import Family, until, with_family

AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
M = TypeVar("M", bound=Message)


def context(worker: Worker, key: ApiKey, version: int, *, may_move: bool = False) -> RequestContext[Worker]:
    """A request of a client on 10.0.0.1 that is connected to this worker."""
    state = ConnectionState()
    state.has_session = not may_move
    connection = SimpleNamespace(state=state, listener="PLAINTEXT", peer_host="10.0.0.1", is_encrypted=False)
    return RequestContext(worker, cast("Any", connection), RequestHeader(key, version, 1, "me"))


async def answer(outcome: Any, response: type[M], version: int) -> M:
    """The answer, wherever it was made."""
    came = await outcome if isinstance(outcome, Awaitable) else outcome
    if isinstance(came, bytes):
        came = decode(response, version, came)
    assert isinstance(came, response)
    return came


async def ready(family: Family) -> list[str]:
    """Have the workers coordinate all groups; the names of two groups, each of the worker with its index."""
    await family.lead(CONSUMER_OFFSETS_TOPIC, range(50))
    names = [f"g{number}" for number in range(20)]

    def is_loaded(worker: Worker) -> bool:
        mine = [name for name in names if worker.routing.owner_of(name) == worker.index]
        return all(worker.groups.look_up(name)[0] is ErrorCode.NONE for name in mine)

    await until(lambda: all(map(is_loaded, family.workers)))
    owners = [family.workers[0].routing.owner_of(name) for name in names]
    return [names[owners.index(worker.index)] for worker in family.workers]


def join(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_coordinator_hears_of_its_clients_from_the_worker_that_has_them(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        names = await ready(family)
        asked = family.workers[0]
        for name in names:
            outcome = join_group.handle(context(asked, ApiKey.JOIN_GROUP, 3), join(name), 3)
            assert (await answer(outcome, JoinGroupResponse, 3)).error_code == ErrorCode.NONE
        for worker in family.workers:
            request = DescribeGroupsRequest(groups=[*reversed(names), "none"])
            outcome = describe_groups.handle(context(worker, ApiKey.DESCRIBE_GROUPS, 5), request, 5)
            described = (await answer(outcome, DescribeGroupsResponse, 5)).groups
            assert [one.group_id for one in described] == request.groups
            members = [(m.client_id, m.client_host) for one in described for m in one.members]
            assert members == [("me", "/10.0.0.1")] * 2
            outcome = list_groups.handle(context(worker, ApiKey.LIST_GROUPS, 4), ListGroupsRequest(), 4)
            listed = await answer(outcome, ListGroupsResponse, 4)
            assert {one.group_id for one in listed.groups} == {*names}

    with_family(tmp_path, body, settings=AT_ONCE)


def test_a_coordinator_that_is_out_of_reach_is_to_be_looked_for_again(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        mine, others = await ready(family)
        worker = family.workers[0]
        worker.peers.others[1].close()
        for name, code in (
            (mine, ErrorCode.UNKNOWN_MEMBER_ID),
            (others, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ):
            request = HeartbeatRequest(group_id=name, member_id="m", generation_id=1)
            outcome = heartbeat.handle(context(worker, ApiKey.HEARTBEAT, 4), request, 4)
            assert (await answer(outcome, HeartbeatResponse, 4)).error_code == code
        outcome = list_groups.handle(context(worker, ApiKey.LIST_GROUPS, 4), ListGroupsRequest(), 4)
        listed = await answer(outcome, ListGroupsResponse, 4)
        assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_family(tmp_path, body)


def test_a_connection_moves_to_the_coordinator_of_its_group(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        mine, others = await ready(family)
        worker = family.workers[0]
        for name, moves in ((mine, False), (others, True)):
            request = HeartbeatRequest(group_id=name, member_id="m", generation_id=1)
            outcome = heartbeat.handle(context(worker, ApiKey.HEARTBEAT, 4, may_move=True), request, 4)
            assert isinstance(outcome, Detach) == moves

    with_family(tmp_path, body)
