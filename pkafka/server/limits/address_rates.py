"""How fast an address may connect: ``connection_creation_rate`` of addresses (KIP-612), over all workers of a broker.

A connection over the rate is taken and not served, and is closed only when its client may connect again: a client that
tries again at once would otherwise come at any rate.
"""

import socket
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pkafka.clock import Clock
from pkafka.coordination.znodes import DEFAULT_ENTITY, desanitize
from pkafka.java.numbers import parse_double
from pkafka.server.limits.connection_limits import packed_address
from pkafka.server.limits.rate_table import RateTable

ADDRESS_KEY: Final = "connection_creation_rate"


class Rates(NamedTuple):
    """Says how many connections a second addresses may make."""

    by_address: Mapping[bytes, float] = {}
    default: float | None = None
    """Of all other addresses, each on its own; None for any number."""


def resolved(settings: Mapping[str, Mapping[str, str]]) -> tuple[Rates, list[str]]:
    """Look up the addresses that have a rate. May wait for the network.

    Args:
        settings: of entities of the type ``ips``, by their names as stored: an address, a host's name, or the default.

    Returns:
        The rates, and a sentence for each entity that is left out.
    """
    by_address: dict[bytes, float] = {}
    default: float | None = None
    problems: list[str] = []
    for stored, values in settings.items():
        if ADDRESS_KEY not in values:
            continue
        try:
            rate = parse_double(values[ADDRESS_KEY])
            if stored == DEFAULT_ENTITY:
                default = rate
            else:
                by_address.update(dict.fromkeys(_addresses(desanitize(stored)), rate))
        except (OSError, ValueError) as error:
            problems.append(f"{ADDRESS_KEY} of {desanitize(stored)} is ignored: {error}")
    return Rates(by_address, default), problems


def _addresses(host: str) -> Iterable[bytes]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {packed_address(str(address[0])) for *_kind, address in found}


class AddressRates:
    """Decides for one worker whether an address connects too fast.

    Args:
        table: shared with the other workers.
        clock: a monotonic one that all workers share.
    """

    def __init__(self, table: RateTable, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self.rates = Rates()
        """May be replaced at any time."""

    def connected(self, host: str) -> int:
        """Note a new connection, unless it comes too early.

        Returns:
            In how many ms the connection is to be closed, unserved; 0 for one that is served.
        """
        if not self.rates.by_address and self.rates.default is None:
            return 0
        address = packed_address(host)
        limit = self.rates.by_address.get(address, self.rates.default)
        if limit is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        with self._table.rate(self._table.key(ADDRESS_KEY, address.hex()), now_ms) as rate:
            rate.record(now_ms)
            throttle_ms = rate.throttle_ms(limit, now_ms)
            if throttle_ms:
                rate.record(now_ms, -1)
        return throttle_ms
