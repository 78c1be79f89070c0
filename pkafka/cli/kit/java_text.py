"""How Kafka's Java tools write an error, where their output is data that scripts read."""

from typing import Final

from pkafka.errors import ApiError, ErrorCode

# The texts that Kafka's own tools show for codes that a broker answers without a text of its own.
_TEXTS: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.INVALID_GROUP_ID: "The configured groupId is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing, so a rejoin is needed.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is "
    "actively subscribed to it.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "There are unstable offsets that need to be cleared.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The request attempted to perform an operation on an invalid topic.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Messages are rejected since there are fewer in-sync replicas than required.",
    ErrorCode.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
    ErrorCode.KAFKA_STORAGE_ERROR: "Disk error when trying to access log file on the disk.",
}


def java_class(code: ErrorCode) -> str:
    """The exception class of a code, with its package."""
    return f"org.apache.kafka.common.errors.{code.java_name}"


def java_exception(error: ApiError) -> str:
    """``CLASS: text``, as Java prints an exception with the text of the broker."""
    text = _TEXTS.get(error.code, error.message) if error.message == error.code.message else error.message
    return f"{java_class(error.code)}: {text}"


def java_error(error: ApiError) -> str:
    """As :func:`java_exception`, for an error that the broker answers without a text."""
    return f"{java_class(error.code)}: {_TEXTS.get(error.code, error.message)}"
