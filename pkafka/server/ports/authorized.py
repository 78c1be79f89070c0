"""The port of handlers that ask what their client may do: the worker and the control process implement it."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.api import ApiKey
from pkafka.security.acl import Operation, ResourceType
from pkafka.server.security.authorizer import Authorizer
from pkafka.server.security.rights import UNLIMITED, Rights
from pkafka.server.serving.connection_state import rights_at
from pkafka.server.serving.context import RequestContext

T = TypeVar("T")


class Authorized(Protocol):
    """A worker, as far as it knows who decides."""

    @property
    def authorizer(self) -> Authorizer | None:
        """None where every client may do everything."""
        ...


class WithRights(Protocol):
    """The control process, as a handler sees it that asks for the rights of its client."""

    @property
    def rights(self) -> Rights:
        """What the client may do."""
        ...


def rights_in(context: RequestContext[Authorized]) -> Rights:
    """What the client of a request to a worker may do.

    Raises:
        ApiError: it is not known yet.
    """
    authorizer = context.worker.authorizer
    return UNLIMITED if authorizer is None else rights_at(authorizer, context.connection)


def by_right(
    rights: Rights, operation: Operation, topics: Iterable[T], name: Callable[[T], str]
) -> tuple[list[T], list[T]]:
    """Part the topics of a request.

    Args:
        name: tells the name of a topic.

    Returns:
        Those to which the client may do this, and the others.
    """
    parted: tuple[list[T], list[T]] = ([], [])
    for one in topics:
        parted[not rights.may(operation, ResourceType.TOPIC, name(one))].append(one)
    return parted


def not_authorized(api: ApiKey) -> ApiError:
    """The refusal of a whole request of a client that may not do such a thing to the cluster.

    Kafka's text has the whole request between the same words.
    """
    return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Request {api.name} is not authorized.")
