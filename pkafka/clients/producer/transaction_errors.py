"""What errors mean for a transaction, by their codes, and what its producer raises."""

from collections.abc import Mapping
from typing import Final

from pkafka.clients.producer.errors import ProducerFencedError, TransactionError
from pkafka.clients.producer.transaction_requests import ProducerIdentity
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition

COORDINATOR_GONE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
ID_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
ID_EXPIRED: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
NOT_A_MEMBER: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
# What these say is told as it is; other codes are not expected, and told with what they answered.
FATAL: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
FATAL_OF_BATCHES: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
ABORTABLE: Final = frozenset({ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.FENCED_INSTANCE_ID})


def speaks_for_all(code: ErrorCode) -> bool:
    """Whether an error of one partition is one of the whole request."""
    return (
        code.retriable
        or code in FENCED
        or code in FATAL
        or code in ID_UNKNOWN
        or code is ErrorCode.TRANSACTION_ABORTABLE
    )


def not_authorized_for_group(group: str) -> ApiError:
    """What a lookup of a group that the producer may not use comes to."""
    return ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"Not authorized to access group: {group}")


def error_of_adding(errors: Mapping[TopicPartition, ErrorCode]) -> Exception:
    """What an answer comes to that refuses some partitions, each for a reason of its own."""
    refused = {
        partition.topic for partition, code in errors.items() if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    if refused:
        text = f"Not authorized to access topics: [{', '.join(sorted(refused))}]"
        return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    named = ", ".join(f"{partition}={code.name}" for partition, code in errors.items())
    error = TransactionError(
        f"Could not add partitions to transaction due to errors: {{{named}}}", is_abortable=True
    )
    error.__cause__ = ApiError(next(iter(errors.values())))
    return error


def error_of_calls(producer: ProducerIdentity, cause: Exception | None, *, is_abortable: bool) -> Exception:
    """What calls of a producer raise that is in an error state.

    Args:
        cause: what led there.
        is_abortable: whether an abort leads out of the state.
    """
    who = (
        f"Producer with transactionalId '{producer.transactional_id}' and "
        f"(producerId={producer.id}, epoch={producer.epoch})"
    )
    code = getattr(cause, "code", None)
    if code is ErrorCode.PRODUCER_FENCED:
        return ProducerFencedError(f"{who} has been fenced by another producer with the same transactionalId")
    if code is ErrorCode.INVALID_PRODUCER_EPOCH:
        return ApiError(code, f"{who} attempted to produce with an old epoch")
    error = TransactionError(
        f"Cannot execute transactional method because we are in an error state: {cause}",
        is_abortable=is_abortable,
    )
    error.__cause__ = cause
    return error
