"""WriteTxnMarkers (key 27, v0-1): the transaction coordinator has markers appended.

v1 flexible
"""

from pkafka.protocol.schema import Message, array, boolean, int16, int32, int64, string


class WritableTxnMarkerTopic(Message):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class WritableTxnMarker(Message):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()


class WriteTxnMarkersRequest(Message, key=27, versions="0-1", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Message):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Message):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message, key=27, versions="0-1", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
