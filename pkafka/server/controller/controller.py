"""The controller: one thread that works on one queue of events.

Every broker has one. It stands for election; the winner reads the whole state from the store, brings partitions and
replicas into their states and tells the brokers. From then on watches tell it what to read again. A broker that runs
alone does exactly the same. The state machines decide about partitions and replicas (:mod:`.partition_state`,
:mod:`.replica_state`, :mod:`.deletion`); :mod:`.state_store` writes.

A cluster has one active controller, because without one every broker would watch every node: each would see changes at
another time and act on its own (split brain), and the death of one broker would wake all others for every partition
(herd effect).

Failures: a controller whose epoch is over stops at once. After a write without an answer, or a bug, the controller does
not know what is true, so it reads everything anew; what was done already is not done again.
"""

import asyncio
import functools
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from pkafka.clock import Clock
from pkafka.coordination.store import (
    ConnectionLossError,
    SessionExpiredError,
    SessionState,
    Store,
    StoreClosedError,
    StoreError,
    Watch,
)
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import NO_EPOCH, NO_TOPIC_ID, BrokerEpoch, BrokerId, TopicPartition, new_topic_id
from pkafka.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from pkafka.protocol.messages.stop_replica import StopReplicaResponse
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.controller import events, nodes
from pkafka.server.controller.batch import RequestBatch
from pkafka.server.controller.channels import BrokerChannels
from pkafka.server.controller.context import ControllerContext, PartitionState, Replica
from pkafka.server.controller.deletion import TopicDeletion
from pkafka.server.controller.election import Strategy
from pkafka.server.controller.machines import Machines
from pkafka.server.controller.office import Office
from pkafka.server.controller.partition_state import PartitionStates
from pkafka.server.controller.queue import EventQueue
from pkafka.server.controller.reassignment import Reassignments, moves
from pkafka.server.controller.replica_state import ReplicaStates
from pkafka.server.controller.state_store import (
    ControllerMovedError,
    StateStore,
    Topic,
    Won,
    active_controller,
    resign,
    stand_for_election,
)
from pkafka.server.controller.stats import ControllerStats, Work
from pkafka.server.ipc.lifeline import ChildExit

log = logging.getLogger("kafka.controller.KafkaController")
"""Kafka's name: the level of ``kafka.controller`` counts for this logger, and its lines have a file of their own."""

P = ParamSpec("P")
T = TypeVar("T")

FIRST_BALANCE_MS: Final = 5_000
RELOAD_BACKOFF_MS: Final = 1_000
"""The pause before the state is read anew after a failure, so that a lasting failure does not flood the store."""


_WORK: Final[Mapping[type, Work]] = {
    events.Startup: Work.CONTROLLER_CHANGE,
    events.ControllerChange: Work.CONTROLLER_CHANGE,
    events.SessionExpired: Work.CONTROLLER_CHANGE,
    events.Reload: Work.CONTROLLER_CHANGE,
    events.BrokerChange: Work.BROKER_CHANGE,
    events.TopicChange: Work.TOPIC_CHANGE,
    events.PartitionChange: Work.TOPIC_CHANGE,
    events.TopicDeletionWish: Work.TOPIC_DELETION,
    events.StopReplicaAnswered: Work.TOPIC_DELETION,
    events.ReassignmentWish: Work.REASSIGNMENT,
    events.ElectionWish: Work.MANUAL_BALANCE,
    events.Balance: Work.AUTO_BALANCE,
    events.IsrChange: Work.ISR_CHANGE,
    events.IsrsDecided: Work.ISR_CHANGE,
    events.LogDirChange: Work.LOG_DIR_CHANGE,
    events.UncleanElectionAllowed: Work.UNCLEAN_ALLOWED_FOR_TOPIC,
    events.LeaderAndIsrAnswered: Work.LEADER_AND_ISR_ANSWER,
    events.Shutdown: Work.SHUTDOWN,
}
"""The kind of work as which an event counts (ControllerEvent.state)."""


def _work(event: events.Event) -> Work:
    if isinstance(event, events.UncleanElectionAllowed) and event.topic is None:
        return Work.UNCLEAN_ALLOWED
    return _WORK[type(event)]


class Controller:
    """Stands for election and does the controller's work. Public methods may be called from any thread.

    Args:
        broker_id: of this broker.
        config: the broker's settings of the moment.
        channels: the way to the brokers.
        clock: for timestamps and pauses.
        previous_session_id: the session of the broker's former run, which is dead.
        on_controller: called on the controller thread with the broker that is the controller now, -1 when unknown.

    Attributes:
        context: what the active controller knows; for the controller thread alone.
        stats: counters and times of its work.
        is_active: whether this broker is the controller, as far as it knows.
        active_controller_id: the broker that is, -1 when there is none.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        config: Callable[[], BrokerConfig],
        channels: BrokerChannels,
        clock: Clock,
        previous_session_id: int | None = None,
        on_controller: Callable[[BrokerId], None] = lambda _broker: None,
    ) -> None:
        self.broker_id = broker_id
        self._previous_session_id = previous_session_id
        self._on_controller = on_controller
        self.stats = ControllerStats()
        self.context = ControllerContext(self.broker_id, self.stats)
        self.is_active = False
        self.active_controller_id: BrokerId = -1
        self._config = config
        self._channels = channels
        self._clock = clock
        self._queue = EventQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._store: Store | None = None
        self._session_watches: list[Watch] = []
        self._watches: dict[str, Watch] = {}
        self._reload_due_ms: int | None = None
        self._balance_due_ms: int | None = None
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            events.Startup: self._on_startup,
            events.ControllerChange: lambda _: self._on_controller_change(),
            events.SessionExpired: self._on_session_expired,
            events.BrokerChange: lambda _: self._on_broker_change(),
            events.TopicChange: lambda _: self._on_topic_change(),
            events.PartitionChange: self._on_partition_change,
            events.TopicDeletionWish: lambda _: self._on_deletion_wish(),
            events.ReassignmentWish: lambda _: self._on_reassignment_wish(),
            events.ElectionWish: lambda _: self._on_election_wish(),
            events.IsrChange: lambda _: self._on_isr_change(),
            events.IsrsDecided: self._on_isrs_decided,
            events.LogDirChange: lambda _: self._on_log_dir_change(),
            events.UncleanElectionAllowed: self._on_unclean_election_allowed,
            events.LeaderAndIsrAnswered: self._on_leader_and_isr_answered,
            events.StopReplicaAnswered: self._on_stop_replica_answered,
            events.Reload: lambda _: self._on_reload(),
            events.Balance: lambda _: self._on_balance(),
            events.Shutdown: lambda _: self._on_shutdown(),
        }
        # Only an active controller works on these events.
        self._for_active: Final = frozenset(self._handlers) - {
            events.Startup,
            events.ControllerChange,
            events.SessionExpired,
            events.Reload,
            events.Shutdown,
        }

    # -- from any thread --

    def start(self, store: Store) -> None:
        """Start the thread and stand for election on ``store``; the broker is registered there already."""
        self.new_session(store)
        self._thread = threading.Thread(target=self._run_or_end, name="controller", daemon=True)
        self._thread.start()

    def new_session(self, store: Store) -> None:
        """Go on with another store, after the session of the one before ended and the broker registered anew."""
        self._queue.put(events.Startup(store))

    def stop(self, timeout_s: float = 10.0) -> None:
        """Give the role up and end the thread. The store stays open."""
        self._queue.put(events.Shutdown())
        if self._thread is not None:
            self._thread.join(timeout_s)

    def allow_unclean_election(self, topic: str | None) -> None:
        """unclean.leader.election.enable was set, for a topic or (None) for the broker: look for leaders again."""
        self._queue.put(events.UncleanElectionAllowed(topic))

    def office(self) -> Office:
        """Return the office, which serves requests to the active controller; for the controller thread
        (:meth:`submit`).

        Raises:
            ApiError: NOT_CONTROLLER.
        """
        if not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self._office

    def broker_epoch(self, broker: BrokerId) -> BrokerEpoch | None:
        """The epoch of the registration by which the active controller knows a broker; None when it does not know
        it."""
        return self.context.broker_epochs.get(broker)

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call ``function`` on the controller thread in its turn.

        Returns:
            A future with what it returns or raises; NOT_CONTROLLER when another broker turns out to be the controller.
        """
        call = events.Call(functools.partial(function, *args, **kwargs))
        self._queue.put(call)
        return call.future

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """:meth:`submit`, awaited on the caller's event loop (the ``run`` of a ControlContext)."""
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    @property
    def queue_size(self) -> int:
        """How many events wait."""
        return len(self._queue)

    # -- the thread --

    @property
    def has_work(self) -> bool:
        """Whether an event waits."""
        return len(self._queue) > 0

    def drain(self) -> None:
        """Work on everything that waits, on the caller's thread; for tests, in place of :meth:`start`."""
        while self._is_something_due() or len(self._queue):
            event = self._queue.get(0)
            if event is not None:
                self._process(event)

    def _run_or_end(self) -> None:
        try:
            self._run()
        except BaseException:
            # Otherwise all requests to the controller, and all watches of the store, would wait for ever.
            log.critical("The controller's thread has died, and with it this process", exc_info=True)
            os._exit(ChildExit.CRASHED)

    def _run(self) -> None:
        while not self._stopped:
            dues = [due for due in (self._reload_due_ms, self._balance_due_ms) if due is not None]
            wait_s = max(0.0, (min(dues) - self._clock.monotonic_ms()) / 1000) if dues else None
            event = self._queue.get(wait_s)
            self._is_something_due()
            if event is not None:
                self._process(event)
        while (event := self._queue.get(0)) is not None:
            if isinstance(event, events.Call):
                event.future.set_exception(StoreClosedError(message="the controller was stopped"))

    def _is_something_due(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        is_due = False
        if self._reload_due_ms is not None and self._reload_due_ms <= now_ms:
            self._reload_due_ms = None
            self._queue.put(events.Reload())
            is_due = True
        if self._balance_due_ms is not None and self._balance_due_ms <= now_ms:
            self._balance_due_ms = None
            self._queue.put(events.Balance())
            is_due = True
        return is_due

    def _process(self, event: events.Event) -> None:
        if isinstance(event, events.Call):
            self._call(event)
            return
        if type(event) in self._for_active and not self.is_active:
            return
        try:
            with self.stats.timed(_work(event)):
                self._handlers[type(event)](event)
        except ControllerMovedError as error:
            self._lose_role(str(error))
            self._queue.put(events.ControllerChange())
        except (SessionExpiredError, StoreClosedError):
            self._lose_role("the session with the coordination store is over")
        except StoreError as error:
            log.warning("the coordination store failed during %s: %s", type(event).__name__, error)
            self._reload_later()
        except Exception:
            log.exception("the controller failed during %s", type(event).__name__)
            self._reload_later()

    def _call(self, call: events.Call) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            call.future.set_result(call.function())
        except ControllerMovedError as error:
            self._lose_role(str(error))
            self._queue.put(events.ControllerChange())
            # The answer makes the client look for the controller, as if this one had known before.
            call.future.set_exception(ApiError(ErrorCode.NOT_CONTROLLER))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.future.set_exception(error)
            if isinstance(error, ConnectionLossError) and self.is_active:
                # The store may have been written, and the brokers have not heard of that.
                log.warning("the coordination store failed while a request was served: %s", error)
                self._reload_later()

    def _reload_later(self) -> None:
        if self._reload_due_ms is None:
            self._reload_due_ms = self._clock.monotonic_ms() + RELOAD_BACKOFF_MS

    # -- the role --

    def _on_startup(self, event: events.Startup) -> None:
        self._lose_role("a new session began")
        for watch in self._session_watches:
            watch.unwatch()
        self._store = store = event.store

        def on_session(state: SessionState) -> None:
            if state is SessionState.EXPIRED:
                self._queue.put(events.SessionExpired(store))

        store.on_session(on_session)
        watch = store.watch_data(nodes.CONTROLLER, lambda _: self._queue.put(events.ControllerChange()))
        self._session_watches = [watch]
        self._elect()

    def _on_session_expired(self, event: events.SessionExpired) -> None:
        if event.store is self._store:
            self._lose_role("the session with the coordination store is over")
            self._store = None
            self._session_watches = []

    def _on_controller_change(self) -> None:
        if self._store is None:
            return
        now = active_controller(self._store)
        if now == self.broker_id and self.is_active:
            return
        if self.is_active:
            self._lose_role(f"broker {now} has /controller" if now >= 0 else "/controller is gone")
        self.active_controller_id = now
        if now < 0:
            self._elect()
        else:
            self._on_controller(now)

    def _on_reload(self) -> None:
        if self._store is None:
            return
        if not self.is_active:
            self._elect()
            return
        data, stat = self._store.get(nodes.CONTROLLER_EPOCH)
        if active_controller(self._store) != self.broker_id or stat.version != self.context.epoch_version:
            raise ControllerMovedError(f"epoch {self.context.epoch} is over, {data.decode()} came after it")
        self._take_office(Won(self.context.epoch, self.context.epoch_version))

    def _on_shutdown(self) -> None:
        self._stopped = True
        store, epoch_version = self._store, self.context.epoch_version
        was_active = self.is_active
        self._lose_role("the broker stops")
        # Or the news that /controller is free would make this broker stand again.
        for watch in self._session_watches:
            watch.unwatch()
        self._session_watches, self._store = [], None
        if store is not None and was_active:
            try:
                resign(store, epoch_version)
            except StoreError as error:
                log.info("/controller could not be given up: %s", error)

    def _elect(self) -> None:
        assert self._store is not None
        won = stand_for_election(
            self._store,
            self.broker_id,
            self._clock.now_ms(),
            previous_session_id=self._previous_session_id,
        )
        if won is None:
            self.active_controller_id = active_controller(self._store)
            log.info("broker %d is the controller", self.active_controller_id)
            self._on_controller(self.active_controller_id)
            return
        log.info("broker %d is the controller now, epoch %d", self.broker_id, won.epoch)
        self.active_controller_id = self.broker_id
        self._on_controller(self.broker_id)
        self._take_office(won)

    def _lose_role(self, why: str) -> None:
        for watch in self._watches.values():
            watch.unwatch()
        self._watches.clear()
        self.active_controller_id = -1
        self._reload_due_ms = self._balance_due_ms = None
        if self.is_active:
            self.is_active = False
            log.info("broker %d is not the controller any more: %s", self.broker_id, why)
            # The requests that are queued for other brokers belong to a term of office that is over.
            self._channels.brokers_changed({})
        self.context = ControllerContext(self.broker_id, self.stats)

    def _take_office(self, won: Won) -> None:
        """Read everything and begin, in the order of KafkaController.onControllerFailover."""
        assert self._store is not None
        before = self.context
        self.context = ControllerContext(self.broker_id, self.stats)
        self.context.epoch, self.context.epoch_version = won
        # The store does not say which brokers are stopping, so this survives; their epochs are compared after the
        # reading.
        self.context.shutting_down, self.context.broker_epochs = before.shutting_down, before.broker_epochs
        self._states = StateStore(self._store, epoch=won.epoch, epoch_version=won.epoch_version)
        self._build_machines()
        self.is_active = True
        self._watch_children(nodes.BROKER_IDS, events.BrokerChange())
        self._watch_children(nodes.TOPICS, events.TopicChange())
        self._watch_children(nodes.DELETE_TOPICS, events.TopicDeletionWish())
        self._watch_children(nodes.ISR_NOTIFICATIONS, events.IsrChange())
        self._watch_children(nodes.LOG_DIR_NOTIFICATIONS, events.LogDirChange())
        self._watch_data(nodes.REASSIGN_PARTITIONS, events.ReassignmentWish())
        self._watch_data(nodes.PREFERRED_REPLICA_ELECTION, events.ElectionWish())
        # The changes that the notifications announce are read anyway.
        for parent, (names, _) in (
            (nodes.ISR_NOTIFICATIONS, self._states.read_isr_notifications()),
            (nodes.LOG_DIR_NOTIFICATIONS, self._states.read_log_dir_notifications()),
        ):
            self._states.delete_children(parent, names)
        self._states.enable_features()
        self._load()
        self._batch.add_update_metadata(self.context.live_brokers, ())
        self._send()
        online, offline = self._replicas.start()
        self._replicas.become_online(online)
        self._replicas.become_offline(
            one for one in offline if one.partition.topic not in self.context.being_deleted
        )
        self._send()
        self._partitions.start()
        self._partitions.become_online_where_possible()
        self._send()
        self._office.reassignments.resume()
        self._deletion.resume()
        self._office.elect_written()
        if self._config().auto_leader_rebalance_enable:
            self._balance_due_ms = self._clock.monotonic_ms() + FIRST_BALANCE_MS

    def _on_balance(self) -> None:
        """Bring leaders back to their preferred replicas, from which they move as brokers come and go."""
        try:
            self._office.balance()
        finally:
            interval_ms = self._config().leader_imbalance_check_interval_seconds * 1000
            self._balance_due_ms = self._clock.monotonic_ms() + interval_ms

    def _build_machines(self) -> None:
        epoch = self.context.epoch

        def on_leader_and_isr(broker: BrokerId, response: LeaderAndIsrResponse) -> None:
            self._queue.put(events.LeaderAndIsrAnswered(broker, epoch, response))

        def on_stop_replica(
            broker: BrokerId, deleted: tuple[TopicPartition, ...], response: StopReplicaResponse
        ) -> None:
            self._queue.put(events.StopReplicaAnswered(broker, epoch, deleted, response))

        self._batch = RequestBatch(
            self.broker_id,
            self._config().inter_broker_listener_name,
            self.context,
            self._channels,
            on_leader_and_isr=on_leader_and_isr,
            on_stop_replica=on_stop_replica,
        )
        self._partitions = PartitionStates(self.context, self._states, self._batch, self._unclean_allowed)
        self._replicas = ReplicaStates(self.context, self._states, self._batch)
        machines = Machines(self.context, self._states, self._batch, self._partitions, self._replicas)
        self._deletion = TopicDeletion(
            machines,
            send=self._send,
            on_deleted=lambda topic: self._unwatch(nodes.topic(topic)),
        )
        self._office = Office(
            machines,
            Reassignments(machines, self._deletion),
            self._config,
            on_isrs_decided=lambda partitions: self._queue.put(events.IsrsDecided(partitions)),
        )

    def _load(self) -> None:
        context = self.context
        self._watch_brokers()
        brokers, former_epochs = self._states.read_brokers(), context.broker_epochs
        context.live_brokers = {broker: info for broker, (info, _) in brokers.items()}
        context.broker_epochs = {broker: epoch for broker, (_, epoch) in brokers.items()}
        context.shutting_down = {
            one
            for one in context.shutting_down
            if context.broker_epochs.get(one) == former_epochs.get(one, NO_EPOCH)
        }
        self._channels.brokers_changed(dict(context.live_brokers))
        self._read_topics(self._states.read_topic_names())
        context.leadership.update(self._states.read_leadership(context.partitions()))
        wishes = self._states.read_deletions()
        self._states.delete_children(
            nodes.DELETE_TOPICS, [one for one in wishes if not self._may_be_deleted(one)]
        )
        accepted = [one for one in wishes if self._may_be_deleted(one)]
        self._deletion.enqueue(
            accepted,
            ineligible=self._topics_that_move(accepted) | self._topics_with_replicas_away(accepted),
        )

    # -- brokers --

    def _on_broker_change(self) -> None:
        context = self.context
        registered = self._watch_brokers()
        now = self._states.read_brokers()
        gone = context.live_brokers.keys() - now.keys()
        bounced = {
            one for one in context.live_brokers.keys() & now if context.broker_epochs[one] != now[one][1]
        }
        joined = (now.keys() - context.live_brokers.keys()) | bounced
        changed = [
            one
            for one in (context.live_brokers.keys() & now.keys()) - bounced
            if context.live_brokers[one] != now[one][0]
        ]
        for broker in gone - registered:  # a registration that cannot be read stays watched: it may be mended
            self._unwatch(nodes.broker(broker))
        for broker in gone | bounced:
            del context.live_brokers[broker], context.broker_epochs[broker]
        if gone | bounced:
            # First without the brokers that bounced: the requests queued for them were meant for their former lives.
            self._channels.brokers_changed(dict(context.live_brokers))
            self._on_brokers_gone(gone | bounced)
        for broker in joined:
            context.live_brokers[broker], context.broker_epochs[broker] = now[broker]
        for broker in changed:
            context.live_brokers[broker] = now[broker][0]
        if joined or changed:
            self._channels.brokers_changed(dict(context.live_brokers))
        if joined:
            self._on_brokers_joined(joined)
        if changed:
            self._batch.add_update_metadata(context.live_brokers, ())
            self._send()

    def _on_brokers_joined(self, brokers: set[BrokerId]) -> None:
        log.info("brokers %s joined", sorted(brokers))
        context = self.context
        for broker in brokers:
            context.offline_dirs.pop(broker, None)
        self._batch.add_update_metadata(context.live_brokers.keys() - brokers, ())
        self._send()
        # The new brokers hear about the whole cluster before anything is asked of them.
        self._batch.add_update_metadata(brokers, context.partitions())
        self._send()
        replicas = context.replicas_on(brokers)
        self._replicas.become_online(
            one for one in replicas if one.partition.topic not in context.deletion_begun
        )
        self._partitions.become_online_where_possible()
        self._send()
        self._office.reassignments.brokers_joined(brokers)
        self._deletion.retry({one.partition.topic for one in replicas})
        self._send()

    def _on_brokers_gone(self, brokers: set[BrokerId]) -> None:
        log.info("brokers %s are gone", sorted(brokers))
        for broker in brokers:
            self.context.offline_dirs.pop(broker, None)
            self.context.shutting_down.discard(broker)
        self._on_replicas_offline(self.context.replicas_on(brokers))

    def _on_replicas_offline(self, replicas: Sequence[Replica]) -> None:
        context = self.context
        leaderless = [
            one
            for one in context.led_by_nobody()
            if context.partition_states.get(one) is not PartitionState.OFFLINE
        ]
        self._partitions.become_offline(leaderless)
        self._partitions.become_online_where_possible()
        self._send()  # new leaders do not wait until the ISRs of all other partitions are written
        self._replicas.become_offline(
            one for one in replicas if one.partition.topic not in context.being_deleted
        )
        self._send()
        self._deletion.failed(one for one in replicas if one.partition.topic in context.being_deleted)
        if not leaderless:
            # Without an election no request has told the brokers which of them are alive.
            self._batch.add_update_metadata(context.live_brokers, ())
        self._send()

    def _on_log_dir_change(self) -> None:
        names, brokers = self._states.read_log_dir_notifications()
        if not names:
            return
        # The answers to LeaderAndIsr tell which replicas are lost.
        self._replicas.become_online(self.context.replicas_on(brokers))
        self._send()
        self._states.delete_children(nodes.LOG_DIR_NOTIFICATIONS, names)

    # -- topics --

    def _on_topic_change(self) -> None:
        names = self._states.read_topic_names()
        gone = self.context.assignments.keys() - set(names)
        for name in gone:
            self._unwatch(nodes.topic(name))
            self.context.forget_topic(name)
        new = [name for name in names if name not in self.context.assignments]
        if new:
            self._read_topics(new)
            self._on_new_partitions(self.context.partitions_of(new))

    def _on_partition_change(self, event: events.PartitionChange) -> None:
        context, name = self.context, event.topic
        found = self._states.read_topics([name]).get(name)
        known = context.assignments.get(name)
        if found is None or known is None:
            return
        added = {number: one for number, one in found.assignments.items() if number not in known}
        if not added:
            return
        if name in context.being_deleted:
            log.warning("no partitions can be added to %s, which is being deleted", name)
            self._states.write_topic(name, Topic(found.topic_id, known))
            return
        partitions = [TopicPartition(name, number) for number in sorted(added)]
        for partition in partitions:
            context.assign(partition, added[partition.partition])
        self._on_new_partitions(partitions)

    def _on_new_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        counts = Counter(one.topic for one in partitions)
        log.info("new partitions: %s", ", ".join(f"{count} of {name}" for name, count in counts.items()))
        replicas = [Replica(one, broker) for one in partitions for broker in self.context.replicas_of(one)]
        self._partitions.become_new(partitions)
        self._replicas.become_new(replicas)
        self._partitions.become_online(partitions, Strategy.OFFLINE_PARTITION)
        self._replicas.become_online(replicas)
        self._send()

    def _on_deletion_wish(self) -> None:
        # The wish may have overtaken the news that the topic exists.
        self._on_topic_change()
        wishes = [one for one in self._states.read_deletions() if one not in self.context.being_deleted]
        refused = [one for one in wishes if not self._may_be_deleted(one)]
        self._states.delete_children(nodes.DELETE_TOPICS, refused)
        accepted = [one for one in wishes if self._may_be_deleted(one)]
        if accepted:
            self._deletion.enqueue(accepted, ineligible=self._topics_that_move(accepted))
            self._deletion.resume()
            self._send()

    def _on_reassignment_wish(self) -> None:
        # The wish may have overtaken the news that the topic exists.
        self._on_topic_change()
        self._office.reassignments.begin_written()

    def _on_election_wish(self) -> None:
        self._on_topic_change()
        self._office.elect_written()

    def _may_be_deleted(self, topic: str) -> bool:
        return topic in self.context.assignments and self._config().delete_topic_enable

    def _topics_that_move(self, topics: Iterable[str]) -> set[str]:
        return {
            partition.topic
            for partition in self.context.partitions_of(topics)
            if moves(self.context.assignment(partition))
        }

    def _topics_with_replicas_away(self, topics: Iterable[str]) -> set[str]:
        return {
            one.partition.topic
            for one in self.context.replicas(topics)
            if not self.context.is_online(one.partition, one.broker)
        }

    def _read_topics(self, names: Sequence[str]) -> None:
        for name in names:
            # The watch is set before reading, so that a change after the reading makes an event.
            self._watch_data(nodes.topic(name), events.PartitionChange(name))
        for name, topic in self._states.read_topics(names).items():
            if topic.topic_id == NO_TOPIC_ID:
                topic = Topic(new_topic_id(), topic.assignments)
                self._states.write_topic(name, topic)
            self.context.set_topic_id(name, topic.topic_id)
            self.context.assignments.setdefault(name, {})
            for number, assignment in topic.assignments.items():
                self.context.assign(TopicPartition(name, number), assignment)

    def _on_isr_change(self) -> None:
        names, partitions = self._states.read_isr_notifications()
        if not names:
            return
        known = [one for one in partitions if one in self.context.leadership]
        self.context.leadership.update(self._states.read_leadership(known))
        self._batch.add_update_metadata(self.context.live_brokers, known)
        self._send()
        self._office.reassignments.isr_changed(known)
        self._states.delete_children(nodes.ISR_NOTIFICATIONS, names)

    def _on_isrs_decided(self, event: events.IsrsDecided) -> None:
        self._office.reassignments.isr_changed(event.partitions)

    def _unclean_allowed(self, topics: Sequence[str]) -> Mapping[str, bool]:
        key, default = "unclean.leader.election.enable", self._config().unclean_leader_election_enable
        return {
            name: config[key].strip().lower() == "true" if key in config else default
            for name, config in self._states.read_topic_configs(topics).items()
        }

    def _on_unclean_election_allowed(self, event: events.UncleanElectionAllowed) -> None:
        self._partitions.become_online_where_possible(event.topic)
        self._send()

    # -- answers --

    def _on_leader_and_isr_answered(self, event: events.LeaderAndIsrAnswered) -> None:
        if event.epoch != self.context.epoch or event.broker not in self.context.live_brokers:
            return
        if event.response.error_code != ErrorCode.NONE:
            log.error(
                "broker %d refused LeaderAndIsr: %s", event.broker, ErrorCode(event.response.error_code).name
            )
            return
        offline = self.context.offline_dirs.setdefault(event.broker, set())
        failed: list[Replica] = []
        for partition, error in self._partition_errors(event.response):
            if error == ErrorCode.KAFKA_STORAGE_ERROR and partition not in offline:
                offline.add(partition)
                failed.append(Replica(partition, event.broker))
            elif error == ErrorCode.NONE:
                offline.discard(partition)
        if failed:
            log.error("broker %d lost the log directory of %s", event.broker, ", ".join(map(str, failed)))
            self._on_replicas_offline(failed)

    def _partition_errors(self, response: LeaderAndIsrResponse) -> list[tuple[TopicPartition, int]]:
        found = [
            (
                TopicPartition(self.context.topic_names.get(topic.topic_id, ""), one.partition_index),
                one.error_code,
            )
            for topic in response.topics
            for one in topic.partition_errors
        ]
        found += [
            (TopicPartition(one.topic_name, one.partition_index), one.error_code)
            for one in response.partition_errors
        ]
        return found

    def _on_stop_replica_answered(self, event: events.StopReplicaAnswered) -> None:
        if event.epoch != self.context.epoch:
            return
        failed = {
            TopicPartition(one.topic_name, one.partition_index)
            for one in event.response.partition_errors
            if one.error_code != ErrorCode.NONE
        }
        if event.response.error_code != ErrorCode.NONE:
            failed = set(event.deleted)
        self._deletion.failed([Replica(one, event.broker) for one in event.deleted if one in failed])
        self._deletion.succeeded([Replica(one, event.broker) for one in event.deleted if one not in failed])
        self._send()

    # -- inside --

    def _send(self) -> None:
        self._batch.send()

    def _watch_brokers(self) -> set[BrokerId]:
        """Watch all registrations, before they are read, so that a later change makes an event."""
        ids = {int(name) for name in self._states.children(nodes.BROKER_IDS) if name.isdecimal()}
        for broker in ids:
            self._watch_data(nodes.broker(broker), events.BrokerChange())
        return ids

    def _watch_children(self, path: str, event: events.Event) -> None:
        assert self._store is not None
        if path not in self._watches:
            self._watches[path] = self._store.watch_children(path, lambda _: self._queue.put(event))

    def _watch_data(self, path: str, event: events.Event) -> None:
        assert self._store is not None
        if path not in self._watches:
            self._watches[path] = self._store.watch_data(path, lambda _: self._queue.put(event))

    def _unwatch(self, path: str) -> None:
        watch = self._watches.pop(path, None)
        if watch is not None:
            watch.unwatch()
