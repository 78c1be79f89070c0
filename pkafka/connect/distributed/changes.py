"""Changes of the cluster's configuration that the herder's thread has not taken up yet.

The thread that reads the configuration topic puts them in, the herder's thread takes them out.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

from pkafka.connect.storage.config_state import (
    Change,
    ConnectorChanged,
    ConnectorRemoved,
    RestartAsked,
    SessionKeyChanged,
    TargetChanged,
    TasksChanged,
)


class Taken(NamedTuple):
    """What has changed since the last time."""

    needs_rebalance: bool
    """Whether there is more, less or other work than was shared out."""
    connectors: frozenset[str]
    """Those with a new configuration, which are known already."""
    targets: frozenset[str]
    """Connectors with a new target."""
    tasks: frozenset[str]
    """Connectors whose tasks are others now."""


class StagedChanges:
    """Collects changes.

    Args:
        is_known: whether a connector was there at the herder's last look.
        wake: called when something was put in.
    """

    def __init__(self, is_known: Callable[[str], bool], wake: Callable[[], None]) -> None:
        self._is_known = is_known
        self._wake = wake
        self._lock = threading.Lock()
        self._needs_rebalance = False
        self._connectors: set[str] = set()
        self._targets: set[str] = set()
        self._tasks: set[str] = set()
        self._restarts: dict[str, RestartAsked] = {}
        self._has_new_key = False

    @property
    def needs_rebalance(self) -> bool:
        """Whether a rebalance is due that was not asked for yet."""
        return self._needs_rebalance

    def put(self, change: Change) -> None:
        """Note a change."""
        with self._lock:
            match change:
                case ConnectorChanged(name):
                    if self._is_known(name):
                        self._connectors.add(name)
                    else:
                        self._needs_rebalance = True
                case ConnectorRemoved(name):
                    if self._is_known(name):
                        self._needs_rebalance = True
                    else:
                        self._connectors.add(name)
                case TasksChanged(name):
                    self._needs_rebalance = True
                    self._tasks.add(name)
                case TargetChanged(name):
                    self._targets.add(name)
                case RestartAsked(name):
                    known = self._restarts.get(name)
                    if known is None or _impact(change) > _impact(known):
                        self._restarts[name] = change
                case SessionKeyChanged():
                    self._has_new_key = True
                case _:
                    return
        self._wake()

    def take(self) -> Taken | None:
        """Take out what has changed; None: nothing."""
        with self._lock:
            taken = Taken(
                self._needs_rebalance,
                frozenset(self._connectors),
                frozenset(self._targets),
                frozenset(self._tasks),
            )
            self._needs_rebalance = False
            for each in (self._connectors, self._targets, self._tasks):
                each.clear()
        return taken if any(taken) else None

    def take_restarts(self) -> list[RestartAsked]:
        """Take out which restarts were asked for."""
        with self._lock:
            found = list(self._restarts.values())
            self._restarts.clear()
        return found


def _impact(asked: RestartAsked) -> tuple[bool, bool]:
    """Of two requests for one connector the one that starts more anew counts: not only what failed, and tasks too."""
    return not asked.only_failed, asked.include_tasks
