"""A worker process: accepts clients on every listener and owns a share of the partitions.

Everything here runs on one event loop and belongs to one process, so nothing is locked. What it knows of the cluster
comes from the control process; what it does not own it asks of the worker that does, in one hop.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError, ConfigError, PkafkaError, StorageError
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.net.buffers import Arena, ReadBuffers
from pkafka.net.page_cache import PageCache
from pkafka.net.together import Together
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaRequest
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest
from pkafka.protocol.schema import Message
from pkafka.server import handlers
from pkafka.server.cluster.metadata import FULL_UPDATE, MetadataCache
from pkafka.server.cluster.pulses import Pulses
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import set_log_level
from pkafka.server.coordinator.topic_log import TopicLog
from pkafka.server.groups import routing
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.hosted import CoordinatorSettings, offsets_log_settings
from pkafka.server.groups.offset_keeper import OffsetKeeper
from pkafka.server.handlers import (
    alter_replica_log_dirs,
    delete_records,
    describe_log_dirs,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
)
from pkafka.server.handlers import fetch as fetch_handler
from pkafka.server.handlers import produce as produce_handler
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.garbage import spare_what_lasts
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Handler, Payload, Peer, PeerGone, Reply
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.limits.connection_limits import ConnectionLimits, LimitSettings, SharedCounts
from pkafka.server.limits.rates import SharedRate
from pkafka.server.limits.replication_quota import ReplicationQuotas, SharedReplicationRates
from pkafka.server.metrics.counters import Metrics
from pkafka.server.processes.supervisor import CLEANER, CONTROL, Birth
from pkafka.server.replicas.appending import Appending
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.fetch_sessions import FetchSessionCache
from pkafka.server.replicas.isr_changes import IsrChanges
from pkafka.server.replicas.leadership import IsrProposal
from pkafka.server.replicas.logs import WorkerLogs
from pkafka.server.replicas.lookup import Lookup
from pkafka.server.replicas.partition import PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.progress import Progress
from pkafka.server.replicas.selection import selector_of
from pkafka.server.replication.directory_moves import DirectoryMoves, move_rate
from pkafka.server.replication.fetcher import ReplicaFetchers
from pkafka.server.serving import between_workers, by_owner
from pkafka.server.serving.clients import ADOPT, Clients
from pkafka.server.serving.control_line import ControlLine
from pkafka.server.serving.dispatch import Dispatcher
from pkafka.server.serving.peers import Peers
from pkafka.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

CONTROL_REQUEST_VERSIONS: Final = {"leader_and_isr": 7, "update_metadata": 8, "stop_replica": 4}
"""The versions in which control requests travel between the control process and the workers."""


_DEPARTURE_MS: Final = 100
"""By then most clients of a dead broker have asked for the new leaders."""
DRAIN_MAX_S: Final = 1.0
"""A stop waits so long for the answers to requests in hand, of clients and of other workers."""
SUCCESSOR_MAX_S: Final = 5.0
"""A process that died is replaced at once. Without a successor by then only the channel to the process was lost."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is told before it is forked."""

    config: BrokerConfig
    index: int
    workers: int
    listeners: Sequence[tuple[str, Sequence[socket.socket]]]
    """Their names, and the listening socket of each worker."""
    connection_counts: SharedCounts
    limits: LimitSettings
    directories: Sequence[LogDirectory]
    unusable: Sequence[Path]
    """Log directories that could not even be locked; their replicas stay offline."""
    clean: Mapping[Path, bool]
    """Whether the directory was closed cleanly; counts for the first start only."""
    move_rate: SharedRate = field(default_factory=move_rate)
    """How fast replicas are copied to other log directories; as above."""
    replication_rates: SharedReplicationRates = field(default_factory=SharedReplicationRates)
    """Shared by all workers; one that is alone has its own."""


class Worker:
    """The state of one worker process. Built on its event loop."""

    def __init__(self, setup: WorkerSetup, birth: Birth) -> None:
        self.setup = setup
        self.config = setup.config
        self.index = setup.index
        self.clock: Clock = SystemClock()
        self.metadata = MetadataCache()
        self.metrics = Metrics()
        self.loop = asyncio.get_running_loop()
        self.tasks = Tasks()
        self.timer = Timer(self.loop)
        slots = max(self.config.max_incremental_fetch_session_cache_slots // setup.workers, 1)
        self.fetch_sessions = FetchSessionCache(slots)
        self.files = between_workers.LentFiles(self)
        self.appends = between_workers.Appends(self)
        self.logs = WorkerLogs(self, setup.directories, setup.unusable)
        self.partitions = Partitions(
            broker_id=self.config.broker_id,
            index=setup.index,
            workers=setup.workers,
            logs=self.logs,
            changed=self._partition_changed,
            now_ms=self.clock.monotonic_ms,
            lag_max_ms=lambda: self.config.replica_lag_time_max_ms,
            is_alive=lambda broker: broker in self.metadata.brokers,
        )
        selector = selector_of(self.config.replica_selector_class)
        self.lookup = Lookup(self.partitions, self.metadata, selector, self.clock)
        self.progress = Progress(
            self.timer,
            self.partitions,
            lambda partition, proposal: self.isr_changes.propose(partition, proposal),
        )
        self.disks = Disks(
            [*(directory.path for directory in setup.directories), *setup.unusable],
            self.partitions,
            self.logs,
            tell=self._tell_of_failure,
            give_up=self.give_up,
        )
        self.appending = Appending(self.metrics, self.progress, self.logs.flush_appended, self.tasks.spawn)
        self.quotas = ReplicationQuotas(setup.replication_rates, self.clock)
        self.moves = DirectoryMoves(self, setup.move_rate)
        self.control_line = ControlLine()
        self.isr_changes = IsrChanges(
            self.partitions,
            self.progress,
            self.control_line,
            lambda: self.config.replica_lag_time_max_ms,
        )
        self.fetchers = ReplicaFetchers(self)
        self.pulses = Pulses(self.metadata, self.partitions.broker_id, lambda: self.config)
        self._offsets_partitions_seen = 0
        self.groups = GroupCoordinator(
            CoordinatorSettings.of(self.config),
            group_log=TopicLog(
                CONSUMER_OFFSETS_TOPIC,
                offsets_log_settings(self.config),
                partitions=self.partitions,
                appending=self.appending,
                disks=self.disks,
                clock=self.clock,
            ),
            partitions=self._offsets_partitions,
            timer=self.timer,
            clock=self.clock,
            spawn=self.tasks.spawn,
        )
        self.offsets = OffsetKeeper(self.groups)
        self.dispatcher = Dispatcher(self, handlers.FRAME_APIS, handlers.MESSAGE_APIS, handlers.CONTROL_APIS)
        self.peers = Peers(setup.index, self.partitions.owner, Arena.create() if setup.workers > 1 else None)
        self.threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="disk")
        self.flushers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="flush")
        """Flushes have threads of their own, so that a client that waits for a read does not wait for flushes."""
        self._first = birth.first
        queued = self.config.queued_max_request_bytes
        self._together = Together()
        self.clients = Clients(
            setup.listeners,
            lambda: self.config,
            ConnectionLimits(setup.connection_counts, setup.index, setup.limits, first=birth.first),
            self.dispatcher,
            self.peers.others,
            buffers=ReadBuffers(
                arena=self.peers.arena,
                frames_bytes_max=max(queued // setup.workers, 1) if queued > 0 else None,
            ),
            together=self._together,
            page_cache=PageCache(self.threads),
            ended=lambda: self._grew_quiet.set(),
        )
        self._configured = asyncio.Event()
        """Set once the topics' settings are known."""
        self._opened = asyncio.Event()
        self._cleaner: Peer | None = None
        self._met: Counter[str] = Counter()
        """How many processes of each name have introduced themselves."""
        self._ended: asyncio.Future[int] = self.loop.create_future()
        self._stopping = False
        self._quiet: set[int] = set()
        """Other workers that have answered their clients, and need nothing of this one any more."""
        self._grew_quiet = asyncio.Event()
        self._operations = self._table()
        line_words: dict[str, Handler] = {
            lifeline.PEER: self._meet,
            lifeline.LATE: self._other_is_late,
            lifeline.STOP: self._stop,
            lifeline.LOG_LEVEL: lambda _peer, change, _blob, _fds: set_log_level(change[0], change[1]),
        }
        self._line = Peer("supervisor", birth.line, line_words, on_gone=lifeline.end_orphan, vital=True)

    # -- life --

    async def run(self) -> int:
        """Open the logs, serve until told to stop. Returns the exit code."""
        self.tasks.spawn_vital(self._beat())
        opening = self.loop.create_task(self._open_logs_when_known())
        either: list[asyncio.Future[Any]] = [opening, self._ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
        return await self._ended

    async def _open_logs_when_known(self) -> None:
        """Open the logs; those to be recovered not before the topics' settings are known: their indexes are written
        anew, with entries as far apart as the topic wants them."""
        if self.logs.must_recover(self._closed_cleanly):
            await self._configured.wait()
        await self._open_logs()

    @property
    def _closed_cleanly(self) -> Mapping[Path, bool]:
        return self.setup.clean if self._first else {}

    async def _open_logs(self) -> None:
        try:
            found = await self.logs.open_all(self._closed_cleanly)
            self.partitions.found_on_disk(found.current)
            self.moves.found_on_disk(found.future)
        except (StorageError, OSError) as error:
            self.give_up(f"Cannot open the logs: {error}")
            return
        # From here on silence means that this process hangs, and the control process may hand out leaders.
        self._line.note(lifeline.BOOTED)
        self._opened.set()
        self.logs.start()
        self.moves.start()
        self.tasks.spawn_vital(self.clients.close_idle_for_ever())
        self.tasks.spawn_vital(self.offsets.expire_for_ever())
        self.tasks.spawn_vital(self.isr_changes.send_for_ever())
        self.tasks.spawn_vital(self.isr_changes.shrink_for_ever())

    def give_up(self, reason: str) -> None:
        """Nothing is left that this worker, or one in its place, could do: the broker stops."""
        log.critical("%s", reason)
        if not self._ended.done():
            self._ended.set_result(ChildExit.CANNOT_BOOT)

    async def _beat(self) -> None:
        while True:
            self.beat()
            await asyncio.sleep(lifeline.BEAT_INTERVAL_S)

    def beat(self) -> None:
        """Tell the supervisor that this process makes progress."""
        self._line.note(lifeline.BEAT)

    def closing(self) -> None:
        """Tell the supervisor that the stop makes progress."""
        self._line.note(lifeline.CLOSING)

    def _stop(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        if self._stopping:
            return
        self._stopping = True
        if self._opened.is_set():
            self.tasks.spawn_vital(self._end())
        elif not self._ended.done():
            # Checkpoints from half of the logs would be worse than none: the next start opens, and recovers, them all.
            log.warning("Stopped before all logs were open; they recover at the next start")
            self._ended.set_result(ChildExit.CRASHED)

    async def _end(self) -> None:
        """Answer the requests in hand, then take no more, neither of clients nor of other workers; close the logs."""
        self.clients.take_no_more()
        # Members that wait for their group find another coordinator, or this one when it is back.
        self.groups.resign()
        await self._drain()
        self.clients.close()
        self.fetchers.close()
        self.pulses.close()
        self.moves.close()
        self.partitions.resign()
        try:
            await self.logs.close(self._cleaner)
        except (PkafkaError, OSError) as error:
            log.error("Closing the logs failed; they recover at the next start: %s", error)
            self._ended.set_result(ChildExit.CRASHED)
            return
        self._ended.set_result(ChildExit.CLEAN)

    async def _drain(self) -> None:
        self.clients.drain()
        try:
            async with asyncio.timeout(DRAIN_MAX_S):
                while self.clients.connections:
                    await self._next_quiet()
                for peer in self.peers.others.values():
                    peer.note("quiet")
                # The other workers may have requests in hand that need this one.
                while not self.peers.others.keys() <= self._quiet:
                    await self._next_quiet()
        except TimeoutError:
            log.info("Stopping with requests in hand of %d connections", len(self.clients.connections))

    async def _next_quiet(self) -> None:
        self._grew_quiet.clear()
        await self._grew_quiet.wait()

    def _other_is_quiet(self, peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        self._quiet.add(peer.index)
        self._grew_quiet.set()

    # -- other processes --

    def _meet(self, _peer: Peer, name: str, _blob: memoryview, fds: list[int]) -> None:
        sock = socket.socket(fileno=fds[0])
        peer = Peer(name, sock, self._operations, on_gone=self._lost, together=self._together)
        if name == CONTROL:
            self._bury(self.control_line.peer)
            self.control_line.peer = peer
            self.tasks.spawn_vital(self._greet_control(peer))
        elif name == CLEANER:
            self._bury(self._cleaner)
            self._cleaner = peer
            self.logs.cleaner_came(peer)
        else:
            peer.index = int(name.rpartition("-")[2])
            self._bury(self.peers.others.get(peer.index))
            self.peers.came(peer)
            self.clients.stop_accepting(peer.index)
        # Last, so that a predecessor that is buried only now counts as replaced.
        self._met[name] += 1

    def _bury(self, predecessor: Peer | None) -> None:
        """Count a process as dead whose successor is here, even when some of its messages are still to be read.

        With two processes of one name, lent files and decisions of the old and the new one would be mixed up.
        """
        if predecessor is not None:
            predecessor.close()
            self._lost(predecessor)

    def _other_is_late(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """Another process seems to hang, or moves again. While a worker does, others take its new clients."""
        name, late = payload
        for index, peer in self.peers.others.items():
            if peer.name == name:
                peer.set_late(late)
                if not late:
                    # Give back the files that it lent in answers for which no request waited any more.
                    self.files.return_all(index)
                    self.clients.stop_accepting(index)
                elif self.clients.accepts_for(self.index) and not self._stopping:
                    self.clients.accept_for(index)

    def _lost(self, peer: Peer) -> None:
        self.loop.call_later(SUCCESSOR_MAX_S, self._miss, peer, self._met[peer.name])
        if peer is self.control_line.peer:
            self.control_line.lost()
        elif peer is self._cleaner:
            self._cleaner = None
            self.logs.cleaner_gone()
        elif self.peers.others.get(peer.index) is peer:
            self.peers.lost(peer.index)
            self.files.forget_peer(peer.index)
            self._grew_quiet.set()

    def _miss(self, lost: Peer, met: int) -> None:
        """End one of two processes that have lost their channel: the lost process has no successor, so it lives.

        Neither can know what the other has seen of the requests in hand.
        """
        if self._met[lost.name] != met:
            return  # a successor came; if it has died as well, its own successor is waited for
        if lost.name == CONTROL:
            is_missing = self.control_line.peer is None
        elif lost.name == CLEANER:
            is_missing = self._cleaner is None
        else:
            is_missing = lost.index < self.index and lost.index not in self.peers.others
        if is_missing and not self._stopping:
            self.tasks.crash(PeerGone(f"{lost.name} is out of reach"))

    async def _greet_control(self, peer: Peer) -> None:
        try:
            if not self._opened.is_set():
                await peer.call("settings")
                self._configured.set()
            # Leadership of a log that is not open yet would open it a second time, as a new one.
            await self._opened.wait()
            knows = self.metadata.controller_epoch > 0
            await peer.call("hello", {"producer_id_max": self.logs.producer_id_max(), "knows": knows})
        except PeerGone:
            return
        except ApiError as error:
            # Without settings and leaders this worker is of no use, and nothing would show that.
            self.tasks.crash(error)
        self.control_line.greeted()

    def _table(self) -> dict[str, Handler]:
        """What other processes can ask of this one."""

        def rows(local: by_owner.LocalAnswer, *, led_only: bool = True) -> Handler:
            return lambda _peer, payload, _blob, _fds: by_owner.serve_rows(
                self, payload, local, led_only=led_only
            )

        return {
            "arena": self.peers.map_arena,
            "produce_from": lambda peer, payload, _blob, _fds: produce_handler.serve_arena(
                self, payload, self.peers.arenas[peer.index]
            ),
            "produce": lambda _peer, payload, blob, _fds: produce_handler.serve_peer(self, payload, blob),
            "fetch": lambda peer, payload, _blob, _fds: fetch_handler.serve_peer(self, peer.index, payload),
            "lent_returned": lambda peer, _payload, _blob, _fds: self.files.returned(peer.index),
            "give_back": lambda peer, generations, _blob, _fds: self.files.give_back(peer.index, generations),
            "await_appends": lambda _peer, payload, _blob, _fds: self.appends.here(
                payload[0], timeout_ms=payload[1]
            ),
            "list_offsets": rows(list_offsets.local, led_only=False),
            "offset_for_leader_epoch": rows(offset_for_leader_epoch.local, led_only=False),
            "delete_records": rows(delete_records.local),
            "describe_producers": rows(describe_producers.local),
            "await_low_watermarks": lambda _peer, payload, _blob, _fds: delete_records.await_followers(
                self, payload[0], payload[1]
            ),
            "alter_replica_log_dirs": rows(alter_replica_log_dirs.local, led_only=False),
            "describe_log_dirs": lambda _peer, _payload, _blob, _fds: describe_log_dirs.local(self),
            ADOPT: self.clients.adopt,
            "leaving": lambda _peer, _payload, _blob, _fds: self.fetchers.follow_no_more(),
            "quiet": self._other_is_quiet,
            "known_metadata": self._known_metadata,
            "known_leaders": self._known_leaders,
            "leader_and_isr": self._leader_and_isr,
            "update_metadata": self._update_metadata,
            "stop_replica": self._stop_replica,
            "topic_configs": self._topic_configs,
            "every_topic_config": self._every_topic_config,
            "broker_config": self._broker_config,
            "identity": self._identity,
            "serve": self._serve,
            "log_dir_failed": lambda _peer, path, _blob, _fds: self.logs.directory_failed(Path(path)),
            "group": lambda _peer, payload, blob, _fds: routing.serve_peer(
                self, handlers.GROUP_APIS, payload, blob
            ),
            "metrics": lambda _peer, _payload, _blob, _fds: self.metrics.snapshot(self),
            **self.logs.compaction.operations,
        }

    # -- what the control process says --

    def _known_metadata(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> Reply:
        """For a control process that has just come: what its predecessor said."""
        return None, encode(self.metadata.snapshot(), CONTROL_REQUEST_VERSIONS["update_metadata"]), ()

    def _known_leaders(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> Reply:
        """As :meth:`_known_metadata`."""
        request, proposals = self.partitions.as_decided()
        return proposals, encode(request, CONTROL_REQUEST_VERSIONS["leader_and_isr"]), ()

    def _leader_and_isr(
        self, _peer: Peer, proposed: Payload, blob: memoryview, _fds: list[int]
    ) -> Awaitable[Reply]:
        version = CONTROL_REQUEST_VERSIONS["leader_and_isr"]
        request = decode(LeaderAndIsrRequest, version, bytes(blob))
        proposals = {
            (topic, index): IsrProposal(tuple(isr), leader_epoch, partition_epoch)
            for topic, index, _, leader_epoch, isr, partition_epoch in proposed or ()
        }
        return self._decide(self._lead_and_follow(request, proposals), version)

    async def _lead_and_follow(
        self, request: LeaderAndIsrRequest, proposals: Mapping[PartitionKey, IsrProposal]
    ) -> LeaderAndIsrResponse:
        response = await self.partitions.leader_and_isr(request, proposals)
        for key, proposal in proposals.items():
            partition = self.partitions.led.get(key)
            # One that another leader of this process has made since is on its way.
            if partition is not None and partition.leadership and partition.leadership.proposed is proposal:
                self.isr_changes.propose(partition, proposal)
        return response

    def _update_metadata(self, _peer: Peer, _payload: Payload, blob: memoryview, _fds: list[int]) -> None:
        version = CONTROL_REQUEST_VERSIONS["update_metadata"]
        request = decode(UpdateMetadataRequest, version, bytes(blob))
        before = self.metadata.brokers
        change = self.metadata.apply(request)
        self.progress.brokers_changed(before.keys() ^ self.metadata.brokers.keys())
        if departed := self.metadata.departed:
            self.timer.after(_DEPARTURE_MS, lambda: self.metadata.forget_departures(departed))
        changed = (self.metadata.topics[name] for name in change.changed if name in self.metadata.topics)
        if moved := self.partitions.moved_away(changed):
            self.tasks.spawn(self.partitions.drop_moved(moved, self.logs.delete))
        if request.type != FULL_UPDATE:
            # Only what the controller says to be deleted: a control process that has just come may not know all topics
            # yet, and offsets that are gone do not come back.
            self.offsets.partitions_deleted(change.deleted)
            if any(deleted.topic == CONSUMER_OFFSETS_TOPIC for deleted in change.deleted):
                self._offsets_partitions_seen = 0
        count = self.metadata.partition_count(CONSUMER_OFFSETS_TOPIC)
        self._offsets_partitions_seen = max(count, self._offsets_partitions_seen)

    def _stop_replica(
        self, _peer: Peer, _payload: Payload, blob: memoryview, _fds: list[int]
    ) -> Awaitable[Reply]:
        version = CONTROL_REQUEST_VERSIONS["stop_replica"]
        request = decode(StopReplicaRequest, version, bytes(blob))
        return self._decide(self.partitions.stop_replica(request, self.logs.delete), version)

    async def _decide(self, response: Awaitable[Message], version: int) -> Reply:
        return None, encode(await response, version), ()

    def _topic_configs(self, _peer: Peer, topics: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """The own settings of these topics are these now."""
        self.logs.set_topic_configs(topics)
        self.quotas.set_topic_configs(topics, self.partitions.broker_id)

    def _every_topic_config(self, _peer: Peer, topics: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """These topics have settings of their own, and no other has any."""
        self.logs.set_every_topic_config(topics)
        self.quotas.set_every_topic_config(topics, self.partitions.broker_id)

    def _broker_config(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """Take over dynamic broker settings: all that differ from the file, by key."""
        self.config = self.setup.config.replace(payload)
        self.quotas.set_rates(payload)
        self.fetchers.resize(self.config.num_replica_fetchers)
        self.logs.defaults_changed()
        self.tasks.spawn(self._read_limits())

    async def _read_limits(self) -> None:
        try:
            # Not on the loop: names of hosts are looked up.
            settings = await self.loop.run_in_executor(self.threads, LimitSettings.of, self.config)
        except ConfigError as error:
            log.error("The limits of connections stay as they were: %s", error)
        else:
            self.clients.limits.settings = settings

    def _identity(self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """Take the identity of this broker; before its first start only the store knows a generated id."""
        self.partitions.broker_id = payload["broker_id"]
        self.metadata.cluster_id = payload["cluster_id"]

    def _serve(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """The broker is registered and the first metadata are here: let clients in."""
        if not self.clients.accepts_for(self.index) and not self._stopping:
            self.clients.accept_for(self.index)

    def _tell_of_failure(self, directory: Path) -> None:
        self._line.note(lifeline.DIRECTORY_FAILED, str(directory))
        self.control_line.tell("log_dir_failed", str(directory))

    def _partition_changed(self, key: PartitionKey) -> None:
        self.fetchers.update(key)
        self.moves.update(key)
        self.progress.partition_changed(key)
        if key[0] == CONSUMER_OFFSETS_TOPIC:
            if key in self.partitions.led:
                self.groups.begin(key[1])
            else:
                self.groups.end(key[1])

    def _offsets_partitions(self) -> int:
        """How many partitions __consumer_offsets has, or is going to have.

        Never less than was seen, until the topic is deleted: with another number every group would be looked for, and
        made, in another partition.
        """
        return self._offsets_partitions_seen or self.config.offsets_topic_num_partitions


def main(setup: WorkerSetup) -> Callable[[Birth], int]:
    """What the supervisor runs in the forked child."""

    def run(birth: Birth) -> int:
        async def live() -> int:
            return await Worker(setup, birth).run()

        spare_what_lasts()
        return asyncio.run(live())

    return run
