"""What an admin call says of one of its items: a value, or the error in its place."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar

from pkafka.clients.errors import ClientError, ClientTimeoutError
from pkafka.errors import ApiError, ErrorCode

T = TypeVar("T")
Outcome: TypeAlias = T | ApiError
"""A value, or why there is none."""


def outcome_of(code: int, message: str | None, value: T) -> "T | ApiError":
    """``value``, or the error that ``code`` stands for."""
    return ApiError(ErrorCode(code), message) if code else value


def error_outcome(error: ClientError) -> ApiError:
    """What a broker's failure to answer is to each of the items that it was asked about.

    Raises:
        ClientError: the error itself, where asking again cannot help.
    """
    if not error.retriable:
        raise error
    code = (
        ErrorCode.REQUEST_TIMED_OUT if isinstance(error, ClientTimeoutError) else ErrorCode.NETWORK_EXCEPTION
    )
    return ApiError(code, error.message)


def raise_first(outcomes: Mapping[object, object] | Iterable[object]) -> None:
    """Raise the first error among outcomes, if there is one."""
    for each in outcomes.values() if isinstance(outcomes, Mapping) else outcomes:
        if isinstance(each, Exception):
            raise each
