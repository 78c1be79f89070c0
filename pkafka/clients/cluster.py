"""A client's view of a cluster: bootstrap, metadata, leaders, and requests that are tried again.

Two ways to use it. Synchronous (admin, tools): :meth:`Cluster.request` and :meth:`Cluster.refresh` poll the
network on the caller's thread under one lock, so any thread may call. Asynchronous (producer, consumer): the
owner polls ``network`` itself and calls :meth:`Cluster.keep_fresh` now and then.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import Address, ConnectionState, Pending
from pkafka.clients.errors import ClientError, ClientTimeoutError, ConnectError, Stage
from pkafka.clients.network import Network
from pkafka.clock import Clock, SystemClock
from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.model import NO_LEADER, NO_TOPIC_ID, TopicId, TopicPartition
from pkafka.protocol.schema import Message

if TYPE_CHECKING:
    from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

R = TypeVar("R", bound=Message)


class Broker(NamedTuple):
    """A live broker, as metadata names it."""

    id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> Address:
        """Where it listens for clients like this one."""
        return Address(self.host, self.port)


class PartitionView(NamedTuple):
    """What metadata says about one partition."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    error: ErrorCode


class TopicView(NamedTuple):
    """What metadata says about one topic; ``partitions`` is sorted by number."""

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: list[PartitionView]
    error: ErrorCode


class ClusterView(NamedTuple):
    """One state of the metadata. ``topics`` holds what was asked for so far."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = MappingProxyType({})
    topics: Mapping[str, TopicView] = MappingProxyType({})
    authorized_operations: int = -(2**31)

    def leader(self, partition: TopicPartition) -> Broker | None:
        """The broker that leads a partition, when that is known and it is alive."""
        view = self.partition(partition)
        return None if view is None or view.leader == NO_LEADER else self.brokers.get(view.leader)

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        """What is known about one partition."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return None
        views = topic.partitions
        if partition.partition < len(views) and views[partition.partition].partition == partition.partition:
            return views[partition.partition]
        return next((view for view in views if view.partition == partition.partition), None)


class To(Enum):
    """Which brokers may answer a request, where it is not one broker by id."""

    ANY = "any"
    CONTROLLER = "controller"


_PORT_DIGITS: Final = 5
_CONTROLLER_MOVED: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH})


class Cluster:
    """What a client knows of its cluster, and its way to the brokers.

    Args:
        config: at least ``bootstrap.servers``.
        clock: for time-outs.
        fail_fast: raise as soon as no bootstrap server can be reached, instead of trying until the time-out
            (what a person at a terminal wants, and a service does not).

    Raises:
        ConfigError: a bootstrap server is not ``host:port``.
    """

    def __init__(self, config: ClientConfig, *, clock: Clock | None = None, fail_fast: bool = False) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.network = Network(config, self.clock)
        self.view = ClusterView()
        self.generation = 0
        self.generation_of_all = 0
        """The generation at which all topics were asked for last."""
        self._fail_fast = fail_fast
        self._bootstrap = [parse_address(text) for text in config.bootstrap_servers]
        self._lock = threading.RLock()
        self._refreshed_ms: int | None = None
        self._refresh: Pending | None = None
        self._refresh_wanted = True
        self._refresh_not_before_ms = 0
        self._refresh_failures = 0
        self._unanswered_count = 0
        """Connections in a row that a broker closed at the first request."""
        self._asked_for: frozenset[str] | None = frozenset()
        """The topics of the last refresh; None for all."""
        self.last_refresh_error: ClientError | None = None

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            self.network.close()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- synchronous --------------------------------------------------------------------------------------

    def request(
        self,
        message: Message,
        response_type: type[R],
        *,
        to: To | int = To.ANY,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        try_again: Callable[[R], ErrorCode | None] | None = None,
    ) -> R:
        """Send a request and wait for its answer, trying again while the failure is one that may pass.

        Args:
            message: the request.
            response_type: the class of its response.
            to: any broker, the controller, or a broker id.
            timeout_ms: for everything, retries included; ``default.api.timeout.ms`` when left out.
            max_version: do not go above this version.
            try_again: given a response, the code for which the request should be sent again (None: done).

        Returns:
            The response; its error codes are the caller's to read.

        Raises:
            ConnectError: no broker can be reached (the stage says how far it went).
            ClientTimeoutError: the time ran out.
            UnsupportedApiError: the broker is too old.
            ApiError: ``to`` is a broker id that metadata does not know.
        """
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.monotonic_ms() + wait_ms
        with self._lock:
            attempt = 0
            unanswered: ClientError | None = None
            while True:
                outcome = self._attempt(message, response_type, to, deadline_ms, max_version)
                is_last = self.clock.monotonic_ms() >= deadline_ms or attempt >= self.config.retries
                if isinstance(outcome, ClientError):
                    if not outcome.retriable:
                        raise outcome
                    if not isinstance(outcome, ConnectError):
                        unanswered = outcome
                    if is_last:
                        # A last moment that was too short for another handshake says nothing of the broker.
                        is_cut = isinstance(outcome, ConnectError) and outcome.stage is Stage.HANDSHAKE
                        raise _timed_out(message, (unanswered if is_cut else None) or outcome, wait_ms)
                elif is_last or try_again is None or try_again(outcome) is None:
                    return outcome
                self.pause(attempt, deadline_ms)
                attempt += 1
                if to is not To.ANY:
                    self._refresh_quietly(deadline_ms)

    def request_each(
        self,
        messages: Mapping[int, Message],
        response_type: type[R],
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> dict[int, R | ClientError]:
        """Send one request to each of several brokers at once; waits for all answers.

        Args:
            messages: broker id to request.

        Returns:
            Broker id to its response or to what went wrong there, such as that ``view`` has no such broker, which
            another thread's refresh may have brought about. Nothing is tried again.
        """
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        with self._lock:
            gone = {
                node: _Retry(f"broker {node} is not part of the cluster, or not alive")
                for node in messages
                if node not in self.view.brokers
            }
            pendings = {
                node: self.network.send(
                    self.view.brokers[node].address,
                    message,
                    timeout_ms=min(wait_ms, self.config.request_timeout_ms),
                    max_version=max_version,
                )
                for node, message in messages.items()
                if node not in gone
            }
            self.network.wait(pendings.values(), deadline_ms=self.clock.monotonic_ms() + wait_ms)
        answers = {node: _outcome(pending, response_type) for node, pending in pendings.items()}
        return {**gone, **answers}

    def refresh(
        self,
        topics: Collection[str] | None = (),
        *,
        allow_auto_create: bool = False,
        timeout_ms: int | None = None,
    ) -> ClusterView:
        """Ask for metadata and wait.

        Args:
            topics: their names; None for all, empty for the brokers alone.

        Returns:
            The new view; ``topics`` of it holds exactly what was asked for.
        """
        message = _metadata_request(topics, allow_auto_create=allow_auto_create)
        with self._lock:
            response = self.request(message, _metadata_response_type(), timeout_ms=timeout_ms)
            return self._adopt(response, of_all=topics is None)

    def pause(self, attempt: int, deadline_ms: int) -> None:
        """Let ``retry.backoff.ms`` (doubled per attempt) pass before trying again, but not the deadline."""
        backoff_ms = min(
            self.config.retry_backoff_ms * 2 ** min(attempt, 16), self.config.retry_backoff_max_ms
        )
        end_ms = min(deadline_ms, self.clock.monotonic_ms() + backoff_ms)
        with self._lock:
            while (left_ms := end_ms - self.clock.monotonic_ms()) > 0:
                self.network.poll(left_ms)

    def known(self) -> ClusterView:
        """The view, asked for now if it was not yet."""
        return self.view if self.view.brokers else self.refresh()

    def node_of(self, address: Address) -> int:
        """The id of the broker at an address; -1, -2... for bootstrap servers whose id is not known."""
        for broker in self.view.brokers.values():
            if broker.port == address.port and broker.host == address.host:
                return broker.id
        return -1 - self._bootstrap.index(address) if address in self._bootstrap else -1

    @property
    def metadata_age_ms(self) -> int:
        """How long ago the metadata came; -1 before there was any."""
        return -1 if self._refreshed_ms is None else self.clock.monotonic_ms() - self._refreshed_ms

    # -- asynchronous -------------------------------------------------------------------------------------

    def want_refresh(self) -> None:
        """Ask for fresh metadata at the next :meth:`keep_fresh`."""
        self._refresh_wanted = True

    def note_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, brokers: Iterable[Broker]
    ) -> bool:
        """Take over a newer leader that an answer named (KIP-951), without waiting for metadata.

        Args:
            brokers: those that the answer tells the addresses of.

        Returns:
            Whether it was news.
        """
        topic = self.view.topics.get(partition.topic)
        known = self.view.partition(partition)
        if topic is None or known is None or leader_epoch <= known.leader_epoch:
            return False
        partitions = [
            each._replace(leader=leader, leader_epoch=leader_epoch) if each is known else each
            for each in topic.partitions
        ]
        self.view = self.view._replace(
            brokers={**self.view.brokers, **{broker.id: broker for broker in brokers}},
            topics={**self.view.topics, topic.name: topic._replace(partitions=partitions)},
        )
        self.generation += 1
        return True

    def keep_fresh(self, topics: Iterable[str] | None, *, allow_auto_create: bool) -> int:
        """Send a metadata request when one is due; never waits.

        After a refresh nothing is asked again for ``retry.backoff.ms``, but for topics that it did not ask for.

        Args:
            topics: those to ask for, looked at only when it is time; None for all.

        Returns:
            Milliseconds until it should be called again.
        """
        now_ms = self.clock.monotonic_ms()
        age_left_ms = self.config.metadata_max_age_ms
        if self._refreshed_ms is not None:
            age_left_ms -= now_ms - self._refreshed_ms
        if self._refresh is not None:
            return max(1, self._refresh.deadline_ms - now_ms)
        if not self._refresh_wanted and age_left_ms > 0:
            return age_left_ms
        wanted = None if topics is None else list(topics)
        if now_ms < self._refresh_not_before_ms and (self._refresh_failures or not self._asks_more(wanted)):
            return self._refresh_not_before_ms - now_ms
        address = self.any_address()
        wait_ms = self.network.backoff_ms(address)
        if wait_ms:
            return wait_ms
        self._refresh_wanted = False
        self._asked_for = None if wanted is None else frozenset(wanted)
        message = _metadata_request(wanted, allow_auto_create=allow_auto_create)
        on_done = partial(self._on_refreshed, of_all=wanted is None)
        pending = self.network.send(address, message, on_done=on_done)
        if not pending.done:
            self._refresh = pending
            return max(1, pending.deadline_ms - now_ms)
        return max(1, self._refresh_not_before_ms - now_ms)

    def _asks_more(self, wanted: Iterable[str] | None) -> bool:
        return self._asked_for is not None and (wanted is None or not self._asked_for.issuperset(wanted))

    def _on_refreshed(self, pending: Pending, *, of_all: bool) -> None:
        self._refresh = None
        pause_ms = self.config.retry_backoff_ms
        if pending.error is not None:
            self.last_refresh_error = pending.error
            self._refresh_wanted = True
            self._refresh_failures += 1
            pause_ms = min(pause_ms * 2 ** min(self._refresh_failures, 16), self.config.retry_backoff_max_ms)
        else:
            self._refresh_failures = 0
            self.last_refresh_error = None
            response = pending.response
            assert isinstance(response, _metadata_response_type())
            self._adopt(response, of_all=of_all)
        self._refresh_not_before_ms = self.clock.monotonic_ms() + pause_ms

    # -- inside -------------------------------------------------------------------------------------------

    def _attempt(
        self,
        message: Message,
        response_type: type[R],
        to: To | int,
        deadline_ms: int,
        max_version: int | None,
    ) -> R | ClientError:
        """One try: for any broker, each known address once; otherwise the one broker."""
        if to is To.ANY:
            addresses = self._addresses_by_preference()
        else:
            try:
                addresses = [self._address_of(to, deadline_ms)]
            except ClientError as error:
                return error
        errors: list[ClientError] = []
        for address in addresses:
            left_ms = deadline_ms - self.clock.monotonic_ms()
            if left_ms <= 0 and errors:
                break
            pending = self.network.send(
                address,
                message,
                timeout_ms=max(0, min(left_ms, self.config.request_timeout_ms)),
                max_version=max_version,
            )
            self.network.wait([pending], deadline_ms=deadline_ms + 50)
            if not pending.done:
                self.network.disconnect(address)
            outcome = _outcome(pending, response_type)
            if not isinstance(outcome, ClientError):
                self._unanswered_count = 0
                return outcome
            self._unanswered_count += getattr(outcome, "is_unanswered", False)
            if self._unanswered_count == 2:  # a broker that stops does so once
                self.network.check_no_login(address, max(0, min(left_ms, self.config.request_timeout_ms)))
            errors.append(outcome)
            if not outcome.retriable:
                break
        if self._fail_fast and to is To.ANY and all(isinstance(each, ConnectError) for each in errors):
            raise _no_broker(errors)
        return errors[-1]

    def _addresses_by_preference(self) -> list[Address]:
        """Brokers that take a request now first, then the other known ones, then the bootstrap servers."""
        known = _shuffled([broker.address for broker in self.view.brokers.values()])
        addresses = dict.fromkeys(known + _shuffled(self._bootstrap))
        return sorted(addresses, key=self._preference)

    def _preference(self, address: Address) -> tuple[bool, int, int]:
        connection = self.network.connection(address)
        ready = (
            connection is not None
            and connection.state is ConnectionState.READY
            and not self.network.throttle_ms(address)
        )
        load = connection.in_flight_count if connection is not None else 0
        return (not ready, self.network.backoff_ms(address), load)

    def any_address(self) -> Address:
        """The broker to ask what any of them knows: one that is connected and has least to do, if there is one."""
        return self._addresses_by_preference()[0]

    def _address_of(self, to: To | int, deadline_ms: int) -> Address:
        if not self.view.brokers:
            self.refresh(timeout_ms=max(0, deadline_ms - self.clock.monotonic_ms()))
        node = self.view.controller_id if isinstance(to, To) else to
        broker = self.view.brokers.get(node)
        if broker is not None:
            return broker.address
        if to is To.CONTROLLER:
            raise _Retry("the cluster has no controller at the moment")
        raise ApiError(
            ErrorCode.BROKER_NOT_AVAILABLE, f"broker {to} is not part of the cluster, or not alive"
        )

    def _refresh_quietly(self, deadline_ms: int) -> None:
        message = _metadata_request((), allow_auto_create=False)
        outcome = self._attempt(message, _metadata_response_type(), To.ANY, deadline_ms, None)
        if not isinstance(outcome, ClientError):
            self._adopt(outcome)

    def _adopt(self, response: "MetadataResponse", *, of_all: bool = False) -> ClusterView:
        """Merge an answer into ``view``, where one of all topics leaves no other.

        Returns:
            What it alone says.
        """
        answered = {
            view.name: _with_newer_leaders(view, self.view.topics.get(view.name))
            for view in map(topic_view, response.topics)
        }
        view = ClusterView(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={
                each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
                for each in response.brokers
            },
            topics=answered,
            authorized_operations=response.cluster_authorized_operations,
        )
        self.view = view if of_all else view._replace(topics={**self.view.topics, **answered})
        self._refreshed_ms = self.clock.monotonic_ms()
        self.generation += 1
        if of_all:
            self.generation_of_all = self.generation
        return view


def _with_newer_leaders(answered: TopicView, known: TopicView | None) -> TopicView:
    """Keep leaders that are known to be newer than those in an answer of a broker that has not heard of them yet."""
    if known is None or known.topic_id != answered.topic_id or known.topic_id == NO_TOPIC_ID:
        return answered
    newer = {each.partition: each for each in known.partitions}
    return answered._replace(
        partitions=[
            found
            if (found := newer.get(each.partition)) is not None and found.leader_epoch > each.leader_epoch
            else each
            for each in answered.partitions
        ]
    )


class _Retry(ClientError):
    retriable = True


def parse_address(text: str) -> Address:
    """Read ``host:port``, ``[v6]:port`` or ``PROTOCOL://host:port``.

    Raises:
        ConfigError: it is none of them.
    """
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS and 0 < int(port) < 65_536
    if not colon or not is_port or not host:
        raise ConfigError("bootstrap.servers", "every entry must be host:port", text)
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def controller_moved(codes: Iterable[int]) -> ErrorCode | None:
    """For ``try_again``: the first of the codes that says that another broker is the controller now."""
    return next((ErrorCode(code) for code in codes if code in _CONTROLLER_MOVED), None)


def _shuffled(addresses: list[Address]) -> list[Address]:
    """The addresses in random order, so that many clients do not all begin with the same broker."""
    if len(addresses) < 2:
        return addresses
    import random

    return random.sample(addresses, len(addresses))


def _outcome(pending: Pending, response_type: type[R]) -> R | ClientError:
    if not pending.done:
        return ClientTimeoutError(Stage.REQUEST, f"{pending.address} did not answer in time")
    if pending.error is not None:
        return pending.error
    assert isinstance(pending.response, response_type)
    return pending.response


def _timed_out(message: Message, error: ClientError, wait_ms: int) -> ClientError:
    if isinstance(error, ConnectError):
        return error
    name = type(message).__name__
    return ClientTimeoutError(
        Stage.REQUEST, f"no answer to {name} within {wait_ms} ms: {error.message}", hint=error.hint
    )


def _metadata_response_type() -> "type[MetadataResponse]":
    from pkafka.protocol.messages.metadata import MetadataResponse

    return MetadataResponse


def _metadata_request(topics: Collection[str] | None, *, allow_auto_create: bool) -> "MetadataRequest":
    from pkafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    message = MetadataRequest()
    message.allow_auto_topic_creation = allow_auto_create
    if topics is None:
        message.topics = None
    else:
        message.topics = [MetadataRequestTopic(name=name) for name in topics]
    return message


def topic_view(topic: "MetadataResponseTopic") -> TopicView:
    """What an answer to Metadata says about one topic."""
    partitions = [
        PartitionView(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
            ErrorCode(each.error_code),
        )
        for each in topic.partitions
    ]
    partitions.sort(key=lambda view: view.partition)
    topic_id = topic.topic_id or NO_TOPIC_ID
    return TopicView(topic.name or "", topic_id, topic.is_internal, partitions, ErrorCode(topic.error_code))


def _no_broker(errors: list[ClientError]) -> ClientError:
    """One error for all addresses tried: the only one, or the one that went farthest with the others named."""
    if len(errors) == 1:
        return errors[0]
    reached = max(errors, key=lambda error: list(Stage).index(getattr(error, "stage", Stage.RESOLVE)))
    assert isinstance(reached, ConnectError)
    text = "; ".join(dict.fromkeys(error.message for error in errors))
    return ConnectError(reached.stage, reached.address, text, hint=reached.hint)
