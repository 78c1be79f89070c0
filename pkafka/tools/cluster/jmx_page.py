"""Beans of a broker, read from its page over HTTP, and how kafka-jmx writes them."""

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from pkafka.errors import PkafkaError
from pkafka.java.numbers import double_text
from pkafka.tools.cluster.page_reader import UNGUARDED, PageReader

# SimpleDateFormat's letters, by how many of them stand together; others are refused.
_DATES: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "EEEE": "%A",
    "EEE": "%a",
    "a": "%p",
    "z": "%Z",
    "Z": "%z",
}
_NOT_ADDED: Final = re.compile("Mean$|StdDev|Percentile$|-avg$|StartTimeMs")
_LARGEST: Final = re.compile("^Max$|-max$")
_LARGEST_BEAN: Final = re.compile(",name=(max-|BrokerState)")
_DATE_PART: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


class MetricsUnavailableError(PkafkaError):
    """The page cannot be read; the text says why."""


class BadQueryError(PkafkaError):
    """The broker does not understand an object name."""


class MetricsPage:
    """The metrics of one broker.

    Args:
        url: ``http://host:port``, where ``pkafka.metrics.port`` says.
        timeout_s: for each request.
        reader: who reads it, where the page asks for that.
    """

    def __init__(self, url: str, *, timeout_s: float, reader: PageReader = UNGUARDED) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = {}
        if reader.login is not None:
            self._headers["Authorization"] = f"Basic {b64encode(':'.join(reader.login).encode()).decode()}"
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=reader.context), _NoRedirects
        )

    def beans(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """The beans that these names or patterns mean, all without any; each has its ``name`` and its attributes.

        Raises:
            MetricsUnavailableError, BadQueryError: see there.
        """
        query = urlencode([("qry", name) for name in names], errors="surrogateescape")
        text = self._get(f"/jmx?{query}")
        try:
            found: list[dict[str, Any]] = json.loads(text)["beans"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise MetricsUnavailableError(f"{self._url} has no beans: it is no page of a broker's") from None
        return found

    def prometheus(self) -> str:
        """The page in Prometheus's text format.

        Raises:
            MetricsUnavailableError: see there.
        """
        return self._get("/metrics")

    def _get(self, path: str) -> str:
        try:
            request = urllib.request.Request(f"{self._url}{path}", headers=self._headers)  # noqa: S310 - the user's
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                text: str = answer.read().decode(errors="replace")
                return text
        except urllib.error.HTTPError as error:
            with error:
                problem = _problem_in(error.read()) if error.code == 400 else None
            if problem is not None:
                raise BadQueryError(problem) from None
            hint = "; --metrics-config FILE has the login" if error.code == http.client.UNAUTHORIZED else ""
            text = f"{self._url}{path} answers {error.code} {error.reason}{hint}"
            raise MetricsUnavailableError(text) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            text = getattr(reason, "strerror", None) or str(reason)
            raise MetricsUnavailableError(f"Could not connect to {self._url}: {text}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the login is for this page alone."""

    def redirect_request(self, *_: object) -> None:
        """Nothing."""


def _problem_in(answer: bytes) -> str | None:
    """What a page says of a query that it does not take; None where no page of a broker's said it."""
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


class ClusterMetrics:
    """The metrics of several brokers as of one: what the cluster does is the sum of what its brokers do.

    Args:
        pages: of the brokers.
    """

    def __init__(self, pages: Sequence[MetricsPage]) -> None:
        self._pages = pages

    def beans(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """As :meth:`MetricsPage.beans`; see :func:`summed`."""
        found = [page.beans(names) for page in self._pages]
        return found[0] if len(found) == 1 else summed(found)


def summed(of_brokers: Iterable[Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Beans of the same name as one: the largest of maxima, the smallest of minima, the sum of other numbers.

    Means and percentiles of single brokers do not give those of all, so they are left out. So are texts that differ.
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for beans in of_brokers:
        for bean in beans:
            by_name.setdefault(bean["name"], []).append(bean)
    return [
        dict(found[0]) if len(found) == 1 else _summed(name, found) for name, found in sorted(by_name.items())
    ]


def _summed(name: str, beans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    for attribute in beans[0]:
        values = [bean[attribute] for bean in beans if bean.get(attribute) is not None]
        if attribute == "name" or not values or _NOT_ADDED.search(attribute):
            continue
        if not all(isinstance(value, int | float) for value in values):
            if len(set(values)) == 1:
                made[attribute] = values[0]
        elif _LARGEST.search(attribute) or _LARGEST_BEAN.search(name):
            made[attribute] = max(values)
        else:
            made[attribute] = min(values) if attribute == "Min" else sum(values)
    return made


def attributes_of(beans: Iterable[Mapping[str, Any]], wanted: Sequence[str] = ()) -> dict[str, object]:
    """Values by ``OBJECT NAME:ATTRIBUTE``, in that order; all attributes when none is wanted."""
    found = {
        f"{bean['name']}:{attribute}": value
        for bean in beans
        for attribute, value in bean.items()
        if attribute != "name" and (not wanted or attribute in wanted)
    }
    return dict(sorted(found.items()))


def value_text(value: object) -> str:
    """A value as Java writes it: a double with E where it is small or large, NaN for none."""
    if value is None:
        return "NaN"
    return double_text(value) if isinstance(value, float) else str(value)


def date_text(pattern: str | None, milliseconds: int) -> str:
    """A time as java.text.SimpleDateFormat writes it in this machine's zone; the number itself without a pattern.

    Raises:
        ValueError: the pattern has letters that are not known here.
    """
    if pattern is None:
        return str(milliseconds)
    at = time.localtime(milliseconds / 1000)
    parts = []
    for found in _DATE_PART.finditer(pattern):
        text = found[0]
        if text.startswith("'"):
            parts.append(found[1].replace("''", "'") or "'")
        elif found[2] is None:
            parts.append(text)
        elif found[2] == "S":
            parts.append(f"{milliseconds % 1000:0{len(text)}d}")
        elif text in _DATES:
            parts.append(time.strftime(_DATES[text], at))
        elif len(text) == 1 and text * 2 in _DATES:
            parts.append(str(int(time.strftime(_DATES[text * 2], at))))
        else:
            raise ValueError(f"{text} is nothing that --date-format knows here")
    return "".join(parts)
