"""The watches of one term of office: each puts an event into the controller's queue."""

from collections.abc import Callable

from pkafka.coordination.store import Store, Watch
from pkafka.server.controller.events import Event


class Watches:
    """Holds at most one watch for each path. For the controller thread.

    Args:
        store: the store of the present session.
        put: queues an event; called on a thread of the store.
    """

    def __init__(self, store: Store, put: Callable[[Event], None]) -> None:
        self._store = store
        self._put = put
        self._watches: dict[str, Watch] = {}

    def watch_children(self, path: str, event: Event) -> None:
        """Queue ``event`` when a child of the node is made or removed."""
        if path not in self._watches:
            self._watches[path] = self._store.watch_children(path, lambda _: self._put(event))

    def watch_data(self, path: str, event: Event) -> None:
        """Queue ``event`` when the node is made, changed or removed."""
        if path not in self._watches:
            self._watches[path] = self._store.watch_data(path, lambda _: self._put(event))

    def unwatch(self, path: str) -> None:
        """End the watch of a path, if there is one."""
        watch = self._watches.pop(path, None)
        if watch is not None:
            watch.unwatch()

    def end(self) -> None:
        """End all watches."""
        for watch in self._watches.values():
            watch.unwatch()
        self._watches.clear()
