"""Time, chance and the processes of a simulated cluster.

Every simulated process has an event loop of its own, which the real code takes for asyncio's. The world decides which
loop runs next and moves the time when none has anything to do, so that a seed determines everything that happens.
What a process would do in a thread runs as a fiber: a thread of the machine that runs only while all else stands
still, and that gives way where it would wait.
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
import random
import select
import threading
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from tests.sim.network import Network

log = logging.getLogger("sim")

T = TypeVar("T")

EPOCH_MS: Final = 1_700_000_000_000
_TURN_MAX_S: Final = 0.0004
"""What a turn of an event loop takes at the most."""
_SWITCH_MAX_S: Final = 0.001
_NOTICED_S: Final = 1.0


class Violation(AssertionError):
    """The real code broke a promise, or failed in a way that it must not."""


class ProcessEnded(BaseException):
    """Unwinds the stack of a simulated process that has just ended."""


class World:
    """See the module.

    Args:
        seed: decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_s = 1000.0
        self.began_s = self.now_s
        self.loops: list[Loop] = []
        self.running: Loop | None = None
        self.fiber: Fiber | None = None
        self.network: Network
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.steps = 0
        self._poller = select.epoll()
        self._by_fd: dict[int, Loop] = {}
        self._numbers = itertools.count()
        self._idle_threads: list[_Thread] = []
        self._threads: list[_Thread] = []
        self.god = Loop(self, "world")
        """The loop of everything that is no process: the network, the store, the faults."""

    # -- time --

    @property
    def elapsed_s(self) -> float:
        """Since the world began."""
        return self.now_s - self.began_s

    def now_ms(self) -> int:
        """The wall clock of all machines."""
        return EPOCH_MS + int(self.now_s * 1000)

    def monotonic_ms(self) -> int:
        """The monotonic clock of all machines."""
        return int(self.now_s * 1000)

    def after(self, delay_s: float, call: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Something happens in the world, by itself."""
        return self.god.call_later(delay_s, call, *args)

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.elapsed_s:10.4f} {text}")

    def violated(self, text: str) -> None:
        """Something must not have happened."""
        self.note(f"VIOLATION {text}")
        self.violations.append(f"at {self.elapsed_s:.4f} s: {text}")

    # -- running --

    def run(self, until: Callable[[], bool], *, at_most_s: float) -> bool:
        """Let things happen until a condition holds or so much time has passed; says whether it holds.

        It ends at once when something was violated.
        """
        deadline_s = self.now_s + at_most_s
        while not self.violations:
            if until():
                return True
            if self.now_s >= deadline_s:
                return False
            self._step(deadline_s)
        return False

    def _step(self, deadline_s: float) -> None:
        self.steps += 1
        ready: dict[Loop, list[int]] = {}
        for fd, _mask in self._poller.poll(0):
            loop = self._by_fd.get(fd)
            if loop is not None:
                ready.setdefault(loop, []).append(fd)
        candidates = [
            loop for loop in self.loops if loop.wakes_s <= self.now_s and (loop in ready or loop.has_work())
        ]
        if not candidates:
            moments = [
                moment for loop in self.loops if (moment := loop.next_s(has_events=loop in ready)) is not None
            ]
            self.now_s = max(self.now_s, min([*moments, deadline_s]))
            return
        loop = candidates[self.random.randrange(len(candidates))] if len(candidates) > 1 else candidates[0]
        self.running = loop
        events._set_running_loop(loop)
        try:
            loop.turn(ready.get(loop, []))
        finally:
            events._set_running_loop(None)
            self.running = None

    def watch_fd(self, loop: "Loop", fd: int, mask: int, *, known: bool) -> None:
        """For loops: wait for a descriptor, 0 to wait no more."""
        if not mask:
            if known:
                self._by_fd.pop(fd, None)
                with contextlib.suppress(OSError, ValueError):
                    self._poller.unregister(fd)
            return
        self._by_fd[fd] = loop
        if known:
            self._poller.modify(fd, mask)
        else:
            self._poller.register(fd, mask)

    # -- fibers --

    def start_fiber(
        self, loop: "Loop", call: Callable[[], object], done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Run what would run in a thread of a process; ``done`` is called on its loop."""
        fiber = Fiber(self, loop, call, done)
        loop.fibers[fiber] = None
        self.after(self.random.random() * _SWITCH_MAX_S, fiber.resume)

    def thread(self) -> "_Thread":
        """For fibers: a thread of the machine that is free."""
        if self._idle_threads:
            return self._idle_threads.pop()
        thread = _Thread(self._idle_threads)
        self._threads.append(thread)
        return thread

    def close(self) -> None:
        """End everything."""
        for loop in list(self.loops):
            loop.kill()
        for thread in self._threads:
            thread.end()
        self._poller.close()

    def next_number(self) -> int:
        """For whatever has to be told apart."""
        return next(self._numbers)


class _Thread:
    """A thread of the machine that runs one fiber after the other, each step while its caller waits."""

    def __init__(self, idle: "list[_Thread]") -> None:
        self._idle = idle
        self._go = threading.Semaphore(0)
        self._stands = threading.Semaphore(0)
        self._work: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="fiber")
        self._thread.start()

    def begin(self, work: Callable[[], None]) -> None:
        self._work = work
        self.go_on()

    def go_on(self) -> None:
        self._go.release()
        self._stands.acquire()

    def stand(self) -> None:
        """On the thread itself: let the world go on until somebody calls go_on."""
        self._stands.release()
        self._go.acquire()

    def end(self) -> None:
        self._work = None
        self._go.release()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self._work is None:
                return
            self._work()
            self._idle.append(self)
            self._stands.release()


class Fiber:
    """Something that a process does in a thread."""

    def __init__(
        self,
        world: World,
        loop: "Loop",
        call: Callable[[], object],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        self.world = world
        self.loop = loop
        self._call = call
        self._done = done
        self._thread: _Thread | None = None
        self._ended = False

    def resume(self) -> None:
        """Run it until it waits or ends; not while its process is stopped."""
        if self._ended:
            return
        if self.loop.alive and self.loop.wakes_s > self.world.now_s:
            self.world.god.call_at(self.loop.wakes_s, self.resume)
            return
        self.world.fiber, before = self, self.world.fiber
        # A thread knows no event loop.
        running = events._get_running_loop()
        try:
            if self._thread is None:
                self._thread = self.world.thread()
                self._thread.begin(self._run)
            else:
                self._thread.go_on()
        finally:
            self.world.fiber = before
            events._set_running_loop(running)

    def _run(self) -> None:
        result: object = None
        error: BaseException | None = None
        try:
            if self.loop.alive:
                result = self._call()
        except ProcessEnded:
            pass
        except BaseException as caught:  # noqa: BLE001 - the loop gets it
            error = caught
        self._ended = True
        self.loop.fibers.pop(self, None)
        if self.loop.alive:
            self.loop.call_soon(self._done, result, error)

    def sleep(self, delay_s: float) -> None:
        """On the fiber: let time pass.

        Raises:
            ProcessEnded: its process has ended meanwhile.
        """
        assert self._thread is not None
        self.world.after(delay_s, self.resume)
        self._thread.stand()
        if not self.loop.alive:
            raise ProcessEnded

    def kill(self) -> None:
        """Its process has ended: unwind it."""
        if self._thread is None:
            self._ended = True
        elif not self._ended and self.world.fiber is not self:
            self.resume()


_AnyLoop: Any = asyncio.AbstractEventLoop
"""Without the signatures of all that no code of ours calls."""


class Loop(_AnyLoop):  # type: ignore[misc]
    """The event loop of one simulated process.

    Args:
        world: which runs it.
        name: of the process, for the trace.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.wakes_s = 0.0
        """Stopped until then."""
        self.fibers: dict[Fiber, None] = {}
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.on_kill: list[Callable[[], None]] = []
        """Gives back what the kernel would."""
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._readers: dict[int, tuple[int, asyncio.Handle]] = {}
        self._writers: dict[int, tuple[int, asyncio.Handle]] = {}
        self._masks: dict[int, int] = {}
        world.loops.append(self)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    # -- for the world --

    def has_work(self) -> bool:
        """Whether a turn would run anything, descriptors aside."""
        if self._ready:
            return True
        self._drop_cancelled()
        return bool(self._timers) and self._timers[0][0] <= self.world.now_s

    def next_s(self, *, has_events: bool) -> float | None:
        """When it will have something to do; None: not by itself."""
        self._drop_cancelled()
        if self._ready or has_events:
            due_s = self.world.now_s
        elif self._timers:
            due_s = self._timers[0][0]
        else:
            return None
        return max(due_s, self.wakes_s)

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)

    def turn(self, ready_fds: list[int]) -> None:
        """Run everything that is due now, once."""
        found = [self._readers[fd] for fd in ready_fds if fd in self._readers]
        found += [self._writers[fd] for fd in ready_fds if fd in self._writers]
        for _, handle in sorted(found, key=lambda pair: pair[0]):
            self._ready.append(handle)
        while self._timers and self._timers[0][0] <= self.world.now_s:
            self._ready.append(heapq.heappop(self._timers)[2])
        for _ in range(len(self._ready)):
            if not self.alive:
                return
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()
        if self is not self.world.god:
            self.wakes_s = max(self.wakes_s, self.world.now_s + self.world.random.random() * _TURN_MAX_S)

    def stop_for(self, seconds: float) -> None:
        """Stand still for a while (SIGSTOP, a machine that is suspended)."""
        self.wakes_s = max(self.wakes_s, self.world.now_s + seconds)

    def kill(self) -> None:
        """The process ends: nothing of it runs any more, and what the kernel held for it is given back."""
        if not self.alive:
            return
        self.alive = False
        self.world.loops.remove(self)
        self._ready.clear()
        self._timers.clear()
        for fiber in list(self.fibers):
            fiber.kill()
        for fd in list(self._masks):
            self.world.watch_fd(self, fd, 0, known=True)
        self._masks.clear()
        for give_back in self.on_kill:
            give_back()
        for task in list(self.tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            if isinstance(coroutine, Coroutine) and not getattr(coroutine, "cr_running", False):
                with contextlib.suppress(BaseException):
                    coroutine.close()

    # -- asyncio's event loop --

    def time(self) -> float:
        return self.world.now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.alive:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Any,
        *args: Any,
        context: Any = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.world.now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Any,
        *args: Any,
        context: Any = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if self.alive:
            heapq.heappush(self._timers, (when, self.world.next_number(), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Left in the heap until its time."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        if self.alive:
            self.tasks[task] = None
            task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.pop(task, None)
        if self.alive and task._exception is not None:
            self.call_later(_NOTICED_S, self._check_noticed, task)

    def _check_noticed(self, task: "asyncio.Task[Any]") -> None:
        """An exception of a task that nobody has looked at is one that went by unnoticed."""
        if task._log_traceback:
            error = task.exception()
            log.error("a task failed and nobody noticed", exc_info=error)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":
        future = self.create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.world.start_fiber(self, lambda: func(*args), done)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.alive or isinstance(error, ProcessEnded):
            return
        log.error("%s", context.get("message"), exc_info=error)

    # -- descriptors: those of real socket pairs --

    def add_reader(self, fd: int, callback: Any, *args: Any) -> None:
        self._readers[fd] = self.world.next_number(), asyncio.Handle(callback, args, self)
        self._watch(fd)

    def remove_reader(self, fd: int) -> bool:
        was = self._readers.pop(fd, None) is not None
        self._watch(fd)
        return was

    def add_writer(self, fd: int, callback: Any, *args: Any) -> None:
        self._writers[fd] = self.world.next_number(), asyncio.Handle(callback, args, self)
        self._watch(fd)

    def remove_writer(self, fd: int) -> bool:
        was = self._writers.pop(fd, None) is not None
        self._watch(fd)
        return was

    def _watch(self, fd: int) -> None:
        mask = (select.EPOLLIN if fd in self._readers else 0) | (
            select.EPOLLOUT if fd in self._writers else 0
        )
        if not self.alive or self._masks.get(fd, 0) == mask:
            return
        self.world.watch_fd(self, fd, mask, known=fd in self._masks)
        if mask:
            self._masks[fd] = mask
        else:
            self._masks.pop(fd, None)

    # -- the network: simulated --

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return self.world.network.addresses(host, port)

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.world.network.create_connection(self, factory, host, port)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        await self.world.network.sock_connect(self, sock, address)

    async def sock_recv(self, sock: Any, nbytes: int) -> bytes:
        return await self.world.network.sock_recv(sock)
