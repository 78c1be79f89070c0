"""Connections to other brokers: what cannot be reached is one kind of error, whatever the reason."""

import asyncio

import pytest

from pkafka.net.channel import ChannelError, open_channel


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_nobody_could_have_cannot_be_reached(host: str) -> None:
    """Apache Kafka takes such a name for an advertised listener, so other brokers may register with it."""
    with pytest.raises(ChannelError, match="cannot be reached"):
        asyncio.run(open_channel(host, 9092, timeout_s=10, frame_bytes_max=1000))
