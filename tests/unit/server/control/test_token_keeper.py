"""Delegation tokens in the control process: a change is answered when every worker knows it, and what expires goes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.clock import ManualClock
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import BadVersionError, ConnectionLossError
from pkafka.coordination.znodes_security import DelegationToken
from pkafka.errors import ApiError, ErrorCode
from pkafka.server.config.delegation_tokens import TokenSettings
from pkafka.server.control import shared_changes
from pkafka.server.control.token_keeper import TokenKeeper
from pkafka.server.ipc import words
from pkafka.server.ipc.words import TokenRow
from tests.unit.server.control.test_acl_keeper import Workers

SETTINGS = TokenSettings(b"secret", 1_000, 100, 3_600_000)


class World:
    """A control process whose store fails when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.workers = Workers()
        self.clock = ManualClock()
        self.store = EmbeddedStore(directory / "store.sqlite")
        self.failures: list[Exception] = []
        self.keeper = TokenKeeper(
            SETTINGS,
            cast("Any", self.workers),
            clock=self.clock,
            run_on_store=self.run,
            post=lambda _call: None,
        )

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        return function(*args)

    def token(self, name: str = "one", lasts_ms: int = 100) -> DelegationToken:
        now_ms = self.clock.now_ms()
        return DelegationToken(name, "User:a", "User:a", (), now_ms, now_ms + lasts_ms, now_ms + 1_000)

    async def change(self, name: str, token: DelegationToken | None) -> None:
        change = asyncio.ensure_future(self.keeper.change(name, lambda _: token))
        await self.let_workers_answer()
        await change

    async def let_workers_answer(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        for slow in self.workers.slow:
            if not slow.done():
                slow.set_result(None)


def played(tmp_path: Path, play: Callable[[World], Any]) -> None:
    async def run() -> None:
        world = World(tmp_path)
        await world.keeper.start(world.store)
        await play(world)
        world.store.close()

    asyncio.run(run())


def test_a_change_is_done_when_all_workers_have_taken_it_over(tmp_path: Path) -> None:
    async def play(world: World) -> None:
        token = world.token()
        change = asyncio.ensure_future(world.keeper.change("one", lambda _: token))
        await asyncio.wait([change], timeout=0.05)
        assert not change.done()
        world.workers.slow[0].set_result(None)
        assert await change == token
        row = TokenRow("one", "User:a", token.expires_ms)
        made: list[tuple[str, object]] = [("one", row)]
        assert world.workers.told == [(words.TOKENS, made)]
        assert world.keeper.id_of(world.keeper.hmac_of("one")) == "one"
        await world.keeper.tell_all(cast("Any", world.workers))
        assert world.workers.told[-1] == (words.EVERY_TOKEN, made)
        await world.change("one", None)
        gone: list[tuple[str, object]] = [("one", None)]
        assert world.workers.told[-1] == (words.TOKENS, gone)
        assert world.keeper.id_of(world.keeper.hmac_of("one")) is None

    played(tmp_path, play)


def test_what_has_expired_is_removed_by_the_active_controller_alone(tmp_path: Path) -> None:
    async def play(world: World) -> None:
        await world.change("one", world.token())
        await world.change("two", world.token("two", lasts_ms=900))
        world.clock.advance(ms=101)
        is_active = False
        checks = asyncio.ensure_future(world.keeper.expire_for_ever(lambda: is_active))
        await world.let_workers_answer()
        assert set(world.keeper.tokens) == {"one", "two"}
        is_active = True
        world.keeper.check_now()
        while set(world.keeper.tokens) != {"two"}:
            await world.let_workers_answer()
        checks.cancel()
        assert world.store.children("/delegation_token/tokens") == ["two"]

    played(tmp_path, play)


def test_another_broker_was_faster_or_the_store_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_changes, "_PAUSE_S", 0.0)
    monkeypatch.setattr(shared_changes, "_PAUSE_JITTER_S", 0.0)

    async def play(world: World) -> None:
        for failures in ([ConnectionLossError("/x")], [BadVersionError("/x") for _ in range(11)]):
            world.failures = list(failures)
            with pytest.raises(ApiError) as caught:
                await world.keeper.change("one", lambda _: world.token())
            assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert not world.workers.told
        world.failures = [BadVersionError("/x")]
        change = asyncio.ensure_future(world.keeper.change("one", lambda _: world.token()))
        while not change.done():
            await world.let_workers_answer()
        assert change.result() == world.token()

    played(tmp_path, play)


def test_what_was_there_is_known_at_the_start(tmp_path: Path) -> None:
    async def play(world: World) -> None:
        await world.change("one", world.token())
        again = TokenKeeper(
            SETTINGS,
            cast("Any", world.workers),
            clock=world.clock,
            run_on_store=world.run,
            post=lambda _call: None,
        )
        await again.start(world.store)
        assert again.tokens == {"one": world.token()}
        assert again.id_of(again.hmac_of("one")) == "one"

    played(tmp_path, play)
