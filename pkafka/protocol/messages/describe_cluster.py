"""DescribeCluster (key 60, v0-1): brokers, cluster id and controller (KIP-700).

v1 asks brokers or controllers (KIP-919)
"""

from pkafka.protocol.schema import Message, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Message, key=60, versions="0-1", flexible="0+"):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)


class DescribeClusterBroker(Message):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="0+")


class DescribeClusterResponse(Message, key=60, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)
