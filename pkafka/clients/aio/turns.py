"""A consumer's calls from coroutines: one at a time, and a poll gives way to the others.

The consumer is inside one thread, the :class:`CallThread`'s. Where a rebalance happens in a call, that thread waits
for the listener, and makes the calls meanwhile that the listener awaits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from pkafka.clients.aio.call_thread import CallThread
from pkafka.clients.aio.undelivered import Undelivered
from pkafka.clients.consumer.consumer import Consumer
from pkafka.clients.consumer.records import ConsumerRecord
from pkafka.clients.errors import ClosedError, WakeupError
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import TopicPartition

T = TypeVar("T")


class Core(Consumer):
    """What stands behind the front end needs to know of the consumer."""

    def forget_wakeup(self) -> None:
        """Take back a ``wakeup()`` that came too late; not while a call is under way."""
        self._net.forget_wakeup()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions, as a commit without offsets stores them."""
        return dict(self._subscription.all_consumed())

    def seek_back(self, offsets: dict[TopicPartition, int]) -> None:
        """Go back to these offsets, where the partition is still assigned."""
        assigned = set(self.assignment())
        for partition, offset in offsets.items():
            if partition in assigned:
                self.seek(partition, offset)


class _Telling:
    """A listener that is being told of a rebalance."""

    def __init__(self, turns: "Turns") -> None:
        self.turns: Turns | None = turns
        self.error: BaseException | None = None


_telling: ContextVar[_Telling | None] = ContextVar("telling", default=None)


class Turns:
    """The calls of one consumer. All methods but :meth:`tell` are called on the loop's thread."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.core = core
        self.undelivered = Undelivered()
        self._loop = loop
        self._thread = CallThread(loop, name)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._wanting = 0
        """How many calls wait for their turn, or have it."""
        self._is_polling = False
        self._was_woken = False
        self._is_wanted: Callable[[], bool] = lambda: True

    @property
    def is_telling(self) -> bool:
        """Whether the running coroutine is a listener that a call of this consumer waits for."""
        telling = _telling.get()
        return telling is not None and telling.turns is self

    def begin(self, work: Awaitable[T]) -> "asyncio.Task[T]":
        """Have a coroutine run to its end, whoever waits for it."""

        async def run() -> T:
            return await work

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def call(self, function: Callable[[Core], T], *, back: Collection[TopicPartition] | None = ()) -> T:
        """Make a call, in its turn; cancelled meanwhile, it is made all the same.

        Args:
            back: partitions whose undelivered records are given back first; None: all.
        """

        def prepare() -> Callable[[Core], T]:
            offsets = {} if back == () else self.undelivered.give_back(back)

            def give_back_and_call(core: Core) -> T:
                core.seek_back(offsets)
                return function(core)

            return give_back_and_call

        return await self._call(prepare)

    async def call_beside(self, function: Callable[[Core, dict[TopicPartition, int]], T]) -> T:
        """As :meth:`call`, for what depends on what was delivered.

        Args:
            function: gets, of every partition with undelivered records, the offset of the first one.
        """

        def prepare() -> Callable[[Core], T]:
            first = self.undelivered.first_offsets()  # here on the loop, where others take records meanwhile
            return lambda core: function(core, first)

        return await self._call(prepare)

    async def poll(self, timeout_ms: int, is_wanted: Callable[[], bool]) -> bool:
        """Poll in its turn; records become undelivered ones.

        Args:
            is_wanted: whether anybody waits for records still.

        Returns:
            Whether the poll came to its own end; False where it had to give way.

        Raises:
            Exception: what the poll raised.
        """
        async with self._turn:
            if not is_wanted():
                return False
            if self._wanting:
                timeout_ms = 0  # one round: others are next, but however many they are, this goes on
            self._is_wanted = is_wanted
            self._is_polling = not self._wanting
            gave_way = bool(self._wanting)
            records: list[ConsumerRecord] = []
            try:
                records = await self._thread.call(lambda: self.core.poll(timeout_ms))
            except WakeupError:
                return False
            finally:
                self._is_polling = False
                self._forget_wakeup()
            self.undelivered.add(records)
            return not gave_way

    def interrupt(self) -> None:
        """Make the poll under way give way."""
        if self._is_polling and not self._was_woken:
            self._was_woken = True
            self.core.wakeup()

    async def close(self, timeout_ms: int | None) -> None:
        """Give back what was not delivered, close the consumer, and end the thread."""
        try:
            await self.call(
                lambda core: core.close() if timeout_ms is None else core.close(timeout_ms), back=None
            )
        finally:
            self._thread.close()

    def tell(self, told: Callable[[], Awaitable[None]]) -> None:
        """Have a listener told on the loop, and make the calls meanwhile that it awaits; on the calling thread.

        Raises:
            Exception: what the listener raised.
        """
        telling = _Telling(self)
        try:
            self._loop.call_soon_threadsafe(lambda: self.begin(self._tell(told, telling)))
        except RuntimeError as error:
            raise ClosedError("the event loop is closed") from error
        self._thread.serve()
        if telling.error is not None:
            raise telling.error

    async def _tell(self, told: Callable[[], Awaitable[None]], telling: _Telling) -> None:
        try:
            with self._undisturbed():
                _telling.set(telling)
                await told()
        except asyncio.CancelledError as error:
            telling.error = ClosedError("the rebalance listener was cancelled")
            telling.error.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - the call under way raises it
            telling.error = error
        finally:
            telling.turns = None  # tasks that the listener left behind are callers as others
            self._thread.stop_serving()

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Keep calls that come from disturbing those that a listener makes."""
        was_polling, self._is_polling = self._is_polling, False
        self._forget_wakeup()
        try:
            yield
        finally:
            self._is_polling = was_polling
            if self._wanting or not self._is_wanted():
                self.interrupt()

    def _forget_wakeup(self) -> None:
        if self._was_woken:
            self._was_woken = False
            self.core.forget_wakeup()

    async def _call(self, prepare: Callable[[], Callable[[Core], T]]) -> T:
        """Make the call that ``prepare`` makes when its turn has come."""
        if self.is_telling:
            function = prepare()
            return await asyncio.shield(self._thread.call(lambda: function(self.core)))
        return await asyncio.shield(self.begin(self._in_turn(prepare)))

    async def _in_turn(self, prepare: Callable[[], Callable[[Core], T]]) -> T:
        self._wanting += 1
        self.interrupt()
        try:
            async with self._turn:
                function = prepare()
                return await self._thread.call(lambda: function(self.core))
        finally:
            self._wanting -= 1
