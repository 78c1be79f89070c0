"""The simulated network: connections that carry bytes in order, late, or not at all.

A connection is what TCP gives: nothing is lost or out of order within it as long as it lives. What is cut waits, and
goes on when the cut is healed, or a while later, as the kernel's retransmissions do; who does not want to wait closes
it. Messages of different connections overtake each other.
"""

import asyncio
import contextlib
import socket
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from tests.sim.world import Loop, World

HOST_OF_STORE: Final = "store"
_SOMETIMES_SLOW: Final = 0.02
"""The share of what takes much longer than the rest."""
_BACKED_OFF: Final = 0.3
"""The share of connections that go on only a while after a cut was healed."""
_BACK_OFF_MAX_S: Final = 8.0


class Listener(Protocol):
    """A machine that takes connections."""

    def accept(self, sock: socket.socket, host: str) -> bool:
        """Take one end of a connection; False refuses it."""
        ...


class Network:
    """See the module.

    Args:
        world: the world.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.base_s = 0.0005
        """What a message takes at least."""
        self._cut: dict[tuple[str, str], int] = {}
        self._dark: set[str] = set()
        self._waiting_for_heal: list[Callable[[], None]] = []
        self._by_socket: weakref.WeakKeyDictionary[socket.socket, Connection] = weakref.WeakKeyDictionary()
        self._hosts: dict[Loop, str] = {}
        self.connections: dict[Connection, None] = {}
        world.network = self

    def place(self, loop: Loop, host: str) -> None:
        """Say on which machine a process runs."""
        self._hosts[loop] = host

    # -- faults --

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one machine to another from now on."""
        self._cut[source, target] = self._cut.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Undo one cut."""
        left = self._cut.get((source, target), 0) - 1
        if left > 0:
            self._cut[source, target] = left
        else:
            self._cut.pop((source, target), None)
            self._go_on()

    def darken(self, host: str) -> None:
        """A machine is off: nobody hears it, and nobody is refused."""
        self._dark.add(host)

    def lighten(self, host: str) -> None:
        """It is on again."""
        self._dark.discard(host)
        self._go_on()

    def _go_on(self) -> None:
        waiting, self._waiting_for_heal = self._waiting_for_heal, []
        for go_on in waiting:
            self.world.god.call_soon(go_on)

    def is_open(self, source: str, target: str) -> bool:
        """Whether messages get through."""
        if source in self._dark or target in self._dark:
            return False
        return source == target or (source, target) not in self._cut

    def delay_s(self) -> float:
        """What the next message takes."""
        random = self.world.random
        if random.random() < _SOMETIMES_SLOW:
            return self.base_s * (1 + 100 * random.random())
        return self.base_s * (1 + 2 * random.random())

    def back_off_s(self, waited_s: float) -> float:
        """How long after a cut a connection goes on that had something to send meanwhile.

        The kernel sends again after pauses that double, so it may be as long as it has waited. Connections that are
        made after the cut do not wait: what they carry overtakes what waits here.
        """
        random = self.world.random
        return random.random() * min(waited_s, _BACK_OFF_MAX_S) if random.random() < _BACKED_OFF else 0.0

    def when_healed(self, go_on: Callable[[], None]) -> None:
        """Have something tried again when a cut is healed."""
        self._waiting_for_heal.append(go_on)

    # -- connecting --

    def addresses(self, host: str, port: int) -> list[Any]:
        """As getaddrinfo."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    async def connect(self, loop: Loop, host: str, port: int) -> "Connection":
        """A connection to a listener, as soon as the machines reach each other.

        Raises:
            ConnectionRefusedError: nobody listens there.
        """
        own = self._hosts[loop]
        answered: asyncio.Future[Connection] = loop.create_future()

        def arrive() -> None:
            if answered.done() or not loop.alive:
                return
            if not self.is_open(own, host):
                self.when_healed(arrive)
                return
            listener = self.listeners.get((host, port))
            connection = None
            if listener is not None:
                connection = Connection(self, own, host)
                if not connection.open(listener):
                    connection = None
            self.world.after(self.delay_s(), answer, connection)

        def answer(connection: Connection | None) -> None:
            if not self.is_open(host, own):
                self.when_healed(lambda: answer(connection))
            elif not loop.alive or answered.done():
                if connection is not None:
                    connection.client_is_gone()
            elif connection is None:
                loop.call_soon(_refuse, answered, host, port)
            else:
                loop.call_soon(_take, answered, connection)

        self.world.after(self.delay_s(), arrive)
        return await answered

    async def create_connection(
        self, loop: Loop, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        """As the event loop's."""
        connection = await self.connect(loop, host, port)
        protocol = factory()
        transport = Transport(loop, connection, protocol)
        loop.on_kill.append(connection.client_is_gone)
        protocol.connection_made(transport)
        return transport, protocol

    async def sock_connect(self, loop: Loop, sock: socket.socket, address: tuple[str, int]) -> None:
        """As the event loop's; the socket itself stays unconnected and stands for the connection."""
        connection = await self.connect(loop, *address)
        self._by_socket[sock] = connection
        weakref.finalize(sock, connection.client_is_gone)
        loop.on_kill.append(connection.client_is_gone)

    async def sock_recv(self, sock: socket.socket) -> bytes:
        """As the event loop's."""
        connection = self._by_socket[sock]
        try:
            return await connection.received(asyncio.get_running_loop())
        except asyncio.CancelledError:
            connection.client_is_gone()
            raise


def _refuse(answered: "asyncio.Future[Connection]", host: str, port: int) -> None:
    if not answered.done():
        answered.set_exception(ConnectionRefusedError(111, f"{host}:{port} refuses the connection"))


def _take(answered: "asyncio.Future[Connection]", connection: "Connection") -> None:
    if answered.done():
        connection.client_is_gone()
    else:
        answered.set_result(connection)


class _Pipe:
    """One direction of a connection: what goes in comes out in order, some time later."""

    def __init__(self, network: Network, source: str, target: str, deliver: Callable[[bytes], None]) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._deliver = deliver
        self._queue: deque[tuple[float, bytes]] = deque()
        self._is_due = False
        self._blocked_s: float | None = None
        """Since when nothing gets through, and something waits."""
        self._last_s = 0.0
        self._ended = False

    def send(self, data: bytes) -> None:
        """Send bytes; none of them are the end."""
        if self._ended:
            return
        self._ended = not data
        world = self._network.world
        self._last_s = max(self._last_s, world.now_s + self._network.delay_s())
        self._queue.append((self._last_s, data))
        self._arm()

    def _arm(self) -> None:
        if not self._is_due and self._queue:
            self._is_due = True
            self._network.world.god.call_at(self._queue[0][0], self._flow)

    def _flow(self) -> None:
        self._is_due = False
        if not self._network.is_open(self._source, self._target):
            self._is_due = True
            if self._blocked_s is None:
                self._blocked_s = self._network.world.now_s
            self._network.when_healed(self._flow)
            return
        if self._blocked_s is not None:
            pause_s = self._network.back_off_s(self._network.world.now_s - self._blocked_s)
            self._blocked_s = None
            if pause_s:
                self._is_due = True
                self._network.world.after(pause_s, self._flow)
                return
        if self._queue:
            self._deliver(self._queue.popleft()[1])
        self._arm()


class Connection:
    """One connection. The client's end is simulated, the server's is one end of a socket pair."""

    def __init__(self, network: Network, client: str, server: str) -> None:
        self._network = network
        self._up = _Pipe(network, client, server, self._to_server)
        self._down = _Pipe(network, server, client, self._to_client)
        self._near: socket.socket | None = None
        self._unsent: deque[bytes] = deque()
        self._heard: deque[bytes] = deque()
        self.on_bytes: Callable[[bytes], None] | None = None
        self._client_gone = False
        network.connections[self] = None

    def open(self, listener: Listener) -> bool:
        """Give the server its end."""
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        if not listener.accept(far, "127.0.0.1"):
            near.close()
            far.close()
            self._network.connections.pop(self, None)
            return False
        self._near = near
        self._network.world.god.add_reader(near.fileno(), self._on_readable)
        return True

    # -- the client's side --

    def send(self, data: bytes) -> None:
        """From the client to the server."""
        if not self._client_gone:
            self._up.send(data)

    def client_is_gone(self) -> None:
        """The client has closed the connection, or has died."""
        if not self._client_gone:
            self._client_gone = True
            self.on_bytes = None
            self._up.send(b"")

    async def received(self, loop: asyncio.AbstractEventLoop) -> bytes:
        """What the server has sent next, nothing at the end."""
        if self._heard:
            return self._heard.popleft()
        future: asyncio.Future[bytes] = loop.create_future()

        def hear(data: bytes) -> None:
            def tell() -> None:
                if not future.done():
                    future.set_result(data)

            loop.call_soon(tell)

        self.on_bytes = hear
        return await future

    def listen(self, on_bytes: Callable[[bytes], None]) -> None:
        """Have what the server sends handed over."""
        self.on_bytes = on_bytes
        while self._heard:
            on_bytes(self._heard.popleft())

    def _to_client(self, data: bytes) -> None:
        if self._client_gone:
            return
        if self.on_bytes is None:
            self._heard.append(data)
        else:
            self.on_bytes(data)

    # -- the server's side --

    def _to_server(self, data: bytes) -> None:
        if self._near is None:
            return
        if not data:
            self._close_near()
            return
        self._unsent.append(data)
        self._write()

    def _write(self) -> None:
        if self._near is None:
            return
        god = self._network.world.god
        while self._unsent:
            data = self._unsent[0]
            try:
                sent = self._near.send(data)
            except BlockingIOError:
                god.add_writer(self._near.fileno(), self._write)
                return
            except OSError:
                self._unsent.clear()
                return
            if sent == len(data):
                self._unsent.popleft()
            else:
                self._unsent[0] = data[sent:]
        god.remove_writer(self._near.fileno())

    def _on_readable(self) -> None:
        assert self._near is not None
        try:
            data = self._near.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._down.send(data)
        if not data:
            self._close_near()

    def _close_near(self) -> None:
        if self._near is not None:
            god = self._network.world.god
            god.remove_reader(self._near.fileno())
            god.remove_writer(self._near.fileno())
            self._near.close()
            self._near = None
        self._network.connections.pop(self, None)

    def close(self) -> None:
        """Give everything back; the simulation is over."""
        self._close_near()


class _NoSocket:
    """What code sets options of."""

    def setsockopt(self, *_: object) -> None:
        """No effect."""


class Transport(asyncio.Transport):
    """The client's end of a connection, as asyncio gives it."""

    def __init__(self, loop: Loop, connection: Connection, protocol: Any) -> None:
        super().__init__()
        self._loop = loop
        self._connection = connection
        self._protocol = protocol
        self._closing = False
        connection.listen(self._hear)

    def _hear(self, data: bytes) -> None:
        self._loop.call_soon(self._receive, data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return _NoSocket() if name == "socket" else default

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if not self._closing:
            self._connection.send(bytes(data))

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._connection.client_is_gone()
            self._forget()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def _forget(self) -> None:
        with contextlib.suppress(ValueError):
            self._loop.on_kill.remove(self._connection.client_is_gone)

    def _receive(self, data: bytes) -> None:
        if self._closing:
            return
        if not data:
            self._closing = True
            self._connection.client_is_gone()
            self._forget()
            self._protocol.connection_lost(None)
            return
        view = memoryview(data)
        while view and not self._closing:
            room = self._protocol.get_buffer(-1)
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self._protocol.buffer_updated(count)
            view = view[count:]
