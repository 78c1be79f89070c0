"""Waits for descriptors, and calls who wants to know of them: what an event loop does most, without its detours.

asyncio makes a key, a handle and a call in a context of each socket that is ready. A worker has tens of thousands of
them a second; here each is one look into a table.
"""

import math
import select
from collections.abc import Callable, Mapping
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, SelectorKey
from typing import Final, TypeAlias

Callback: TypeAlias = Callable[[], object]
Found: TypeAlias = list[tuple[int, int]]
"""Descriptors, each with what epoll says of it."""

_READ: Final = 0x001  # EPOLLIN
_WRITE: Final = 0x004  # EPOLLOUT; what is neither (an error, the end) is told to both
_FOUND_MAX: Final = 1024
"""So many at a time: the kernel goes on with the others, and the memory for them is taken anew each time."""


class Poller:
    """An event loop's selector: for what the loop registers it is as a :class:`selectors.BaseSelector`.

    For what is given to :meth:`set_reader` and :meth:`set_writer` it calls back itself, while the loop selects.

    Args:
        failed: called with a callback and what it raised.
        later: has the loop call a function with its argument, behind what it was asked to call before.
    """

    def __init__(
        self,
        failed: Callable[[Callback, BaseException], None],
        later: Callable[[Callable[[Found], None], Found], object],
    ) -> None:
        self._failed = failed
        self._later = later
        self._epoll = select.epoll()
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._keys: dict[int, SelectorKey] = {}
        """What the loop registered."""
        self._masks: dict[int, int] = {}
        """What the kernel was told, by descriptor."""

    # -- with callbacks --

    def set_reader(self, fd: int, callback: Callback | None) -> bool:
        """Call a function back whenever a descriptor can be read; None: no longer.

        Returns:
            Whether there was one before.

        Raises:
            OSError: the descriptor cannot be polled.
        """
        return self._set(self._readers, fd, callback)

    def set_writer(self, fd: int, callback: Callback | None) -> bool:
        """As :meth:`set_reader`, when it can be written."""
        return self._set(self._writers, fd, callback)

    def _set(self, callbacks: dict[int, Callback], fd: int, callback: Callback | None) -> bool:
        had_one = fd in callbacks
        if callback is None:
            if had_one:
                del callbacks[fd]
                self._tell(fd)
            return had_one
        callbacks[fd] = callback
        if not had_one:
            try:
                self._tell(fd)
            except BaseException:
                del callbacks[fd]
                raise
        return had_one

    def _tell(self, fd: int) -> None:
        """Tell the kernel what of a descriptor is of interest now."""
        mask = 0
        key = self._keys.get(fd)
        if key is not None:
            mask = (_READ if key.events & EVENT_READ else 0) | (_WRITE if key.events & EVENT_WRITE else 0)
        if fd in self._readers:
            mask |= _READ
        if fd in self._writers:
            mask |= _WRITE
        before = self._masks.get(fd, 0)
        if mask == before:
            return
        if not mask:
            del self._masks[fd]
            with suppress(OSError):  # the kernel forgets what is closed by itself
                self._epoll.unregister(fd)
            return
        if before:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.register(fd, mask)
        self._masks[fd] = mask

    # -- what an event loop asks of its selector --

    def register(self, fd: int, events: int, data: object = None) -> SelectorKey:
        """As :meth:`selectors.BaseSelector.register`."""
        if fd in self._keys:
            raise KeyError(f"FD {fd} is already registered")
        key = self._keys[fd] = SelectorKey(fd, fd, events, data)
        try:
            self._tell(fd)
        except BaseException:
            del self._keys[fd]
            raise
        return key

    def modify(self, fd: int, events: int, data: object = None) -> SelectorKey:
        """As :meth:`selectors.BaseSelector.modify`."""
        self.get_key(fd)
        key = self._keys[fd] = SelectorKey(fd, fd, events, data)
        self._tell(fd)
        return key

    def unregister(self, fd: int) -> SelectorKey:
        """As :meth:`selectors.BaseSelector.unregister`."""
        key = self.get_key(fd)
        del self._keys[fd]
        self._tell(fd)
        return key

    def get_key(self, fd: int) -> SelectorKey:
        """As :meth:`selectors.BaseSelector.get_key`."""
        key = self._keys.get(fd)
        if key is None:
            raise KeyError(f"FD {fd} is not registered")
        return key

    def get_map(self) -> Mapping[int, SelectorKey]:
        """As :meth:`selectors.BaseSelector.get_map`."""
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """As :meth:`selectors.BaseSelector.select`: returns what the loop registered; calls back for the others."""
        wait_s = -1.0
        if timeout is not None:
            # epoll counts in milliseconds, and must not be early.
            wait_s = math.ceil(timeout * 1000) * 0.001 if timeout > 0 else 0.0
        found: Found = self._epoll.poll(wait_s, min(max(len(self._masks), 1), _FOUND_MAX))
        if not found:
            return []
        if wait_s:
            self._call_back(found)
        else:
            # Other calls are due. They come first, as in any loop: one may take from a socket what it announces here.
            self._later(self._call_back, found)
        return self._of_loop(found) if self._keys else []

    def _call_back(self, found: Found) -> None:
        readers, writers = self._readers, self._writers
        for fd, events in found:
            # Looked up one by one: a callback may take others away.
            if events & ~_WRITE:
                callback = readers.get(fd)
                if callback is not None:
                    self._call(callback)
            if events & ~_READ:
                callback = writers.get(fd)
                if callback is not None:
                    self._call(callback)

    def _call(self, callback: Callback) -> None:
        try:
            callback()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - an event loop goes on
            self._failed(callback, error)

    def _of_loop(self, found: Found) -> list[tuple[SelectorKey, int]]:
        ready = []
        for fd, events in found:
            key = self._keys.get(fd)
            if key is not None:
                of_key = (EVENT_READ if events & ~_WRITE else 0) | (EVENT_WRITE if events & ~_READ else 0)
                if of_key & key.events:
                    ready.append((key, of_key & key.events))
        return ready

    def close(self) -> None:
        """As :meth:`selectors.BaseSelector.close`."""
        self._epoll.close()
        self._readers.clear()
        self._writers.clear()
        self._keys.clear()
        self._masks.clear()
