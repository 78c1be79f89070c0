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
