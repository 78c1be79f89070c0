"""DescribeCluster (key 60, v0-1): cluster id, controller and live brokers, from the cache.

v1 endpoint type: brokers (1) or KRaft controllers (2, which a ZooKeeper cluster does not have; KIP-919)
"""

from typing import Final, Protocol

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pkafka.server.cluster.metadata import MetadataCache
from pkafka.server.ports.authorized import WithRights
from pkafka.server.security.rights import cluster_operations_of

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


class DescribeClusterContext(WithRights, Protocol):
    """What this handler needs of its process and of the connection."""

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def listener_name(self) -> str: ...


async def handle(
    ctx: DescribeClusterContext, request: DescribeClusterRequest, version: int
) -> DescribeClusterResponse:
    """Describe the cluster as clients of the request's listener see it."""
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                if known
                else f"Unsupported endpoint type {request.endpoint_type}"
            ),
            endpoint_type=_BROKERS,
        )
    metadata = ctx.metadata
    response = DescribeClusterResponse(
        cluster_id=metadata.cluster_id or "",
        controller_id=metadata.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in metadata.brokers.values()
            if (endpoint := broker.endpoints.get(ctx.listener_name)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations_of(ctx.rights)
    return response
