"""DeleteTopics (key 20, v0-6): removes topics by name, from v6 by id too (KIP-516).

v4 flexible · v5 messages with errors and throttling errors (KIP-599)
"""

from pkafka.protocol.schema import Message, array, int16, int32, string, uuid


class DeleteTopicState(Message):
    name: str | None = string("6+", default=None, nullable="6+")
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message, key=20, versions="0-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Message):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", default=None, nullable="5+", ignorable=True)


class DeleteTopicsResponse(Message, key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
