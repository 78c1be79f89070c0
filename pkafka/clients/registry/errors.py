"""What a Schema Registry refuses, and what keeps a client from asking it."""

from typing import Final

from pkafka.clients.serialization import SerializationError


class RegistryError(SerializationError):
    """A request to a Schema Registry failed.

    Args:
        message: what went wrong.
        status: of HTTP; 0: there was no answer.
        error_code: the registry's own, as 40401; 0: it gave none.
    """

    def __init__(self, message: str, *, status: int = 0, error_code: int = 0) -> None:
        super().__init__(message)
        self.status: Final = status
        self.error_code: Final = error_code


class NotFoundError(RegistryError):
    """The registry has no such subject (40401), version (40402) or schema (40403)."""


class IncompatibleSchemaError(RegistryError):
    """The schema is not compatible with the earlier ones of its subject."""


class InvalidSchemaError(RegistryError):
    """The registry cannot read the schema, or a request."""


class UnauthorizedError(RegistryError):
    """The registry wants to know who asks, or does not allow it."""


class UnavailableError(RegistryError):
    """No registry answers, or it says that it cannot now; attempts are used up."""


def refusal(status: int, error_code: int, message: str) -> RegistryError:
    """The error that an answer stands for.

    Args:
        status: of HTTP, not one of success.
        error_code: the registry's own.
        message: the registry's own.
    """
    text = f"The Schema Registry answers {error_code or status}: {message}"
    return _KINDS.get(status, RegistryError)(text, status=status, error_code=error_code)


_KINDS: Final[dict[int, type[RegistryError]]] = {
    401: UnauthorizedError,
    403: UnauthorizedError,
    404: NotFoundError,
    409: IncompatibleSchemaError,
    422: InvalidSchemaError,
}
