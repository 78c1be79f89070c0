"""The errors of a coordinator as each version of a request has them."""

from typing import Final

from pkafka.errors import ErrorCode

_FENCED_VERSION: Final = 2


def fenced_as(error: ErrorCode, version: int) -> ErrorCode:
    """What a producer hears, by the version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn (KIP-588).

    PRODUCER_FENCED came with version 2; before, it was INVALID_PRODUCER_EPOCH.
    """
    is_old = error is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else error


def told_to_leader(error: ErrorCode) -> ErrorCode:
    """What a partition's leader takes from a coordinator's answer: producers know INVALID_PRODUCER_EPOCH from it."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def abortable_as(error: ErrorCode, *, is_known: bool) -> ErrorCode:
    """What a client hears of a transaction that does not write to a partition.

    Args:
        error: any.
        is_known: whether its version of the request knows TRANSACTION_ABORTABLE (Produce from 11, TxnOffsetCommit from
            4); before, it was INVALID_TXN_STATE.
    """
    is_new = error is ErrorCode.TRANSACTION_ABORTABLE and not is_known
    return ErrorCode.INVALID_TXN_STATE if is_new else error
