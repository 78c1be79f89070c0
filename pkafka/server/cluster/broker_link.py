"""Requests from this broker to another, over the listener that brokers use among themselves."""

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import Final, TypeVar

from pkafka.errors import ConfigError, ProtocolError
from pkafka.net.channel import Answered, Channel, ChannelError, open_channel
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.schema import Message
from pkafka.server.cluster.broker_login import OwnLogin, log_in, own_login
from pkafka.server.cluster.link_tls import link_context
from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.config.broker_config import BrokerConfig

M = TypeVar("M", bound=Message)

_DOUBLINGS_MAX: Final = 10
_RENEWAL_AFTER: Final = (0.85, 0.95)
"""The part of a session after which it is renewed, as in Kafka's clients."""
_RENEWALS_APART_S: Final = 1.1
"""Brokers refuse another login on a connection within a second of the one before."""


class BrokerLink:
    """The way to one broker; it connects when it is first needed, and again after a failure.

    Args:
        endpoint: where the broker listens at the moment; None when that is unknown.
        client_id: what the requests say they come from.
        config: gives this broker's settings: how long a connection may take, how it is secured, and the largest answer.
        connect_timeout_ms: the longest wait for a connection, whatever ``config`` allows.
        receive_buffer_bytes: of the socket; None leaves it to the kernel, which adapts it.
    """

    def __init__(
        self,
        endpoint: Callable[[], Endpoint | None],
        client_id: str,
        config: Callable[[], BrokerConfig],
        *,
        connect_timeout_ms: int,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        self._login: OwnLogin | None = None
        self._renewal_due_s: float | None = None
        """When to log in again on the same connection, by the event loop's clock; None where that is not asked for."""
        self._is_renewed = True
        """False where a session, of a token that ends, is too short for that: a new connection takes its place."""
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
        channel = self._usable_channel()
        if channel is None:
            async with self._connecting:
                channel = await self._connected()
        return await channel.ask(self._frame(request, version), timeout_s=timeout_s)

    def ask_then(self, request: Message, version: int, answered: Answered, *, timeout_s: float) -> bool:
        """As :meth:`ask_frame` over the connection that there is, without a turn of the event loop before ``answered``.

        Returns:
            False where a connection or a login has to be made first; nothing is asked then.
        """
        channel = self._usable_channel()
        if channel is None:
            return False
        channel.ask_then(self._frame(request, version), answered, timeout_s=timeout_s)
        return True

    def _usable_channel(self) -> Channel | None:
        """The connection, when it can be asked as it is."""
        channel = self._channel
        if channel is None or channel.is_closed or self._endpoint() != self._reached:
            return None
        return None if self._renewal_due_s is not None and self._is_renewal_due() else channel

    def _is_renewal_due(self) -> bool:
        due_s = self._renewal_due_s
        return due_s is not None and asyncio.get_running_loop().time() >= due_s

    def _frame(self, request: Message, version: int) -> bytes:
        number = next(self._numbers) & 0x7FFFFFFF
        return encode_request(_key(request), version, number, self._client_id, request)

    async def _connected(self) -> Channel:
        endpoint = self._endpoint()
        if endpoint is None:
            self.close()
            raise ChannelError("The address of that broker is unknown")
        is_over = self._is_renewal_due() and not self._is_renewed
        if self._channel is not None and (self._channel.is_closed or endpoint != self._reached or is_over):
            self.close()
        if self._channel is None:
            self._channel = await self._connect(endpoint)
            self._reached = endpoint
        elif self._is_renewal_due():
            await self._log_in(self._channel, self._connect_timeout_ms / 1000)
        return self._channel

    async def _connect(self, endpoint: Endpoint) -> Channel:
        config = self._config()
        # Each failure in a row doubles the time, up to its maximum: a peer that accepts slowly is reached in the end.
        timeout_ms = min(
            config.socket_connection_setup_timeout_ms << min(self._failures, _DOUBLINGS_MAX),
            config.socket_connection_setup_timeout_max_ms,
            self._connect_timeout_ms,
        )
        self._failures += 1
        try:
            tls = link_context(config, endpoint.listener)
        except ConfigError as error:
            raise ChannelError(f"No connection to other brokers can be secured: {error}") from error
        channel = await open_channel(
            endpoint.host,
            endpoint.port,
            timeout_s=timeout_ms / 1000,
            frame_bytes_max=config.socket_request_max_bytes,
            receive_buffer_bytes=self._receive_buffer_bytes,
            tls=tls,
        )
        self._login = own_login(config, endpoint.listener, endpoint.host)
        await self._log_in(channel, timeout_ms / 1000)
        self._failures = 0
        return channel

    async def _log_in(self, channel: Channel, timeout_s: float) -> None:
        """Log in, or do so again before the session ends; the other broker must not be asked anything meanwhile."""
        login = self._login
        if login is None:
            return

        loop = asyncio.get_running_loop()
        asked_s = loop.time()

        async def ask(request: Message, version: int) -> Message:
            nonlocal asked_s
            asked_s = loop.time()
            answer = await channel.ask(self._frame(request, version), timeout_s=timeout_s)
            return decode_response(_key(request), version, answer)[1]

        try:
            lifetime_ms = await log_in(login, ask)
        except (ChannelError, ProtocolError, asyncio.CancelledError):
            channel.close()
            raise
        self._renewal_due_s = None
        if lifetime_ms:
            share = random.uniform(*_RENEWAL_AFTER)  # noqa: S311 - spreads renewals, guards nothing
            after_s = lifetime_ms / 1000 * share
            # The session began after the last question, however late its answer was read here.
            self._renewal_due_s = asked_s + after_s
            self._is_renewed = after_s >= _RENEWALS_APART_S

    def close(self) -> None:
        """Close the connection, if there is one; the next request makes another, as if there had been none."""
        self._failures = 0
        self._renewal_due_s = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _key(request: Message) -> int:
    key = request.__api_key__
    assert key is not None, f"{type(request).__name__} is no request"
    return key
