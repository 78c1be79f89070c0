"""Requests from this broker to another, over the listener that brokers use among themselves."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final, TypeVar

from pkafka.net.channel import Answered, Channel, ChannelError, open_channel
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.schema import Message
from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.config.broker_config import BrokerConfig

M = TypeVar("M", bound=Message)

_DOUBLINGS_MAX: Final = 10


class BrokerLink:
    """The way to one broker; it connects when it is first needed, and again after a failure.

    Args:
        endpoint: where the broker listens at the moment; None when that is unknown.
        client_id: what the requests say they come from.
        config: of this broker: how long a connection may take, and the largest answer.
        connect_timeout_ms: the longest wait for a connection, whatever ``config`` allows.
        receive_buffer_bytes: of the socket; None leaves it to the kernel, which adapts it.
    """

    def __init__(
        self,
        endpoint: Callable[[], Endpoint | None],
        client_id: str,
        config: BrokerConfig,
        *,
        connect_timeout_ms: int,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._client_id = client_id
        self._config = config
        self._connect_timeout_ms = connect_timeout_ms
        self._receive_buffer_bytes = receive_buffer_bytes
        self._numbers = itertools.count()
        self._connecting = asyncio.Lock()
        """Requests at the same time share one connection; a second one would have no owner and never be closed."""
        self._channel: Channel | None = None
        self._reached: Endpoint | None = None
        self._failures = 0
        """Attempts to connect since the last connection, or since it was given up."""

    async def ask(self, request: Message, version: int, answer: type[M], *, timeout_s: float) -> M:
        """Send a request and wait for its answer.

        Args:
            version: of the request; that of a cluster is what all its brokers know.
            answer: the class of its response.
            timeout_s: for the answer; a connection that has to be made first has a time of its own.

        Raises:
            ChannelError: the broker is not known, cannot be reached or does not answer.
            ProtocolError: what it answers is no such response.
        """
        frame = await self.ask_frame(request, version, timeout_s=timeout_s)
        _, response = decode_response(_key(request), version, frame)
        assert isinstance(response, answer)
        return response

    async def ask_frame(self, request: Message, version: int, *, timeout_s: float) -> memoryview:
        """As :meth:`ask`; the answer as it came, header first, valid until the caller next waits for anything."""
        channel = self._channel
        if channel is None or channel.is_closed or self._endpoint() != self._reached:
            async with self._connecting:
                channel = await self._connected()
        return await channel.ask(self._frame(request, version), timeout_s=timeout_s)

    def ask_then(self, request: Message, version: int, answered: Answered, *, timeout_s: float) -> bool:
        """As :meth:`ask_frame` over the connection that there is, without a turn of the event loop before ``answered``.

        Returns:
            False where a connection has to be made first; nothing is asked then.
        """
        channel = self._channel
        if channel is None or channel.is_closed or self._endpoint() != self._reached:
            return False
        channel.ask_then(self._frame(request, version), answered, timeout_s=timeout_s)
        return True

    def _frame(self, request: Message, version: int) -> bytes:
        number = next(self._numbers) & 0x7FFFFFFF
        return encode_request(_key(request), version, number, self._client_id, request)

    async def _connected(self) -> Channel:
        endpoint = self._endpoint()
        if endpoint is None:
            self.close()
            raise ChannelError("The address of that broker is unknown")
        if self._channel is not None and (self._channel.is_closed or endpoint != self._reached):
            self.close()
        if self._channel is None:
            self._channel = await self._connect(endpoint)
            self._reached = endpoint
        return self._channel

    async def _connect(self, endpoint: Endpoint) -> Channel:
        config = self._config
        # Each failure in a row doubles the time, up to its maximum: a peer that accepts slowly is reached in the end.
        timeout_ms = min(
            config.socket_connection_setup_timeout_ms << min(self._failures, _DOUBLINGS_MAX),
            config.socket_connection_setup_timeout_max_ms,
            self._connect_timeout_ms,
        )
        self._failures += 1
        channel = await open_channel(
            endpoint.host,
            endpoint.port,
            timeout_s=timeout_ms / 1000,
            frame_bytes_max=config.socket_request_max_bytes,
            receive_buffer_bytes=self._receive_buffer_bytes,
        )
        self._failures = 0
        return channel

    def close(self) -> None:
        """Close the connection, if there is one; the next request makes another, as if there had been none."""
        self._failures = 0
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _key(request: Message) -> int:
    key = request.__api_key__
    assert key is not None, f"{type(request).__name__} is no request"
    return key
