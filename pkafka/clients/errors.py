"""What can go wrong between a client and its cluster, beside the codes that a broker answers (``ApiError``)."""

from enum import Enum

from pkafka.errors import ErrorCode, PkafkaError


class Stage(Enum):
    """How far the way to a broker was open; a person acts differently on each."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "TLS"
    HOST_NAME = "host name"
    HANDSHAKE = "handshake"
    MECHANISM = "mechanism"
    AUTHENTICATE = "authenticate"
    METADATA = "metadata"
    REQUEST = "request"


class ClientError(PkafkaError):
    """The root of the clients' own errors.

    Args:
        message: one sentence for a person.
        hint: what to do about it, when that is known.
    """

    retriable = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConnectError(ClientError):
    """A broker cannot be reached, or what listens there speaks another protocol.

    Args:
        stage: the step that failed.
        address: ``host:port`` of the other side.
    """

    retriable = True

    def __init__(self, stage: Stage, address: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.stage = stage
        self.address = address


class AuthenticationError(ConnectError):
    """The two sides do not trust each other: certificates, names, mechanisms or a login; trying again does not help."""

    retriable = False


class DisconnectedError(ClientError):
    """The connection ended while a request was under way; whether the broker performed it is unknown."""

    retriable = True
    is_unanswered = False
    """Whether the broker had answered nothing but the handshake."""


class ClientTimeoutError(ClientError):
    """A time-out of this client ran out.

    Args:
        stage: what was being waited for.
    """

    retriable = True

    def __init__(self, stage: Stage, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.stage = stage


class BufferExhaustedError(ClientTimeoutError):
    """A producer's buffer stayed full for max.block.ms."""

    def __init__(self, message: str) -> None:
        super().__init__(Stage.REQUEST, message, hint="raise buffer.memory or max.block.ms, or send less")


class UnsupportedApiError(ClientError):
    """The broker does not serve this request at any version that this client speaks, or lacks a field of it."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ClosedError(ClientError):
    """The client was closed."""


class WakeupError(ClientError):
    """Another thread called ``wakeup()`` on a consumer."""


class NoOffsetError(ClientError):
    """A partition has no position, and ``auto.offset.reset=none`` forbids making one up."""


class IllegalStateError(ClientError, ValueError):
    """The call does not fit what was called before (IllegalStateException)."""


class IllegalArgumentError(ClientError, ValueError):
    """A call has an argument that nothing can be done with (IllegalArgumentException)."""


class CommitFailedError(ClientError):
    """The partitions belong to another member by now, and the offsets were not stored (CommitFailedException)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            message
            or "Offset commit cannot be completed since the consumer is not part of an active group for auto "
            "partition assignment; it is likely that the consumer was kicked out of the group.",
            hint="the time between polls was longer than max.poll.interval.ms, or than the group's coordinator "
            "heard of this member; poll more often, or fetch less with max.poll.records",
        )
