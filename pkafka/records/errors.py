"""What goes wrong with records: an ApiError that can name the single records at fault."""

from collections.abc import Sequence

from pkafka.errors import ApiError, ErrorCode


class RecordError(ApiError):
    """A record set is damaged or breaks a rule of its topic.

    Args:
        code: CORRUPT_MESSAGE for damaged bytes, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
            UNSUPPORTED_COMPRESSION_TYPE for bytes that are whole but not acceptable.
        message: one sentence for a log; see ``is_told``.
        record_errors: (index of the record in its batch, what is wrong with it), for Produce v8 and later
            (KIP-467).
        before_log: whether it is the request that is at fault, so that the log has not been looked at.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
        *,
        before_log: bool = False,
    ) -> None:
        super().__init__(code, message)
        self.record_errors = list(record_errors)
        self.before_log = before_log

    @property
    def is_told(self) -> bool:
        """Whether a producer gets the message. From Kafka it gets that about single records, and about bytes that
        cannot be taken apart at all."""
        return bool(self.record_errors) or (self.before_log and self.code is ErrorCode.CORRUPT_MESSAGE)


def corrupt(problem: str) -> RecordError:
    """A CORRUPT_MESSAGE error: bytes that are not what they claim to be."""
    return RecordError(ErrorCode.CORRUPT_MESSAGE, problem)


def invalid(problem: str) -> RecordError:
    """An INVALID_RECORD error: undamaged bytes that break the format or a rule."""
    return RecordError(ErrorCode.INVALID_RECORD, problem)
