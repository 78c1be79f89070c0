"""The quotas of clients as one worker applies them: what a client has used, and how long it must wait (KIP-124, 219).

The broker answers at once, says in the answer for how long the client is slowed down, and reads nothing more from that
connection meanwhile. What a client uses is measured over all workers; each worker knows all quotas.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pkafka.clock import Clock
from pkafka.java.numbers import parse_double
from pkafka.server.limits.quota_rules import Measured, QuotaKind, QuotaRules, entity_names
from pkafka.server.limits.rate_table import RateKey, RateTable

log = logging.getLogger(__name__)

_NS_PER_US: Final = 1_000
_US_PER_PERCENT: Final = 10_000
"""A hundredth of a second of one core."""
_KNOWN_MAX: Final = 10_000
"""A worker remembers what applies to so many clients."""
_OF_WORKERS: Final = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST)
_NO_LIMIT: Final = float("inf")


class _Applied(NamedTuple):
    """Says what applies to a client, and where its rate is measured."""

    key: RateKey
    limit: float


class ClientQuotas:
    """Slows clients down that use more than their quotas.

    Args:
        table: the rates, shared with the other workers.
        clock: a monotonic one that all workers share.

    Attributes:
        is_active: whether any client has a quota; where none has, nothing has to be asked of this object.
        limits_requests: whether any has one of ``request_percentage``.
    """

    __slots__ = ("_clock", "_known", "_rules", "_table", "is_active", "limits_requests")

    def __init__(self, table: RateTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._rules = {kind: QuotaRules() for kind in _OF_WORKERS}
        self._known: dict[tuple[QuotaKind, str, str], _Applied | None] = {}
        self.is_active = False
        self.limits_requests = False

    # -- quotas --

    def change(self, rows: Iterable[tuple[str, str, Mapping[str, str]]], *, is_all: bool = False) -> None:
        """Take over the quotas of users, client ids and pairs.

        Args:
            rows: type and name as :func:`entity_names` takes them, and all quotas that the entity has now, by key.
            is_all: whether all other entities have none.
        """
        gone = {kind: set(rules.limits) if is_all else set() for kind, rules in self._rules.items()}
        for entity_type, entity_name, settings in rows:
            names = entity_names(entity_type, entity_name)
            for kind, rules in self._rules.items():
                limit = limit_of(settings, kind, f"{entity_type}/{entity_name}")
                rules.change(names, limit)
                if limit is not None:
                    gone[kind].discard(names)
        for kind, all_names in gone.items():
            for names in all_names:
                self._rules[kind].change(names, None)
        self._known.clear()
        self.is_active = any(self._rules.values())
        self.limits_requests = bool(self._rules[QuotaKind.REQUEST])

    def _applied(self, kind: QuotaKind, user: str, client_id: str) -> _Applied | None:
        name = kind, user, client_id
        try:
            return self._known[name]
        except KeyError:
            pass
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        quota = self._rules[kind].of(user, client_id)
        applied = self._known[name] = (
            None if quota is None else _Applied(self._table.key(kind.value, *quota.measured), quota.limit)
        )
        return applied

    # -- use --

    def produced(self, user: str, client_id: str, size_bytes: int) -> int:
        """Note a request with records.

        Returns:
            For how many ms its client is slowed down.
        """
        return self._used(QuotaKind.PRODUCE, user, client_id, size_bytes, 1.0, _NO_LIMIT)

    def served(self, user: str, client_id: str, took_ns: int) -> int:
        """Note how long this process was busy with a request. The result is as for :meth:`produced`.

        ``took_ns`` may be 0, for a look at what was noted before.
        """
        if not self.limits_requests:
            return 0
        return self._used(
            QuotaKind.REQUEST, user, client_id, took_ns // _NS_PER_US, _US_PER_PERCENT, windows_max=1.0
        )

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """How many bytes an answer to a fetch may have: what the client may get in all windows; None for any number."""
        applied = self._applied(QuotaKind.FETCH, user, client_id)
        if applied is None:
            return None
        return int(min(applied.limit * (self._table.samples - 1) * self._table.window_ms / 1000, 2**31 - 1))

    def fetched(self, user: str, client_id: str, size_bytes: int) -> int:
        """Note what a fetch is about to be answered with.

        Returns:
            For how many ms its client is slowed down; then it gets no records, and nothing is noted.
        """
        applied = self._applied(QuotaKind.FETCH, user, client_id)
        if applied is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        with self._table.rate(applied.key, now_ms) as rate:
            rate.record(now_ms, size_bytes)
            throttle_ms = rate.throttle_ms(applied.limit, now_ms, windows_max=_NO_LIMIT)
            if throttle_ms:
                rate.record(now_ms, -size_bytes)
        return throttle_ms

    def _used(
        self, kind: QuotaKind, user: str, client_id: str, amount: int, unit: float, windows_max: float
    ) -> int:
        applied = self._applied(kind, user, client_id)
        if applied is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        with self._table.rate(applied.key, now_ms) as rate:
            rate.record(now_ms, amount)
            return rate.throttle_ms(applied.limit * unit, now_ms, windows_max=windows_max)

    @property
    def given_up(self) -> int:
        """How many rates all workers have given up for others, because there were too many clients."""
        return self._table.given_up

    def use(self) -> list[tuple[str, str, str, float, float]]:
        """What the clients with a quota that this worker has served use at the moment, of all workers.

        Returns:
            The quota's key, user and client id (empty where all share the rate), use and limit in the quota's unit.
        """
        now_ms = self._clock.monotonic_ms()
        found: dict[tuple[QuotaKind, Measured], tuple[float, float]] = {}
        for (kind, user, client_id), applied in list(self._known.items()):
            quota = None if applied is None else self._rules[kind].of(user, client_id)
            if applied is None or quota is None:
                continue
            unit = _US_PER_PERCENT if kind is QuotaKind.REQUEST else 1
            with self._table.rate(applied.key, now_ms) as rate:
                found[kind, quota.measured] = rate.per_second(now_ms) / unit, quota.limit
        return [(kind.value, *measured, *figures) for (kind, measured), figures in found.items()]


def limit_of(settings: Mapping[str, str], kind: QuotaKind, entity: str) -> float | None:
    """The quota of a kind among the settings of an entity; None without one, or for one that is no number."""
    text = settings.get(kind.value)
    if text is None:
        return None
    try:
        return parse_double(text)
    except ValueError:
        log.error("Ignoring %s of %s: %r is not a number", kind.value, entity, text)
        return None
