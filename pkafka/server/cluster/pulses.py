"""Signs of life of the leaders, asked for just before a worker names these leaders to a client.

A client whose leader died asks another broker within a millisecond, long before the controller has elected. If the
answer names the dead leader, a client of librdkafka asks again a second later; if the answer says that there is no
leader, a tenth of a second later. So before a worker names a leader, it asks that broker for a sign of life. Only a
refusal at all its listeners counts against the broker, as for the :mod:`sentinel <pkafka.server.cluster.sentinel>`. The
worker does not wait long for a silent broker: it may live on the other side of a cut, so the controller's word counts.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.model import BrokerId
from pkafka.net.channel import ChannelError
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.metadata import BrokerInfo, MetadataCache, MetadataChange
from pkafka.server.cluster.sentinel import refuses_everywhere
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.ipc import lifeline

log = logging.getLogger(__name__)

_VERSION: Final = 0
_PATIENCE_S: Final = 0.1
"""How long an answer waits for a sign of life. All processes of a broker that is killed have ended by then."""
_ANSWER_MAX_S: Final = 1.0
_CONNECT_MAX_MS: Final = 1000
_PAUSE_S: Final = 0.002
"""The pause before the next try with a broker that neither answers nor refuses: its processes are ending or
starting."""
_REST_S: Final = 0.1
"""The same pause when no request waits for the broker any more."""
_REFUSES_MAX_S: Final = 3.0
"""For so long a refusal counts more than the controller's word. A controller that sees the death elects much earlier;
if it does not, the broker has a session still, or refuses this broker alone."""

_ANOTHER_DEATH_S: Final = 10.0
"""A refusal that comes so long after the last one counts as a new death."""
_SILENCE_S: Final = 0.5
"""For so long requests do not wait for a broker that was silent."""
_NEVER_S: Final = -math.inf

_NONE: Final[frozenset[BrokerId]] = frozenset()


class Pulses:
    """Asks the other brokers for signs of life, for one worker; belongs to its event loop.

    Args:
        metadata: has the brokers' addresses.
        broker_id: this broker.
        config: gives the present settings.
    """

    def __init__(
        self, metadata: MetadataCache, broker_id: BrokerId, config: Callable[[], BrokerConfig]
    ) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._config = config
        self._pulses: dict[BrokerId, _Pulse] = {}
        metadata.on_change(self._drop_gone)

    async def refusing(self, brokers: Iterable[BrokerId]) -> frozenset[BrokerId]:
        """Ask the brokers, and return those that refuse connections at all their listeners."""
        asked = [pulse for broker in brokers if (pulse := self._pulse(broker)) is not None]
        found = await asyncio.gather(*(pulse.refuses() for pulse in asked))
        dead = [pulse.broker.id for pulse, refuses in zip(asked, found, strict=True) if refuses]
        return frozenset(dead) if dead else _NONE

    def _pulse(self, broker_id: BrokerId) -> "_Pulse | None":
        broker = self._metadata.brokers.get(broker_id)
        pulse = self._pulses.get(broker_id)
        if pulse is None and broker is not None and broker_id != self._broker_id:
            pulse = self._pulses[broker_id] = _Pulse(broker, self._broker_id, self._config)
        return pulse

    def _drop_gone(self, change: MetadataChange) -> None:
        """Forget what was seen of brokers that are gone, or that have changed since."""
        if change.brokers_changed:
            for broker_id, pulse in list(self._pulses.items()):
                if self._metadata.brokers.get(broker_id) != pulse.broker:
                    self._pulses.pop(broker_id).close()

    def close(self) -> None:
        """Stop asking all brokers."""
        for pulse in self._pulses.values():
            pulse.close()
        self._pulses.clear()


class _Pulse:
    """Asks one broker for a sign of life."""

    def __init__(self, broker: BrokerInfo, asking: BrokerId, config: Callable[[], BrokerConfig]) -> None:
        self.broker = broker
        self._loop = asyncio.get_running_loop()
        listener = config().inter_broker_listener_name
        self._link = BrokerLink(
            lambda: broker.endpoints.get(listener),
            f"broker-{asking}-pulse",
            config,
            connect_timeout_ms=_CONNECT_MAX_MS,
        )
        self._looking: asyncio.Task[None] | None = None
        self._silent_s = _NEVER_S
        """When the broker last gave no sign at all."""
        self._refused_s = _NEVER_S
        """When the broker last refused, if it has not answered since."""
        self._refuses_until_s = _NEVER_S
        """Until when that refusal counts."""

    async def refuses(self) -> bool:
        """Ask now, and wait for the outcome, but not for long."""
        look = self._looking
        if look is None:
            look = self._looking = lifeline.vital(self._loop.create_task(self._look()))
            look.add_done_callback(self._looked)
        if not self._is_silent:
            await asyncio.wait([look], timeout=_PATIENCE_S)
            if not look.done():
                self._silent_s = self._loop.time()
        return self._loop.time() < self._refuses_until_s

    @property
    def _is_silent(self) -> bool:
        return self._loop.time() < self._silent_s + _SILENCE_S

    def _looked(self, _task: "asyncio.Task[None]") -> None:
        self._looking = None

    async def _look(self) -> None:
        """Ask until the broker answers or refuses, or its time is over."""
        began_s = self._loop.time()
        while not await self._answers():
            if await refuses_everywhere([*self.broker.endpoints.values()]):
                self._refused()
                return
            if self._is_silent or self._loop.time() > began_s + _PATIENCE_S:
                self._silent_s = self._loop.time()
                await asyncio.sleep(_REST_S)
                return
            await asyncio.sleep(_PAUSE_S)
        self._silent_s = self._refused_s = self._refuses_until_s = _NEVER_S

    def _refused(self) -> None:
        now_s, before_s = self._loop.time(), self._refused_s
        self._silent_s, self._refused_s = _NEVER_S, now_s
        if now_s > before_s + _ANOTHER_DEATH_S:
            self._refuses_until_s = now_s + _REFUSES_MAX_S
            log.info(
                "Broker %d refuses connections: clients hear that its partitions have no leader",
                self.broker.id,
            )

    async def _answers(self) -> bool:
        try:
            await self._link.ask_frame(ApiVersionsRequest(), _VERSION, timeout_s=_ANSWER_MAX_S)
        except (ChannelError, ProtocolError):
            self._link.close()
            return False
        return True

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._link.close()
