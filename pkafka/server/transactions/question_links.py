"""The way of questions about transactions to coordinators in other brokers: AddPartitionsToTxn with verify_only."""

from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

from pkafka.errors import ErrorCode, ProtocolError
from pkafka.model import BrokerId
from pkafka.net.channel import ChannelError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pkafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pkafka.server.cluster.broker_link import BrokerLink
from pkafka.server.cluster.metadata import MetadataCache, MetadataChange
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.transactions.transaction import PartitionKey

_ASKED_VERSION: Final = 0
"""Of ApiVersions: every broker knows it."""
_FIRST_VERSION: Final = 4
_LAST_VERSION: Final = 5
_CODES: Final = frozenset(ErrorCode)

Row: TypeAlias = tuple[str, int, int, Sequence[PartitionKey]]
"""A transactional id, the producer's id and epoch, and the partitions. An id is in one row of a request at most."""
Codes: TypeAlias = Sequence[Sequence[int]]
"""For each row a code for each of its partitions."""
Answered: TypeAlias = Callable[[Codes | ErrorCode], None]
"""Called once, with the codes, or with the reason why there are none."""


class QuestionLinks:
    """Asks the coordinators in other brokers. Belongs to one event loop.

    Args:
        metadata: has the brokers' addresses.
        partitions: know the id of this broker.
        config: gives the present settings.
        spawn: runs a coroutine on the worker's loop.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        partitions: Partitions,
        config: Callable[[], BrokerConfig],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._config = config
        self._spawn = spawn
        self._links: dict[BrokerId, _QuestionLink] = {}
        metadata.on_change(self._drop_gone)

    def ask(self, broker: BrokerId, rows: Sequence[Row], answered: Answered) -> None:
        """Send questions to a broker."""
        link = self._links.get(broker)
        if link is None:
            link = self._links[broker] = self._link_to(broker)
        self._spawn(link.ask(rows, answered, timeout_s=self._config().request_timeout_ms / 1000))

    def close(self) -> None:
        """Close all connections; what is asked over them fails."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _link_to(self, broker: BrokerId) -> "_QuestionLink":
        config = self._config()
        listener = config.inter_broker_listener_name
        return _QuestionLink(
            BrokerLink(
                lambda: self._metadata.endpoint(broker, listener),
                f"broker-{self._partitions.broker_id}-verification",
                self._config,
                connect_timeout_ms=config.request_timeout_ms,
            )
        )

    def _drop_gone(self, change: MetadataChange) -> None:
        if change.brokers_changed:
            for broker in self._links.keys() - self._metadata.brokers.keys():
                self._links.pop(broker).close()


class _QuestionLink:
    """Asks one broker; one request is in hand at a time."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link
        self._version: int | None = None
        """Of AddPartitionsToTxn, as the broker knows it; None before it was asked, and after a failure."""

    async def ask(self, rows: Sequence[Row], answered: Answered, *, timeout_s: float) -> None:
        """Ask, and call back in any case."""
        try:
            answered(await self._asked(rows, timeout_s))
        except (ChannelError, ProtocolError):
            self.close()
            answered(ErrorCode.NETWORK_EXCEPTION)

    def close(self) -> None:
        """Close the connection; the next question makes another."""
        self._version = None
        self._link.close()

    async def _asked(self, rows: Sequence[Row], timeout_s: float) -> Codes | ErrorCode:
        if self._version is None:
            self._version = await self._newest_version(timeout_s)
        if self._version < _FIRST_VERSION:
            # As in Kafka: the coordinator is too old to be asked, and transactions have to go on.
            return ErrorCode.NONE
        response = await self._link.ask(
            _request(rows), self._version, AddPartitionsToTxnResponse, timeout_s=timeout_s
        )
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # That this broker may not ask is nothing that clients should hear of (AddPartitionsToTxnManager).
            return ErrorCode.INVALID_TXN_STATE
        return _known(response.error_code) or _codes(rows, response)

    async def _newest_version(self, timeout_s: float) -> int:
        response = await self._link.ask(
            ApiVersionsRequest(), _ASKED_VERSION, ApiVersionsResponse, timeout_s=timeout_s
        )
        known = (one.max_version for one in response.api_keys if one.api_key == ApiKey.ADD_PARTITIONS_TO_TXN)
        return min(next(known, -1), _LAST_VERSION)


def _request(rows: Sequence[Row]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=True,
                topics=_topics(keys),
            )
            for transactional_id, producer_id, epoch, keys in rows
        ]
    )


def _topics(keys: Sequence[PartitionKey]) -> list[AddPartitionsToTxnTopic]:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in keys:
        topics[topic].append(partition)
    return [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()]


def _codes(rows: Sequence[Row], response: AddPartitionsToTxnResponse) -> Codes:
    """The codes of the rows' partitions; what the answer leaves out was not verified."""
    found = {
        (one.transactional_id, topic.name, result.partition_index): int(_known(result.partition_error_code))
        for one in response.results_by_transaction
        for topic in one.topic_results
        for result in topic.results_by_partition
    }
    missing = int(ErrorCode.UNKNOWN_SERVER_ERROR)
    return [
        [found.get((transactional_id, topic, index), missing) for topic, index in keys]
        for transactional_id, _producer_id, _epoch, keys in rows
    ]


def _known(code: int) -> ErrorCode:
    """A code of another broker, which may be newer than this one."""
    return ErrorCode(code) if code in _CODES else ErrorCode.UNKNOWN_SERVER_ERROR
