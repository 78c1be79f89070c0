"""This broker's session with the coordination store: opened or resumed, and owner of the broker's registration."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pkafka.coordination.store import Store, StoreError
from pkafka.coordination.znodes import BrokerRegistration
from pkafka.security.zookeeper_login import zookeeper_login
from pkafka.security.zookeeper_tls import zookeeper_tls
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.registration import DuplicateBrokerIdError, Registration
from pkafka.server.control.session_file import may_lack_records, read_session, write_session
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.ipc.child import Birth

log = logging.getLogger(__name__)

_RECONNECT_PAUSE_S: Final = 1.0
_REREGISTER_PAUSE_S: Final = 0.1
_EXPIRY_SLACK_S: Final = 2.0
"""ZooKeeper ends sessions once a tick, so a session may end this much later than its time-out."""
_ABSENCE_S: Final = 2.0
"""How long a broker that waited for the end of its former session stays unregistered after it. In this time a
controller that has just been elected reads the registrations, and finds this broker gone."""


def open_store(config: BrokerConfig, file: Path, session: "tuple[int, bytes] | None") -> Store:
    """Open the store that the settings name; blocking.

    Args:
        config: the settings of the file.
        file: of the embedded store, for a broker without ZooKeeper.
        session: to be resumed; None for a new one.

    Raises:
        StoreError: the store does not answer.
    """
    if config.zookeeper_connect is None:
        from pkafka.coordination.embedded import EmbeddedStore

        return EmbeddedStore(file, resume=session)
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
        tls=zookeeper_tls(config.originals),
        login=zookeeper_login(),
        protects=config.zookeeper_set_acl,
    )


class BrokerSession:
    """Begins the session of a control process, or goes on with that of its predecessor.

    Args:
        config: the settings of the file.
        birth: of the process; names the predecessor's session.
        file: keeps the id of the session with ZooKeeper, for the life after a crash.
        broker: this broker.
    """

    def __init__(self, config: BrokerConfig, birth: Birth, file: Path, broker: ThisBroker) -> None:
        self._config = config
        self._birth = birth
        self._file = file
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self.previous_id: int | None = None
        """The session that this broker had before, whose nodes may be left."""
        self._may_lack_records = False
        """Whether this broker may have lost what it acknowledged in its life before."""

    async def connect(self, open_it: Callable[[], Store]) -> Store:
        """Open the store, resuming the predecessor's session; after the first start, wait for it without end."""
        told = ""
        while True:
            try:
                return await asyncio.to_thread(open_it)
            except StoreError as error:
                if self._birth.first:
                    raise
                if told != str(error):
                    told = str(error)
                    log.warning("The coordination store does not answer (%s); trying again", error)
                await asyncio.sleep(_RECONNECT_PAUSE_S)

    def recall(self) -> None:
        """Find the session of this broker's former run, which is dead: it held the directory lock that this process
        holds now.

        Its nodes in the store may be replaced before that session ends.
        """
        if self._config.zookeeper_connect is None:
            return  # the embedded store has nothing that outlives its process
        self._may_lack_records = may_lack_records(self._file)
        if self._birth.session is not None:
            self.previous_id = self._birth.session[0]
        else:
            self.previous_id = read_session(self._file)

    def goes_on(self) -> bool:
        """Look whether this process goes on in its predecessor's session, with the node that is there; blocking."""
        if self._birth.session is None or self._config.zookeeper_connect is None:
            return False  # the session is new, or no other broker can be the controller
        store = self._broker.store
        stat = store.exists(BrokerRegistration.path(self._broker.broker_id))
        return stat is not None and stat.ephemeral_owner == store.session_id

    async def register(self, registration: Registration) -> int:
        """Make the broker's node, when the node that a killed run of this broker left has gone with its session.

        Returns:
            The broker epoch.
        """
        deadline_s = self._loop.time() + self._config.zookeeper_session_timeout_ms / 1000 + _EXPIRY_SLACK_S
        waits = False
        if self._may_lack_records:
            log.info(
                "The machine was restarted, or the data copied: waiting for the end of the former session"
            )
            await self._be_away(deadline_s)
        while True:
            try:
                epoch = await asyncio.to_thread(registration.register, self._broker.store, self.previous_id)
                break
            except DuplicateBrokerIdError as error:
                if self._loop.time() > deadline_s:
                    raise
                if not waits:
                    log.warning("%s Waiting for that long.", error)
                waits = True
                await self._be_away(deadline_s)
        if self._config.zookeeper_connect is not None:
            # Written only now: if this process dies while it waits, the next one has to wait as well.
            write_session(self._file, self._broker.store.session_id)
        return epoch

    async def _be_away(self, deadline_s: float) -> None:
        """Wait for the end of this broker's former session, and until a controller has noticed it.

        If this broker was the controller, the role ended with the session. The new controller must read that this
        broker is gone, and not find it there as if it had never been away: it may have lost records. That also holds
        when the session has ended already, as it may have ended just now.
        """
        store, path = self._broker.store, BrokerRegistration.path(self._broker.broker_id)
        while (  # noqa: ASYNC110 - the store tells nothing of a node that ends
            await asyncio.to_thread(store.exists, path) and self._loop.time() <= deadline_s
        ):
            await asyncio.sleep(_REREGISTER_PAUSE_S)
        await asyncio.sleep(_ABSENCE_S)
