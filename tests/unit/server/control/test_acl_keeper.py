"""The rules in the control process: a change is answered when no worker acts by the old ones."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import BadVersionError, ConnectionLossError
from pkafka.errors import ApiError, ErrorCode
from pkafka.security.acl import Entry, Operation, Pattern, Permission, ResourceType
from pkafka.server.control import shared_changes
from pkafka.server.control.acl_keeper import AclKeeper
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.security.authorizer import AclAuthorizer
from tests.unit.server.workers import until

ORDERS = Pattern(ResourceType.TOPIC, "orders")
READ = Entry("User:alice", "*", Operation.READ, Permission.ALLOW)


class Workers:
    """Two workers, one of which answers when the test lets it."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.slow: list[asyncio.Future[Any]] = []

    def ask_workers(self, operation: str, payload: Any) -> list[asyncio.Future[Any]]:
        loop = asyncio.get_running_loop()
        self.told.append((operation, payload))
        gone, slow = loop.create_future(), loop.create_future()
        gone.set_exception(PeerGone("worker 1"))
        self.slow.append(slow)
        return [gone, slow]

    async def call(self, operation: str, payload: Any) -> None:
        """As a worker that has just come is told."""
        self.told.append((operation, payload))


class World:
    """A control process whose store fails when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.workers = Workers()
        self.authorizer = AclAuthorizer((), allows_unruled=False)
        self.store = EmbeddedStore(directory / "store.sqlite")
        self.failures: list[Exception] = []
        self.keeper = AclKeeper(
            self.authorizer,
            cast("Any", self.workers),
            clock=ManualClock(),
            run_on_store=self.run,
            post=lambda _call: None,
        )

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return function(*args)

    async def start(self) -> None:
        await self.keeper.start(self.store)


def test_a_change_is_done_when_all_workers_have_taken_it_over(tmp_path: Path) -> None:
    async def play() -> None:
        world = World(tmp_path)
        await world.start()
        change = asyncio.ensure_future(world.keeper.change(ORDERS, lambda stored: (*stored, READ)))
        await asyncio.wait([change], timeout=0.05)
        assert not change.done()
        assert world.keeper.acls.of(ORDERS) == (READ,)
        world.workers.slow[0].set_result(None)
        await change
        assert world.workers.told == [(words.ACLS_CHANGED, [(ORDERS, [READ])])]
        # What changes nothing is told to no worker.
        await world.keeper.change(ORDERS, lambda stored: (*stored, READ))
        assert len(world.workers.told) == 1
        await world.keeper.tell_all(cast("Any", world.workers))
        assert world.workers.told[-1] == (words.ACLS, [(ORDERS, [READ])])
        world.store.close()

    asyncio.run(play())


def test_a_change_is_tried_again_while_others_are_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_changes, "_PAUSE_S", 0.0)
    monkeypatch.setattr(shared_changes, "_PAUSE_JITTER_S", 0.0)

    async def play(failures: list[Exception]) -> None:
        world = World(tmp_path)
        await world.start()
        world.failures += failures
        try:
            change = asyncio.ensure_future(world.keeper.change(ORDERS, lambda stored: (*stored, READ)))
            await until(lambda: change.done() or bool(world.workers.slow))
            for slow in world.workers.slow:
                slow.set_result(None)
            await change
            assert world.keeper.acls.of(ORDERS) == (READ,)
            await world.keeper.change(ORDERS, lambda _: ()) if not world.workers.slow else None
        finally:
            world.store.close()

    asyncio.run(play([BadVersionError("/a")] * 10))
    for failures in ([BadVersionError("/a")] * 11, [ConnectionLossError("/a")], [ValueError("..")]):
        with pytest.raises(ApiError) as caught:
            asyncio.run(play(list(failures)))
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
