"""A child of the supervisor: what it gets at its birth, and its life from then on.

The control process, the workers and the cleaner are born alike: with a line to the supervisor, by which they learn of
each other and give a sign of life, and an exit code that tells the supervisor why they ended.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from pkafka.net.event_loop import new_event_loop
from pkafka.server.config.broker_loggers import set_log_level
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Handler, Payload, Peer

CONTROL: Final = "control"
CLEANER: Final = "cleaner"
_WORKER: Final = "worker-"


def worker_name(index: int) -> str:
    """The process name of worker ``index``."""
    return f"{_WORKER}{index}"


def worker_index(name: str) -> int | None:
    """The number of the worker with that process name; None for another process."""
    return int(name.removeprefix(_WORKER)) if name.startswith(_WORKER) else None


@dataclass(slots=True)
class Birth:
    """Holds what a child gets: its line to the supervisor, and what an earlier incarnation left behind."""

    line: socket.socket
    name: str
    first: bool
    """Whether this is the first of its name since the broker started (restarted workers recover their logs)."""
    session: "tuple[int, bytes] | None"
    """(control) the coordination session of its predecessor."""


ChildMain: TypeAlias = Callable[[Birth], int]
"""Runs in the forked child; its return value is the child's exit code."""


class Process(Protocol):
    """The state of a child, built on its event loop."""

    async def run(self) -> int:
        """Live until told to end. Returns the exit code."""
        ...


def main_of(
    build: Callable[[Birth], Process],
    *,
    begin: Callable[[], None] = lambda: None,
    leaves_threads: bool = False,
) -> ChildMain:
    """Make what the supervisor runs in the forked child.

    Args:
        build: makes the process, on its event loop.
        begin: called first.
        leaves_threads: end without waiting for threads: one may be waiting for a store that does not answer. By then
            the process has given back all that it must give back.
    """

    def main(birth: Birth) -> int:
        async def live() -> int:
            return await build(birth).run()

        begin()
        if not leaves_threads:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(live())
        loop = new_event_loop()
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(live())

    return main


class Life:
    """A child's side of the line to the supervisor, and its end. Belongs to one event loop.

    Args:
        birth: of this child.
        meet: called with the name of another child, and this end of the channel to it.
        stop: called when this child is to end cleanly.
        close: called when all other children have ended; None when ``stop`` says that.
        late: called with the name of a worker that seems to hang, or that works again, and which of the two.
        orphaned: called when the supervisor is dead.
    """

    def __init__(
        self,
        birth: Birth,
        *,
        meet: Callable[[str, socket.socket], None],
        stop: Callable[[], None],
        close: Callable[[], None] | None = None,
        late: Callable[[str, bool], None] | None = None,
        orphaned: Callable[[Peer], None] = lifeline.end_orphan,
    ) -> None:
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code, once it is known."""
        words: dict[str, Handler] = {
            lifeline.PEER: lambda _line, name, _blob, fds: meet(name, socket.socket(fileno=fds[0])),
            lifeline.STOP: lambda _line, _payload, _blob, _fds: stop(),
            lifeline.CLOSE: lambda _line, _payload, _blob, _fds: (close or stop)(),
            lifeline.LOG_LEVEL: lambda _line, change, _blob, _fds: set_log_level(change[0], change[1]),
        }
        if late is not None:
            words[lifeline.LATE] = lambda _line, said, _blob, _fds: late(said[0], said[1])
        self.line = Peer("supervisor", birth.line, words, on_gone=orphaned, vital=True)

    async def beat_for_ever(self) -> None:
        """Give a sign of life as often as the supervisor expects one."""
        while True:
            self.beat()
            await asyncio.sleep(lifeline.BEAT_INTERVAL_S)

    def beat(self) -> None:
        """Tell the supervisor that this process makes progress."""
        self.line.note(lifeline.BEAT)

    def booted(self) -> None:
        """Tell the supervisor that from now on silence means that this process hangs."""
        self.line.note(lifeline.BOOTED)

    def closing(self) -> None:
        """Tell the supervisor that the stop makes progress."""
        self.line.note(lifeline.CLOSING)

    def tell(self, word: str, payload: Payload = None) -> None:
        """Tell the supervisor something else."""
        self.line.note(word, payload)

    def end(self, code: ChildExit) -> None:
        """End this process with that code, unless another was given before."""
        if not self.ended.done():
            self.ended.set_result(code)
