"""ControlledShutdown (key 7, v0-3): a broker asks the controller to move its leaders away.

v0 has a request header without client id · v2 broker epoch (KIP-380) · v3 flexible
"""

from pkafka.protocol.schema import Message, array, int16, int32, int64, string


class ControlledShutdownRequest(Message, key=7, versions="0-3", flexible="3+"):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Message):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Message, key=7, versions="0-3", flexible="3+"):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
