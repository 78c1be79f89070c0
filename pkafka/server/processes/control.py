"""The control process: the broker's session with the coordination store, the controller when elected, and the
requests that change the cluster.

Its event loop talks to the workers; one controller thread does everything that blocks on the store, in one queue.
Losing the session ends the process: its successor begins a new session, registers the broker with a new epoch, and
the controller says everything again. When the process only dies, its successor goes on with the session, and learns
from the workers what they were told; should one of them have died too, it begins a new session. Meanwhile the workers
go on serving.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pkafka.clock import SystemClock
from pkafka.coordination.store import SessionExpiredError, SessionState, Store, StoreError, StoreFullError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import BrokerRegistration, LogDirEvent
from pkafka.errors import ApiError, PkafkaError, StorageError
from pkafka.model import BrokerId, TopicPartition
from pkafka.protocol.codec import decode_request, encode
from pkafka.protocol.registry import request_class
from pkafka.server.cluster.metadata import BrokerInfo
from pkafka.server.cluster.producer_ids import ProducerIds, skip_used_ids
from pkafka.server.cluster.sentinel import Sentinel
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import ProcessLoggers
from pkafka.server.config.dynamic import DYNAMIC_ONLY_KEYS
from pkafka.server.config.listeners import address_text
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.control import apis
from pkafka.server.control.adoption import adopt, find_topics, strangers
from pkafka.server.control.apis import ControlRequestContext
from pkafka.server.control.cluster_channels import ClusterChannels
from pkafka.server.control.identity import establish_identity
from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.control.registration import DuplicateBrokerIdError, EndpointTakenError, Registration
from pkafka.server.control.session_file import may_lack_records, read_session, write_session
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.control.to_controller import ToController
from pkafka.server.controller import nodes
from pkafka.server.controller.context import DeletionCounts
from pkafka.server.controller.controller import Controller
from pkafka.server.controller.state_store import remove_dead_controller
from pkafka.server.groups import store_offsets
from pkafka.server.handlers import create_topics
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import CLEANER, Birth, ChildMain, Life, main_of, worker_index
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Handler, Payload, Peer
from pkafka.server.policies import Policies
from pkafka.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from pkafka.server.metrics.page import BrokerFacts

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_CONTROLLER: Final = -1
_ORPHAN_MAX_S: Final = 0.5
"""How long ending the session may take when the supervisor is dead."""
_RECONNECT_PAUSE_S: Final = 1.0
_REREGISTER_PAUSE_S: Final = 0.1
_EXPIRY_SLACK_S: Final = 2.0
"""ZooKeeper ends sessions once a tick, so a session may end this much later than its time-out."""
_ABSENCE_S: Final = 2.0
"""How long a broker that waited for the end of its former session stays unregistered after it. In this time a
controller that has just been elected reads the registrations, and finds this broker gone."""
_UNHEARD_S: Final = 10.0
_UNHEARD_MAX_S: Final = 600.0
"""How long a broker that has heard from no controller waits before it logs that: at first, and at most later."""
_SCRAPE_MAX_S: Final = 5.0
_METRICS_OF_A_WORKER_MAX_S: Final = 2.0
"""The page leaves a worker out that does not answer within this time: operators need the page most when a worker
hangs."""


@dataclass(frozen=True, slots=True)
class ControlSetup:
    """Holds what the supervisor gives the control process before the fork."""

    config: BrokerConfig
    directories: Sequence[LogDirectory]
    ports: Mapping[str, int]
    """The port that each listener really has (0 in the configuration lets the kernel choose)."""
    store_file: Path
    session_file: Path
    """Keeps the id of the session with ZooKeeper, for the life after a crash."""
    adopt: bool


class Control:
    """The state of the control process. Built on its event loop."""

    def __init__(self, setup: ControlSetup, birth: Birth) -> None:
        self.setup = setup
        loggers = ProcessLoggers(carry=lambda *change: self._life.tell(lifeline.LOG_LEVEL, change))
        self.broker = ThisBroker(setup.config.broker_id, SystemClock(), loggers)
        self.siblings = Siblings()
        self.to_controller: ToController
        self._started_ms = self.broker.clock.now_ms()
        self._birth = birth
        self._loop = asyncio.get_running_loop()
        self._registration: Registration | None = None
        self._previous_session_id: int | None = None
        self._may_lack_records = False
        """Whether it may have lost what it acknowledged in its life before."""
        self._controller_sentinel: Sentinel | None = None
        self._failed_directories: set[str] = set()
        self._producer_id_max = -1
        """The highest producer id in the logs of this broker."""
        self._informed: set[int] = set()
        """Workers that have said what this broker has, to this process that has just come."""
        self._session = SessionState.CONNECTED
        self._tasks: set[asyncio.Task[Any]] = set()
        self.local_channels = LocalChannels(self.broker, self.siblings, setup.config.workers)
        self._operations: dict[str, Handler] = {
            "settings": self._settings,
            "hello": self._hello,
            "api": self._api,
            "auto_create": self._auto_create,
            "commit_to_store": self._commit_to_store,
            "fetch_from_store": self._fetch_from_store,
            "log_dir_failed": self._log_dir_failed,
            "alter_partition": self._alter_partition,
        }
        self._life = Life(
            birth,
            meet=self._meet,
            stop=self._stop,
            close=self._close,
            orphaned=self._orphaned,
        )

    # -- life --

    async def run(self) -> int:
        """Boot, then serve until told to end. Returns the exit code."""
        self._spawn(self._life.beat_for_ever())
        boot: asyncio.Task[Any] = self._loop.create_task(self._boot())
        await asyncio.wait([boot, self._life.ended], return_when=asyncio.FIRST_COMPLETED)
        if boot.done() and boot.exception() is not None:
            error = boot.exception()
            if isinstance(error, SessionExpiredError) and not self._birth.first:
                return ChildExit.SESSION_OVER
            if isinstance(error, (PkafkaError, OSError)):
                log.critical("The broker cannot start: %s", error)
                return ChildExit.CANNOT_BOOT if self._birth.first else ChildExit.CRASHED
            raise error  # type: ignore[misc]
        return await self._life.ended

    async def _boot(self) -> None:
        config = self.setup.config
        self.broker.policies = Policies.of(config)
        self.broker.store = await self._connect()
        self._previous_session_id = self._take_session_file()
        self._life.tell(lifeline.SESSION, [self.broker.store.session_id, self.broker.store.session_password])
        self.broker.store.on_session(self._on_session)
        self._life.booted()
        identity = await asyncio.to_thread(
            establish_identity, self.broker.store, config, self.setup.directories, adopt=self.setup.adopt
        )
        self.broker.take_identity(identity)
        if config.zookeeper_connect is None and self._birth.first:
            await asyncio.to_thread(self._look_for_strangers)
        self.broker.controller = Controller(
            self.broker.broker_id,
            config=lambda: self.broker.config,
            channels=ClusterChannels(
                self.local_channels, self.broker.broker_id, lambda: self.broker.config, self._broker_died
            ),
            clock=self.broker.clock,
            previous_session_id=self._previous_session_id,
            on_controller=self._on_controller,
        )
        self.broker.configs = ConfigRepository(
            config,
            self.broker.broker_id,
            clock=self.broker.clock,
            on_change=self._on_config_change,
            post=self._post_to_controller,
        )
        await asyncio.to_thread(self.broker.configs.start, self.broker.store)
        self.to_controller = ToController(self.broker, self.local_channels)
        self.broker.identified.set()
        self._configure_cleaner()
        self._spawn(self.local_channels.run())
        for index in range(config.workers):
            await self.siblings.worker(index)
        self._registration = Registration(
            self.broker.broker_id, lambda: self.broker.config, self.setup.ports, clock=self.broker.clock
        )
        goes_on = await asyncio.to_thread(self._is_registered)
        if self._birth.first:
            # Only the first start checks: its successors keep the addresses, even if another broker has come with them
            # since.
            await asyncio.to_thread(self._registration.check_endpoints, self.broker.store)
        self.broker.broker_epoch = await self._register(self._registration)
        if config.zookeeper_connect is not None:
            # Written only now: if this process dies while it waits, the next one has to wait as well.
            write_session(self.setup.session_file, self.broker.store.session_id)
        self.broker.store.watch_data(
            BrokerRegistration.path(self.broker.broker_id), lambda _: self._look_for_own_node()
        )
        # A log may know producers that another broker, or an older state of the store, gave their ids.
        await asyncio.to_thread(
            skip_used_ids, self.broker.store, self.broker.broker_id, self._producer_id_max
        )
        self.broker.producer_ids = ProducerIds(self.broker.broker_id)
        self.broker.controller.start(self.broker.store)
        await asyncio.wrap_future(self.broker.controller.submit(lambda: None))
        if goes_on and not self.broker.controller.is_active and len(self._informed) < config.workers:
            # A worker died with the control process, so no process knows its partitions, and the controller does not
            # repeat its requests within a session.
            await self._begin_session("A worker died with the control process")
            return
        if self.broker.controller.is_active:
            # The first client must see all topics that exist.
            await self.local_channels.settled()
        else:
            # The controller is another broker, which sends the metadata to this broker's listeners.
            self.siblings.let_clients_in()
        await self._hear_of_itself(self._registration)
        self.broker.booted.set()
        self.siblings.let_clients_in()
        self._open_metrics_page()
        self._life.tell(lifeline.READY, self._facts())

    async def _hear_of_itself(self, registration: Registration) -> None:
        """Wait until a controller has told this broker of the cluster, and say meanwhile why it may not."""
        with contextlib.suppress(StoreError):
            for sentence in await asyncio.to_thread(registration.out_of_reach, self.broker.store):
                log.error("%s", sentence)
        patience_s = _UNHEARD_S
        while not await self.broker.metadata.wait_until(
            lambda: self.broker.broker_id in self.broker.metadata.brokers, timeout_s=patience_s
        ):
            with contextlib.suppress(StoreError):
                log.warning(
                    "No controller has told this broker of the cluster yet; it is not ready until then. %s",
                    await asyncio.to_thread(
                        registration.why_unheard,
                        self.broker.store,
                        self.broker.controller.active_controller_id,
                    ),
                )
            patience_s = min(2 * patience_s, _UNHEARD_MAX_S)

    def _open_metrics_page(self) -> None:
        if self.broker.config.metrics_port < 0:
            return
        from pkafka.server.metrics.server import MetricsServer

        try:
            page = MetricsServer(
                self.broker.config.metrics_host, self.broker.config.metrics_port, self._collect_metrics
            )
        except OSError as error:
            log.error("No metrics page on port %d: %s", self.broker.config.metrics_port, error.strerror)
            return
        log.info("Metrics on http://%s:%d/metrics", self.broker.config.metrics_host, page.port)

    def _collect_metrics(self) -> "tuple[Sequence[Mapping[str, Any]], BrokerFacts]":
        """Everything that the page shows; called on the page's thread."""
        return asyncio.run_coroutine_threadsafe(self._ask_for_metrics(), self._loop).result(_SCRAPE_MAX_S)

    async def _ask_for_metrics(self) -> "tuple[Sequence[Mapping[str, Any]], BrokerFacts]":
        from pkafka.server.metrics.page import BrokerFacts

        calls = [
            asyncio.wait_for(peer.call("metrics"), _METRICS_OF_A_WORKER_MAX_S)
            for peer in self.siblings.workers
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        cleaner = await self._ask_cleaner()
        deletion = await self._count_deletions()
        partitions = [
            one for topic in self.broker.metadata.topics.values() for one in topic.partitions.values()
        ]
        facts = BrokerFacts(
            active_controller=self.broker.controller.is_active,
            topics=len(self.broker.metadata.topics),
            partitions=len(partitions),
            offline_partitions=sum(one.leader < 0 for one in partitions),
            log_cleaner=cleaner,
            preferred_imbalance=sum(one.replicas[:1] != (one.leader,) for one in partitions),
            offline_replicas=sum(self.broker.broker_id in one.offline_replicas for one in partitions),
            live_brokers=len(self.broker.metadata.brokers),
            cluster_id=self.broker.cluster_id,
            broker_id=self.broker.broker_id,
            started_ms=self._started_ms,
            deletion=deletion.by_name() if deletion is not None else {},
            controller_queue=self.broker.controller.queue_size,
            controller_times=self.broker.controller.stats.by_name(),
            unclean_elections=self.broker.controller.stats.unclean_elections,
        )
        return [answer[0] for answer in answers if not isinstance(answer, BaseException)], facts

    async def _count_deletions(self) -> DeletionCounts | None:
        """Return the counts; None when the controller has not answered in time."""
        if not self.broker.controller.is_active:
            return DeletionCounts()
        counted = self.broker.controller.run(self.broker.controller.context.deletion_counts)
        try:
            return await asyncio.wait_for(counted, _METRICS_OF_A_WORKER_MAX_S)
        except (PkafkaError, TimeoutError):
            return None

    async def _ask_cleaner(self) -> Mapping[str, Any]:
        if self.siblings.cleaner is None:
            return {}
        asked = self.siblings.cleaner.call("metrics")
        try:
            metrics: Mapping[str, Any] = (await asyncio.wait_for(asked, _METRICS_OF_A_WORKER_MAX_S))[0]
        except (PkafkaError, TimeoutError):
            return {}
        return metrics

    async def _register(self, registration: Registration) -> int:
        """Make the broker's node, when the node that a killed run of this broker left has gone with its session."""
        deadline_s = (
            self._loop.time() + self.setup.config.zookeeper_session_timeout_ms / 1000 + _EXPIRY_SLACK_S
        )
        waits = False
        if self._may_lack_records:
            log.info(
                "The machine was restarted, or the data copied: waiting for the end of the former session"
            )
            await self._be_away(deadline_s)
        while True:
            try:
                return await asyncio.to_thread(
                    registration.register, self.broker.store, self._previous_session_id
                )
            except DuplicateBrokerIdError as error:
                if self._loop.time() > deadline_s:
                    raise
                if not waits:
                    log.warning("%s Waiting for that long.", error)
                waits = True
                await self._be_away(deadline_s)

    async def _be_away(self, deadline_s: float) -> None:
        """Wait for the end of this broker's former session, and until a controller has noticed it.

        If this broker was the controller, the role ended with the session. The new controller must read that this
        broker is gone, and not find it there as if it had never been away: it may have lost records. That also holds
        when the session has ended already, as it may have ended just now.
        """
        path = BrokerRegistration.path(self.broker.broker_id)
        while (  # noqa: ASYNC110 - the store has no event for it
            await asyncio.to_thread(self.broker.store.exists, path) and self._loop.time() <= deadline_s
        ):
            await asyncio.sleep(_REREGISTER_PAUSE_S)
        await asyncio.sleep(_ABSENCE_S)

    def _is_registered(self) -> bool:
        """Whether this process goes on in its predecessor's session, with the node that is there."""
        if self._birth.session is None or self.setup.config.zookeeper_connect is None:
            return False  # the session is new, or no other broker can be the controller
        stat = self.broker.store.exists(BrokerRegistration.path(self.broker.broker_id))
        return stat is not None and stat.ephemeral_owner == self.broker.store.session_id

    def _look_for_strangers(self) -> None:
        """Take over the partitions that the embedded store does not know, or tell of them."""
        directories = self.setup.directories
        if self.setup.adopt:
            adopt(self.broker.store, find_topics(directories), self.broker.broker_id, self.setup.config)
        elif count := strangers(self.broker.store, directories):
            log.warning(
                "%d partitions in the log directories belong to no topic of this broker and are not served;"
                " start with --adopt to take them over",
                count,
            )

    async def _connect(self) -> Store:
        """Open the store, resuming the predecessor's session; after the first start, wait for it without end."""
        told = ""
        while True:
            try:
                return await asyncio.to_thread(self._open_store)
            except StoreError as error:
                if self._birth.first:
                    raise
                if told != str(error):
                    told = str(error)
                    log.warning("The coordination store does not answer (%s); trying again", error)
                await asyncio.sleep(_RECONNECT_PAUSE_S)

    def _open_store(self) -> Store:
        config = self.setup.config
        session = self._birth.session
        if config.zookeeper_connect is None:
            from pkafka.coordination.embedded import EmbeddedStore

            return EmbeddedStore(self.setup.store_file, resume=session)
        from pkafka.coordination.zookeeper import PIPELINE_REQUESTS_MAX, ZooKeeperStore

        # Kafka's default of 10 would make a start with many partitions slow, so it counts only when it is set.
        in_flight_max = PIPELINE_REQUESTS_MAX
        if config.is_set("zookeeper.max.in.flight.requests"):
            in_flight_max = config.zookeeper_max_in_flight_requests
        return ZooKeeperStore(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms,
            connect_timeout_ms=config.zookeeper_connection_timeout_ms,
            resume=session,
            create_chroot=True,
            in_flight_max=in_flight_max,
        )

    def _facts(self) -> dict[str, Any]:
        hosts = {one.name: address_text(one.host or "localhost") for one in self.setup.config.listeners}
        return {
            "broker_id": self.broker.broker_id,
            "cluster_id": self.broker.cluster_id,
            "listeners": [f"{hosts[name]}:{port}" for name, port in self.setup.ports.items()],
        }

    def _take_session_file(self) -> int | None:
        """The session of this broker's former run, which is dead: it held the directory lock that this process holds
        now.

        Its nodes in the store may be replaced before that session ends.
        """
        if self.setup.config.zookeeper_connect is None:
            return None  # the embedded store has nothing that outlives its process
        self._may_lack_records = may_lack_records(self.setup.session_file)
        if self._birth.session is not None:
            return self._birth.session[0]
        return read_session(self.setup.session_file)

    # -- other brokers --

    def _broker_died(self, broker: BrokerId) -> None:
        log.warning("Broker %d is dead: it refuses connections at all its listeners", broker)
        # The epoch is that of the run that ended: before the controller acts, the broker may be registered anew.
        epoch = self.broker.controller.broker_epoch(broker)
        if epoch is not None:
            self._spawn(self._tell_store(lambda: self.broker.controller.office().bury_broker(broker, epoch)))

    def _on_controller(self, broker: BrokerId) -> None:
        self._loop.call_soon_threadsafe(self._watch_controller, broker)

    def _watch_controller(self, broker: BrokerId) -> None:
        """Another broker is the controller: should it die, the role is free at once."""
        if self._controller_sentinel is not None:
            self._controller_sentinel.close()
            self._controller_sentinel = None
        if broker not in (NO_CONTROLLER, self.broker.broker_id):
            self._spawn(self._place_sentinel(broker))

    async def _place_sentinel(self, broker: BrokerId) -> None:
        def look() -> tuple[BrokerInfo, int] | None:
            found = self.broker.store.get_many([nodes.broker(broker), nodes.CONTROLLER])
            if found[0] is None or found[1] is None or nodes.decode_controller(found[1][0]) != broker:
                return None
            return nodes.decode_broker(broker, found[0][0]), found[1][1].czxid

        try:
            seen = await self.broker.run_on_store(look)
        except (StoreError, ZnodeFormatError) as error:
            log.info("Nothing is known of the controller, broker %d: %s", broker, error)
            return
        if seen is None or not seen[0].is_pkafka or self.broker.controller.active_controller_id != broker:
            return
        info, czxid = seen

        def died() -> None:
            log.warning(
                "The controller, broker %d, is dead: it refuses connections at all its listeners", broker
            )
            self._spawn(self._tell_store(lambda: remove_dead_controller(self.broker.store, broker, czxid)))

        self._controller_sentinel = Sentinel([*info.endpoints.values()], died)

    async def _tell_store(self, call: Callable[[], None]) -> None:
        try:
            await self.broker.run_on_store(call)
        except (StoreError, ApiError, ZnodeFormatError) as error:
            # The session of the dead broker ends anyway.
            log.info("The death of a broker could not be written down: %s", error)

    def _look_for_own_node(self) -> None:
        """Called on a thread of the store: the registration of this broker may be gone."""
        self._loop.call_soon_threadsafe(lambda: self._spawn(self._check_own_node()))

    async def _check_own_node(self) -> None:
        if self._life.ended.done() or not self.broker.booted.is_set():
            return
        try:
            found = await self.broker.run_on_store(
                self.broker.store.exists, BrokerRegistration.path(self.broker.broker_id)
            )
        except StoreError:
            return  # the store does not answer; the end of the session is noticed elsewhere
        if found is None and not self._life.ended.done():
            await self._begin_session("The registration of this broker is gone")

    async def _begin_session(self, reason: str) -> None:
        """End this process and the session: its successor has another one, and hears everything of the controller."""
        log.warning("%s; beginning a new session", reason)
        self._life.tell(lifeline.SESSION, None)
        with contextlib.suppress(StoreError, StorageError):
            await asyncio.to_thread(self.broker.store.close)
        self._life.end(ChildExit.SESSION_OVER)

    def _orphaned(self, _line: Peer) -> None:
        """The supervisor is dead, and the workers with it: ending the session lets others take over at once."""
        threading.Timer(_ORPHAN_MAX_S, os._exit, [ChildExit.ORPHANED]).start()

        def end() -> None:
            try:
                if self.setup.config.zookeeper_connect is not None:
                    self.broker.close_store()
            finally:
                os._exit(ChildExit.ORPHANED)

        threading.Thread(target=end, daemon=True).start()

    # Called on threads of the store and of the controller; everything here belongs to the event loop.

    def _on_session(self, state: SessionState) -> None:
        self._loop.call_soon_threadsafe(self._session_changed, state)

    def _on_config_change(self, entity_type: str, entity_name: str, configs: Mapping[str, str]) -> None:
        self._loop.call_soon_threadsafe(self._config_changed, entity_type, entity_name, configs)

    def _post_to_controller(self, call: Callable[[], None]) -> None:
        self.broker.controller.submit(call)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            log.warning(
                "No connection to ZooKeeper (%s): records flow, changes of topics and configurations wait",
                self.setup.config.zookeeper_connect,
            )
        elif state is SessionState.CONNECTED and self._session is SessionState.SUSPENDED:
            log.info("The connection to ZooKeeper is back, and the session goes on")
        self._session = state
        if state is SessionState.EXPIRED and not self._life.ended.done():
            log.warning("The session with the coordination store has expired; beginning a new one")
            self._life.tell(lifeline.SESSION, None)
            self._life.end(ChildExit.SESSION_OVER)

    def _stop(self) -> None:
        self._spawn(self._release())

    async def _release(self) -> None:
        """Controlled shutdown: others take over what this broker leads, before its workers end."""
        if self.broker.booted.is_set() and self.broker.config.controlled_shutdown_enable:
            self.siblings.tell_workers("leaving", None)
            going_on = self._spawn(self._say_that_the_stop_goes_on())
            await self.to_controller.shut_down()
            going_on.cancel()
        self._life.tell(lifeline.RELEASED)

    async def _say_that_the_stop_goes_on(self) -> None:
        """Have the supervisor wait for as many attempts, and pauses between them, as the settings allow."""
        while True:
            self._life.closing()
            await asyncio.sleep(lifeline.BEAT_INTERVAL_S)

    def _close(self) -> None:
        self._spawn(self._give_back())

    async def _give_back(self) -> None:
        code = ChildExit.CLEAN
        try:
            if self.broker.booted.is_set():
                await asyncio.to_thread(self.broker.controller.stop)
            await asyncio.to_thread(self.broker.close_store)
        except (StoreError, StorageError) as error:
            log.error("The coordination store could not be told that the broker stops: %s", error)
            code = ChildExit.CRASHED
        self.broker.policies.close()
        self._life.end(code)

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":  # noqa: ANN401
        task = lifeline.vital(self._loop.create_task(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- workers --

    def _meet(self, name: str, sock: socket.socket) -> None:
        peer = Peer(name, sock, self._operations, on_gone=self.siblings.lost)
        if (index := worker_index(name)) is not None:
            peer.index = index
        elif name == CLEANER:
            self.siblings.cleaner = peer
            if self.broker.identified.is_set():
                self._configure_cleaner()

    async def _hello(
        self, peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> dict[str, Any]:
        """A worker has opened its logs: bring it up to date and let it take part."""
        self._producer_id_max = max(self._producer_id_max, payload["producer_id_max"])
        await self.broker.identified.wait()
        self.siblings.follow(peer)
        await self._tell_settings(peer)
        if payload["knows"]:
            await self.local_channels.learn_from(peer)
            self._informed.add(peer.index)
        else:
            await self.local_channels.bring_up_to_date(peer)
        await self.siblings.take_part(peer)
        return {}

    async def _settings(
        self, peer: Peer, _payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> dict[str, Any]:
        """A worker is about to open its logs; it hears of changes when it has opened them."""
        await self.broker.identified.wait()
        await self._tell_settings(peer)
        return {}

    async def _tell_settings(self, peer: Peer) -> None:
        await peer.call(
            "identity", {"broker_id": self.broker.broker_id, "cluster_id": self.broker.cluster_id}
        )
        await peer.call("broker_config", self._dynamic_broker_settings())
        await peer.call(
            "every_topic_config",
            {name: dict(configs) for name, configs in self.broker.configs.topics().items()},
        )

    # -- configuration --

    def _dynamic_broker_settings(self) -> dict[str, str | None]:
        static = self.setup.config.originals
        current = self.broker.configs.layers.current.originals
        changed: dict[str, str | None] = {
            key: text for key, text in current.items() if static.get(key) != text
        }
        changed.update({key: None for key in static if key not in current})
        # Per-broker settings count only here: they are sent even if the file has the same value, and the file's are
        # not.
        layers = self.broker.configs.layers
        for key in DYNAMIC_ONLY_KEYS:
            changed[key] = layers.broker.get(key, layers.cluster.get(key))
        return changed

    def _config_changed(self, entity_type: str, entity_name: str, configs: Mapping[str, str]) -> None:
        key = "unclean.leader.election.enable"
        if entity_type == "topics":
            if configs.get(key, "").strip().lower() == "true":
                self.broker.controller.allow_unclean_election(entity_name)
            self.siblings.tell_workers("topic_configs", {entity_name: dict(configs)})
        elif entity_type == "brokers":
            if key in configs and self.broker.config.unclean_leader_election_enable:
                self.broker.controller.allow_unclean_election(None)
            if self._registration is not None:
                self._spawn(self._update_registration(self._registration))
            self.siblings.tell_workers("broker_config", self._dynamic_broker_settings())
            self._configure_cleaner()

    def _configure_cleaner(self) -> None:
        if self.siblings.cleaner is not None:
            self.siblings.cleaner.note("broker_config", self._dynamic_broker_settings())

    async def _update_registration(self, registration: Registration) -> None:
        try:
            await self.broker.run_on_store(registration.update, self.broker.store)
        except EndpointTakenError as error:
            log.error("Per-broker configs of %d could not be applied: %s", self.broker.broker_id, error)
        except StoreError as error:
            # Without a session there is no node; the next node is made with the configuration of that time.
            log.warning("The registration of this broker could not be renewed: %s", error)

    # -- requests --

    async def _api(self, _peer: Peer, payload: Payload, blob: memoryview, _fds: list[int]) -> Any:  # noqa: ANN401
        key, version = payload[0], payload[1]
        body = bytes(blob)
        if key not in apis.OF_CONTROLLERS:
            await self.broker.booted.wait()
        request = decode_request(request_class(key), version, body)
        context = ControlRequestContext(self.broker, self.local_channels, payload[2], payload[3])
        response = await apis.HANDLERS[key](context, request, version)
        return None, encode(response, version), ()

    async def _auto_create(
        self, _peer: Peer, names: Payload, _blob: memoryview, _fds: list[int]
    ) -> dict[str, int]:
        await self.broker.booted.wait()
        context = ControlRequestContext(self.broker, self.local_channels)
        return {name: int(code) for name, code in (await create_topics.auto_create(context, names)).items()}

    async def _commit_to_store(
        self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[int]:
        """OffsetCommit v0: an error code for each (topic, partition, offset)."""
        await self.broker.booted.wait()
        group, rows = payload
        offsets = [(TopicPartition(topic, partition), offset) for topic, partition, offset in rows]
        return await self.broker.run_on_store(store_offsets.commit, self.broker.store, group, offsets)

    async def _fetch_from_store(
        self, _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[tuple[int, int]]:
        """OffsetFetch v0: error code and offset for each (topic, partition)."""
        await self.broker.booted.wait()
        group, rows = payload
        partitions = [TopicPartition(*row) for row in rows]
        return await self.broker.run_on_store(store_offsets.fetch, self.broker.store, group, partitions)

    async def _alter_partition(
        self, _peer: Peer, rows: Payload, _blob: memoryview, _fds: list[int]
    ) -> list[list[Any]]:
        """Send the ISRs that leaders of this broker propose; returns the controller's answers, row by row."""
        await self.broker.identified.wait()
        return await self.to_controller.alter_partition(rows)

    async def _log_dir_failed(self, _peer: Peer, path: Payload, _blob: memoryview, _fds: list[int]) -> None:
        """A disk failed: the other workers stop using it, and the controller asks which replicas are lost."""
        if path in self._failed_directories:
            return
        self._failed_directories.add(path)
        self.siblings.tell_workers("log_dir_failed", path)
        await self.broker.booted.wait()
        event = LogDirEvent(self.broker.broker_id)
        told = False
        while not told:
            try:
                await self.broker.run_on_store(
                    lambda: self.broker.store.create(event.create_path(), event.encode(), sequential=True)
                )
                told = True
            except StoreFullError:
                # The store may lie on the full disk; this tries again until there is room.
                await asyncio.sleep(_RECONNECT_PAUSE_S)
            except (StoreError, StorageError) as error:
                log.error("Cannot tell the controller that %s failed: %s", path, error)
                return


def main(setup: ControlSetup) -> ChildMain:
    """What the supervisor runs in the forked child."""
    return main_of(lambda birth: Control(setup, birth), leaves_threads=True)
