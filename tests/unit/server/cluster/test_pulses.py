"""Only a broker that refuses everywhere counts as dead, and only for a while; nobody waits long for a silent one."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import pytest

from pkafka.protocol.codec import encode
from pkafka.protocol.messages.api_versions import ApiVersionsResponse
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from pkafka.server.cluster import pulses
from pkafka.server.cluster.metadata import Endpoint, MetadataCache
from pkafka.server.cluster.pulses import Pulses
from pkafka.server.cluster.sentinel import refuses_everywhere
from pkafka.server.config.broker_config import BrokerConfig
from tests.skipped_time import LoopTime
from tests.unit.server.workers import until

OTHER: Final = 2


class Other:
    """A broker that answers ApiVersions, or nothing; on a port of its own."""

    def __init__(self) -> None:
        self.port = 0
        self.answers = True
        self.asked = 0
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def live(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving: Any = asyncio.current_task()
        self._clients.add(writer)
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        try:
            while True:
                request = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
                self.asked += 1
                if self.answers:
                    body = request[4:8] + encode(ApiVersionsResponse(), 0)
                    writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._clients.discard(writer)
            writer.close()

    async def drop_connections(self) -> None:
        for writer in self._clients:
            writer.transport.abort()
        if self._serving:
            await asyncio.wait(self._serving)

    async def die(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.drop_connections()


def listed(metadata: MetadataCache, *brokers: tuple[int, int]) -> None:
    metadata.apply(
        UpdateMetadataRequest(
            controller_id=1,
            controller_epoch=1,
            live_brokers=[
                UpdateMetadataBroker(
                    id=broker,
                    endpoints=[UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener="PLAINTEXT")],
                )
                for broker, port in brokers
            ],
        )
    )


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine what comes at once comes late; a test skips the time that shall be over."""
    for limit in (
        "_PATIENCE_S",
        "_ANSWER_MAX_S",
        "_CONNECT_MAX_MS",
        "_REFUSES_MAX_S",
        "_ANOTHER_DEATH_S",
        "_SILENCE_S",
    ):
        monkeypatch.setattr(pulses, limit, getattr(pulses, limit) * 600)


def watched(scene: Callable[[Other, Pulses, MetadataCache], Awaitable[None]]) -> None:
    async def run() -> None:
        other, metadata = Other(), MetadataCache()
        await other.live()
        listed(metadata, (1, other.port), (OTHER, other.port))
        config = BrokerConfig({"broker.id": "1"})
        found = Pulses(metadata, 1, lambda: config)
        try:
            await scene(other, found, metadata)
        finally:
            found.close()
            await other.die()

    asyncio.run(run())


def test_who_answers_lives_and_is_asked_each_time() -> None:
    async def scene(other: Other, found: Pulses, _metadata: MetadataCache) -> None:
        for _ in range(3):
            assert await found.refusing([1, OTHER, 9]) == set()
        assert other.asked == 3
        await asyncio.gather(*(found.refusing([OTHER]) for _ in range(100)))
        assert other.asked == 4, "who asks at once shares the answer"

    watched(scene)


def test_who_refuses_is_dead_until_it_answers_again() -> None:
    async def scene(other: Other, found: Pulses, _metadata: MetadataCache) -> None:
        assert await found.refusing([OTHER]) == set()
        await other.die()
        for _ in range(3):
            assert await found.refusing([1, OTHER]) == {OTHER}
        await other.live()
        assert await found.refusing([OTHER]) == set()

    watched(scene)


def test_lost_connections_are_no_death() -> None:
    """A worker that ends and is started again, or a connection that was idle for too long."""

    async def scene(other: Other, found: Pulses, _metadata: MetadataCache) -> None:
        for _ in range(5):
            await other.drop_connections()
            assert await found.refusing([OTHER]) == set()

    watched(scene)


def test_nobody_waits_long_for_a_broker_that_is_silent_and_it_counts_as_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_be_refused = asyncio.Event()

    async def refuses_later(endpoints: Sequence[Endpoint]) -> bool:
        await may_be_refused.wait()
        return await refuses_everywhere(endpoints)

    monkeypatch.setattr(pulses, "refuses_everywhere", refuses_later)

    async def scene(other: Other, found: Pulses, _metadata: MetadataCache) -> None:
        time = LoopTime()
        other.answers = False
        first = asyncio.create_task(found.refusing([OTHER]))
        await until(lambda: other.asked == 1)
        await time.skip(pulses._PATIENCE_S)
        assert await first == set()
        async with asyncio.timeout(pulses._PATIENCE_S / 2):
            for _ in range(99):
                assert await found.refusing([OTHER]) == set()
                await asyncio.sleep(0)
        # What was a silence a moment ago is a death now.
        await other.die()
        assert await found.refusing([OTHER]) == set(), "nobody waits for it"
        may_be_refused.set()
        await time.skip(pulses._SILENCE_S)
        assert await found.refusing([OTHER]) == {OTHER}

    watched(scene)


def test_a_refusal_counts_for_a_while_only() -> None:
    """The controller may take the broker for alive; it is not this one's to say for ever that it leads nothing."""

    async def scene(other: Other, found: Pulses, metadata: MetadataCache) -> None:
        await other.die()
        assert await found.refusing([OTHER]) == {OTHER}
        await LoopTime().skip(pulses._REFUSES_MAX_S)
        assert await found.refusing([OTHER]) == set()
        # It died as the controller has seen, and came back: its next death is another one.
        listed(metadata, (1, 1))
        assert await found.refusing([OTHER]) == set(), "it is not listed, so nobody is sent to it"
        listed(metadata, (1, 1), (OTHER, other.port))
        assert await found.refusing([OTHER]) == {OTHER}

    watched(scene)
