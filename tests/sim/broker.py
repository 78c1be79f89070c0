"""Simulated brokers: the real processes of pkafka, control, workers and cleaner, on simulated loops.

Here is what the supervisor and the kernel do for them: starting them, introducing them to each other, starting again
the ones that die, and taking back what the dead leave.
"""

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pkafka.clock import SystemClock
from pkafka.coordination.store import Store
from pkafka.server.cluster import placement
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control import local_channels, session_file
from pkafka.server.controller.controller import Controller
from pkafka.server.controller.events import Event, Shutdown
from pkafka.server.controller.queue import EventQueue
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import CLEANER, CONTROL, Birth, worker_name
from pkafka.server.ipc.lifeline import ChildExit, Lifeline
from pkafka.server.ipc.peer import Peer
from pkafka.server.limits.connection_limits import LimitSettings, SharedCounts
from pkafka.server.processes import control as control_module
from pkafka.server.processes import worker as worker_module
from pkafka.server.processes.cleaner import Cleaner, CleanerSetup
from pkafka.server.processes.control import Control, ControlSetup
from pkafka.server.processes.worker import Worker
from pkafka.server.processes.worker_setup import WorkerSetup
from pkafka.server.replicas import logs
from pkafka.server.replicas.partition import Partition
from pkafka.server.serving import dispatch
from pkafka.server.serving.clients import Clients
from pkafka.storage import log_directory
from pkafka.storage.log import Log
from pkafka.storage.log_directory import LogDirectory
from tests.sim.disk import Disk
from tests.sim.store import Coordination, SimStore
from tests.sim.world import Loop, ProcessEnded, World

PORT: Final = 9092
IN_SYNC_MIN: Final = 2
_RESPAWN_S: Final = 0.02
_TURN_S: Final = 0.01
"""More than a turn of an event loop takes."""
_LISTENER: Final = "PLAINTEXT"

SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.connect": "store:2181",
    "zookeeper.session.timeout.ms": "6000",
    "log.cleaner.enable": "false",
    "log.segment.bytes": "4096",
    "log.index.size.max.bytes": "4096",
    "log.initial.task.delay.ms": "2000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "log.retention.check.interval.ms": "600000",
    "file.delete.delay.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "4000",
    "request.timeout.ms": "4000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.max.bytes": "2048",
    "controller.socket.timeout.ms": "4000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "15",
    "default.replication.factor": "3",
    "min.insync.replicas": str(IN_SYNC_MIN),
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "4096",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": str(IN_SYNC_MIN),
    "transaction.state.log.segment.bytes": "4096",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class SimController(Controller):
    """The controller, without a thread of its own: a fiber works on what has been queued."""

    _loop: Loop
    _pumping = False

    def start(self, store: Store) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        self._loop = loop
        self._queue = _Queue(self._pump, self._queue)
        self.new_session(store)
        self._look()

    def stop(self, timeout_s: float = 10.0) -> None:
        # In a fiber of its own, as the thread that waits for the controller's would be.
        self._queue.put(Shutdown())
        fiber = self._loop.world.fiber
        assert fiber is not None
        gave_up_s = self._loop.world.now_s + timeout_s
        while not self._stopped and self._loop.world.now_s < gave_up_s:
            fiber.sleep(0.01)

    def _look(self) -> None:
        """Whether something is due by the clock."""
        if not self._stopped:
            if self._is_something_due():
                self._pump()
            self._loop.call_later(0.1, self._look)

    def _pump(self) -> None:
        if not self._pumping and not self._stopped:
            self._pumping = True
            self._loop.call_soon(self._loop.run_in_executor, None, self._work)

    def _work(self) -> None:
        try:
            while not self._stopped and (event := self._queue.get(0)) is not None:
                self._process(event)
        finally:
            self._pumping = False
        if len(self._queue):
            self._pump()


class _Queue(EventQueue):
    """Tells when there is something."""

    def __init__(self, pump: Callable[[], None], earlier: EventQueue) -> None:
        super().__init__()
        self._pump = pump
        while (event := earlier.get(0)) is not None:
            super().put(event)

    def put(self, event: Event) -> None:
        super().put(event)
        self._pump()


class SimControl(Control):
    """The control process, at the simulated store."""

    server: Coordination
    host: str

    def _open_store(self) -> Any:
        loop = self._loop
        assert isinstance(loop, Loop)
        return SimStore(
            self.server,
            loop,
            self.host,
            timeout_s=self.setup.config.zookeeper_session_timeout_ms / 1000,
            resume=self._birth.session,
        )


class SimClients(Clients):
    """The clients of a worker, whose connections come from the simulated network."""

    accepts: Callable[[int], None]

    def accept_for(self, index: int) -> None:
        super().accept_for(index)
        self.accepts(index)


class _Child:
    """A process of a broker."""

    def __init__(self, name: str, loop: Loop, line: Lifeline) -> None:
        self.name = name
        self.loop = loop
        self.line = line
        self.process: Control | Worker | Cleaner | None = None
        self.stopping = False


class Broker:
    """One broker on a machine of its own.

    Args:
        world: the world.
        server: the coordination store.
        broker_id: which; its machine is called ``broker-<id>``.
        root: its log directory.
        settings: on top of :data:`SETTINGS`.
    """

    def __init__(
        self, world: World, server: Coordination, broker_id: int, root: Path, settings: Mapping[str, str]
    ) -> None:
        self.world = world
        self.broker_id = broker_id
        self.host = f"broker-{broker_id}"
        self.root = root
        self._server = server
        self.config = BrokerConfig.load(
            None,
            {
                **SETTINGS,
                **settings,
                "broker.id": str(broker_id),
                "log.dirs": str(root),
                "listeners": f"{_LISTENER}://{self.host}:{PORT}",
                "pkafka.workers": settings.get("pkafka.workers", "1"),
            },
        )
        self.disk = Disk(world, root)
        self.children: dict[str, _Child] = {}
        self.is_up = False
        self.is_ready = False
        self._born: set[str] = set()
        self._session: tuple[int, bytes] | None = None
        self._backlog: dict[int, list[tuple[socket.socket, str]]] = {}
        self._stop_queue: list[list[str]] | None = None
        self._waiting_for: set[str] = set()
        self._clean = True
        self._failed_directories = False
        self._life = 0
        self.boot = 0
        """How often the machine was switched on again."""
        self.on_worker_ended: Callable[[Broker, Worker], None] = lambda _broker, _worker: None

    # -- for faults --

    def start(self) -> None:
        """Switch the broker on."""
        assert not self.is_up
        self.switch_on()
        self.is_up, self.is_ready, self._clean, self._life = True, False, True, self._life + 1
        self._born, self._session, self._stop_queue, self._waiting_for = set(), None, None, set()
        self._failed_directories = False
        self.directory = LogDirectory(self.root, files=self.disk)
        self._was_clean = self.directory.take_clean_shutdown_mark() is not None
        self._counts = SharedCounts(
            workers=self.config.workers, listeners=[_LISTENER], key=b"a seed decides everything"
        )
        self.world.note(f"{self.host}: starts after a {'clean' if self._was_clean else 'bad'} end")
        self.world.network.listeners[self.host, PORT] = self
        for name in self._names():
            self._start(name)

    def kill(self) -> None:
        """All its processes end this moment (kill -9)."""
        self.world.note(f"{self.host}: killed")
        self._end()

    def lose_power(self) -> None:
        """The same for the machine: what was not on the disk may be lost, and nobody tells anybody."""
        self.world.network.darken(self.host)
        self.boot += 1
        self._end()
        lost = self.disk.lose_power()
        self.world.note(f"{self.host}: power lost; {'; '.join(lost) or 'nothing'} lost")

    def switch_on(self) -> None:
        """The machine runs again; the broker on it does not yet."""
        self.world.network.lighten(self.host)

    def stop(self) -> None:
        """Begin an ordered stop (SIGTERM)."""
        if self._stop_queue is not None or not self.is_up:
            return
        self.world.note(f"{self.host}: is to stop")
        workers = [name for name in self._names() if name not in (CONTROL, CLEANER)]
        self._stop_queue = [[CONTROL], workers, [CLEANER], [CONTROL]]
        self._next_stop()

    def kill_process(self, name: str) -> None:
        """One of its processes dies; the supervisor starts another."""
        child = self.children.get(name)
        if child is not None:
            self.world.note(f"{self.host}: {name} killed")
            self._ended(child, -9)

    def freeze(self, seconds: float) -> None:
        """All its processes stand still for a while."""
        self.world.note(f"{self.host}: frozen for {seconds:.1f} s")
        for child in self.children.values():
            child.loop.stop_for(seconds)

    # -- for the checker --

    def workers(self) -> list[Worker]:
        """The worker processes that live."""
        return [child.process for child in self.children.values() if isinstance(child.process, Worker)]

    def control(self) -> Control | None:
        """The control process, if it lives."""
        child = self.children.get(CONTROL)
        return child.process if child is not None and isinstance(child.process, Control) else None

    def controller(self) -> Controller | None:
        """Its controller, active or not."""
        control = self.control()
        found = getattr(control.broker, "controller", None) if control is not None else None
        return found if isinstance(found, Controller) else None

    def partition(self, key: tuple[str, int]) -> Partition | None:
        """A replica that is served."""
        for worker in self.workers():
            found = worker.partitions.hosted.get(key)
            if found is not None:
                return found
        return None

    def log_of(self, key: tuple[str, int]) -> Log | None:
        """Its log, when it is open."""
        for worker in self.workers():
            for found in worker.partitions.logs():
                if found.topic_partition == key:
                    return found
        return None

    @property
    def session(self) -> int | None:
        """The number of its session with the store, of the life before when it is down."""
        return None if self._session is None else self._session[0]

    @property
    def registers(self) -> bool:
        """Whether it is far enough to register itself with the store."""
        return getattr(self.control(), "_registration", None) is not None

    @property
    def stands_still(self) -> bool:
        """Whether its processes are frozen: it may count as in sync, and lose its session before it goes on."""
        return any(child.loop.wakes_s > self.world.now_s + _TURN_S for child in self.children.values())

    # -- the network's side --

    def accept(self, sock: socket.socket, host: str) -> bool:
        """See :class:`tests.sim.network.Listener`."""
        if not self.is_up:
            return False
        # The kernel gives each connection to one of the listening sockets, whether or not anybody accepts yet.
        index = self.world.random.randrange(self.config.workers)
        child = self.children.get(worker_name(index))
        worker = child.process if child is not None else None
        if child is None or not isinstance(worker, Worker) or not worker.clients.accepts_for(index):
            self._backlog.setdefault(index, []).append((sock, host))
        else:
            child.loop.call_soon(_accept, worker, sock, host)
        return True

    def accepts(self, worker: Worker, index: int) -> None:
        """A worker takes its clients from now on."""
        for sock, host in self._backlog.pop(index, []):
            worker.loop.call_soon(_accept, worker, sock, host)

    # -- the supervisor's work --

    def _names(self) -> list[str]:
        return [CONTROL, *(worker_name(index) for index in range(self.config.workers)), CLEANER]

    def _start(self, name: str) -> None:
        ours, theirs = socket.socketpair()
        loop = Loop(self.world, f"{self.host}/{name}")
        self.world.network.place(loop, self.host)
        line = Lifeline(ours)
        child = _Child(name, loop, line)
        birth = Birth(theirs, name, first=name not in self._born, session=self._session)
        self._born.add(name)
        self.children[name] = child
        self.world.god.add_reader(ours.fileno(), self._listen, child)
        loop.on_kill.append(lambda: self._give_back(child))
        loop.call_soon(self._begin, child, birth)
        for other in list(self.children.values()):
            if other is not child:
                self._introduce(child, other)

    def _begin(self, child: _Child, birth: Birth) -> None:
        process = self._build(child.name, birth)
        child.process = process
        task = child.loop.create_task(process.run())
        task.add_done_callback(lambda done: self._returned(child, done))

    def _build(self, name: str, birth: Birth) -> Control | Worker | Cleaner:
        directories = [self.directory]
        if name == CONTROL:
            SimControl.server, SimControl.host = self._server, self.host
            control = SimControl(
                ControlSetup(
                    config=self.config,
                    directories=directories,
                    ports={_LISTENER: PORT},
                    store_file=self.root / "none",
                    session_file=self.root / "pkafka-session",
                    adopt=False,
                ),
                birth,
            )
            control.server, control.host = self._server, self.host
            return control
        if name == CLEANER:
            return Cleaner(
                CleanerSetup(config=self.config, directories=directories, workers=self.config.workers), birth
            )
        index = int(name.rpartition("-")[2])
        worker = Worker(
            WorkerSetup(
                config=self.config,
                index=index,
                workers=self.config.workers,
                listeners=(),
                connection_counts=self._counts,
                limits=LimitSettings(),
                directories=directories,
                unusable=(),
                clean={self.directory.path: self._was_clean},
                start=f"{self._life:x}",
            ),
            birth,
        )
        assert isinstance(worker.clients, SimClients)
        worker.clients.accepts = partial(self.accepts, worker)
        worker.logs._environment.files = self.disk
        return worker

    def _introduce(self, one: _Child, other: _Child) -> None:
        ends = socket.socketpair()
        one.line.note(lifeline.PEER, other.name, [ends[0].fileno()])
        other.line.note(lifeline.PEER, one.name, [ends[1].fileno()])
        for end in ends:
            end.close()

    def _listen(self, child: _Child) -> None:
        for operation, payload in child.line.read():
            if operation == lifeline.SESSION:
                self._session = (payload[0], payload[1]) if payload else None
            elif operation == lifeline.READY:
                if not self.is_ready:
                    self.world.note(f"{self.host}: ready")
                self.is_ready = True
            elif operation == lifeline.DIRECTORY_FAILED:
                self._failed_directories = True
            elif operation == lifeline.RELEASED:
                self._waiting_for.discard(child.name)
                self._next_stop()

    def _returned(self, child: _Child, task: "asyncio.Task[int]") -> None:
        if self.children.get(child.name) is not child:
            return
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ProcessEnded):
            return
        if error is not None:
            self.world.violated(f"{child.loop.name} ends with {error!r}")
        self._listen(child)
        self._ended(child, ChildExit.CRASHED if task.cancelled() or error else task.result())

    def exited(self, loop: Loop, code: int) -> None:
        """A process called ``os._exit``."""
        for child in list(self.children.values()):
            if child.loop is loop:
                self._listen(child)
                self._ended(child, code)

    def _ended(self, child: _Child, code: int) -> None:
        self.world.note(f"{child.loop.name}: ends with {code}")
        del self.children[child.name]
        child.loop.kill()
        if self._stop_queue is not None and (child.name == CONTROL or not self._gives_leaders_away):
            self._clean = self._clean and code == ChildExit.CLEAN
            self._waiting_for.discard(child.name)
            self._next_stop()
        elif code == ChildExit.CANNOT_BOOT:
            self._clean = False
            self._end()
        else:
            life = self._life
            self.world.after(_RESPAWN_S, lambda: self._start(child.name) if self._lives(life) else None)

    def _lives(self, life: int) -> bool:
        is_whole = self._stop_queue is None or self._gives_leaders_away
        return self.is_up and self._life == life and is_whole

    @property
    def _gives_leaders_away(self) -> bool:
        """Whether the broker is at the first step of its stop (see ``processes/supervisor.py``)."""
        return bool(self._stop_queue) and CONTROL in self._waiting_for

    def _next_stop(self) -> None:
        queue = self._stop_queue
        if queue is None:
            return
        while queue and not self._waiting_for:
            names = queue.pop(0)
            for name in names:
                child = self.children.get(name)
                if child is not None:
                    self._waiting_for.add(name)
                    child.line.note(lifeline.STOP if queue else lifeline.CLOSE)
        if not queue and not self._waiting_for:
            if self._clean and not self._failed_directories:
                self.directory.write_clean_shutdown_mark()
            self.world.note(f"{self.host}: has stopped {'well' if self._clean else 'badly'}")
            self._end()

    def _end(self) -> None:
        self.is_up = self.is_ready = False
        self._stop_queue = None
        self.world.network.listeners.pop((self.host, PORT), None)
        for child in list(self.children.values()):
            child.loop.kill()
        self.children.clear()
        for waiting in self._backlog.values():
            for sock, _host in waiting:
                sock.close()
        self._backlog.clear()

    def _give_back(self, child: _Child) -> None:
        """What the kernel takes back of a process that is dead."""
        self.world.god.remove_reader(child.line.sock.fileno())
        child.line.close()
        for peer in getattr(child.loop, "peers", ()):
            peer.gone = True
            peer._sock.close()
            for fds in peer._fds:
                for fd in fds:
                    os.close(fd)
            for _data, more in peer._out:
                for fd in more:
                    os.close(fd)
        process = child.process
        if isinstance(process, Worker):
            self.on_worker_ended(self, process)
            for connection in process.clients.connections:
                connection.closed = True
                connection.sock.close()
                for part in connection._outgoing.waiting:
                    if hasattr(part, "fd"):
                        os.close(part.fd)
            for found in process.partitions.logs():
                with suppress(OSError):
                    for segment in found.segments:
                        segment.release_files()


def _accept(worker: Worker, sock: socket.socket, host: str) -> None:
    worker.clients.admit(_LISTENER, host)
    worker.clients.accept(_LISTENER, sock, host)


@contextmanager
def real_code_in(world: World, brokers: list[Broker]) -> Iterator[None]:
    """While this lasts, pkafka's code takes the time, chance and processes of a world for its own."""
    make_peer = Peer.__init__

    def peer_of_loop(self: Peer, *args: Any, **kwargs: Any) -> None:
        make_peer(self, *args, **kwargs)
        loop = asyncio.get_running_loop()
        vars(loop).setdefault("peers", []).append(self)

    def here() -> Loop:
        loop = world.fiber.loop if world.fiber is not None else world.running
        assert loop is not None
        return loop

    def leave(code: int) -> None:
        loop = here()
        if code == ChildExit.CRASHED:
            world.violated(f"{loop.name} ends itself: it cannot go on")
        for broker in brokers:
            broker.exited(loop, code)
        raise ProcessEnded

    def boot_id() -> str:
        return next(f"boot-{one.boot}" for one in brokers if here().name.startswith(f"{one.host}/"))

    def token_bytes(count: int = 16) -> bytes:
        return world.random.randbytes(count)

    def uuid4() -> uuid.UUID:
        return uuid.UUID(bytes=token_bytes())

    class Chance:
        """What stands in for the module ``random`` where each call begins one of its own."""

        @staticmethod
        def Random() -> random.Random:
            return random.Random(world.random.getrandbits(64))

    with ExitStack() as stack:
        for target, name, value in (
            (placement, "random", Chance),
            (uuid, "uuid4", uuid4),
            (logs, "uuid4", uuid4),
            (log_directory, "uuid4", uuid4),
            (local_channels, "perf_counter_ns", lambda: int(world.now_s * 1e9)),
            (dispatch, "_now_ns", lambda: int(world.now_s * 1e9)),
            (session_file, "_boot_id", boot_id),
            (SystemClock, "now_ms", lambda _self: world.now_ms()),
            (SystemClock, "monotonic_ms", lambda _self: world.monotonic_ms()),
            (Peer, "__init__", peer_of_loop),
            (os, "_exit", leave),
            (control_module, "Controller", SimController),
            (worker_module, "Clients", SimClients),
        ):
            stack.enter_context(patch.object(target, name, value))
        stack.enter_context(patch("secrets.token_bytes", token_bytes))
        stack.enter_context(patch("secrets.randbelow", world.random.randrange))
        stack.enter_context(patch("secrets.randbits", world.random.getrandbits))
        yield
