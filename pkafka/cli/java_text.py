"""How Kafka's Java tools write an error, where their output is data that scripts read."""

from typing import Final

from pkafka.errors import ApiError, ErrorCode

# The texts that Kafka's own tools show for codes that a broker answers without a text of its own.
_TEXTS: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
    ErrorCode.KAFKA_STORAGE_ERROR: "Disk error when trying to access log file on the disk.",
}


def java_class(code: ErrorCode) -> str:
    """The exception class of a code, with its package."""
    return f"org.apache.kafka.common.errors.{code.java_name}"


def java_error(error: ApiError) -> str:
    """``CLASS: text``, as a Java exception prints itself."""
    return f"{java_class(error.code)}: {_TEXTS.get(error.code, error.message)}"
