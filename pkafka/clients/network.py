"""All connections of one client behind one selector, driven by the thread that waits for an answer.

No thread of its own: the admin client polls on the caller's thread, the producer on its sender thread. Keeps
the reconnect back-off (exponential with jitter, as KIP-144), and the time for which a broker that throttles
this client wants to hear nothing (KIP-219). Not thread-safe except :meth:`wakeup`.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import NO_FEATURES, Address, Connection, ConnectionState, Pending
from pkafka.clients.errors import ClosedError, ConnectError, DisconnectedError
from pkafka.clock import Clock
from pkafka.protocol.api import ApiKey
from pkafka.protocol.schema import Message

if TYPE_CHECKING:
    from pkafka.clients.network_metrics import NetworkMetrics
    from pkafka.clients.security import Security

_POLL_MS_MAX: Final = 60_000


class Network:
    """The connections of one client.

    Args:
        config: the client's keys about sockets and time-outs.
        clock: its monotonic side drives every time-out here.

    Raises:
        ConfigError: keys and certificates that the configuration names cannot be read.
    """

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.security = _security(config, clock)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[Address, Connection] = {}
        self._registered: dict[Connection, tuple[int, int]] = {}
        self._failures: dict[Address, tuple[int, int]] = {}
        self._throttled: dict[Address, int] = {}
        """Until when nothing is sent to a broker; stays when the connection goes."""
        self._wakeup_pair: tuple[socket.socket, socket.socket] | None = None
        self._closed = False
        self.features = NO_FEATURES
        """Of the cluster, as the broker that knows the latest change said when it was connected to."""
        self.may_connect = True
        """Whether :meth:`is_ready` may begin to connect: to find the addresses of a name can take long."""
        self._wished_to_connect = False
        self._metrics: NetworkMetrics | None = None
        self.before_poll: Callable[[], int] | None = None
        """Called before every wait, by the thread that waits.

        For what must happen in time whatever a caller waits for. What it raises comes out of :meth:`poll`.

        Returns:
            How long the wait may be, in milliseconds.
        """

    def measure(self, metrics: "NetworkMetrics") -> None:
        """Count what goes over the connections from now on."""
        self._metrics = metrics

    def send(
        self,
        address: Address,
        message: Message,
        *,
        timeout_ms: int | None = None,
        on_done: Callable[[Pending], None] | None = None,
        max_version: int | None = None,
        expects_answer: bool = True,
    ) -> Pending:
        """Send a request, connecting first where needed; never waits. One to a broker that throttles goes out later.

        Args:
            address: the broker.
            timeout_ms: how long the answer may take; ``request.timeout.ms`` when left out.
            on_done: called with the pending answer, from :meth:`poll` or at once.
            max_version: do not go above this version; above what Kafka 3.9 has, when left out.
            expects_answer: False for Produce with acks=0, which is done when it is written.

        Returns:
            The answer to come. Failing to connect is an outcome of it too.
        """
        if self._closed:
            raise ClosedError("the client is closed")
        wait_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        pending = Pending(
            ApiKey(message.__api_key__ if message.__api_key__ is not None else -1),
            message,
            address=address,
            deadline_ms=self._clock.monotonic_ms() + wait_ms,
            timeout_ms=wait_ms,
            on_done=on_done,
            max_version=max_version,
            expects_answer=expects_answer,
        )
        try:
            connection = self._connect(address)
        except ConnectError as error:
            self._note_failure(address)
            pending.finish(None, error)
            return pending
        connection.send(pending)
        connection.idle_since_ms = self._clock.monotonic_ms()
        self._watch(connection)
        return pending

    def poll(self, timeout_ms: int) -> None:
        """Wait for something to happen on any connection, at most ``timeout_ms``, and deal with all of it."""
        if self.before_poll is not None:
            timeout_ms = min(timeout_ms, self.before_poll())
        begun_ns = time.perf_counter_ns()
        events = self._selector.select(max(0, self.wait_ms(timeout_ms)) / 1000)
        waited_ns = time.perf_counter_ns()
        for key, mask in events:
            connection = key.data
            if connection is None:
                self._drain_wakeup()
                continue
            if mask & selectors.EVENT_WRITE:
                connection.on_writable()
            if mask & selectors.EVENT_READ:
                connection.on_readable()
                connection.idle_since_ms = self._clock.monotonic_ms()
            self._watch(connection)
        self._release()
        self._expire()
        if self._metrics is not None:
            self._metrics.polled(begun_ns, waited_ns)

    def wait(self, pendings: Iterable[Pending], *, deadline_ms: int) -> bool:
        """Poll until all of ``pendings`` are done or the deadline passes.

        Returns:
            Whether they are.
        """
        left = [pending for pending in pendings if not pending.done]
        while left:
            wait_ms = deadline_ms - self._clock.monotonic_ms()
            if wait_ms <= 0:
                return False
            self.poll(wait_ms)
            left = [pending for pending in left if not pending.done]
        return True

    def check_no_login(self, address: Address, timeout_ms: int) -> None:
        """Ask a broker that closed a connection without a login at the first request whether it wants one.

        Raises:
            AuthenticationError: it does. Where it gives no answer, the reason is another one.
        """
        from pkafka.clients.connect_failures import wants_login
        from pkafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

        pending = self.send(address, SaslHandshakeRequest(mechanism=""), timeout_ms=timeout_ms)
        self.wait([pending], deadline_ms=self._clock.monotonic_ms() + timeout_ms + 50)
        if isinstance(pending.response, SaslHandshakeResponse):
            refused = wants_login(address, pending.response, self._config.security_protocol)
            if refused is not None:
                raise refused

    def can_send(self, address: Address, *, in_flight_max: int) -> bool:
        """Whether a request to this broker would go out now, not wait behind others, a back-off or a throttle."""
        if self.throttle_ms(address):
            return False
        connection = self._connections.get(address)
        if connection is None:
            return self.backoff_ms(address) == 0
        return connection.in_flight_count < in_flight_max and connection.unsent_count < 2

    def is_ready(self, address: Address) -> bool:
        """Whether a request to this broker would go out at once; begins to connect where that is possible."""
        connection = self._connections.get(address)
        if connection is None:
            if self._closed or self.backoff_ms(address):
                return False
            if not self.may_connect:
                self._wished_to_connect = True
                return False
            try:
                connection = self._connect(address)
            except ConnectError:
                self._note_failure(address)
                return False
            self._watch(connection)
        return connection.state is ConnectionState.READY and not self.throttle_ms(address)

    @property
    def is_calm(self) -> bool:
        """Whether there are connections, and requests go out on all of them at once."""
        ready = ConnectionState.READY
        return bool(self._connections) and all(
            each.state is ready and not each.is_held for each in self._connections.values()
        )

    def take_wish_to_connect(self) -> bool:
        """Whether :meth:`is_ready` would have connected since this was called last."""
        wished, self._wished_to_connect = self._wished_to_connect, False
        return wished

    def wait_ms(self, timeout_ms: int) -> int:
        """How long of ``timeout_ms`` there is nothing to do here if nothing comes; 0 or less where something is due."""
        now_ms = self._clock.monotonic_ms()
        wait_ms = min(timeout_ms, _POLL_MS_MAX)
        for connection in self._connections.values():
            deadline_ms = connection.deadline_ms
            if deadline_ms is not None:
                wait_ms = min(wait_ms, deadline_ms - now_ms)
        for until_ms in self._throttled.values():
            wait_ms = min(wait_ms, until_ms - now_ms)
        return wait_ms

    def fileno(self) -> int:
        """A descriptor that can be read when :meth:`poll` would find something."""
        return self._selector.fileno()

    def backoff_ms(self, address: Address) -> int:
        """How long to wait before connecting to this broker again."""
        _, not_before = self._failures.get(address, (0, 0))
        return max(0, not_before - self._clock.monotonic_ms())

    def throttle_ms(self, address: Address) -> int:
        """For how long nothing is sent to this broker, because its last answers asked for that."""
        if not self._throttled:
            return 0
        return max(0, self._throttled.get(address, 0) - self._clock.monotonic_ms())

    def in_flight_count(self, address: Address) -> int:
        """Requests to this broker that are not answered."""
        connection = self._connections.get(address)
        return connection.in_flight_count if connection is not None else 0

    def connection(self, address: Address) -> Connection | None:
        """The open connection to this broker, if there is one."""
        return self._connections.get(address)

    def enable_wakeup(self) -> None:
        """Make :meth:`wakeup` work; clients of one thread save the two descriptors."""
        if self._wakeup_pair is None:
            self._wakeup_pair = socket.socketpair()
            for end in self._wakeup_pair:
                end.setblocking(False)
            self._selector.register(self._wakeup_pair[0], selectors.EVENT_READ, None)

    def wakeup(self) -> None:
        """End a :meth:`poll` that is under way in another thread, or the next one; callable from anywhere."""
        if self._wakeup_pair is not None:
            try:
                self._wakeup_pair[1].send(b"\0")
            except (BlockingIOError, OSError):
                return  # full: a wake-up is under way already; closed: no thread sleeps

    def disconnect(self, address: Address) -> None:
        """Drop the connection to a broker, failing what is under way on it."""
        connection = self._connections.get(address)
        if connection is not None:
            connection.close(DisconnectedError(f"the connection to {address} was dropped by this client"))
            self._watch(connection)

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._closed = True
        with contextlib.ExitStack() as stack:
            # Whatever the callbacks of requests under way raise, no socket stays open.
            stack.callback(self._selector.close)
            for end in self._wakeup_pair or ():
                stack.callback(end.close)
            self._wakeup_pair = None
            for connection in list(self._connections.values()):
                stack.callback(self._watch, connection)
                stack.callback(connection.close)

    # -- inside -------------------------------------------------------------------------------------------

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is not None:
            return connection
        config = self._config
        count, _ = self._failures.get(address, (0, 0))
        setup_ms = min(
            config.socket_connection_setup_timeout_ms * 2 ** min(count, 10),
            config.socket_connection_setup_timeout_max_ms,
        )
        connection = Connection(
            address,
            client_id=config.client_id,
            clock=self._clock,
            setup_timeout_ms=setup_ms,
            # As in Kafka: the time of the set-up is over with TCP, and ApiVersions is a request as others are.
            handshake_timeout_ms=config.request_timeout_ms,
            # Kafka's defaults would make broker and client take turns: the system knows better.
            send_buffer_bytes=config.send_buffer_bytes if config.is_set("send_buffer_bytes") else -1,
            receive_buffer_bytes=config.receive_buffer_bytes if config.is_set("receive_buffer_bytes") else -1,
            security=self.security,
        )
        self._connections[address] = connection
        connection.meter = self._metrics
        connection.on_throttled = self._throttle
        connection.is_held = address in self._throttled
        if self._metrics is not None:
            self._metrics.opened()
        return connection

    def _watch(self, connection: Connection) -> None:
        """Bring the selector in line with what the connection wants now."""
        before = self._registered.get(connection)
        if connection.state is ConnectionState.CLOSED:
            if before is not None:
                self._selector.unregister(before[0])
                del self._registered[connection]
            if self._connections.get(connection.address) is connection:
                del self._connections[connection.address]
                if self._metrics is not None:
                    self._metrics.ended()
                if connection.failure is not None:
                    self._note_failure(connection.address)
            return
        if connection.state is ConnectionState.READY:
            self._failures.pop(connection.address, None)
            if connection.features.epoch > self.features.epoch:
                self.features = connection.features
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_write else 0)
        wanted = (connection.fileno(), mask)
        if wanted == before:
            return
        if before is None:
            self._forget_stale(wanted[0])
            self._selector.register(wanted[0], mask, connection)
        elif before[0] == wanted[0] and connection.state is not ConnectionState.CONNECTING:
            self._selector.modify(wanted[0], mask, connection)
        else:
            # Another address of the same name is being tried on a new socket, maybe with the old number.
            self._selector.unregister(before[0])
            self._selector.register(wanted[0], mask, connection)
        self._registered[connection] = wanted

    def _forget_stale(self, descriptor: int) -> None:
        """A callback of a dying connection may open a new one, which gets the descriptor just closed."""
        stale = self._selector.get_map().get(descriptor)
        if stale is not None:
            self._selector.unregister(descriptor)
            self._registered.pop(stale.data, None)

    def _throttle(self, address: Address, throttle_ms: int) -> None:
        until_ms = self._clock.monotonic_ms() + throttle_ms
        self._throttled[address] = max(until_ms, self._throttled.get(address, 0))
        connection = self._connections.get(address)
        if connection is not None:
            connection.is_held = True

    def _release(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for address in [each for each, until_ms in self._throttled.items() if until_ms <= now_ms]:
            del self._throttled[address]
            connection = self._connections.get(address)
            if connection is not None:
                connection.release(now_ms)
                self._watch(connection)

    def _expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        idle_max_ms = self._config.connections_max_idle_ms
        for connection in list(self._connections.values()):
            deadline_ms = connection.deadline_ms
            if deadline_ms is not None and deadline_ms <= now_ms:
                connection.expire(now_ms)
                self._watch(connection)
            elif deadline_ms is None and 0 <= idle_max_ms <= now_ms - connection.idle_since_ms:
                connection.close()  # no request waits for an answer on it
                self._watch(connection)

    def _note_failure(self, address: Address) -> None:
        import random

        count, _ = self._failures.get(address, (0, 0))
        ceiling_ms = self._config.reconnect_backoff_max_ms
        backoff_ms = min(self._config.reconnect_backoff_ms * 2 ** min(count, 20), ceiling_ms)
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 - spreads reconnects, guards nothing
        not_before = self._clock.monotonic_ms() + int(backoff_ms * jitter)
        self._failures[address] = (count + 1, not_before)

    def _drain_wakeup(self) -> None:
        assert self._wakeup_pair is not None
        try:
            while self._wakeup_pair[0].recv(4096):
                pass
        except BlockingIOError:
            return


def _security(config: ClientConfig, clock: Clock) -> "Security | None":
    """What secures the connections; None, and nothing loaded, for PLAINTEXT."""
    if config.security_protocol == "PLAINTEXT":
        return None
    from pkafka.clients.security import Security

    return Security(config, clock)
