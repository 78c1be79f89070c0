"""EndTxn (key 26, v0-4): commits or aborts a transaction.

v3 flexible
"""

from pkafka.protocol.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, key=26, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, key=26, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
