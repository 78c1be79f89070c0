"""Changes that a broker refuses for now, because there were too many of them (KIP-599)."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from pkafka.clients.admin.outcomes import Outcome
from pkafka.clients.cluster import Cluster
from pkafka.clients.errors import ClientTimeoutError
from pkafka.errors import ApiError, ErrorCode

K = TypeVar("K")
V = TypeVar("V")


def until_allowed(
    cluster: Cluster,
    ask: Callable[[list[K], int], dict[K, Outcome[V]]],
    wanted: Iterable[K],
    timeout_ms: int | None,
) -> dict[K, Outcome[V]]:
    """Ask for changes, and for those again that a quota refuses; what it refuses to the end stays refused.

    How long to wait before the next request says the answer, and the network keeps to it.

    Args:
        ask: given what to change and its time in milliseconds, sends one request.
        timeout_ms: for everything; ``default.api.timeout.ms`` when left out.
    """
    wait_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    deadline_ms = cluster.clock.monotonic_ms() + wait_ms
    outcomes = ask(list(wanted), wait_ms)
    attempt = 0
    while refused := [key for key, outcome in outcomes.items() if _is_over_quota(outcome)]:
        cluster.pause(attempt, deadline_ms)
        attempt += 1
        left_ms = deadline_ms - cluster.clock.monotonic_ms()
        if left_ms <= 0:
            break
        try:
            outcomes.update(ask(refused, left_ms))
        except ClientTimeoutError:
            break  # that the quota refused it says more
    return outcomes


def _is_over_quota(outcome: object) -> bool:
    return isinstance(outcome, ApiError) and outcome.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
