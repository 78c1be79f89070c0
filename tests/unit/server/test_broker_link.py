"""The connection of one broker to another, when several ask at once."""

import asyncio

import pytest

from pkafka.net.channel import ChannelError
from pkafka.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from pkafka.server.broker_link import BrokerLink
from pkafka.server.config import BrokerConfig
from pkafka.server.metadata import Endpoint


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
        link = BrokerLink(lambda: Endpoint("PLAINTEXT", "127.0.0.1", port), "0", config)
        asking = [
            link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=0.3)
            for _ in range(3)
        ]
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ChannelError] * 3
        link.close()
        count = len(taken)
        server.close()
        for writer in taken:
            writer.close()
        return count

    assert asyncio.run(run()) == 1


def test_nobody_knows_where_it_listens() -> None:
    async def run() -> None:
        link = BrokerLink(lambda: None, "0", BrokerConfig({"broker.id": "0"}))
        with pytest.raises(ChannelError):
            await link.ask(ControlledShutdownRequest(), 3, ControlledShutdownResponse, timeout_s=1)

    asyncio.run(run())
