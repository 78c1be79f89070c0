"""The event loop of the broker's processes: asyncio's own, with a :class:`Poller` that calls readers and writers."""

import asyncio
import select
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVarTuple, cast

from pkafka.net.poller import Callback, Poller

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_Args = TypeVarTuple("_Args")


class PolledEventLoop(asyncio.SelectorEventLoop):
    """Calls what is given to ``add_reader`` and ``add_writer`` without a detour.

    All else is asyncio's: its transports, ``sock_recv`` and signals come as ever. What a callback raises goes to the
    exception handler. A callback runs in the context of the loop, and not in the one in which it was given.
    """

    def __init__(self) -> None:
        self._poller = Poller(self._failed, self.call_soon)
        super().__init__(cast("Any", self._poller))
        self.time = monotonic  # type: ignore[method-assign]  # what asyncio's calls, without a frame of Python

    def add_reader(self, fd: "FileDescriptorLike", callback: Callable[[*_Args], Any], *args: *_Args) -> None:
        """As :meth:`asyncio.loop.add_reader`."""
        self._poller.set_reader(_descriptor(fd), _without_arguments(callback, *args))

    def remove_reader(self, fd: "FileDescriptorLike") -> bool:
        """As :meth:`asyncio.loop.remove_reader`; asyncio's own waiting for a socket ends by it, too."""
        had_one = self._poller.set_reader(_descriptor(fd), None)
        return (_descriptor(fd) in self._poller.get_map() and super().remove_reader(fd)) or had_one

    def add_writer(self, fd: "FileDescriptorLike", callback: Callable[[*_Args], Any], *args: *_Args) -> None:
        """As :meth:`asyncio.loop.add_writer`."""
        self._poller.set_writer(_descriptor(fd), _without_arguments(callback, *args))

    def remove_writer(self, fd: "FileDescriptorLike") -> bool:
        """As :meth:`asyncio.loop.remove_writer`; asyncio's own waiting for a socket ends by it, too."""
        had_one = self._poller.set_writer(_descriptor(fd), None)
        return (_descriptor(fd) in self._poller.get_map() and super().remove_writer(fd)) or had_one

    def _failed(self, callback: Callback, error: BaseException) -> None:
        self.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make the loop of a process; where there is no epoll it is the platform's own."""
    return PolledEventLoop() if hasattr(select, "epoll") else asyncio.new_event_loop()


def _descriptor(fd: "FileDescriptorLike") -> int:
    return fd if isinstance(fd, int) else fd.fileno()


def _without_arguments(callback: Callable[[*_Args], Any], *args: *_Args) -> Callback:
    return partial(callback, *args) if args else cast("Callback", callback)
