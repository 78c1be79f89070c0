"""Noticing within a moment that all processes of a broker have died, long before its session ends.

A sentinel keeps a connection to the broker open and waits for its end. Then it tries to connect to every listener. When
the broker's processes are dead, their listeners are closed, and the kernel of the machine refuses. Anything else, an
answer or silence, is no proof of death: a broker that cannot be reached may live on the other side of a cut, so the end
of its session counts. docs/failure-detection.md has the reasoning.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.ipc import lifeline

log = logging.getLogger(__name__)

_KNOCK_MAX_S: Final = 1.0
_PAUSE_S: Final = 0.1
"""The pause between attempts while there is no connection, but no proof of death either."""


class Sentinel:
    """Watches one broker; belongs to the event loop on which it is made.

    Args:
        endpoints: all addresses at which the broker listens.
        on_death: called once, when every one of them refuses connections.
    """

    def __init__(self, endpoints: Sequence[Endpoint], on_death: Callable[[], None]) -> None:
        self._endpoints = endpoints
        self._on_death = on_death
        self._loop = asyncio.get_running_loop()
        self._task = lifeline.vital(self._loop.create_task(self._run()))

    def close(self) -> None:
        """Stop watching."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._stay_connected()
            if await refuses_everywhere(self._endpoints):
                self._on_death()
                return
            await asyncio.sleep(_PAUSE_S)

    async def _stay_connected(self) -> None:
        """Connect to the first listener that takes connections, and wait until this one ends."""
        for endpoint in self._endpoints:
            for family, address in await _addresses(self._loop, endpoint):
                with (
                    contextlib.suppress(OSError, TimeoutError),
                    socket.socket(family, socket.SOCK_STREAM) as sock,
                ):
                    sock.setblocking(False)
                    async with asyncio.timeout(_KNOCK_MAX_S):
                        await self._loop.sock_connect(sock, address)
                    # A broker sends nothing without a request, so only the end of the connection can come.
                    await self._loop.sock_recv(sock, 1)
                    return


async def refuses_everywhere(endpoints: Sequence[Endpoint]) -> bool:
    """Whether every listener refuses: the kernel of the machine answers, and no process listens."""
    loop = asyncio.get_running_loop()
    knocks = 0
    for endpoint in endpoints:
        for family, address in await _addresses(loop, endpoint):
            if not await _refuses(loop, family, address):
                return False
            knocks += 1
    return knocks > 0


async def _refuses(loop: asyncio.AbstractEventLoop, family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.setblocking(False)
            async with asyncio.timeout(_KNOCK_MAX_S):
                await loop.sock_connect(sock, address)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    return False


async def _addresses(
    loop: asyncio.AbstractEventLoop, endpoint: Endpoint
) -> list[tuple[int, tuple[object, ...]]]:
    try:
        found = socket.getaddrinfo(  # at once, without a thread: an address needs no look-up
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        return [(family, address) for family, _, _, _, address in found]
    except (OSError, UnicodeError):
        pass  # a name
    try:
        found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []  # not a name, or an impossible one: no proof
    return [(family, address) for family, _, _, _, address in found]
