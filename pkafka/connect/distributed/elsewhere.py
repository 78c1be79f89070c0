"""Requests that another worker has to carry out."""

from pkafka.connect.errors import ConnectError


class ElsewhereError(ConnectError):
    """Another worker can do what is asked.

    Args:
        message: why this one cannot.
        url: of the other worker; None or empty: it is not known.
    """

    JAVA_NAME = "org.apache.kafka.connect.runtime.distributed.RequestTargetException"

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url or None


class RebalanceNeededError(ConnectError):
    """Who does what is about to change, so that it is not known whom to ask."""

    JAVA_NAME = "org.apache.kafka.connect.runtime.distributed.RebalanceNeededException"
