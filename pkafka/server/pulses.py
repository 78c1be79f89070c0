"""Whether the brokers that clients are about to be sent to still live, asked at the moment when it counts.

A client whose leader died asks another broker at once, long before the controller can have said anything: within a
millisecond. Told the dead leader's name, clients of librdkafka ask again a second later; told that there is no leader,
a tenth of a second later. So a worker that is to say who leads asks that broker for a sign of life first. Only a
refusal at all its listeners counts against it, as it does for a :mod:`sentinel <pkafka.server.sentinel>`. Nobody waits
long for one that is silent: it may be alive on the other side of a cut, and what the controller said of it stands.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.model import BrokerId
from pkafka.net.channel import ChannelError
from pkafka.protocol.messages.api_versions import ApiVersionsRequest
from pkafka.server import lifeline
from pkafka.server.broker_link import BrokerLink
from pkafka.server.config import BrokerConfig
from pkafka.server.metadata import BrokerInfo, MetadataCache
from pkafka.server.sentinel import refuses_everywhere

log = logging.getLogger(__name__)

_VERSION: Final = 0
_PATIENCE_S: Final = 0.05
"""How long an answer waits for a sign of life. All processes of a broker that is killed have ended by then."""
_ANSWER_MAX_S: Final = 1.0
_CONNECT_MAX_MS: Final = 1000
_PAUSE_S: Final = 0.002
"""Until the next try with a broker that neither answers nor refuses: its processes are about to end, or to start."""
_REST_S: Final = 0.1
"""The same with one for whom nobody waits any more."""
_REFUSES_MAX_S: Final = 3.0
"""So long a refusal counts for more than the controller's word. It says something new long before, unless it takes
the broker for alive: by a session, or because only this broker is refused."""

_NONE: Final[frozenset[BrokerId]] = frozenset()


class Pulses:
    """What one worker knows of the other brokers' lives; belongs to its event loop.

    Args:
        metadata: where they listen.
        broker_id: this broker, which lives.
        config: gives the settings of the moment.
    """

    def __init__(
        self, metadata: MetadataCache, broker_id: BrokerId, config: Callable[[], BrokerConfig]
    ) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._config = config
        self._pulses: dict[BrokerId, _Pulse] = {}

    async def refusing(self, brokers: Iterable[BrokerId]) -> frozenset[BrokerId]:
        """Those of the brokers that are dead as of now, as far as that can be said within moments."""
        asked = [pulse for broker in brokers if (pulse := self._pulse(broker)) is not None]
        found = await asyncio.gather(*(pulse.refuses() for pulse in asked))
        dead = [pulse.broker.id for pulse, refuses in zip(asked, found, strict=True) if refuses]
        return frozenset(dead) if dead else _NONE

    def _pulse(self, broker_id: BrokerId) -> "_Pulse | None":
        broker = self._metadata.brokers.get(broker_id)
        pulse = self._pulses.get(broker_id)
        if pulse is not None and pulse.broker != broker:
            # It is gone, or another life of it is there.
            self._pulses.pop(broker_id).close()
            pulse = None
        if pulse is None and broker is not None and broker_id != self._broker_id:
            pulse = self._pulses[broker_id] = _Pulse(broker, self._broker_id, self._config())
        return pulse

    def close(self) -> None:
        """Ask nobody any more."""
        for pulse in self._pulses.values():
            pulse.close()
        self._pulses.clear()


class _Pulse:
    """Of one broker."""

    def __init__(self, broker: BrokerInfo, asking: BrokerId, config: BrokerConfig) -> None:
        self.broker = broker
        self._loop = asyncio.get_running_loop()
        listener = config.inter_broker_listener_name
        self._link = BrokerLink(
            lambda: broker.endpoints.get(listener),
            f"broker-{asking}-pulse",
            config,
            connect_timeout_ms=_CONNECT_MAX_MS,
        )
        self._looking: asyncio.Task[None] | None = None
        self._began_s = 0.0
        """When the look that goes on was begun."""
        self._is_silent = False
        """Whether the last look ended, or goes on, without a sign: nobody waits for such a broker."""
        self._refused_s: float | None = None
        """Since when it has refused, without an answer in between."""

    async def refuses(self) -> bool:
        """Look now, and wait for what is seen, but not for long."""
        look = self._looking
        if look is None:
            self._began_s = self._loop.time()
            look = self._looking = lifeline.vital(self._loop.create_task(self._look()))
            look.add_done_callback(self._looked)
        if not self._is_silent:
            left_s = self._began_s + _PATIENCE_S - self._loop.time()
            await asyncio.wait([look], timeout=max(left_s, 0))
            self._is_silent = self._is_silent or not look.done()
        return self._refused_s is not None and self._loop.time() - self._refused_s < _REFUSES_MAX_S

    def _looked(self, _task: "asyncio.Task[None]") -> None:
        self._looking = None

    async def _look(self) -> None:
        """Ask until the broker answers, refuses, or was given time enough for either."""
        while not await self._answers():
            if await refuses_everywhere([*self.broker.endpoints.values()]):
                self._is_silent = False
                if self._refused_s is None:
                    self._refused_s = self._loop.time()
                    log.info(
                        "Broker %d refuses connections: clients hear that what it leads has no leader",
                        self.broker.id,
                    )
                return
            if self._is_silent or self._loop.time() - self._began_s > _PATIENCE_S:
                self._is_silent = True
                await asyncio.sleep(_REST_S)
                return
            await asyncio.sleep(_PAUSE_S)
        self._is_silent, self._refused_s = False, None

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
