"""A client that speaks TLS on a real socket pair, and the connection that serves it."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from pkafka.net.buffers import ReadBuffers
from pkafka.net.tls import TlsStream, new_scratch
from pkafka.security.tls_context import ClientAuth, Store, TlsSettings, client_context, server_context
from tests.certificates import Authority
from tests.unit.net.connected import Client, Handle

_SCRATCH = new_scratch()


@cache
def authority() -> Authority:
    return Authority()


@cache
def contexts(
    client_auth: ClientAuth = ClientAuth.NONE, versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's, of which the client has a certificate where the server wants one."""
    with TemporaryDirectory() as directory:
        trusted, own = Path(directory, "ca.pem"), Path(directory, "own.pem")
        trusted.write_bytes(authority().pem)
        signed = authority().signed("broker", ["broker", "127.0.0.1"])
        own.write_bytes(signed.key_pem() + signed.chain_pem)
        settings = TlsSettings(
            versions,
            truststore=Store("truststore", "PEM", str(trusted)),
            keystore=Store("keystore", "PEM", str(own)),
        )
        return server_context(settings, client_auth), client_context(settings)


class EncryptedClient(Client):
    """As :class:`Client`, with TLS between the two; made by :meth:`connected`."""

    stream: TlsStream

    @classmethod
    async def connected(
        cls,
        handle: Handle | None = None,
        *,
        buffers: ReadBuffers | None = None,
        versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3"),
        first: bytes = b"",
    ) -> Self:
        """Shake hands.

        Args:
            first: sent along with the client's last word of the handshake.
        """
        server, client = contexts(versions=versions)
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        near = TlsStream(ours, client, "broker")
        far = TlsStream(theirs, server, scratch=_SCRATCH)
        near_is_over = far_is_over = False
        while not far_is_over:
            if not near_is_over and (near_is_over := near.handshake()) and first:
                near.send(first)
            far_is_over = far.handshake()
        assert near.handshake()
        made = cls(handle, buffers=buffers, pair=(ours, theirs), tls=far)
        made.stream = near
        return made

    async def send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self.stream.send(left) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await self._ready(loop.add_writer, loop.remove_writer)

    async def receive(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            target = memoryview(bytearray(min(size - len(got), 100_000)))
            try:
                count = self.stream.recv_into(target)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await self._ready(loop.add_reader, loop.remove_reader)
                continue
            except (ConnectionResetError, ssl.SSLError):
                break
            if not count:
                break
            got += target[:count]
        return bytes(got)

    async def _ready(self, watch: Callable[..., object], forget: Callable[[int], object]) -> None:
        ready = asyncio.get_running_loop().create_future()
        watch(self.sock.fileno(), lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait_for(ready, 60)
        finally:
            forget(self.sock.fileno())
