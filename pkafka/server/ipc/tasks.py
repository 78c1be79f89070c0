"""The coroutines that a process runs beside its requests, and what becomes of an error in one of them."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from typing import Any

from pkafka.net.connection import ServerConnection
from pkafka.server.ipc.lifeline import ChildExit

log = logging.getLogger(__name__)
"""The name under which operators set the level of what a worker logs."""


def end_process(error: BaseException) -> None:
    """End this process at once; the supervisor starts another. A stopped process is better than a wrong log."""
    log.critical("This worker cannot go on, and ends", exc_info=error)
    os._exit(ChildExit.CRASHED)


class Tasks:
    """Runs coroutines to their end. Belongs to the event loop on which it is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[None]] = set()
        self.crash: Callable[[BaseException], None] = end_process
        """Called with an error after which this process is of no use. Tests replace it."""

    @property
    def running(self) -> frozenset["asyncio.Task[None]"]:
        """The tasks that have not ended."""
        return frozenset(self._running)

    def spawn(self, work: Coroutine[Any, Any, None], connection: ServerConnection | None = None) -> None:
        """Run a coroutine.

        A broken invariant in it ends the process; another bug is logged, and closes ``connection``, which it serves.
        """

        def done(task: "asyncio.Task[None]") -> None:
            error = self._ended(task)
            if isinstance(error, AssertionError):
                self.crash(error)
            elif error is not None:
                log.error("A task failed", exc_info=error)
                if connection is not None:
                    connection.close()

        self._start(work).add_done_callback(done)

    def spawn_vital(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine without which this process is of no use: any error in it, a bug too, ends the process.

        Otherwise the broker would look healthy while, for example, its ISRs never change again.

        Returns:
            The task, which its owner may cancel.
        """

        def done(task: "asyncio.Task[None]") -> None:
            error = self._ended(task)
            if error is not None:
                self.crash(error)

        task = self._start(work)
        task.add_done_callback(done)
        return task

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._running.add(task)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> BaseException | None:
        self._running.discard(task)
        return None if task.cancelled() else task.exception()
