"""Standing watches made of ZooKeeper's one-shot watches, armed again on a thread of their own.

They are armed before they are delivered, so a change that comes after what the receiver then reads fires again.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

from pkafka.coordination.store import (
    ConnectionLossError,
    NoNodeError,
    StoreError,
    WatchCallback,
    WatchEvent,
    WatchKind,
)

Untyped: TypeAlias = Any
Read: TypeAlias = Callable[[str, Callable[[Untyped], Untyped]], Untyped]
"""Sends the request that the function given makes of a kazoo client, and waits; again after connection loss."""

_CLOSE_TIMEOUT_S: Final = 10.0
News = TypeVar("News")

logger = logging.getLogger(__name__)


class ZooKeeperWatch:
    """One standing watch, made of a row of ZooKeeper's one-shot watches."""

    def __init__(self, watches: "Watches", event: WatchEvent, full: str, callback: WatchCallback) -> None:
        self._watches = watches
        self._event = event
        self._full = full
        self._callback: WatchCallback | None = callback

    def unwatch(self) -> None:
        self._callback = None
        self._watches.discard(self)

    def arm(self, read: Read) -> None:
        """Set the one-shot watch; arming twice is harmless, kazoo keeps one."""
        if self._event.kind is WatchKind.DATA:
            read(self._full, lambda client: client.exists_async(self._full, self._fired))
            return
        while True:
            try:
                read(self._full, lambda client: client.get_children_async(self._full, self._fired))
                return
            except NoNodeError:
                # Wait for the node itself, unless it has come just now.
                if read(self._full, lambda client: client.exists_async(self._full, self._fired)) is None:
                    return

    def deliver(self) -> None:
        callback = self._callback
        if callback is not None:
            deliver(callback, self._event)

    @property
    def standing(self) -> bool:
        return self._callback is not None

    def _fired(self, event: Untyped) -> None:
        # NONE only says that the connection went away: every watch is armed again after a reconnect.
        if event.type != "NONE":
            self._watches.fired(self)


class Watches:
    """All watches of a store and the thread that arms them again and delivers."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._standing: set[ZooKeeperWatch] = set()
        self._due: dict[ZooKeeperWatch, None] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, event: WatchEvent, full: str, callback: WatchCallback) -> ZooKeeperWatch:
        watch = ZooKeeperWatch(self, event, full, callback)
        with self._changed:
            self._standing.add(watch)  # before it is armed, so that a reconnect meanwhile covers it
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="store-watches", daemon=True)
                self._thread.start()
        try:
            watch.arm(self._read)
        except BaseException:
            watch.unwatch()
            raise
        return watch

    def discard(self, watch: ZooKeeperWatch) -> None:
        with self._changed:
            self._standing.discard(watch)
            self._due.pop(watch, None)

    def fired(self, watch: ZooKeeperWatch) -> None:
        with self._changed:
            if watch in self._standing:
                self._due[watch] = None
                self._changed.notify()

    def rearm_all(self) -> None:
        with self._changed:
            self._due.update(dict.fromkeys(self._standing))
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._standing.clear()
            self._due.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._closed)
                if self._closed:
                    return
                watch = next(iter(self._due))
                del self._due[watch]
            try:
                watch.arm(self._read)
            except ConnectionLossError:
                self.fired(watch)  # nothing may be missed: again, once there is a connection
                continue
            except StoreError:
                logger.debug("a watch ended with its session", exc_info=True)
                continue
            watch.deliver()


def deliver(callback: Callable[[News], None], news: News) -> None:
    """Call a callback; what it raises is logged."""
    try:
        callback(news)
    except Exception:  # a faulty callback must not end the events of all others
        logger.exception("a callback of the coordination store failed")
