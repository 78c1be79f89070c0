"""Records of __transaction_state: one transactional id and its state."""

from pkafka.protocol.schema import Message, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0")


class PartitionsSchema(Message):
    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
