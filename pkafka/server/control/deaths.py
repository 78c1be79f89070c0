"""What this broker does when another broker dies: its controller buries it, or takes the role of a dead controller."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pkafka.coordination.store import StoreError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.errors import ApiError
from pkafka.model import BrokerId
from pkafka.server.cluster.metadata import BrokerInfo
from pkafka.server.cluster.sentinel import Sentinel
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.controller import nodes
from pkafka.server.controller.state_store import remove_dead_controller

log = logging.getLogger(__name__)

NO_CONTROLLER: Final = -1


class Deaths:
    """Writes down that brokers are dead, before the store notices. Belongs to one event loop.

    Args:
        broker: this broker.
        spawn: runs a coroutine to its end.
    """

    def __init__(self, broker: ThisBroker, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._broker = broker
        self._spawn = spawn
        self._controller_sentinel: Sentinel | None = None

    def broker_died(self, broker: BrokerId) -> None:
        """Have the controller act on the death of a broker, which only the controller looks for."""
        log.warning("Broker %d is dead: it refuses connections at all its listeners", broker)
        controller = self._broker.controller
        # The epoch is that of the run that ended: before the controller acts, the broker may be registered anew.
        epoch = controller.broker_epoch(broker)
        if epoch is not None:
            self._spawn(self.tell_store(lambda: controller.office().bury_broker(broker, epoch)))

    def watch_controller(self, broker: BrokerId) -> None:
        """Watch the broker that is the controller now: should it die, the role is free at once."""
        if self._controller_sentinel is not None:
            self._controller_sentinel.close()
            self._controller_sentinel = None
        if broker not in (NO_CONTROLLER, self._broker.broker_id):
            self._spawn(self._place_sentinel(broker))

    async def _place_sentinel(self, broker: BrokerId) -> None:
        store = self._broker.store

        def look() -> tuple[BrokerInfo, int] | None:
            found = store.get_many([nodes.broker(broker), nodes.CONTROLLER])
            if found[0] is None or found[1] is None or nodes.decode_controller(found[1][0]) != broker:
                return None
            return nodes.decode_broker(broker, found[0][0]), found[1][1].czxid

        try:
            seen = await self._broker.run_on_store(look)
        except (StoreError, ZnodeFormatError) as error:
            log.info("Nothing is known of the controller, broker %d: %s", broker, error)
            return
        if seen is None or not seen[0].is_pkafka:
            return
        if self._broker.controller.active_controller_id != broker:
            return
        info, czxid = seen

        def died() -> None:
            log.warning(
                "The controller, broker %d, is dead: it refuses connections at all its listeners", broker
            )
            self._spawn(self.tell_store(lambda: remove_dead_controller(store, broker, czxid)))

        self._controller_sentinel = Sentinel([*info.endpoints.values()], died)

    async def tell_store(self, call: Callable[[], None]) -> None:
        """Write down a death, on the thread of the store. An error is logged only."""
        try:
            await self._broker.run_on_store(call)
        except (StoreError, ApiError, ZnodeFormatError) as error:
            # The session of the dead broker ends anyway.
            log.info("The death of a broker could not be written down: %s", error)
