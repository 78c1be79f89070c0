"""AlterPartition (key 56, v0-3): a leader asks the controller to change the ISR (KIP-497).

v1 leader recovery (KIP-704) · v2 topic ids · v3 broker epochs of the ISR (KIP-903)
"""

from pkafka.protocol.schema import Message, array, int8, int16, int32, int64, string, uuid


class BrokerState(Message):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionRequestPartitionData(Message):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class AlterPartitionRequestTopicData(Message):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


class AlterPartitionRequest(Message, key=56, versions="0-3", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


class AlterPartitionResponsePartitionData(Message):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Message):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(AlterPartitionResponsePartitionData)


class AlterPartitionResponse(Message, key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
