"""What a connector of MirrorMaker works with: a client for each cluster, and a thread that does things now and then."""

import time
from contextlib import ExitStack
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.connect.mirror.schedule import Schedule, Task
from pkafka.connect.mirror.settings import MirrorSettings

FIRST_STEPS_S: Final = 20.0
"""So long may a connector's first steps take before it counts as started; a request waits for that."""


class BothClusters:
    """Opens the clients: that of the source when it is asked for, as who writes heartbeats does without.

    Args:
        settings: of the connector.
        name: of its class.
        role: what the clients are for; a part of their ids.

    Raises:
        ConfigError: a setting of a client is refused; nothing stays open then.
    """

    def __init__(self, settings: MirrorSettings, name: str, role: str) -> None:
        self._settings = settings
        self._role = role
        with ExitStack() as opened:
            self.target = opened.enter_context(self._admin("target"))
            self.schedule = Schedule(f"Scheduler for {name}-{settings.label}")
            self._opened = opened.pop_all()
        self._due_s = time.monotonic() + min(settings.admin_timeout_s, FIRST_STEPS_S)

    def open_source(self) -> Admin:
        """The client of the source; to be called once.

        Raises:
            ConfigError: a setting of it is refused; the others are closed then.
        """
        try:
            source = self._admin("source")
        except BaseException:
            self.close()
            raise
        self._opened.callback(source.close)
        return source

    def _admin(self, side: str) -> Admin:
        return Admin(self._settings.client(side, "admin", f"{self._role}-{side}-admin"))

    def first(self, task: Task, what: str) -> None:
        """Have a first step done, and wait for it, within the time that all of them have; else it is tried again."""
        if not self.schedule.run(task, what, max(0.0, self._due_s - time.monotonic())):
            self.schedule.until_done(task, what)

    def close(self) -> None:
        """End the thread, and let go of the connections."""
        self.schedule.close()  # first: it uses the clients
        self._opened.close()
