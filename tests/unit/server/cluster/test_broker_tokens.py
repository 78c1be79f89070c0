"""The token by which a broker logs in at others: who fetches it, who waits for it, and what failures come to."""

import asyncio
import functools
import json
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pkafka.clock import ManualClock
from pkafka.net.channel import ChannelError
from pkafka.security.jaas import LoginModule
from pkafka.security.jwt import claims, unsecured
from pkafka.server.cluster.broker_login import own_login
from pkafka.server.cluster.broker_tokens import BrokerTokens, shared_tokens
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.login_tokens import OwnTokens, own_tokens
from tests.secured_cluster import between_brokers
from tests.token_server import TokenServer, token_server
from tests.unit.server.workers import until

LISTENER = "SASL_PLAINTEXT"
SECRET = "TOP-SECRET"
MODULE = LoginModule("OAuthBearerLoginModule", {"clientId": "broker", "clientSecret": SECRET})


def settings(url: str, **more: str) -> OwnTokens:
    keys = {
        "broker.id": "0",
        "sasl.oauthbearer.token.endpoint.url": url,
        **{f"sasl.login.{name.replace('_', '.')}": text for name, text in more.items()},
    }
    return own_tokens(BrokerConfig(keys), LISTENER, MODULE)


def give(server: TokenServer, clock: ManualClock, life_s: int = 600) -> str:
    """Have the server give a token from now on."""
    expires_s = clock.now_ms() // 1_000 + life_s
    token = unsecured({"sub": "broker", "exp": expires_s})
    server.answer = (200, json.dumps({"access_token": token}).encode())
    return token


def play(scene: Callable[[TokenServer, ManualClock], Awaitable[None]]) -> None:
    with token_server() as server:
        asyncio.run(asyncio.wait_for(scene(server, ManualClock()), 20))


def test_how_tokens_are_had() -> None:
    said = settings(
        "http://h:1/",
        connect_timeout_ms="1",
        read_timeout_ms="2",
        refresh_buffer_seconds="3",
        refresh_min_period_seconds="4",
        refresh_window_factor="0.5",
        refresh_window_jitter="0.6",
    ).tokens
    assert (said.connect_timeout_ms, said.read_timeout_ms) == (1, 2)
    assert said.refreshing == (0.5, 0.6, 3_000, 4_000)


def test_connections_share_one_token_and_one_question() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        token = give(server, clock)
        tokens = BrokerTokens(settings(server.url), clock)
        assert await asyncio.gather(*(tokens.token() for _ in range(5))) == [token] * 5
        assert await tokens.token() == token
        assert len(server.asked) == 1

    play(scene)


def test_the_event_loop_goes_on_while_the_server_thinks() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        server.may_answer = threading.Event()
        token = give(server, clock)
        asked = asyncio.create_task(BrokerTokens(settings(server.url), clock).token())
        await until(lambda: bool(server.asked))
        assert not asked.done()
        server.may_answer.set()
        assert await asked == token

    play(scene)


def test_a_token_that_ends_is_replaced() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        tokens = BrokerTokens(settings(server.url, refresh_buffer_seconds="0"), clock)
        give(server, clock)
        await tokens.token()
        clock.advance(ms=590_000)
        later = give(server, clock)
        async with asyncio.timeout(20):
            while await tokens.token() != later:  # noqa: ASYNC110 - it is fetched in the background
                await asyncio.sleep(0)
        clock.advance(ms=700_000)
        last = give(server, clock)
        async with asyncio.timeout(20):
            while await tokens.token() != last:  # noqa: ASYNC110 - the question before may not be over yet
                await asyncio.sleep(0)

    play(scene)


class Timers:
    """Timers that go off when the test moves its clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.pending: list[Alarm] = []

    def later(self, after_s: float, action: Callable[[], None]) -> "Alarm":
        alarm = Alarm(self, self._clock.now_ms() + round(after_s * 1_000), action)
        self.pending.append(alarm)
        return alarm

    def differ_from(self, before: "list[Alarm]") -> bool:
        return self.pending != before

    def advance(self, *, ms: int) -> None:
        self._clock.advance(ms=ms)
        for alarm in [one for one in self.pending if one.at_ms <= self._clock.now_ms()]:
            self.pending.remove(alarm)
            alarm.action()


@dataclass(eq=False)
class Alarm:
    timers: Timers
    at_ms: int
    action: Callable[[], None]

    def cancel(self) -> None:
        if self in self.timers.pending:
            self.timers.pending.remove(self)


def test_the_next_token_is_there_before_it_is_asked_for() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        timers = Timers(clock)
        tokens = BrokerTokens(settings(server.url, refresh_window_factor="0.5"), clock, timers.later)

        async def answered(times: int) -> None:
            """Until the server has answered so often and the loop knows what."""
            await until(lambda: len(server.asked) == times and len(timers.pending) == 1)

        give(server, clock)
        await tokens.token()
        await answered(1)
        second = give(server, clock, life_s=1_200)
        timers.advance(ms=310_000)  # half of its life is over
        await answered(2)
        assert await tokens.token() == second
        server.answer = (503, b"")
        timers.advance(ms=610_000)
        await answered(3)
        assert await tokens.token() == second
        third = give(server, clock)
        timers.advance(ms=1_000)  # after the pause
        await answered(4)
        assert await tokens.token() == third
        timers.advance(ms=310_000)
        await answered(5)
        timers.advance(ms=3_600_000)  # nobody has used the fifth, so nobody asks for the next
        assert (len(server.asked), timers.pending) == (5, [])

    play(scene)


def test_a_connection_that_asks_before_the_timer_adds_no_second_timer() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        timers = Timers(clock)
        tokens = BrokerTokens(settings(server.url, refresh_window_factor="0.5"), clock, timers.later)
        seen: list[Alarm] = []
        for _ in range(3):
            token = give(server, clock)
            await tokens.token()
            await until(functools.partial(timers.differ_from, seen))
            assert await tokens.token() == token
            assert len(timers.pending) == 1
            seen = list(timers.pending)
            clock.advance(ms=310_000)  # the timer is late, as on a busy machine

    play(scene)


def test_after_a_failure_the_server_has_a_pause() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        tokens = BrokerTokens(settings(server.url, retry_backoff_ms="100", retry_backoff_max_ms="150"), clock)
        server.answer = (401, b'{"error": "invalid_client"}')
        for pause_ms in (100, 150, 150):
            for _ in range(2):
                with pytest.raises(
                    ChannelError, match=r"no token by which this broker .*invalid_client"
                ) as failed:
                    await tokens.token()
                assert SECRET not in str(failed.value)
            clock.advance(ms=pause_ms)
        assert len(server.asked) == 3
        token = give(server, clock)
        assert await tokens.token() == token

    play(scene)


def test_one_who_waits_no_more_takes_nothing_from_the_others() -> None:
    async def scene(server: TokenServer, clock: ManualClock) -> None:
        server.may_answer = threading.Event()
        token = give(server, clock)
        tokens = BrokerTokens(settings(server.url), clock)
        first, second = (asyncio.create_task(tokens.token()) for _ in range(2))
        await until(lambda: bool(server.asked))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        server.may_answer.set()
        assert await second == token
        assert len(server.asked) == 1

    play(scene)


def test_a_truststore_that_cannot_be_read_is_no_end_of_the_process(tmp_path: Path) -> None:
    options = {
        **MODULE.options,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "no.pem"),
    }
    keys = {"broker.id": "0", "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/"}
    module = MODULE._replace(options=options)
    tokens = BrokerTokens(own_tokens(BrokerConfig(keys), LISTENER, module), ManualClock())

    async def scene() -> None:
        for _ in range(2):
            with pytest.raises(ChannelError, match=r"no token by which .*no\.pem"):
                await tokens.token()

    asyncio.run(scene())


def test_other_settings_are_other_tokens() -> None:
    one, same, other = (settings("http://h:1/", refresh_buffer_seconds=text) for text in ("1", "1", "2"))
    assert shared_tokens(one) is shared_tokens(same)
    assert shared_tokens(one) is not shared_tokens(other)
    assert SECRET not in repr(one)


def test_a_token_of_the_brokers_own() -> None:
    keys = {key: str(value) for key, value in between_brokers("OAUTHBEARER").items()}
    config = BrokerConfig({"broker.id": "0", "listeners": f"{LISTENER}://127.0.0.1:1", **keys})

    async def scene() -> None:
        login = own_login(config, LISTENER)
        assert login is not None
        said = (await login.exchange()).first().decode()
        assert claims(said.split("Bearer ")[1].split("\x01")[0])["sub"] == "admin"

    asyncio.run(scene())
