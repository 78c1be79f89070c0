"""How many partitions a client may create and delete: ``controller_mutation_rate``, as a bucket of tokens (KIP-599).

A client may go on as long as its bucket is not empty, however large its next change is; the bucket then owes tokens,
and until it has paid them, changes are refused. Requests of versions that do not know this refusal are carried out, and
slowed down.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pkafka.clock import Clock
from pkafka.errors import ApiError, ErrorCode
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.limits.client_quotas import limit_of
from pkafka.server.limits.quota_rules import Measured, QuotaKind, QuotaRules, entity_names

_IDLE_MS: Final = 3_600_000
"""A bucket that was not used for an hour is full again, or of no interest any more."""
_BUCKETS_BEFORE_LOOK: Final = 1_000


class _Bucket:
    """Holds tokens; one is added for each partition that the quota allows."""

    __slots__ = ("tokens", "updated_ms")

    def __init__(self, tokens: float, now_ms: int) -> None:
        self.tokens = tokens
        self.updated_ms = now_ms

    def refill(self, per_second: float, most: float, now_ms: int) -> None:
        """Add what has come since the last time."""
        self.tokens = min(most, self.tokens + per_second * (now_ms - self.updated_ms) / 1000)
        self.updated_ms = now_ms


class Mutations:
    """The changes of one request.

    Args:
        bucket: of the client; None for one without a quota.
        per_second: the quota.
        most: tokens that the bucket holds at most.
        is_strict: whether changes over the quota are refused.
        clock: a monotonic one.
    """

    def __init__(
        self, bucket: _Bucket | None, per_second: float, most: float, *, is_strict: bool, clock: Clock
    ) -> None:
        self._bucket = bucket
        self._per_second = per_second
        self._most = most
        self._is_strict = is_strict
        self._clock = clock
        self.throttle_ms = 0
        """For how long the client is slowed down after this request."""

    def accept(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises:
            ApiError: THROTTLING_QUOTA_EXCEEDED, they are not to be.
        """
        bucket = self._bucket
        if bucket is None:
            return
        bucket.refill(self._per_second, self._most, self._clock.monotonic_ms())
        if self._is_strict:
            if bucket.tokens < 0:
                self._slow_down(bucket.tokens)
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            bucket.tokens -= partitions
        else:
            bucket.tokens -= partitions
            self._slow_down(bucket.tokens)

    def _slow_down(self, tokens: float) -> None:
        if tokens < 0:
            self.throttle_ms = round(-tokens / self._per_second * 1000) if self._per_second else 2**31 - 1


class MutationQuotas:
    """The quotas of all clients, at the broker that is the controller.

    Args:
        samples: controller.quota.window.num; a bucket holds what is allowed in so many windows.
        window_s: controller.quota.window.size.seconds.
        clock: a monotonic one.
    """

    def __init__(self, *, samples: int, window_s: int, clock: Clock) -> None:
        self._windows_s = samples * window_s
        self._clock = clock
        self._rules = QuotaRules()
        self._buckets: dict[Measured, _Bucket] = {}

    @classmethod
    def of_config(cls, config: BrokerConfig, clock: Clock) -> "MutationQuotas":
        """Make them with the windows of a configuration."""
        return cls(
            samples=config.controller_quota_window_num,
            window_s=config.controller_quota_window_size_seconds,
            clock=clock,
        )

    def change(self, entity_type: str, entity_name: str, settings: Mapping[str, str]) -> None:
        """Take over all settings that a user, a client id or a pair has now, named as in their paths."""
        limit = limit_of(settings, QuotaKind.MUTATION, f"{entity_type}/{entity_name}")
        self._rules.change(entity_names(entity_type, entity_name), limit)

    def of(self, user: str, client_id: str, *, is_strict: bool) -> Mutations:
        """What a client may do in one request.

        Args:
            is_strict: whether the version of the request knows THROTTLING_QUOTA_EXCEEDED.
        """
        quota = self._rules.of(user, client_id)
        if quota is None:
            return Mutations(None, 0, 0, is_strict=is_strict, clock=self._clock)
        most = quota.limit * self._windows_s
        now_ms = self._clock.monotonic_ms()
        bucket = self._buckets.get(quota.measured)
        if bucket is None or now_ms - bucket.updated_ms >= _IDLE_MS:
            self._forget_idle(self._buckets.items(), now_ms)
            bucket = self._buckets[quota.measured] = _Bucket(most, now_ms)
        return Mutations(bucket, quota.limit, most, is_strict=is_strict, clock=self._clock)

    def _forget_idle(self, buckets: Iterable[tuple[Measured, _Bucket]], now_ms: int) -> None:
        if len(self._buckets) >= _BUCKETS_BEFORE_LOOK:
            idle = [key for key, one in buckets if now_ms - one.updated_ms >= _IDLE_MS]
            for key in idle:
                del self._buckets[key]


def text_beside(error: ApiError) -> str | None:
    """The text that is answered beside a refusal: of a quota Kafka says nothing but the code, and the time to wait."""
    return None if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED else error.message
