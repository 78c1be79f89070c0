"""The controller: one thread that works on one queue of events.

Every broker has one. It stands for election; the winner reads the whole state from the store, brings partitions and
replicas into their states and tells the brokers. From then on watches tell it what to read again. A broker that runs
alone does exactly the same. Here are the thread, the session with the store and the role. What the active controller
does is :mod:`.term`: it hands each event to a part (:mod:`.brokers`, :mod:`.topics`, :mod:`.reassignment`,
:mod:`.office`). The state machines decide about partitions and replicas (:mod:`.partition_state`,
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
from collections.abc import Callable, Mapping
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
from pkafka.model import BrokerEpoch, BrokerId
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.controller import events, nodes
from pkafka.server.controller.channels import BrokerChannels
from pkafka.server.controller.context import ControllerContext
from pkafka.server.controller.office import Office
from pkafka.server.controller.queue import EventQueue
from pkafka.server.controller.state_store import (
    ControllerMovedError,
    Won,
    active_controller,
    resign,
    stand_for_election,
)
from pkafka.server.controller.stats import ControllerStats, work_of
from pkafka.server.controller.term import Term
from pkafka.server.controller.watches import Watches
from pkafka.server.ipc.lifeline import ChildExit

log = logging.getLogger("kafka.controller.KafkaController")
"""Kafka's name: the level of ``kafka.controller`` counts for this logger, and its lines have a file of their own."""

P = ParamSpec("P")
T = TypeVar("T")

FIRST_BALANCE_MS: Final = 5_000
RELOAD_BACKOFF_MS: Final = 1_000
"""The pause before the state is read anew after a failure, so that a lasting failure does not flood the store."""


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
        self.active_controller_id: BrokerId = -1
        self._config = config
        self._channels = channels
        self._clock = clock
        self._queue = EventQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._store: Store | None = None
        self._session_watches: list[Watch] = []
        self._term: Term | None = None
        self._reload_due_ms: int | None = None
        self._balance_due_ms: int | None = None
        self._handlers: Final[Mapping[type, Callable[[Any], None]]] = {
            events.Startup: self._on_startup,
            events.ControllerChange: lambda _: self._on_controller_change(),
            events.SessionExpired: self._on_session_expired,
            events.Reload: lambda _: self._on_reload(),
            events.Shutdown: lambda _: self._on_shutdown(),
        }
        """What becomes of the events that every controller works on, active or not."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._term is not None

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
        if self._term is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return self._term.office

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
        """:meth:`submit`, awaited on the caller's event loop (the ``run`` of a handler's context)."""
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
        handle = self._handler(event)
        if handle is None:
            return
        try:
            with self.stats.timed(work_of(event)):
                handle(event)
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

    def _handler(self, event: events.Event) -> Callable[[Any], None] | None:
        """Return what works on an event; None when only an active controller works on it."""
        handle, term = self._handlers.get(type(event)), self._term
        if handle is not None or term is None:
            return handle
        return (lambda _: self._on_balance(term)) if isinstance(event, events.Balance) else term.handle

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
        if self._term is None:
            self._elect()
            return
        data, stat = self._store.get(nodes.CONTROLLER_EPOCH)
        if active_controller(self._store) != self.broker_id or stat.version != self.context.epoch_version:
            raise ControllerMovedError(f"epoch {self.context.epoch} is over, {data.decode()} came after it")
        self._take_office(Won(self.context.epoch, self.context.epoch_version), self._term.watches)

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
        self._take_office(won, Watches(self._store, self._queue.put))

    def _lose_role(self, why: str) -> None:
        self.active_controller_id = -1
        self._reload_due_ms = self._balance_due_ms = None
        if self._term is not None:
            self._term.watches.end()
            self._term = None
            log.info("broker %d is not the controller any more: %s", self.broker_id, why)
            # The requests that are queued for other brokers belong to a term of office that is over.
            self._channels.brokers_changed({})
        self.context = ControllerContext(self.broker_id, self.stats)

    def _take_office(self, won: Won, watches: Watches) -> None:
        assert self._store is not None
        before = self.context
        self.context = context = ControllerContext(self.broker_id, self.stats)
        context.epoch, context.epoch_version = won
        # The store does not say which brokers are stopping, so this survives; their epochs are compared after the
        # reading.
        context.shutting_down, context.broker_epochs = before.shutting_down, before.broker_epochs
        self._term = Term(
            context, self._store, watches, config=self._config, channels=self._channels, put=self._queue.put
        )
        self._term.begin()
        if self._config().auto_leader_rebalance_enable:
            self._balance_due_ms = self._clock.monotonic_ms() + FIRST_BALANCE_MS

    def _on_balance(self, term: Term) -> None:
        """Bring leaders back to their preferred replicas, from which they move as brokers come and go."""
        try:
            term.office.balance()
        finally:
            interval_ms = self._config().leader_imbalance_check_interval_seconds * 1000
            self._balance_due_ms = self._clock.monotonic_ms() + interval_ms
