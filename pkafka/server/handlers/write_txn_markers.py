"""WriteTxnMarkers (key 27, v0-1): a coordinator, or an operator, ends transactions in partitions of this broker.

v1 flexible

The answer comes once the replicas in sync have the markers and, in __consumer_offsets, groups have what was committed.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pkafka.security.acl import CLUSTER_NAME, Operation, ResourceType
from pkafka.server.ports.authorized import Authorized, rights_in
from pkafka.server.security.rights import may_in_cluster
from pkafka.server.serving.context import RequestContext
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.incarnations import sender_of
from pkafka.server.transactions.marker_owners import Codes, MarkerOwners, Row
from pkafka.server.transactions.transaction import PartitionKey

_DENIED: Final = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_UNEXPECTED: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)


class Port(Authorized, Protocol):
    """What WriteTxnMarkers asks of its worker."""

    @property
    def marker_owners(self) -> MarkerOwners: ...


async def handle(
    context: RequestContext[Port], request: WriteTxnMarkersRequest, _version: int
) -> WriteTxnMarkersResponse:
    """Have the owners of the partitions append the markers."""
    rows = [_row(marker) for marker in request.markers]
    rights = rights_in(context)
    may = rights.sees(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    if not may and not may_in_cluster(rights, Operation.CLUSTER_ACTION):
        return _denied(rows)
    answered: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()

    def done(codes: Codes) -> None:
        if not answered.done():
            answered.set_result(codes)

    context.worker.marker_owners.write(rows, sender_of(context.header.client_id), done)
    return _response(rows, await answered)


def _row(marker: WritableTxnMarker) -> Row:
    # As in Kafka, a partition that is named twice gets one marker.
    keys = {(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}
    values = Marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result
    )
    return values, list(keys)


def _response(rows: Sequence[Row], codes: Codes) -> WriteTxnMarkersResponse:
    """As in Kafka, the markers of one producer share a result, and one without partitions has none.

    An error that Kafka does not expect is the answer for all partitions of the request.
    """
    if any(_UNEXPECTED in of_marker for of_marker in codes):
        codes = [[_UNEXPECTED] * len(of_marker) for of_marker in codes]
    results: dict[int, dict[PartitionKey, int]] = {}
    for (values, keys), found in zip(rows, codes, strict=True):
        if keys:
            results.setdefault(Marker(*values).producer_id, {}).update(zip(keys, found, strict=True))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(of_producer))
            for producer_id, of_producer in results.items()
        ]
    )


def _denied(rows: Sequence[Row]) -> WriteTxnMarkersResponse:
    """Refuse all markers; here Kafka names those without partitions, too."""
    results = {Marker(*values).producer_id: dict.fromkeys(keys, _DENIED) for values, keys in rows}
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(of_producer))
            for producer_id, of_producer in results.items()
        ]
    )


def _topics(codes: dict[PartitionKey, int]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
    return [WritableTxnMarkerTopicResult(name=name, partitions=each) for name, each in topics.items()]
