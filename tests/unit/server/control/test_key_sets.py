"""Key sets on their way from the server that publishes them to the workers."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control import key_sets
from pkafka.server.control.key_sets import KeySetError, KeySetFanout, fetch
from pkafka.server.ipc import words
from tests.bearer_tokens import Keys, KeyServer, key_server
from tests.sockets import free_port
from tests.unit.server.workers import until

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OWN = "listener.name.sasl_plaintext.oauthbearer.sasl"
KEYS = Keys()


class World:
    """A fan-out, and what workers hear of it."""

    def __init__(self, url: str, **more: str) -> None:
        self.told: list[Any] = []
        settings = {
            "broker.id": "0",
            "listeners": "PLAINTEXT://localhost:1,SASL_PLAINTEXT://localhost:2",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{OWN}.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
            f"{OWN}.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": url,
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "1",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "2",
            **{f"sasl.oauthbearer.jwks.endpoint.{key}.ms": text for key, text in more.items()},
        }
        self.settings = settings
        siblings = SimpleNamespace(tell_workers=lambda *said: self.told.append(said))
        self.tasks: list[asyncio.Task[None]] = []
        self.fanout = KeySetFanout(BrokerConfig(settings), cast("Any", siblings), self._spawn)

    def _spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def misses(self, url: str, key: str) -> None:
        """A worker says that it lacks a key."""
        self.fanout.operations[words.MISSING_KEY](cast("Any", None), (url, key), memoryview(b""), [])


def play(server: KeyServer, scene: Callable[[World], Awaitable[None]], **more: str) -> None:
    async def run() -> None:
        world = World(server.url, **more)
        world.fanout.start()
        try:
            await scene(world)
        finally:
            for task in world.tasks:
                task.cancel()
            await asyncio.gather(*world.tasks, return_exceptions=True)

    asyncio.run(run())


def test_workers_hear_of_a_set_when_it_is_there_and_when_it_changes() -> None:
    with key_server(KEYS) as server:
        server.status = 503

        async def scene(world: World) -> None:
            await until(lambda: server.asked >= 3)
            assert world.told == []
            server.status = 200
            await until(lambda: bool(world.told))
            before = KEYS.document()
            asked = server.asked
            await until(lambda: server.asked > asked + 2)
            assert world.told == [(words.KEY_SETS, {server.url: before})]
            server.keys = Keys()
            await until(lambda: len(world.told) == 2)
            assert world.told[1] == (words.KEY_SETS, {server.url: server.keys.document()})
            late: list[Any] = []

            async def call(*said: Any) -> None:
                late.append(said)

            await world.fanout.tell_all(cast("Any", SimpleNamespace(call=call)))
            assert late == [world.told[1]]

        play(server, scene, refresh="2")


def test_another_address_counts_from_the_change_on() -> None:
    with key_server(KEYS) as first, key_server(Keys()) as second:

        async def scene(world: World) -> None:
            await until(lambda: bool(world.told))
            elsewhere = {**world.settings, "sasl.oauthbearer.jwks.endpoint.url": second.url}
            world.fanout.take(BrokerConfig(elsewhere))
            await until(lambda: len(world.told) == 2)
            assert world.told[1] == (words.KEY_SETS, {second.url: second.keys.document()})
            await until(world.tasks[0].done)
            world.fanout.take(BrokerConfig({**elsewhere, "sasl.oauthbearer.jwks.endpoint.refresh.ms": "2"}))
            await until(lambda: second.asked > 3)
            assert first.asked == 1
            world.fanout.take(BrokerConfig(world.settings))
            await until(lambda: len(world.told) == 3)
            assert world.told[2] == world.told[0]

        play(first, scene, refresh="3600000")


def test_a_key_that_is_missing_is_asked_for_at_once_and_not_again_and_again() -> None:
    with key_server(KEYS) as server:

        async def scene(world: World) -> None:
            await until(lambda: bool(world.told))
            assert server.asked == 1
            for _ in range(3):
                world.misses(server.url, "new")
                await until(lambda: server.asked == 2)
                await asyncio.sleep(0.01)
            for number in range(1_000):
                world.misses(server.url, f"made-up-{number}")
                world.misses("http://elsewhere", "new")
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            assert server.asked <= 2 + 16

        play(server, scene, refresh="3600000")


def test_why_a_set_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeySetError, match="refused"):
        fetch(f"http://127.0.0.1:{free_port()}/", None)
    with key_server(KEYS) as server:
        assert fetch(server.url, None) == KEYS.document()
        with pytest.raises(KeySetError, match=r"(?i)wrong version|ssl"):
            fetch(server.url.replace("http:", "https:"), None)
        server.status = 302
        with pytest.raises(KeySetError, match="answers 302"):
            fetch(server.url, None)
        server.status = 200
        monkeypatch.setattr(key_sets, "_DOCUMENT_BYTES_MAX", 10)
        with pytest.raises(KeySetError, match="larger"):
            fetch(server.url, None)
