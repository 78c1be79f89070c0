"""Requests that a coordinator serves: which broker that is for each key, and asking again while coordinators move."""

from collections.abc import Callable, Collection, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from pkafka.clients.admin.results import BrokerInfo, Outcome, error_outcome
from pkafka.clients.cluster import Cluster
from pkafka.clients.errors import ClientError, ClientTimeoutError, UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.schema import Message

if TYPE_CHECKING:
    from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest

R = TypeVar("R", bound=Message)
V = TypeVar("V")

MOVING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""What passes: a coordinator is on its way to another broker, or reads its partition."""


class CoordinatorType(IntEnum):
    """What is coordinated."""

    GROUP = 0
    TRANSACTION = 1


def is_moving(outcome: object) -> bool:
    """Whether an outcome is an error that passes when the coordinator has found its place."""
    return _passes(outcome, MOVING)


def find_coordinators(
    cluster: Cluster,
    keys: Iterable[str],
    key_type: CoordinatorType = CoordinatorType.GROUP,
    *,
    timeout_ms: int | None = None,
) -> dict[str, Outcome[BrokerInfo]]:
    """The coordinator of each group or transactional id; all in one request where brokers have that (KIP-699).

    Nothing is tried again: an answer may be COORDINATOR_NOT_AVAILABLE while a cluster creates its first group.

    Raises:
        ClientError: no broker can be asked.
    """
    from pkafka.protocol.messages import find_coordinator as wire

    wanted = list(dict.fromkeys(keys))
    request = _request(key_type)
    request.coordinator_keys = wanted
    found: dict[str, Outcome[BrokerInfo]] = {}
    try:
        response = cluster.request(request, wire.FindCoordinatorResponse, timeout_ms=timeout_ms)
    except UnsupportedApiError:
        for key in wanted:
            alone = _request(key_type)
            alone.key = key
            answer = cluster.request(
                alone, wire.FindCoordinatorResponse, timeout_ms=timeout_ms, max_version=3
            )
            found[key] = _coordinator(answer)
        return found
    for each in response.coordinators:
        found[each.key] = _coordinator(each)
    return found


def at_coordinators(
    cluster: Cluster,
    keys: Iterable[str],
    response_type: type[R],
    ask: Callable[[list[str]], Message],
    read: Callable[[R, list[str], BrokerInfo], dict[str, Outcome[V]]],
    *,
    key_type: CoordinatorType = CoordinatorType.GROUP,
    passing: Collection[ErrorCode] = MOVING,
    timeout_ms: int | None = None,
    max_version: int | None = None,
) -> dict[str, Outcome[V]]:
    """Ask the coordinator of every key, again while coordinators move, until the time-out.

    Args:
        ask: the request for the keys that one broker coordinates.
        read: what its answer says of each of them.
        passing: errors after which a key is asked about again.
        max_version: do not go above this version of the request.

    Raises:
        ClientError: no broker can be asked at all, or a broker is too old for the request.
    """
    wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms
    left = list(dict.fromkeys(keys))
    outcomes: dict[str, Outcome[V]] = {}
    attempt = 0
    while left:
        left_ms = max(1, deadline_ms - cluster.clock.monotonic_ms())
        try:
            batches = _batches(cluster, left, key_type, outcomes, left_ms)
        except ClientTimeoutError:
            if not attempt:
                raise
            break
        answers = cluster.request_each(
            {broker.id: ask(batch) for broker, batch in batches.items()},
            response_type,
            timeout_ms=left_ms,
            max_version=max_version,
        )
        for broker, batch in batches.items():
            answer = answers[broker.id]
            if not isinstance(answer, ClientError):
                outcomes.update(read(answer, batch, broker))
            elif not (attempt and isinstance(answer, ClientTimeoutError)):
                # Why something was asked again says more than that there was no time left for the answer.
                outcomes.update(dict.fromkeys(batch, error_outcome(answer)))
        left = [key for key in left if key not in outcomes or _passes(outcomes[key], passing)]
        if left:
            cluster.pause(attempt, deadline_ms)
            attempt += 1
        if cluster.clock.monotonic_ms() >= deadline_ms:
            break
    for key in left:
        outcomes.setdefault(key, ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return outcomes


def _passes(outcome: object, passing: Collection[ErrorCode]) -> bool:
    return isinstance(outcome, ApiError) and outcome.code in passing


def _batches(
    cluster: Cluster,
    keys: list[str],
    key_type: CoordinatorType,
    outcomes: dict[str, Outcome[V]],
    timeout_ms: int,
) -> dict[BrokerInfo, list[str]]:
    """The keys by coordinator; where there is none, the error goes to ``outcomes``.

    Raises:
        ClientError: no broker can be asked.
    """
    batches: dict[BrokerInfo, list[str]] = {}
    for key, broker in find_coordinators(cluster, keys, key_type, timeout_ms=timeout_ms).items():
        if isinstance(broker, ApiError):
            outcomes[key] = broker
        else:
            batches.setdefault(broker, []).append(key)
    if any(broker.id not in cluster.view.brokers for broker in batches):
        cluster.refresh(timeout_ms=timeout_ms)
    return batches


def _request(key_type: CoordinatorType) -> "FindCoordinatorRequest":
    from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest

    request = FindCoordinatorRequest()
    request.key_type = key_type
    return request


def _coordinator(answer: object) -> Outcome[BrokerInfo]:
    from pkafka.protocol.messages import find_coordinator as wire

    assert isinstance(answer, wire.Coordinator | wire.FindCoordinatorResponse)
    if answer.error_code:
        return ApiError(ErrorCode(answer.error_code), answer.error_message)
    return BrokerInfo(answer.node_id, answer.host, answer.port, None)
