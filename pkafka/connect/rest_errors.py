"""Refusals of the REST API, with their HTTP statuses."""

from pkafka.connect.errors import ConnectError


class RestError(ConnectError):
    """A request is refused.

    Args:
        status: of HTTP.
        message: for the caller.
    """

    JAVA_NAME = "org.apache.kafka.connect.runtime.rest.errors.ConnectRestException"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def bad_request(message: str) -> RestError:
    """400."""
    return RestError(400, message)


def not_found(message: str) -> RestError:
    """404."""
    return RestError(404, message)


def conflict(message: str) -> RestError:
    """409."""
    return RestError(409, message)
