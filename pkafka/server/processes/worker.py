"""A worker process: accepts clients on every listener and owns a share of the partitions.

Everything here runs on one event loop and belongs to one process, so nothing is locked. What it knows of the cluster
comes from the control process; what it does not own it asks of the worker that does, in one hop.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError, PkafkaError, StorageError
from pkafka.model import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, BrokerId, TopicPartition
from pkafka.net.buffers import Arena, ReadBuffers
from pkafka.net.page_cache import PageCache
from pkafka.net.together import Together
from pkafka.server import handlers
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.cluster.pulses import Pulses
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.delegation_tokens import token_settings
from pkafka.server.coordinator.keyed_topic import KeyedTopic
from pkafka.server.coordinator.topic_log import TopicLog
from pkafka.server.groups.coordinator import GroupCoordinator
from pkafka.server.groups.hosted import CoordinatorSettings, offsets_log_settings
from pkafka.server.groups.offset_keeper import OffsetKeeper
from pkafka.server.groups.routing import GroupRouter, Groups
from pkafka.server.groups.transactional_offsets import TransactionalOffsets
from pkafka.server.handlers import produce_append
from pkafka.server.ipc import lifeline, words
from pkafka.server.ipc.child import Birth, ChildMain, Life, main_of
from pkafka.server.ipc.garbage import spare_what_lasts
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Handler, Payload, Peer, PeerGone
from pkafka.server.ipc.tasks import Tasks
from pkafka.server.ipc.words import Hello
from pkafka.server.limits.address_rates import AddressRates
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.limits.connection_limits import ConnectionLimits
from pkafka.server.limits.replication_quota import ReplicationQuotas
from pkafka.server.metrics.counters import Metrics
from pkafka.server.processes.figures import figures
from pkafka.server.processes.worker_setup import WorkerSetup
from pkafka.server.replicas.appending import Appending
from pkafka.server.replicas.decisions import Decisions
from pkafka.server.replicas.delayed import Timer
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.fetch_sessions import FetchSessionCache
from pkafka.server.replicas.isr_changes import IsrChanges
from pkafka.server.replicas.logs import WorkerLogs
from pkafka.server.replicas.lookup import Lookup
from pkafka.server.replicas.moving import Moving
from pkafka.server.replicas.partition import PartitionKey
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.progress import Progress
from pkafka.server.replicas.selection import selector_of
from pkafka.server.replication.directory_moves import DirectoryMoves
from pkafka.server.replication.fetcher import Home, ReplicaFetchers
from pkafka.server.security import acl_rows
from pkafka.server.security.authorizer import authorizer_of
from pkafka.server.security.credentials import Credentials
from pkafka.server.security.encryption import Encryption
from pkafka.server.security.key_sets import KeySets
from pkafka.server.security.token_credentials import TokenCredentials
from pkafka.server.serving.appends import Appends
from pkafka.server.serving.authentication import Doors
from pkafka.server.serving.clients import Clients
from pkafka.server.serving.control_line import ControlLine
from pkafka.server.serving.dispatch import Dispatcher
from pkafka.server.serving.drain import Drain
from pkafka.server.serving.lent_files import LentFiles
from pkafka.server.serving.live_settings import LiveSettings
from pkafka.server.serving.neighbours import Neighbours
from pkafka.server.serving.orders import Orders
from pkafka.server.serving.peers import Peers
from pkafka.server.transactions import hosted
from pkafka.server.transactions.coordinator import TransactionCoordinator
from pkafka.server.transactions.incarnations import Incarnations
from pkafka.server.transactions.marker_appends import MarkerAppends
from pkafka.server.transactions.marker_links import ClientIds, MarkerLink
from pkafka.server.transactions.marker_owners import MarkerOwners
from pkafka.server.transactions.markers import MarkerSender
from pkafka.server.transactions.questions import CoordinatorQuestions
from pkafka.server.transactions.routing import TransactionRouter, Transactions
from pkafka.server.transactions.transaction import Producer
from pkafka.server.transactions.verification import Verifier

log = logging.getLogger(__name__)


class Worker:
    """The state of one worker process. Built on its event loop."""

    def __init__(self, setup: WorkerSetup, birth: Birth) -> None:
        self.setup = setup
        self.config = setup.config
        self.index = setup.index
        self.clock: Clock = SystemClock()
        self.metadata = MetadataCache()
        self.metrics = Metrics()
        self.authorizer = authorizer_of(setup.config)
        """None where every client may do everything."""
        self.loop = asyncio.get_running_loop()
        self.tasks = Tasks()
        self.timer = Timer(self.loop)
        self.threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="disk")
        self.flushers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="flush")
        """Flushes have threads of their own, so that a client that waits for a read does not wait for flushes."""
        slots = max(self.config.max_incremental_fetch_session_cache_slots // setup.workers, 1)
        self.fetch_sessions = FetchSessionCache(slots)
        self.partitions = Partitions(
            broker_id=self.config.broker_id,
            index=setup.index,
            workers=setup.workers,
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
        self.moving = Moving()
        self.disks = Disks(
            setup.directories,
            setup.unusable,
            self.partitions,
            self.moving,
            tell=self._tell_of_failure,
            give_up=self.give_up,
        )
        self.peers = Peers(setup.index, self.partitions.owner, Arena.create() if setup.workers > 1 else None)
        self.files = LentFiles(self.peers)
        self.appends = Appends(self.partitions, self.progress.fetches, self.peers)
        self.quotas = ReplicationQuotas(setup.replication_rates, self.clock)
        self.client_quotas = ClientQuotas(setup.client_rates, self.clock)
        self.logs = WorkerLogs(
            config=lambda: self.config,
            clock=self.clock,
            tasks=self.tasks,
            timer=self.timer,
            flushers=self.flushers,
            partitions=self.partitions,
            moving=self.moving,
            disks=self.disks,
            progress=self.progress,
            take_back=self.files.take_back,
            beat=self.beat,
            closing=self.closing,
        )
        self.appending = Appending(self.metrics, self.progress, self.logs.flush_appended, self.tasks.spawn)
        self.decisions = Decisions(self.partitions, self.logs, self.disks)
        self.moves = DirectoryMoves(
            index=setup.index,
            config=lambda: self.config,
            clock=self.clock,
            tasks=self.tasks,
            threads=self.threads,
            metadata=self.metadata,
            partitions=self.partitions,
            moving=self.moving,
            logs=self.logs,
            disks=self.disks,
            rate=setup.move_rate,
        )
        self.control_line = ControlLine()
        self.isr_changes = IsrChanges(
            self.partitions,
            self.progress,
            self.control_line,
            lambda: self.config.replica_lag_time_max_ms,
        )
        self.fetchers = ReplicaFetchers(
            Home(
                index=setup.index,
                workers=setup.workers,
                config=lambda: self.config,
                clock=self.clock,
                tasks=self.tasks,
                metadata=self.metadata,
                metrics=self.metrics,
                partitions=self.partitions,
                fetches=self.progress.fetches,
                disks=self.disks,
                quota=self.quotas.follower,
            )
        )
        self.pulses = Pulses(self.metadata, self.partitions.broker_id, lambda: self.config)
        self.offsets_topic = KeyedTopic(
            CONSUMER_OFFSETS_TOPIC,
            self.metadata,
            lambda: self.config.offsets_topic_num_partitions,
            self.control_line.auto_create,
        )
        self.state_topic = KeyedTopic(
            TRANSACTION_STATE_TOPIC,
            self.metadata,
            lambda: self.config.transaction_state_log_num_partitions,
            self.control_line.auto_create,
        )
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
            partition_of=self.offsets_topic.partition_of,
            timer=self.timer,
            clock=self.clock,
            spawn=self.tasks.spawn,
        )
        self.offsets = OffsetKeeper(self.groups)
        self.marker_owners = MarkerOwners(
            self.partitions,
            self.peers,
            MarkerAppends(self.partitions, self.appending, self.disks, self.groups, self.clock),
            Incarnations(lambda broker: broker in self.metadata.brokers),
            lambda: self.config.request_timeout_ms,
        )
        self._marker_client_ids = ClientIds(
            lambda: self.partitions.broker_id, setup.index, setup.start, self.clock
        )
        self.markers = MarkerSender(
            metadata=self.metadata,
            partitions=self.partitions,
            owners=self.marker_owners,
            new_link=self._marker_link,
            existing=self.control_line.existing_partitions,
            timer=self.timer,
            spawn=self.tasks.spawn,
            heals=self.config.transaction_fenced_markers_heal_enable,
        )
        self.transactions = TransactionCoordinator(
            hosted.CoordinatorSettings.of(self.config, setup.workers),
            state_log=TopicLog(
                TRANSACTION_STATE_TOPIC,
                hosted.state_log_settings(self.config),
                partitions=self.partitions,
                appending=self.appending,
                disks=self.disks,
                clock=self.clock,
            ),
            partition_of=self.state_topic.partition_of,
            leader_epoch_of=lambda partition: (
                self.partitions.led[TRANSACTION_STATE_TOPIC, partition].leader_epoch
            ),
            markers=self.markers,
            new_producer_id=lambda: self.control_line.ask(words.PRODUCER_ID, None),
            timer=self.timer,
            clock=self.clock,
            spawn=self.tasks.spawn,
        )
        self.questions = CoordinatorQuestions(
            coordinator=self.transactions,
            partition_of=self.state_topic.partition_of,
            metadata=self.metadata,
            partitions=self.partitions,
            peers=self.peers,
            config=lambda: self.config,
            timer=self.timer,
            spawn=self.tasks.spawn,
        )
        self.verifier = Verifier(
            self.partitions,
            self.questions,
            lambda: self.config.transaction_partition_verification_enable,
            self.clock,
        )
        self.transactional_offsets = TransactionalOffsets(
            self.groups,
            lambda transactional_id, producer, partition, done: self.verifier.verify(
                transactional_id, Producer(*producer), (CONSUMER_OFFSETS_TOPIC, partition), done
            ),
        )
        self._orders = Orders(
            metadata=self.metadata,
            decisions=self.decisions,
            progress=self.progress,
            isr_changes=self.isr_changes,
            timer=self.timer,
            tasks=self.tasks,
            metadata_changed=self._metadata_changed,
        )
        self.dispatcher: Dispatcher[Worker] = Dispatcher(
            self,
            handlers.FRAME_APIS,
            handlers.MESSAGE_APIS,
            handlers.CONTROL_APIS,
            tasks=self.tasks,
            metrics=self.metrics,
            quotas=self.client_quotas,
            control_line=self.control_line,
        )
        self.credentials = Credentials()
        token_keys = token_settings(setup.config)
        self.tokens = TokenCredentials(token_keys and token_keys.secret)
        self.key_sets = KeySets(lambda url, key: self.control_line.tell(words.MISSING_KEY, (url, key)))
        self.doors = Doors(
            setup.config, self.credentials, self.tokens, self.key_sets, self.dispatcher, self.clock
        )
        self._drain = Drain(self.peers)
        self._first = birth.first
        self._encryption = setup.encryption or Encryption(setup.config)
        queued = self.config.queued_max_request_bytes
        together = Together()
        self.clients = Clients(
            setup.listeners,
            lambda: self.config,
            ConnectionLimits(setup.connection_counts, setup.index, setup.limits, first=birth.first),
            AddressRates(setup.client_rates, self.clock),
            self.dispatcher,
            self.doors,
            self.peers.others,
            buffers=ReadBuffers(
                arena=self.peers.arena,
                frames_bytes_max=max(queued // setup.workers, 1) if queued > 0 else None,
            ),
            together=together,
            page_cache=PageCache(self.threads),
            encryption=self._encryption,
            ended=self._drain.changed,
            holds=self.authorizer is not None,
        )
        self.for_produce = produce_append.Means(
            authorizer=self.authorizer,
            partitions=self.partitions,
            lookup=self.lookup,
            disks=self.disks,
            appending=self.appending,
            metadata=self.metadata,
            metrics=self.metrics,
            clock=self.clock,
            peers=self.peers,
            clients=self.clients,
            client_quotas=self.client_quotas,
            verifier=self.verifier,
        )
        self.routing = GroupRouter(
            "group",
            Groups(
                self.groups,
                self.offsets,
                self.transactional_offsets,
                self.metadata,
                self.clock,
                self.authorizer,
            ),
            self.offsets_topic,
            workers=setup.workers,
            partitions=self.partitions,
            peers=self.peers,
            hand_over=self.clients.hand_over,
        )
        self.transaction_routing = TransactionRouter(
            "transaction",
            Transactions(self.transactions, self.offsets_topic, self.metadata, self.clock, self.authorizer),
            self.state_topic,
            workers=setup.workers,
            partitions=self.partitions,
            peers=self.peers,
            hand_over=self.clients.settle,
        )
        self._live_settings = LiveSettings(
            setup.config,
            self._take_settings,
            metadata=self.metadata,
            partitions=self.partitions,
            logs=self.logs,
            quotas=self.quotas,
            client_quotas=self.client_quotas,
            fetchers=self.fetchers,
            limits=self.clients.limits,
            address_rates=self.clients.address_rates,
            threads=self.threads,
            tasks=self.tasks,
        )
        self._configured = asyncio.Event()
        """Set once the topics' settings are known."""
        self._opened = asyncio.Event()
        self._stopping = False
        self._operations = self._table()
        self._neighbours = Neighbours(
            setup.index,
            self._operations,
            together=together,
            control_line=self.control_line,
            peers=self.peers,
            clients=self.clients,
            files=self.files,
            logs=self.logs,
            drain=self._drain,
            tasks=self.tasks,
            greet=self._greet_control,
        )
        self._life = Life(birth, meet=self._neighbours.meet, stop=self._stop, late=self._neighbours.late)

    # -- life --

    async def run(self) -> int:
        """Open the logs, serve until told to stop. Returns the exit code."""
        self.tasks.spawn_vital(self._life.beat_for_ever())
        opening = self.loop.create_task(self._open_logs_when_known())
        either: list[asyncio.Future[Any]] = [opening, self._life.ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
        return await self._life.ended

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
            self.moving.found_on_disk(found.future)
        except (StorageError, OSError) as error:
            self.give_up(f"Cannot open the logs: {error}")
            return
        # From here on silence means that this process hangs, and the control process may hand out leaders.
        self._life.booted()
        self._opened.set()
        self.logs.start()
        self.moves.start()
        self.tasks.spawn_vital(self.clients.close_idle_for_ever())
        self.tasks.spawn_vital(self.offsets.expire_for_ever())
        self.tasks.spawn_vital(self.transactions.abort_for_ever())
        self.tasks.spawn_vital(self.transactions.expire_for_ever())
        self.tasks.spawn_vital(self.isr_changes.send_for_ever())
        self.tasks.spawn_vital(self.isr_changes.shrink_for_ever())

    def give_up(self, reason: str) -> None:
        """Nothing is left that this worker, or one in its place, could do: the broker stops."""
        log.critical("%s", reason)
        self._life.end(ChildExit.CANNOT_BOOT)

    def beat(self) -> None:
        """Tell the supervisor that this process makes progress."""
        self._life.beat()

    def closing(self) -> None:
        """Tell the supervisor that the stop makes progress."""
        self._life.closing()

    def _stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._neighbours.stop()
        if self._opened.is_set():
            self.tasks.spawn_vital(self._end())
        elif not self._life.ended.done():
            # Checkpoints from half of the logs would be worse than none: the next start opens, and recovers, them all.
            log.warning("Stopped before all logs were open; they recover at the next start")
            self._life.end(ChildExit.CRASHED)

    async def _end(self) -> None:
        """Answer the requests in hand, then take no more, neither of clients nor of other workers; close the logs."""
        self.clients.take_no_more()
        # Members that wait for their group find another coordinator, or this one when it is back.
        self.groups.resign()
        self.transactions.resign()
        await self._drain.drain(self.clients)
        self.clients.close()
        self.fetchers.close()
        self.pulses.close()
        self.questions.close()
        self.markers.close()
        self.moves.close()
        self.partitions.resign()
        if self.authorizer is not None:
            self.authorizer.close()
        try:
            await self.logs.close(self._neighbours.cleaner)
        except (PkafkaError, OSError) as error:
            log.error("Closing the logs failed; they recover at the next start: %s", error)
            self._life.end(ChildExit.CRASHED)
            return
        self._life.end(ChildExit.CLEAN)

    # -- other processes --

    async def _greet_control(self, peer: Peer) -> None:
        try:
            if not self._opened.is_set():
                await peer.call(words.SETTINGS)
                self._configured.set()
            # Leadership of a log that is not open yet would open it a second time, as a new one.
            await self._opened.wait()
            knows = self.metadata.controller_epoch > 0
            await peer.call(words.HELLO, Hello(self.logs.producer_id_max(), knows))
        except PeerGone:
            return
        except ApiError as error:
            # Without settings and leaders this worker is of no use, and nothing would show that.
            self.tasks.crash(error)
        self.clients.take_held()
        self.control_line.greeted()

    def _table(self) -> dict[str, Handler]:
        """What other processes can ask of this one."""
        return {
            words.LEAVING: lambda _peer, _payload, _blob, _fds: self.fetchers.follow_no_more(),
            words.SERVE: self._serve,
            words.LOG_DIR_FAILED: lambda _peer, path, _blob, _fds: self.disks.directory_failed(Path(path)),
            words.METRICS: lambda _peer, _payload, _blob, _fds: figures(self),
            **self.peers.operations,
            **self.clients.operations,
            **self.routing.operations(handlers.GROUP_APIS),
            **self.transaction_routing.operations(handlers.TRANSACTION_APIS),
            **self.questions.operations,
            **self.marker_owners.operations,
            **handlers.operations(self),
            **self.files.operations(self),
            **self.appends.operations,
            **self.logs.compaction.operations,
            **self._live_settings.operations,
            **self.credentials.operations,
            **self.tokens.operations,
            **self.key_sets.operations,
            **self._orders.operations,
            **acl_rows.operations(self.authorizer),
            **self._drain.operations,
        }

    # -- what the parts say --

    def _marker_link(self, broker: BrokerId) -> MarkerLink:
        listener = self.config.inter_broker_listener_name
        return MarkerLink(
            broker,
            lambda: self.metadata.endpoint(broker, listener),
            self._marker_client_ids.next,
            lambda: self.config,
            self.tasks.spawn,
        )

    def _take_settings(self, config: BrokerConfig) -> None:
        self.config = config
        self._encryption.take(config)
        self.doors.take(config)

    def _serve(self, _peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """The broker is registered and the first metadata are here: let clients in."""
        if not self.clients.accepts_for(self.index) and not self._stopping:
            self.clients.accept_for(self.index)

    def _tell_of_failure(self, directory: Path) -> None:
        self._life.tell(lifeline.DIRECTORY_FAILED, str(directory))
        self.control_line.tell(words.LOG_DIR_FAILED, str(directory))

    def _metadata_changed(self, deleted: Sequence[TopicPartition]) -> None:
        # Offsets that are gone do not come back.
        self.offsets.partitions_deleted(deleted)
        self.offsets_topic.metadata_changed(deleted)
        self.state_topic.metadata_changed(deleted)

    def _partition_changed(self, key: PartitionKey) -> None:
        self.fetchers.update(key)
        self.moves.update(key)
        self.progress.partition_changed(key)
        if key[0] == CONSUMER_OFFSETS_TOPIC:
            if key in self.partitions.led:
                self.groups.begin(key[1])
            else:
                self.groups.end(key[1])
        elif key[0] == TRANSACTION_STATE_TOPIC:
            if key in self.partitions.led:
                self.transactions.begin(key[1])
            else:
                self.transactions.end_partition(key[1])


def main(setup: WorkerSetup) -> ChildMain:
    """What the supervisor runs in the forked child."""
    return main_of(lambda birth: Worker(setup, birth), begin=spare_what_lasts)
