"""The consumer's way to the brokers: requests as futures, three ways to poll, two threads that take turns.

The application's thread does everything while it is inside the consumer. While it is away, the heartbeat thread may
enter, for moments; the :class:`Gate` lets one in at a time and makes the heartbeat thread give way.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from pkafka.clients.cluster import Cluster
from pkafka.clients.connection import Address, Pending
from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.errors import WakeupError
from pkafka.protocol.schema import Message

R = TypeVar("R", bound=Message)
_IDLE_MS: Final = 60_000


class Gate:
    """One thread at a time inside a consumer.

    Args:
        interrupt: makes the background thread end its wait on the network.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._depth = 0
        self.is_wanted = False
        """Whether the application waits for the background thread to leave."""
        self.in_background = False

    def enter(self) -> None:
        """The application comes in; again, where it is in already."""
        if self._depth == 0 and not self._lock.acquire(blocking=False):
            self.is_wanted = True
            self._interrupt()
            self._lock.acquire()
            self.is_wanted = False
        self._depth += 1

    def leave(self) -> None:
        """The application goes."""
        self._depth -= 1
        if self._depth == 0:
            self._lock.release()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Let code of the user's run, which may take its time and may call the consumer."""
        depth, self._depth = self._depth, 0
        self._lock.release()
        try:
            yield
        finally:
            self.enter()
            self._depth = depth

    def enter_in_background(self) -> bool:
        """The background thread comes in, unless the application is in or waits."""
        if self.is_wanted or not self._lock.acquire(blocking=False):
            return False
        self.in_background = True
        return True

    def leave_in_background(self) -> None:
        """The background thread goes."""
        self.in_background = False
        self._lock.release()


class ConsumerNetwork:
    """Sends requests for the consumer, and lets it wait.

    Args:
        cluster: whose connections and clock are used; its owner polls nothing else.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.gate = Gate(cluster.network.wakeup)
        self.background: Callable[[int], int] = lambda now_ms: _IDLE_MS
        """What must happen in time whatever is waited for: given the time, returns how long it has none."""
        self._woken = False
        self._wakeups_off = 0
        cluster.network.enable_wakeup()
        cluster.network.before_poll = self._before_poll

    @property
    def now_ms(self) -> int:
        """The monotonic time, in milliseconds."""
        return self.cluster.clock.monotonic_ms()

    def send(
        self,
        address: Address,
        message: Message,
        response_type: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> RequestFuture[R]:
        """Send a request; never waits.

        Args:
            timeout_ms: how long the answer may take; ``request.timeout.ms`` when left out.

        Returns:
            Its answer, or what went wrong on the way.
        """
        future: RequestFuture[R] = RequestFuture()
        self.cluster.network.send(
            address,
            message,
            timeout_ms=timeout_ms,
            max_version=max_version,
            on_done=partial(_settle, future, response_type),
        )
        return future

    def poll_now(self) -> None:
        """Send and receive what can be without waiting; does not wake up."""
        with self.without_wakeup():
            self.cluster.network.poll(0)

    def poll(self, timeout_ms: int) -> None:
        """Wait for something to happen, at most so long.

        Raises:
            WakeupError: another thread called :meth:`wakeup`.
        """
        self.cluster.network.poll(timeout_ms)
        self.raise_if_woken()

    def poll_until(self, future: RequestFuture[Any], deadline_ms: int) -> bool:
        """Wait until a future is done or the deadline passes.

        Looks at what has arrived already even where the deadline has passed.

        Returns:
            Whether it is done.

        Raises:
            WakeupError: another thread called :meth:`wakeup`.
        """
        while not future.done:
            left_ms = deadline_ms - self.now_ms
            self.poll(max(0, left_ms))
            if left_ms <= 0:
                break
        return future.done

    def sleep_until(self, at_ms: int) -> None:
        """Wait, polling meanwhile.

        Raises:
            WakeupError: another thread called :meth:`wakeup`.
        """
        while (left_ms := at_ms - self.now_ms) > 0:
            self.poll(left_ms)

    def wakeup(self) -> None:
        """Make the wait under way, or the next one, raise ``WakeupError``; from any thread or signal handler."""
        self._woken = True
        self.cluster.network.wakeup()

    def raise_if_woken(self) -> None:
        """Raise for a wake-up that came meanwhile, once.

        Raises:
            WakeupError: another thread called :meth:`wakeup`.
        """
        if self._woken and not self._wakeups_off:
            self._woken = False
            raise WakeupError("the consumer was woken up")

    def forget_wakeup(self) -> None:
        """Take back a wake-up that no wait has seen."""
        self._woken = False

    @contextmanager
    def without_wakeup(self) -> Iterator[None]:
        """Keep wake-ups for later."""
        self._wakeups_off += 1
        try:
            yield
        finally:
            self._wakeups_off -= 1

    # -- inside -------------------------------------------------------------------------------------------

    def _before_poll(self) -> int:
        if not self.gate.in_background:
            self.raise_if_woken()
        return self.background(self.now_ms)


class HeartbeatThread:
    """Enters the consumer when something is due while the application is away.

    Args:
        net: its gate is used, and its background work done.
        is_busy: whether an answer is waited for that must not wait for the application.
        name: of the thread.
    """

    # While the application is inside it does the work itself; this only looks whether it has gone.
    _LOOK_MS: Final = 100
    _WAIT_MS_MAX: Final = 1_000

    def __init__(self, net: ConsumerNetwork, is_busy: Callable[[], bool], name: str) -> None:
        self._net = net
        self._is_busy = is_busy
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; the caller is not inside the gate."""
        self._stopped.set()
        self._net.cluster.network.wakeup()
        self._thread.join()

    def _run(self) -> None:
        wait_ms = 0
        while not self._stopped.wait(wait_ms / 1000):
            wait_ms = self._work()

    def _work(self) -> int:
        gate = self._net.gate
        if not gate.enter_in_background():
            return self._LOOK_MS
        try:
            wait_ms = self._net.background(self._net.now_ms)
            while self._is_busy() and not gate.is_wanted and not self._stopped.is_set():
                self._net.cluster.network.poll(self._LOOK_MS)
                wait_ms = self._net.background(self._net.now_ms)
        finally:
            gate.leave_in_background()
        return min(max(wait_ms, 1), self._WAIT_MS_MAX)


def _settle(future: RequestFuture[R], response_type: type[R], pending: Pending) -> None:
    if pending.error is not None:
        future.fail(pending.error)
        return
    assert isinstance(pending.response, response_type)
    future.complete(pending.response)
