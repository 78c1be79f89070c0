"""The way of markers from one worker to another broker: WriteTxnMarkers, and a question about a refusal.

The receiver may be a pkafka broker or an Apache broker. One request is in hand at a time, so that a connection carries
no request behind one whose outcome is not known; after a failure another connection is made, under a new client id.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from pkafka.clock import Clock
from pkafka.errors import ErrorCode, ProtocolError
from pkafka.model import BrokerId, ProducerId
from pkafka.net.channel import ChannelError
from pkafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.metadata import Endpoint
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.incarnations import Sender
from pkafka.server.transactions.marker_appends import ProducerAt
from pkafka.server.transactions.marker_owners import Answered, Codes, Row
from pkafka.server.transactions.transaction import PartitionKey

log = logging.getLogger(__name__)

_VERSION: Final = 1
"""What brokers of 2.8 and newer send each other (inter.broker.protocol.version)."""
_DESCRIBE_VERSION: Final = 0
_SLACK_S: Final = 2.0
"""The receiver waits for replicas as long as a request may take; its answer that they did not come is waited for."""


class ClientIds:
    """Gives each connection of a worker the client id that tells it from those before (:mod:`.incarnations`).

    Args:
        broker_id: gives the id of this broker, which the store may have given it.
        worker: the number of this worker.
        start: tells one start of the broker from others.
        clock: its monotonic clock is the machine's, so the successor of this worker goes on from higher numbers.
    """

    def __init__(self, broker_id: Callable[[], BrokerId], worker: int, start: str, clock: Clock) -> None:
        self._broker_id = broker_id
        self._worker = worker
        self._start = start
        self._clock = clock
        self._latest = 0

    def next(self) -> str:
        """The client id of a new connection."""
        self._latest = max(self._latest + 1, self._clock.monotonic_ms())
        return Sender(self._broker_id(), self._worker, self._start, self._latest).client_id


class MarkerLink:
    """Sends markers to one broker. Belongs to one event loop.

    Args:
        broker_id: the other broker.
        endpoint: where it listens at the moment; None when that is unknown.
        client_id: gives the client id of a new connection.
        config: gives the settings of this broker.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        endpoint: Callable[[], Endpoint | None],
        client_id: Callable[[], str],
        config: Callable[[], BrokerConfig],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._broker_id = broker_id
        self._endpoint = endpoint
        self._client_id = client_id
        self._config = config
        self._spawn = spawn
        self._link: BrokerLink | None = None
        self._is_closed = False
        self._told = ""
        """The last failure that was logged; empty while markers are answered."""

    def send(self, rows: Sequence[Row], answered: Answered) -> None:
        """Have markers appended by the broker; later, call back with the codes, or with None after a failure."""
        self._spawn(self._send(rows, answered))

    async def producer_at(self, key: PartitionKey, producer_id: ProducerId) -> ProducerAt | None:
        """What the leader of a partition knows of a producer (DescribeProducers); None when it does not say."""
        if self._is_closed:
            return None
        topic, index = key
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
        link = self._connected()
        try:
            response = await link.ask(
                request, _DESCRIBE_VERSION, DescribeProducersResponse, timeout_s=self._timeout_s
            )
        except (ChannelError, ProtocolError) as error:
            self._failed(link, error)
            return None
        return _producer_in(response, producer_id)

    def close(self) -> None:
        """Give the connection up for good; the requests in hand fail, and so do later ones."""
        self._is_closed = True
        if self._link is not None:
            self._link.close()
            self._link = None

    @property
    def _timeout_s(self) -> float:
        return self._config().request_timeout_ms / 1000 + _SLACK_S

    def _connected(self) -> BrokerLink:
        if self._link is None:
            config = self._config()
            self._link = BrokerLink(
                self._endpoint,
                self._client_id(),
                self._config,
                connect_timeout_ms=config.request_timeout_ms,
            )
        return self._link

    async def _send(self, rows: Sequence[Row], answered: Answered) -> None:
        if self._is_closed:
            answered(None)
            return
        link = self._connected()
        try:
            response = await link.ask(
                _request(rows), _VERSION, WriteTxnMarkersResponse, timeout_s=self._timeout_s
            )
        except (ChannelError, ProtocolError) as error:
            self._failed(link, error)
            answered(None)
        else:
            self._told = ""
            answered(_codes(response, rows))

    def _failed(self, link: BrokerLink, error: ChannelError | ProtocolError) -> None:
        if str(error) != self._told:
            self._told = str(error)
            log.warning("Cannot send transaction markers to broker %d: %s", self._broker_id, error)
        link.close()
        if self._link is link:
            self._link = None


def _request(rows: Sequence[Row]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[_marker(Marker(*values), keys) for values, keys in rows])


def _marker(marker: Marker, keys: Sequence[PartitionKey]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in keys:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in topics.items()],
        coordinator_epoch=marker.coordinator_epoch,
    )


def _codes(response: WriteTxnMarkersResponse, rows: Sequence[Row]) -> Codes:
    """The codes in the order of the rows. A partition of which the answer says nothing is asked for again."""
    found: Mapping[tuple[int, str, int], int] = {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
    missing = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return [
        [found.get((Marker(*values).producer_id, topic, index), missing) for topic, index in keys]
        for values, keys in rows
    ]


def _producer_in(response: DescribeProducersResponse, producer_id: ProducerId) -> ProducerAt | None:
    """What an answer about one partition says of a producer."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                return None
            for one in partition.active_producers:
                if one.producer_id == producer_id:
                    return ProducerAt(one.producer_epoch, one.coordinator_epoch, one.current_txn_start_offset)
            return ProducerAt()
    return None
