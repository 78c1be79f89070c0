"""A client on a real socket pair, the connection that serves it, and a loop that notes what goes wrong."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

from pkafka.net.answers import Answer
from pkafka.net.buffers import ReadBuffers
from pkafka.net.connection import Outcome, ServerConnection
from pkafka.net.outcomes import Note
from pkafka.net.page_cache import PageCache
from pkafka.net.tls import TlsStream
from pkafka.net.together import Together

FRAME_BYTES_MAX = 8 * 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


Handle = Callable[[ServerConnection, bytes], Outcome]
Run = Callable[[Callable[[], Awaitable[None]]], None]


class Client:
    """A client, the connection that serves it, and what its handler was given."""

    def __init__(
        self,
        handle: Handle | None = None,
        page_cache: PageCache | None = None,
        buffers: ReadBuffers | None = None,
        pair: tuple[socket.socket, socket.socket] | None = None,
        tls: TlsStream | None = None,
    ) -> None:
        ours, theirs = pair or socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.sock = ours
        self.requests: list[bytes] = []
        self.closed = 0
        self.finished = 0
        self._handle = handle
        self.buffers = buffers or ReadBuffers()
        self.together = Together()
        self.connection = ServerConnection(
            theirs,
            listener="PLAINTEXT",
            peer_host="here",
            buffers=self.buffers,
            handle=self._serve,
            finished=self._count_finished,
            closed=self._count_closed,
            frame_bytes_max=FRAME_BYTES_MAX,
            together=self.together,
            page_cache=page_cache,
            tls=tls,
        )

    def _serve(self, connection: ServerConnection, view: memoryview) -> Outcome:
        frame = bytes(view)
        self.requests.append(frame)
        if self._handle is None:
            return (framed(frame),)
        connection.pending = (0, 0, 0, 0, None)
        return self._handle(connection, frame)

    def _count_finished(self, _note: Note, answer: Answer) -> Answer:
        self.finished += 1
        return answer

    def _count_closed(self, _connection: ServerConnection) -> None:
        self.closed += 1

    async def send(self, data: bytes) -> None:
        await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(self.sock, data), 60)

    async def receive(self, size: int) -> bytes:
        """Exactly so many bytes, or fewer where the connection ends."""
        got = bytearray()
        loop = asyncio.get_running_loop()
        while len(got) < size:
            try:
                chunk = await asyncio.wait_for(loop.sock_recv(self.sock, size - len(got)), 60)
            except ConnectionResetError:
                break
            if not chunk:
                break
            got += chunk
        return bytes(got)

    async def is_closed_by_peer(self) -> bool:
        return await self.receive(1) == b""

    def end(self) -> None:
        self.connection.close()
        self.sock.close()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
