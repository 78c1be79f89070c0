"""How the controller's requests reach all brokers: this one's workers by frames, the others by their listeners.

Implements :class:`~pkafka.server.controller.channels.BrokerChannels`. Each broker has a queue and a connection of its
own, so that a broker that does not answer does not delay the others.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pkafka.errors import ProtocolError
from pkafka.model import BrokerId
from pkafka.net.channel import ChannelError
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.control_requests import RESPONSES, VERSIONS, ControlRequest, ControlResponse
from pkafka.server.cluster.metadata import BrokerInfo, Endpoint
from pkafka.server.cluster.sentinel import Sentinel
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.local_channels import LocalChannels, OnResponse
from pkafka.server.ipc import lifeline

log = logging.getLogger("kafka.controller.RequestSendThread")
"""Kafka's name: the lines of this logger go to the controller's log."""

_RETRY_PAUSE_S: Final = 0.1


class ClusterChannels:
    """Sends the controller's requests to all brokers.

    Args:
        local: to this broker.
        broker_id: this broker.
        config: gives the settings of the moment.
        on_death: called with a broker whose processes have all died.
    """

    def __init__(
        self,
        local: LocalChannels,
        broker_id: BrokerId,
        config: Callable[[], BrokerConfig],
        on_death: Callable[[BrokerId], None],
    ) -> None:
        self._local = local
        self._broker_id = broker_id
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._on_death = on_death
        self._queues: dict[BrokerId, _RemoteQueue] = {}
        self._sentinels: dict[BrokerId, tuple[BrokerInfo, Sentinel]] = {}

    # -- the controller's side: any thread --

    def send(self, broker_id: BrokerId, request: ControlRequest, on_response: OnResponse = None) -> None:
        """Queue a request; see the port."""
        if broker_id == self._broker_id:
            self._local.send(broker_id, request, on_response)
        else:
            self._loop.call_soon_threadsafe(self._put, broker_id, request, on_response)

    def brokers_changed(self, brokers: Mapping[BrokerId, BrokerInfo]) -> None:
        """See the port."""
        others = {broker: info for broker, info in brokers.items() if broker != self._broker_id}
        self._loop.call_soon_threadsafe(self._follow, others)

    # -- the event loop's side --

    def _put(self, broker_id: BrokerId, request: ControlRequest, on_response: OnResponse) -> None:
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put(request, on_response)

    def _follow(self, others: Mapping[BrokerId, BrokerInfo]) -> None:
        for gone in self._queues.keys() - others.keys():
            self._queues.pop(gone).close()
        for broker, (info, sentinel) in list(self._sentinels.items()):
            if others.get(broker) != info:
                sentinel.close()
                del self._sentinels[broker]
        for broker, info in others.items():
            if info.is_pkafka and broker not in self._sentinels:
                died = partial(self._on_death, broker)
                self._sentinels[broker] = info, Sentinel([*info.endpoints.values()], died)
        config = self._config()
        listener = config.controller_listener_name
        for broker, info in others.items():
            endpoint = info.endpoints.get(listener)
            if endpoint is None and (broker not in self._queues or self._queues[broker].endpoint is not None):
                log.error(
                    "End point with listener name %s not found for broker %d: it gets no requests, serves no clients",
                    listener,
                    broker,
                )
            if broker in self._queues:
                self._queues[broker].endpoint = endpoint
            else:
                self._queues[broker] = _RemoteQueue(broker, endpoint, str(self._broker_id), self._config)


class _RemoteQueue:
    """Sends requests to one other broker, in order, each after the answer to the one before."""

    def __init__(
        self,
        broker_id: BrokerId,
        endpoint: Endpoint | None,
        client_id: str,
        config: Callable[[], BrokerConfig],
    ) -> None:
        now = config()
        self.endpoint = endpoint
        self._broker_id = broker_id
        self._link = BrokerLink(
            lambda: self.endpoint,
            client_id,
            config,
            connect_timeout_ms=now.controller_socket_timeout_ms,
        )
        self._timeout_s = now.request_timeout_ms / 1000
        self._waiting: asyncio.Queue[tuple[ControlRequest, OnResponse]] = asyncio.Queue()
        self._task = lifeline.vital(asyncio.get_running_loop().create_task(self._run()))

    def put(self, request: ControlRequest, on_response: OnResponse) -> None:
        self._waiting.put_nowait((request, on_response))

    def close(self) -> None:
        """The broker is gone: stop waiting for its answers."""
        self._task.cancel()
        self._link.close()

    async def _run(self) -> None:
        while True:
            request, on_response = await self._waiting.get()
            response = await self._until_answered(request)
            if on_response is not None:
                on_response(response)

    async def _until_answered(self, request: ControlRequest) -> ControlResponse:
        version, answer = VERSIONS[type(request)], RESPONSES[type(request)]
        told = ""
        while True:
            try:
                return await self._link.ask(request, version, answer, timeout_s=self._timeout_s)
            except (ChannelError, ProtocolError) as error:
                # As long as its registration stands it may be back at any moment; the controller drops it otherwise.
                if str(error) != told:
                    told = str(error)
                    log.warning(
                        "Controller %s's request %s to broker %d was unsuccessful: %s; trying again",
                        request.controller_id,
                        type(request).__name__.removesuffix("Request"),
                        self._broker_id,
                        error,
                    )
                self._link.close()
                await asyncio.sleep(_RETRY_PAUSE_S)
