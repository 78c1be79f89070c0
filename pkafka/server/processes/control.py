"""The control process: the broker's session with the coordination store, the controller when elected, and the
requests that change the cluster.

Its event loop talks to the workers; one controller thread does everything that blocks on the store, in one queue.
Losing the session ends the process: its successor begins a new session, registers the broker with a new epoch, and
the controller says everything again. When the process only dies, its successor goes on with the session, and learns
from the workers what they were told; should one of them have died too, it begins a new session. Meanwhile the workers
go on serving.

The parts are in ``pkafka/server/control/``; here they are put together, and the process begins and ends.
"""

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pkafka.clock import SystemClock
from pkafka.coordination.store import SessionExpiredError, SessionState, Store, StoreError
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.errors import PkafkaError, StorageError
from pkafka.model import BrokerId
from pkafka.server.cluster.producer_ids import ProducerIds, skip_used_ids
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.broker_loggers import ProcessLoggers
from pkafka.server.config.delegation_tokens import token_settings
from pkafka.server.config.listeners import address_text
from pkafka.server.config.repository import ConfigRepository
from pkafka.server.control.acl_keeper import AclKeeper
from pkafka.server.control.adoption import look_for_strangers
from pkafka.server.control.cluster_channels import ClusterChannels
from pkafka.server.control.config_fanout import ConfigFanout
from pkafka.server.control.credential_fanout import CredentialFanout
from pkafka.server.control.deaths import Deaths
from pkafka.server.control.greeting import Greeting
from pkafka.server.control.identity import establish_identity
from pkafka.server.control.key_sets import KeySetFanout
from pkafka.server.control.local_channels import LocalChannels
from pkafka.server.control.registration import EndpointTakenError, Registration, hear_of_cluster
from pkafka.server.control.requests import Requests
from pkafka.server.control.scrape import Scrape
from pkafka.server.control.session import BrokerSession, open_store
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.control.to_controller import ToController
from pkafka.server.control.token_keeper import TokenKeeper
from pkafka.server.controller.controller import Controller
from pkafka.server.ipc import lifeline, words
from pkafka.server.ipc.child import CLEANER, Birth, ChildMain, Life, main_of, worker_index
from pkafka.server.ipc.lifeline import ChildExit
from pkafka.server.ipc.peer import Handler, Peer
from pkafka.server.limits.mutation_quotas import MutationQuotas
from pkafka.server.policies import Policies
from pkafka.server.security.authorizer import AclAuthorizer, authorizer_of
from pkafka.server.security.encryption import Encryption
from pkafka.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)

_ORPHAN_MAX_S: Final = 0.5
"""How long ending the session may take when the supervisor is dead."""


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
    encryption: Encryption | None = None
    """Of the listeners, as the stores were before the start; None: to be made of the settings."""


class Control:
    """The state of the control process. Built on its event loop."""

    def __init__(self, setup: ControlSetup, birth: Birth) -> None:
        self.setup = setup
        loggers = ProcessLoggers(carry=lambda *change: self._life.tell(lifeline.LOG_LEVEL, change))
        self.broker = ThisBroker(
            setup.config.broker_id,
            SystemClock(),
            loggers,
            setup.encryption or Encryption(setup.config),
            MutationQuotas.of_config(setup.config, SystemClock()),
        )
        self.siblings = Siblings()
        self.local_channels = LocalChannels(self.broker, self.siblings, setup.config.workers)
        self.to_controller: ToController
        """There once this broker is identified."""
        self.deaths = Deaths(self.broker, self._spawn)
        self.key_sets = KeySetFanout(setup.config, self.siblings, self._spawn)
        self.fanout = ConfigFanout(setup.config, self.broker, self.siblings, self.key_sets, self._advertise)
        self.credentials = CredentialFanout(self.broker, self.siblings)
        self.greeting = Greeting(
            self.broker,
            self.siblings,
            self.local_channels,
            [self.fanout.tell_all, self.credentials.tell_all, self.key_sets.tell_all],
        )
        self.requests = Requests(
            self.broker,
            self.siblings,
            self.local_channels,
            alter_partition=lambda rows: self.to_controller.alter_partition(rows),
        )
        self._scrape = Scrape(self.broker, self.siblings)
        self._birth = birth
        self._loop = asyncio.get_running_loop()
        self._session = BrokerSession(setup.config, birth, setup.session_file, self.broker)
        self._session_state = SessionState.CONNECTED
        self._registration: Registration | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._operations: dict[str, Handler] = {
            **self.greeting.operations,
            **self.requests.operations,
            **self.key_sets.operations,
        }
        self._life = Life(birth, meet=self._meet, stop=self._stop, close=self._close, orphaned=self._orphaned)

    async def run(self) -> int:
        """Boot, then serve until told to end. Returns the exit code."""
        self._spawn(self._life.beat_for_ever())
        boot: asyncio.Task[Any] = self._loop.create_task(self._boot())
        await asyncio.wait([boot, self._life.ended], return_when=asyncio.FIRST_COMPLETED)
        error = boot.exception() if boot.done() else None
        if error is None:
            return await self._life.ended
        if isinstance(error, SessionExpiredError) and not self._birth.first:
            return ChildExit.SESSION_OVER
        if isinstance(error, (PkafkaError, OSError)):
            log.critical("The broker cannot start: %s", error)
            return ChildExit.CANNOT_BOOT if self._birth.first else ChildExit.CRASHED
        raise error

    # -- the boot --

    async def _boot(self) -> None:
        await self._begin()
        await self._identify()
        registration = Registration(
            self.broker.broker_id, lambda: self.broker.config, self.setup.ports, clock=self.broker.clock
        )
        self._registration = registration
        goes_on = await asyncio.to_thread(self._session.goes_on)
        await self._register(registration)
        controller = self.broker.controller
        controller.start(self.broker.store)
        await asyncio.wrap_future(controller.submit(lambda: None))
        if goes_on and not controller.is_active and len(self.greeting.informed) < self.setup.config.workers:
            # A worker died with the control process, so no process knows its partitions, and the controller does not
            # repeat its requests within a session.
            await self._begin_session("A worker died with the control process")
            return
        if controller.is_active:
            # The first client must see all topics that exist.
            await self.local_channels.settled()
        else:
            # The controller is another broker, which sends the metadata to this broker's listeners.
            self.siblings.let_clients_in()
        await hear_of_cluster(self.broker, registration)
        self.broker.booted.set()
        if self.broker.tokens is not None:
            self._spawn(self.broker.tokens.expire_for_ever(lambda: controller.is_active))
        self.siblings.let_clients_in()
        self._scrape.open_page()
        self._life.tell(lifeline.READY, self._facts())

    async def _begin(self) -> None:
        """Open the store, in a session."""
        self.broker.policies = Policies.of(self.setup.config)
        self.broker.authorizer = authorizer_of(self.setup.config)
        self.broker.store = store = await self._session.connect(self._open_store)
        self._session.recall()
        self._life.tell(lifeline.SESSION, [store.session_id, store.session_password])
        store.on_session(self._on_session)
        self._life.booted()

    def _open_store(self) -> Store:
        return open_store(self.setup.config, self.setup.store_file, self._birth.session)

    async def _identify(self) -> None:
        """Learn the ids and the settings, and wait until all workers take part."""
        config, broker, store = self.setup.config, self.broker, self.broker.store
        directories, adopts = self.setup.directories, self.setup.adopt
        broker.take_identity(
            await asyncio.to_thread(establish_identity, store, config, directories, adopt=adopts)
        )
        if config.zookeeper_connect is None and self._birth.first:
            await asyncio.to_thread(
                look_for_strangers, store, directories, broker.broker_id, config, takes_over=adopts
            )
        channels = ClusterChannels(
            self.local_channels, broker.broker_id, lambda: broker.config, self.deaths.broker_died
        )
        broker.controller = Controller(
            broker.broker_id,
            config=lambda: broker.config,
            channels=channels,
            clock=broker.clock,
            previous_session_id=self._session.previous_id,
            on_controller=self._on_controller,
        )
        broker.configs = ConfigRepository(
            config,
            broker.broker_id,
            clock=broker.clock,
            on_change=self._on_config_change,
            post=self._post_to_controller,
        )
        await asyncio.to_thread(broker.configs.start, store)
        await self._read_acls()
        await self._read_tokens()
        self.to_controller = ToController(broker, self.local_channels)
        broker.identified.set()
        self.key_sets.take(broker.config)
        self.key_sets.start()
        self.fanout.tell_cleaner()
        self._spawn(self.local_channels.run())
        for index in range(config.workers):
            await self.siblings.worker(index)

    async def _read_acls(self) -> None:
        """Read the rules of the cluster where this broker decides by them."""
        broker = self.broker
        if isinstance(broker.authorizer, AclAuthorizer):
            broker.acls = AclKeeper(
                broker.authorizer,
                self.siblings,
                clock=broker.clock,
                run_on_store=broker.run_on_store,
                post=self._post_to_controller,
            )
            await broker.acls.start(broker.store)

    async def _read_tokens(self) -> None:
        """Read the delegation tokens of the cluster where this broker has a secret for them."""
        broker, settings = self.broker, token_settings(self.setup.config)
        if settings is not None:
            broker.tokens = TokenKeeper(
                settings,
                self.siblings,
                clock=broker.clock,
                run_on_store=broker.run_on_store,
                post=self._post_to_controller,
            )
            await broker.tokens.start(broker.store)

    async def _register(self, registration: Registration) -> None:
        broker, store = self.broker, self.broker.store
        if self._birth.first:
            # Only the first start checks: its successors keep the addresses, even if another broker has come with them
            # since.
            await asyncio.to_thread(registration.check_endpoints, store)
        broker.broker_epoch = await self._session.register(registration)
        store.watch_data(BrokerRegistration.path(broker.broker_id), lambda _: self._look_for_own_node())
        # A log may know producers that another broker, or an older state of the store, gave their ids.
        await asyncio.to_thread(skip_used_ids, store, broker.broker_id, self.greeting.producer_id_max)
        broker.producer_ids = ProducerIds(broker.broker_id)

    def _facts(self) -> dict[str, Any]:
        hosts = {one.name: address_text(one.host or "localhost") for one in self.setup.config.listeners}
        return {
            "broker_id": self.broker.broker_id,
            "cluster_id": self.broker.cluster_id,
            "listeners": [f"{hosts[name]}:{port}" for name, port in self.setup.ports.items()],
        }

    # -- other processes --

    def _meet(self, name: str, sock: socket.socket) -> None:
        peer = Peer(name, sock, self._operations, on_gone=self.siblings.lost)
        if (index := worker_index(name)) is not None:
            peer.index = index
        elif name == CLEANER:
            self.siblings.cleaner = peer
            if self.broker.identified.is_set():
                self.fanout.tell_cleaner()

    # -- called on threads of the store and of the controller; everything here belongs to the event loop --

    def _on_session(self, state: SessionState) -> None:
        self._loop.call_soon_threadsafe(self._session_changed, state)

    def _on_config_change(self, entity_type: str, entity_name: str, configs: Mapping[str, str]) -> None:
        for fanout in (self.fanout, self.credentials):
            self._loop.call_soon_threadsafe(fanout.changed, entity_type, entity_name, configs)

    def _on_controller(self, broker: BrokerId) -> None:
        self._loop.call_soon_threadsafe(self.deaths.watch_controller, broker)
        if self.broker.tokens is not None:
            self._loop.call_soon_threadsafe(self.broker.tokens.check_now)

    def _post_to_controller(self, call: Callable[[], None]) -> None:
        self.broker.controller.submit(call)

    def _look_for_own_node(self) -> None:
        """The registration of this broker may be gone."""
        self._loop.call_soon_threadsafe(lambda: self._spawn(self._check_own_node()))

    # -- the session --

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            log.warning(
                "No connection to ZooKeeper (%s): records flow, changes of topics and configurations wait",
                self.setup.config.zookeeper_connect,
            )
        elif state is SessionState.CONNECTED and self._session_state is SessionState.SUSPENDED:
            log.info("The connection to ZooKeeper is back, and the session goes on")
        self._session_state = state
        if state is SessionState.EXPIRED and not self._life.ended.done():
            log.warning("The session with the coordination store has expired; beginning a new one")
            self._life.tell(lifeline.SESSION, None)
            self._life.end(ChildExit.SESSION_OVER)

    async def _check_own_node(self) -> None:
        if self._life.ended.done() or not self.broker.booted.is_set():
            return
        store, path = self.broker.store, BrokerRegistration.path(self.broker.broker_id)
        try:
            found = await self.broker.run_on_store(store.exists, path)
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

    def _advertise(self) -> None:
        """Have the registration say what the settings say now, when there is a registration."""
        if self._registration is not None:
            self._spawn(self._update_registration(self._registration))

    async def _update_registration(self, registration: Registration) -> None:
        broker = self.broker
        try:
            await broker.run_on_store(registration.update, broker.store)
        except EndpointTakenError as error:
            log.error("Per-broker configs of %d could not be applied: %s", broker.broker_id, error)
        except StoreError as error:
            # Without a session there is no node; the next node is made with the configuration of that time.
            log.warning("The registration of this broker could not be renewed: %s", error)

    # -- the end --

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

    def _stop(self) -> None:
        self._spawn(self._release())

    async def _release(self) -> None:
        """Controlled shutdown: others take over what this broker leads, before its workers end."""
        if self.broker.booted.is_set() and self.broker.config.controlled_shutdown_enable:
            self.siblings.tell_workers(words.LEAVING, None)
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
        if self.broker.authorizer is not None:
            self.broker.authorizer.close()
        self._life.end(code)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = lifeline.vital(self._loop.create_task(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def main(setup: ControlSetup) -> ChildMain:
    """What the supervisor runs in the forked child."""
    return main_of(lambda birth: Control(setup, birth), leaves_threads=True)
