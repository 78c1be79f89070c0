"""The broker's registration: the ephemeral node that says it is alive, and its epoch (KIP-380)."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Final

from pkafka.clock import Clock
from pkafka.coordination.cluster import BrokerIdTakenError, create_checked_ephemeral
from pkafka.coordination.store import ConnectionLossError, Store, StoreError
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import BROKER_IDS, BrokerRegistration, Endpoint
from pkafka.errors import PkafkaError
from pkafka.model import BrokerId
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.this_broker import ThisBroker

log = logging.getLogger(__name__)

_ATTEMPTS_MAX = 5
_UNHEARD_S: Final = 10.0
_UNHEARD_MAX_S: Final = 600.0
"""How long a broker that has heard from no controller waits before it logs that: at first, and at most later."""


def canonical_host_name() -> str:
    """The host name of this machine that Kafka gives clients for a listener without a host.

    As Java's ``InetAddress.getLocalHost().getCanonicalHostName()``: the name that belongs to the address of the
    machine's own name, or that address where it has none. A machine that does not know its own name is ``localhost``.
    """
    try:
        addresses = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return "localhost"
    address = min(addresses, key=lambda each: each[0] != socket.AF_INET)[4]
    text = str(address[0])
    try:
        name, _ = socket.getnameinfo(address, socket.NI_NAMEREQD)
        known = {each[4][0] for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except OSError:
        return text
    return name if text in known else text


class DuplicateBrokerIdError(PkafkaError):
    """Another live broker has this id; this one must not start."""


class EndpointTakenError(PkafkaError):
    """Clients that are sent to this broker would reach another one, which is registered there."""


class Registration:
    """Registers this broker, again with every new session. Blocking.

    Args:
        broker_id: of this broker.
        config: gives, at the moment, the advertised listeners and the rack.
        ports: the port that each listener is really bound to, for those configured as 0.
        clock: for the registration's time.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        config: Callable[[], BrokerConfig],
        ports: Mapping[str, int],
        *,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._ports = ports
        self._clock = clock

    def value(self) -> BrokerRegistration:
        """The content of the node."""
        config = self._config()
        return BrokerRegistration(
            endpoints=tuple(
                Endpoint(
                    one.name,
                    one.host or canonical_host_name(),  # a client cannot connect to "every interface"
                    one.port or self._ports.get(one.name, 0),
                    one.security_protocol,
                )
                for one in config.advertised_listeners
            ),
            timestamp_ms=self._clock.now_ms(),
            rack=config.rack,
            jmx_port=config.metrics_port,  # as configured, as Kafka says it: what 0 became is in the log
            is_pkafka=True,
        )

    def check_endpoints(self, store: Store) -> None:
        """Check that no other live broker advertises an address of this one.

        Raises:
            EndpointTakenError: another one does.
            StoreError: the store failed.
        """
        ours = [_address(one) for one in self.value().endpoints]
        for broker, other in _others(store, self._broker_id).items():
            theirs = {_address(one) for one in other.endpoints}
            taken = [one for one in ours if one in theirs]
            if taken:
                raise EndpointTakenError(
                    f"Configured end points {','.join(taken)} in advertised listeners are already registered by"
                    f" broker {broker}"
                )

    def out_of_reach(self, store: Store) -> list[str]:
        """A sentence about each live broker that has no listener of the name by which this one would speak to it.

        Raises:
            StoreError: the store failed.
        """
        wanted = self._config().inter_broker_listener_name
        return [
            f"End point with listener name {wanted} not found for broker {broker}, which has {_names(other)}: this"
            " broker can neither follow it nor ask it (inter.broker.listener.name)"
            for broker, other in _others(store, self._broker_id).items()
            if wanted not in {one.listener for one in other.endpoints}
        ]

    def why_unheard(self, store: Store, controller: BrokerId) -> str:
        """Say why the controller may not have contacted this broker, judging by the nodes of both.

        Raises:
            StoreError: the store failed.
        """
        found, ours = _others(store, self._broker_id).get(controller), self.value()
        if found is None:
            return "There is no controller."
        reached_at = ", ".join(map(str, ours.endpoints))
        missing = [
            one.listener
            for one in found.endpoints
            if one.listener not in {each.listener for each in ours.endpoints}
        ]
        if missing:
            return (
                f"The controller, broker {controller}, has {_names(found)}, and this broker has {_names(ours)}:"
                " it cannot be reached without the listener by which brokers speak to each other over there"
                " (inter.broker.listener.name)."
            )
        return f"The controller, broker {controller}, has to reach it at {reached_at}."

    def register(self, store: Store, previous_session_id: int | None = None) -> int:
        """Make the node, in the session of ``store``.

        Args:
            store: the session that shall own the node.
            previous_session_id: of the session that this broker had before, whose node may be left.

        Returns:
            The broker epoch: the number of the transaction that made the node.

        Raises:
            DuplicateBrokerIdError: the node belongs to another broker.
            StoreError: the store failed.
        """
        path = BrokerRegistration.path(self._broker_id)
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            try:
                stat = create_checked_ephemeral(
                    store, path, self.value().encode(), previous_session_id=previous_session_id
                )
            except BrokerIdTakenError:
                raise DuplicateBrokerIdError(
                    f"Broker id {self._broker_id} is taken by another live broker: {path} exists. Give this one"
                    " its own broker.id, or wait until the session of a broker that died is over"
                    f" (zookeeper.session.timeout.ms={self._config().zookeeper_session_timeout_ms})."
                ) from None
            except ConnectionLossError:
                # The node may have been made all the same: the next attempt finds it and counts it as made.
                if attempt == _ATTEMPTS_MAX:
                    raise
                continue
            log.info("broker %d is registered with epoch %d", self._broker_id, stat.czxid)
            return stat.czxid
        raise AssertionError("unreachable")

    def update(self, store: Store) -> None:
        """Write the node again when it differs from the configuration (advertised.listeners is dynamic).

        Raises:
            EndpointTakenError: another broker advertises that address; the node stays as it is.
            StoreError: the store failed, or there is no node.
        """
        path, wanted = BrokerRegistration.path(self._broker_id), self.value()
        found = BrokerRegistration.decode(store.get(path)[0])
        if (found.endpoints, found.rack) != (wanted.endpoints, wanted.rack):
            self.check_endpoints(store)
            store.set(path, wanted.encode())
            log.info(
                "broker %d is to be reached at %s", self._broker_id, ", ".join(map(str, wanted.endpoints))
            )


async def hear_of_cluster(broker: ThisBroker, registration: Registration) -> None:
    """Wait until a controller has told this broker of the cluster, and say meanwhile why it may not."""
    with contextlib.suppress(StoreError):
        for sentence in await asyncio.to_thread(registration.out_of_reach, broker.store):
            log.error("%s", sentence)
    patience_s = _UNHEARD_S
    while not await broker.metadata.wait_until(
        lambda: broker.broker_id in broker.metadata.brokers, timeout_s=patience_s
    ):
        with contextlib.suppress(StoreError):
            log.warning(
                "No controller has told this broker of the cluster yet; it is not ready until then. %s",
                await asyncio.to_thread(
                    registration.why_unheard, broker.store, broker.controller.active_controller_id
                ),
            )
        patience_s = min(2 * patience_s, _UNHEARD_MAX_S)


def _others(store: Store, broker_id: BrokerId) -> dict[BrokerId, BrokerRegistration]:
    """Read the registrations of the other live brokers, without those that cannot be read."""
    ids = [int(name) for name in store.children(BROKER_IDS) if name.isdecimal() and int(name) != broker_id]
    found: dict[BrokerId, BrokerRegistration] = {}
    for one, node in zip(ids, store.get_many([BrokerRegistration.path(one) for one in ids]), strict=True):
        if node is not None:
            with contextlib.suppress(ZnodeFormatError):
                found[one] = BrokerRegistration.decode(node[0])
    return found


def _address(endpoint: Endpoint) -> str:
    return f"{endpoint.host}:{endpoint.port}"


def _names(registration: BrokerRegistration) -> str:
    names = [one.listener for one in registration.endpoints]
    return f"the listener{'s' * (len(names) > 1)} {', '.join(names)}"
