"""What goes wrong in transactions beside what every client meets; each names Kafka's exception it stands for."""

from pkafka.clients.errors import ClientError
from pkafka.errors import ApiError, ErrorCode


class ProducerFencedError(ApiError):
    """Another producer with the same ``transactional.id`` took over; close this one (ProducerFencedException)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(ErrorCode.PRODUCER_FENCED, message)


class TransactionError(ClientError):
    """A transaction cannot go on (Kafka throws a plain KafkaException); the cause is the first thing that failed.

    Args:
        is_abortable: whether the producer can be used again after ``abort_transaction()``; otherwise close it.
    """

    def __init__(self, message: str, *, is_abortable: bool) -> None:
        hint = "abort the transaction and begin it again" if is_abortable else "close this producer"
        super().__init__(message, hint=hint)
        self.is_abortable = is_abortable


class TransactionAbortedError(ClientError):
    """A record was dropped with the transaction that it belonged to (TransactionAbortedException)."""

    def __init__(self) -> None:
        super().__init__("Failing batch since transaction was aborted")
