"""What brokers have received and sent. Their metrics pages count it; Kafka has no request that tells."""

import ipaddress
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import PkafkaError
from pkafka.tools.cluster.jmx_page import MetricsPage, MetricsUnavailableError
from pkafka.tools.cluster.page_reader import UNGUARDED, PageReader

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import BrokerInfo

_TOPICS: Final = "kafka.server:type=BrokerTopicMetrics,name={}"
_RECEIVED: Final = _TOPICS.format("BytesInPerSec")
_SENT: Final = _TOPICS.format("BytesOutPerSec")
_IDENTITY: Final = "kafka.server:type=app-info,id="
_PORT: Final = "pkafka.metrics.port"
_HOST: Final = "pkafka.metrics.host"
_KEYSTORE: Final = "pkafka.metrics.ssl.keystore.location"
_KEYS: Final = (_PORT, _HOST, _KEYSTORE)
_AT_ONCE: Final = 8
_PATIENCE_S: Final = 2.0
"""A page that does not answer must not hold up what the cluster has told already."""


class Traffic(NamedTuple):
    """Bytes of records since a broker's start, from and to clients: what followers copy is counted apart."""

    at_s: float
    """When it was counted, on a clock that only goes forward."""

    received: int
    sent: int


class MetricsPages:
    """The pages of a cluster's brokers: those whose addresses are given, and those that the brokers' settings name.

    Args:
        urls: ``http://host:port`` of pages; the broker of each is found by its id.
        timeout_s: for each request.
        reader: who reads them.
    """

    def __init__(self, urls: Sequence[str], *, timeout_s: float, reader: PageReader = UNGUARDED) -> None:
        self._timeout_s = min(timeout_s, _PATIENCE_S)
        self._reader = reader
        self._given = [self._page(url) for url in urls]
        self._pages: dict[int, MetricsPage | None] = {}

    def traffic(self, admin: "Admin", brokers: "Iterable[BrokerInfo]") -> dict[int, Traffic]:
        """What each broker has received and sent; those without a page that answers are left out.

        Raises:
            MetricsUnavailableError: a page that was given does not answer at the first look.
        """
        while self._given:
            page = self._given[0]
            self._pages[_identity(page)] = page
            del self._given[0]
        here = {each.id: each for each in brokers}
        unknown = [each for each in here.values() if each.id not in self._pages]
        for number, url in _named_by_settings(admin, unknown).items():
            self._pages[number] = None if url is None else self._page(url)
        asked = {number: known for number in here if (known := self._pages.get(number)) is not None}
        if not asked:
            return {}
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found = dict(zip(asked, threads.map(_count, asked, asked.values()), strict=True))
        return {number: traffic for number, traffic in found.items() if traffic is not None}

    def _page(self, url: str) -> MetricsPage:
        return MetricsPage(url, timeout_s=self._timeout_s, reader=self._reader)


def page_url(host: str, settings: Mapping[str, str | None]) -> str | None:
    """The URL of the page of a broker; None where it has none that can be reached from here.

    Args:
        host: where clients reach the broker.
        settings: of the broker, as it describes them.
    """
    port = settings.get(_PORT) or "-1"
    if int(port) <= 0:
        return None  # there is none, or the log alone knows where
    at = settings.get(_HOST) or "localhost"
    if _is_loopback(at) and not _is_loopback(host):
        return None  # on the broker's machine only: here it would be another one's
    if at in ("0.0.0.0", "::"):  # noqa: S104 - what it listens on; asked is the broker's own address
        at = host
    scheme = "https" if settings.get(_KEYSTORE) else "http"
    return f"{scheme}://[{at}]:{port}" if ":" in at else f"{scheme}://{at}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _named_by_settings(admin: "Admin", brokers: "Sequence[BrokerInfo]") -> dict[int, str | None]:
    """Where the pages of these brokers are by their own settings; a broker that does not tell is asked again later."""
    from pkafka.clients.admin.results import ConfigResource, ResourceType

    if not brokers:
        return {}
    resources = {ConfigResource(ResourceType.BROKER, str(each.id)): each for each in brokers}
    addresses: dict[int, str | None] = {}
    for resource, entries in admin.describe_configs(resources, keys=_KEYS).items():
        broker = resources[resource]
        if not isinstance(entries, PkafkaError):
            settings = {each.name: each.value for each in entries}
            addresses[broker.id] = page_url(broker.host, settings)
    return addresses


def _identity(page: MetricsPage) -> int:
    """The id of the broker whose page it is."""
    for bean in page.beans([f"{_IDENTITY}*"]):
        return int(bean["name"].removeprefix(_IDENTITY))
    raise MetricsUnavailableError("a page of metrics does not say whose it is")


def _count(broker: int, page: MetricsPage) -> Traffic | None:
    try:
        found = page.beans([_RECEIVED, _SENT, f"{_IDENTITY}{broker}"])
    except MetricsUnavailableError:
        return None
    beans = {bean["name"]: bean for bean in found}
    if f"{_IDENTITY}{broker}" not in beans:
        return None  # another one has its address now
    return Traffic(time.monotonic(), beans[_RECEIVED]["Count"], beans[_SENT]["Count"])
