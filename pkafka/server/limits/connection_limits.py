"""How many connections the broker may have: in all, per listener and per address, counted over all worker processes.

As in Kafka, a connection over max.connections waits in the listener's queue until another one ends (the inter-broker
listener goes first when there are several), while one over max.connections.per.ip is closed at once. A listener that
takes connections in faster than max.connection.creation.rate pauses before the next (KIP-612).

The counts lie in memory that all workers share. A worker writes only its own part and adds the others' up, under a lock
that the kernel releases when its holder dies; the successor of a dead worker begins by zeroing its part. Addresses are
counted in a count-min sketch: four counters each, chosen by a keyed hash; the smallest is right unless each of the four
is shared with another connected address (for a thousand addresses, 1 in 100,000), and then it is too high.
"""

import mmap
import os
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from types import MappingProxyType
from typing import Final, NamedTuple

from pkafka.clock import Clock, SystemClock
from pkafka.errors import ConfigError
from pkafka.java.numbers import parse_int
from pkafka.java.text import trim
from pkafka.net.listener import Admission
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.limits.rates import SampledRate
from pkafka.server.limits.shared_lock import SharedLock

UNLIMITED: Final = 2**31 - 1
_HASHES: Final = 4
_COUNTERS_PER_HASH: Final = 16 * 1024
_FOUR = struct.Struct("<4H")
_PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
_TOTAL: Final = "max.connections"
_RATE: Final = "max.connection.creation.rate"
_RATE_SAMPLES: Final = 11
_RATE_WINDOW_MS: Final = 1_000


class LimitSettings(NamedTuple):
    """The limits that a configuration asks for."""

    total: int = UNLIMITED
    by_listener: Mapping[str, int] = MappingProxyType({})
    per_address: int = UNLIMITED
    by_address: Mapping[bytes, int] = MappingProxyType({})
    protected_listener: str | None = None
    """The inter-broker listener, when clients have another one: it is served beyond ``total`` and ``rate``."""
    rate: int = UNLIMITED
    """New connections a second, on all listeners."""
    rate_by_listener: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of(cls, config: BrokerConfig) -> "LimitSettings":
        """Read the limits. Resolves host names, so it may wait for the network.

        Raises:
            ConfigError: a host name is not known, or a listener's limit is no number.
        """
        by_address: dict[bytes, int] = {}
        for host, limit in config.max_connections_per_ip_overrides.items():
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError:
                raise ConfigError(_PER_IP_OVERRIDES, f"the host '{host}' is not known", host) from None
            for *_kind, address in found:
                by_address[packed_address(str(address[0]))] = limit
        names = [listener.name for listener in config.listeners]
        inter_broker = config.inter_broker_listener_name
        return cls(
            total=config.max_connections,
            by_listener={name: _listener_limit(config, name, _TOTAL) for name in names},
            per_address=config.max_connections_per_ip,
            by_address=by_address,
            protected_listener=inter_broker if len(names) > 1 and inter_broker in names else None,
            rate=config.max_connection_creation_rate,
            rate_by_listener={name: _listener_limit(config, name, _RATE) for name in names},
        )


def _listener_limit(config: BrokerConfig, listener: str, base: str) -> int:
    """A listener's own limit; by default that of the broker."""
    key = f"listener.name.{listener.lower()}.{base}"
    text = config.originals.get(key, config.originals.get(base, str(UNLIMITED)))
    try:
        limit = parse_int(trim(text))
    except ValueError:
        limit = -1
    if limit < 0:
        raise ConfigError(key, "must be a whole number, 0 or more", text)
    return limit


def packed_address(host: str) -> bytes:
    """The bytes of an address, those of version 4 in either notation alike."""
    address = ip_address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed


class SharedCounts:
    """Holds the memory in which workers count. Made before they are forked.

    Args:
        workers: how many there are.
        listeners: the names of all listeners.
        rate_samples: quota.window.num, over how many windows new connections are counted.
        rate_window_ms: quota.window.size.seconds, in milliseconds.
        key: of the hash that chooses an address's counters, at most 64 bytes; None: a secret one, so that nobody can
            choose addresses that share their counters with another's.
    """

    def __init__(
        self,
        *,
        workers: int,
        listeners: Sequence[str],
        rate_samples: int = _RATE_SAMPLES,
        rate_window_ms: int = _RATE_WINDOW_MS,
        key: bytes | None = None,
    ) -> None:
        self.listeners = {name: place for place, name in enumerate(listeners)}
        self._part = len(listeners) + _HASHES * _COUNTERS_PER_HASH
        self._memory = mmap.mmap(-1, workers * self._part * 4)
        counters = memoryview(self._memory).cast("I")
        self._parts = [
            counters[start : start + self._part] for start in range(0, workers * self._part, self._part)
        ]
        cells = SampledRate.cells(rate_samples)
        rates = memoryview(mmap.mmap(-1, (1 + len(listeners)) * cells * 8)).cast("q")
        first, *others = (
            SampledRate(rates[start : start + cells], samples=rate_samples, window_ms=rate_window_ms)
            for start in range(0, len(rates), cells)
        )
        self.rate = first
        self.rates = dict(zip(listeners, others, strict=True))
        self.paused_until_ms = memoryview(mmap.mmap(-1, 8 * len(listeners))).cast("q")
        """For each listener in turn."""
        self._key = os.urandom(16) if key is None else key
        self.lock = SharedLock("pkafka-connections")

    def places(self, listener: str, address: bytes) -> tuple[int, tuple[int, ...]]:
        """Where a connection is counted: the listener's counter and those of its address."""
        first = len(self.listeners)
        digest = blake2b(address, digest_size=8, key=self._key).digest()
        hashes = tuple(
            first + row * _COUNTERS_PER_HASH + value % _COUNTERS_PER_HASH
            for row, value in enumerate(_FOUR.unpack(digest))
        )
        return self.listeners[listener], hashes

    def sum(self, place: int) -> int:
        """A counter, added up over all workers."""
        return sum(part[place] for part in self._parts)

    def add(self, worker: int, places: Iterable[int], amount: int) -> None:
        """Change counters of one worker."""
        part = self._parts[worker]
        for place in places:
            part[place] += amount

    def clear(self, worker: int) -> None:
        """Forget all connections of a worker: it died."""
        part = self._parts[worker]
        for place in range(self._part):
            if part[place]:
                part[place] = 0


class ConnectionLimits:
    """Decides which connections one worker lets in.

    Args:
        counts: shared with the other workers.
        worker: index of this one.
        settings: the limits; may be replaced at any time, connections that exist stay.
        first: False for the successor of a dead worker, whose connections are forgotten.
        clock: tells how fast connections come.
    """

    def __init__(
        self,
        counts: SharedCounts,
        worker: int,
        settings: LimitSettings,
        *,
        first: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._counts = counts
        self._worker = worker
        self._clock = clock or SystemClock()
        self._due_ms: dict[str, int] = {}
        """When the connection that waits at each listener may come in; it counts already."""
        self.settings = settings
        if not first:
            counts.clear(worker)

    def admit(self, listener: str, host: str) -> Admission:
        """Decide about a new connection, and count it when it is admitted."""
        settings, counts = self.settings, self._counts
        address = packed_address(host)
        place, hashes = counts.places(listener, address)
        limit = settings.by_address.get(address, settings.per_address)
        with counts.lock:
            if not self._is_due(listener, place):
                return Admission.WAIT
            if counts.sum(place) >= settings.by_listener.get(listener, UNLIMITED):
                return Admission.WAIT
            if listener != settings.protected_listener and self.total >= settings.total:
                return Admission.WAIT
            self._due_ms.pop(listener, None)
            if limit < UNLIMITED and min(map(counts.sum, hashes)) >= limit:
                return Admission.REFUSE
            counts.add(self._worker, (place, *hashes), 1)
        return Admission.ADMIT

    def _is_due(self, listener: str, place: int) -> bool:
        """Whether the first waiting connection keeps to the rate, or has waited for long enough."""
        settings, counts = self.settings, self._counts
        limit = settings.rate_by_listener.get(listener, UNLIMITED)
        broker_limit = UNLIMITED if listener == settings.protected_listener else settings.rate
        due_ms = self._due_ms.get(listener)
        if due_ms is None and limit >= UNLIMITED and broker_limit >= UNLIMITED:
            return True
        now_ms = self._clock.monotonic_ms()
        if due_ms is None:
            if now_ms < counts.paused_until_ms[place]:
                return False  # another worker holds back the listener's connection before this one
            due_ms = now_ms
            for rate, most in ((counts.rate, broker_limit), (counts.rates[listener], limit)):
                if most < UNLIMITED:
                    rate.record(now_ms)
                    due_ms = max(due_ms, now_ms + rate.throttle_ms(most, now_ms))
            self._due_ms[listener] = counts.paused_until_ms[place] = due_ms
        return now_ms >= due_ms

    def count(self, listener: str, host: str) -> None:
        """A connection came from another worker."""
        self._change(listener, host, 1)

    def release(self, listener: str, host: str) -> None:
        """A connection ended or went to another worker."""
        self._change(listener, host, -1)

    def _change(self, listener: str, host: str, amount: int) -> None:
        place, hashes = self._counts.places(listener, packed_address(host))
        with self._counts.lock:
            self._counts.add(self._worker, (place, *hashes), amount)

    @property
    def total(self) -> int:
        """Connections of all workers."""
        return sum(map(self._counts.sum, self._counts.listeners.values()))

    def is_exceeded_by(self, listener: str) -> bool:
        """Whether a connection just admitted on that listener takes the place of one on another."""
        return listener == self.settings.protected_listener and self.total > self.settings.total
