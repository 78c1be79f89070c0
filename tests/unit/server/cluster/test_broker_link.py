"""The connection of one broker to another: when several ask at once, and when nobody accepts it."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from pkafka.net.channel import ChannelError
from pkafka.protocol.codec import encode
from pkafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.security.encryption import Encryption
from tests.sockets import full_port
from tests.unit.server.security.stores import Stores
from tests.unit.server.workers import until


def test_those_who_ask_at_once_share_one_connection() -> None:
    async def run() -> int:
        taken: list[asyncio.StreamWriter] = []

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            taken.append(writer)
            await reader.read()  # until the link closes it; nothing is answered
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        config = BrokerConfig({"broker.id": "0"})
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port)
        link = BrokerLink(lambda: endpoint, "0", lambda: config, connect_timeout_ms=10_000)
        asking = [
            link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=0.3)
            for _ in range(3)
        ]
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ChannelError] * 3
        await until(lambda: bool(taken))  # a connection is made before its server takes it
        link.close()
        count = len(taken)
        server.close()
        for writer in taken:
            writer.close()
        return count

    assert asyncio.run(run()) == 1


def test_nobody_knows_where_it_listens() -> None:
    async def run() -> None:
        link = BrokerLink(
            lambda: None, "0", lambda: BrokerConfig({"broker.id": "0"}), connect_timeout_ms=10_000
        )
        with pytest.raises(ChannelError):
            await link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=1)

    asyncio.run(run())


SETUP = "socket.connection.setup.timeout.ms"
SETUP_MAX = "socket.connection.setup.timeout.max.ms"


@pytest.mark.parametrize(
    ("settings", "connect_timeout_ms", "waits_ms"),
    [
        ({SETUP: "30", SETUP_MAX: "100"}, 10_000, [30, 60, 100, 100]),
        ({SETUP: "9000", SETUP_MAX: "40"}, 10_000, [40, 40]),
        ({}, 50, [50, 50]),
    ],
)
def test_a_connection_that_nobody_accepts_is_given_up_in_time(
    settings: Mapping[str, str], connect_timeout_ms: int, waits_ms: list[int]
) -> None:
    async def run(port: int) -> None:
        config = BrokerConfig({"broker.id": "0", **settings})
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port)
        link = BrokerLink(lambda: endpoint, "0", lambda: config, connect_timeout_ms=connect_timeout_ms)
        for wait_ms in waits_ms:
            await gives_up(link, wait_ms)
        link.close()
        await gives_up(link, waits_ms[0])

    async def gives_up(link: BrokerLink, wait_ms: int) -> None:
        with pytest.raises(ChannelError, match=f"did not take the connection within {wait_ms / 1000:g} s"):
            await link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=60)

    with full_port() as port:
        asyncio.run(asyncio.wait_for(run(port), 60))


def test_the_certificate_of_another_broker_has_to_name_its_host(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    stores.write(names=("elsewhere.example",))
    server = Encryption(stores.config(ssl_client_auth="required")).context("SSL")
    inter_broker = {"security.inter.broker.protocol": "SSL"}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            size = int.from_bytes(await reader.readexactly(4))
            correlation_id = (await reader.readexactly(size))[4:8]
            body = correlation_id + b"\0" + encode(ControlledShutdownResponse(), 3)
            writer.write(len(body).to_bytes(4) + body)
            await reader.read()
        writer.close()

    async def ask(config: BrokerConfig, port: int) -> ControlledShutdownResponse:
        link = BrokerLink(
            lambda: Endpoint("SSL", "127.0.0.1", port), "0", lambda: config, connect_timeout_ms=10_000
        )
        try:
            return await link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=60)
        finally:
            link.close()

    async def run() -> None:
        listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server)
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(ChannelError, match="IP address mismatch"):
            await ask(stores.config(**inter_broker), port)
        anywhere = stores.config(**inter_broker, ssl_endpoint_identification_algorithm="")
        assert (await ask(anywhere, port)).error_code == 0
        listening.close()
        gone = stores.config(**inter_broker, ssl_truststore_location=tmp_path / "none")
        with pytest.raises(ChannelError, match=r"can be secured: ssl\.truststore\.location"):
            await ask(gone, port)

    asyncio.run(run())
