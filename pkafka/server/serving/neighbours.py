"""The other processes of a broker, as one worker sees them come, hang and go."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pkafka.net.together import Together
from pkafka.server.ipc.child import CLEANER, CONTROL, worker_index
from pkafka.server.ipc.peer import Handler, Peer, PeerGone
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.replicas.logs import WorkerLogs
from pkafka.server.serving.clients import Clients
from pkafka.server.serving.control_line import ControlLine
from pkafka.server.serving.drain import Drain
from pkafka.server.serving.lent_files import LentFiles
from pkafka.server.serving.peers import Peers

SUCCESSOR_MAX_S: Final = 5.0
"""A process that died is replaced at once. Without a successor by then only the channel to the process was lost."""


class Neighbours:
    """Meets the other processes, and notices their end. Belongs to one event loop.

    Args:
        index: the number of this worker.
        operations: what other processes can ask of this worker.
        together: frames that are sent while a read is served share one call to the kernel.
        control_line: the channel to the control process of the moment.
        peers: the other workers of the moment.
        clients: of this worker, which accepts for a worker that seems to hang.
        files: hears when another worker works again, or is gone.
        logs: hears of the cleaner.
        drain: waits for other workers at the end.
        tasks: runs the greeting, and ends the process when a channel is lost for good.
        greet: tells a control process that has just come about this worker.
    """

    def __init__(
        self,
        index: int,
        operations: dict[str, Handler],
        *,
        together: Together,
        control_line: ControlLine,
        peers: Peers,
        clients: Clients,
        files: LentFiles,
        logs: WorkerLogs,
        drain: Drain,
        tasks: Tasks,
        greet: Callable[[Peer], Coroutine[Any, Any, None]],
    ) -> None:
        self.cleaner: Peer | None = None
        """None while there is none."""
        self._index = index
        self._operations = operations
        self._together = together
        self._control_line = control_line
        self._peers = peers
        self._clients = clients
        self._files = files
        self._logs = logs
        self._drain = drain
        self._tasks = tasks
        self._greet = greet
        self._loop = asyncio.get_running_loop()
        self._met: Counter[str] = Counter()
        """How many processes of each name have introduced themselves."""
        self._stopping = False

    def stop(self) -> None:
        """Note that this worker stops: it accepts for no other worker any more, and misses none."""
        self._stopping = True

    def meet(self, name: str, sock: socket.socket) -> None:
        """Take the channel to another process."""
        peer = Peer(name, sock, self._operations, on_gone=self._lost, together=self._together)
        if name == CONTROL:
            self._bury(self._control_line.peer)
            self._control_line.peer = peer
            self._tasks.spawn_vital(self._greet(peer))
        elif name == CLEANER:
            self._bury(self.cleaner)
            self.cleaner = peer
            self._logs.cleaner_came(peer)
        elif (index := worker_index(name)) is not None:
            peer.index = index
            self._bury(self._peers.others.get(index))
            self._peers.came(peer)
            self._clients.stop_accepting(index)
        # Last, so that a predecessor that is buried only now counts as replaced.
        self._met[name] += 1

    def late(self, name: str, late: bool) -> None:
        """Note that a process seems to hang, or works again. While a worker hangs, others take its new clients."""
        for index, peer in self._peers.others.items():
            if peer.name == name:
                peer.set_late(late)
                if not late:
                    # Give back the files that it lent in answers for which no request waited any more.
                    self._files.return_all(index)
                    self._clients.stop_accepting(index)
                elif self._clients.accepts_for(self._index) and not self._stopping:
                    self._clients.accept_for(index)

    def _bury(self, predecessor: Peer | None) -> None:
        """Count a process as dead whose successor is here, even when some of its messages are still to be read.

        With two processes of one name, lent files and decisions of the old and the new one would be mixed up.
        """
        if predecessor is not None:
            predecessor.close()
            self._lost(predecessor)

    def _lost(self, peer: Peer) -> None:
        self._loop.call_later(SUCCESSOR_MAX_S, self._miss, peer, self._met[peer.name])
        if peer is self._control_line.peer:
            self._control_line.lost()
        elif peer is self.cleaner:
            self.cleaner = None
            self._logs.cleaner_gone()
        elif self._peers.others.get(peer.index) is peer:
            self._peers.lost(peer.index)
            self._files.forget_peer(peer.index)
            self._drain.changed()

    def _miss(self, lost: Peer, met: int) -> None:
        """End one of two processes that have lost their channel: the lost process has no successor, so it lives.

        Neither can know what the other has seen of the requests in hand.
        """
        if self._met[lost.name] != met:
            return  # a successor came; if it has died as well, its own successor is waited for
        if lost.name == CONTROL:
            is_missing = self._control_line.peer is None
        elif lost.name == CLEANER:
            is_missing = self.cleaner is None
        else:
            is_missing = lost.index < self._index and lost.index not in self._peers.others
        if is_missing and not self._stopping:
            self._tasks.crash(PeerGone(f"{lost.name} is out of reach"))
