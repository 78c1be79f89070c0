"""What pk-metrics makes of beans: values as Java writes them, dates as SimpleDateFormat does."""

import http.server
import threading
import time
from typing import Any

import pytest

from pkafka.tools.cluster.jmx_page import (
    MetricsPage,
    MetricsUnavailableError,
    attributes_of,
    date_text,
    summed,
    value_text,
)

NOON = 1_700_000_000_123


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (5_000_000_000, "5000000000"),
        (0.0, "0.0"),
        (0.3977839392019587, "0.3977839392019587"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1e-7, "1.0E-7"),
        (9_999_999.5, "9999999.5"),
        (10_000_000.0, "1.0E7"),
        (12_345_678.25, "1.234567825E7"),
        (-2.5e20, "-2.5E20"),
        (None, "NaN"),
        ("messages", "messages"),
    ],
)
def test_values_are_written_as_by_java(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (None, "1700000000123"),
        ("yyyy-MM-dd HH:mm:ss,SSS", "2023-11-14 22:13:20,123"),
        ("EEE, d MMM yy hh:mm a", "Tue, 14 Nov 23 10:13 PM"),
        ("yyyy.MM.dd 'at' HH 'o''clock'", "2023.11.14 at 22 o'clock"),
        ("H:m:s S", "22:13:20 123"),
    ],
)
def test_dates(monkeypatch: pytest.MonkeyPatch, pattern: str | None, text: str) -> None:
    monkeypatch.setattr("pkafka.tools.cluster.jmx_page.time.localtime", time.gmtime)
    assert date_text(pattern, NOON) == text


@pytest.mark.parametrize("pattern", ["QQ", "yyyyy", "X"])
def test_letters_that_are_not_known_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="--date-format"):
        date_text(pattern, NOON)


def test_attributes_are_sorted_by_the_name_of_their_bean() -> None:
    beans = [{"name": "a:type=t", "Value": 1}, {"name": "a:type=t,x=y", "Value": 2, "Other": 3}]
    assert list(attributes_of(beans).items()) == [
        ("a:type=t,x=y:Other", 3),
        ("a:type=t,x=y:Value", 2),
        ("a:type=t:Value", 1),
    ]
    assert list(attributes_of(beans, ["Other"])) == ["a:type=t,x=y:Other"]


def test_beans_of_several_brokers_are_added_up() -> None:
    meter: dict[str, Any] = {"name": "k:type=M", "Count": 3, "EventType": "bytes", "OneMinuteRate": 0.5}
    times: dict[str, Any] = {
        "name": "k:type=T",
        "Count": 1,
        "Mean": 2.0,
        "Max": 4.0,
        "Min": 1.0,
        "99thPercentile": 4.0,
    }
    loads: dict[str, Any] = {
        "name": "k:type=L",
        "partition-load-time-max": None,
        "partition-load-time-avg": None,
    }
    lag: dict[str, Any] = {"name": "k:type=C,name=max-dirty-percent", "Value": 7}
    one = [meter, times, loads, lag, {"name": "k:type=only", "Mean": 1.0}]
    other = [
        {**meter, "Count": 4, "OneMinuteRate": 1.0},
        {**times, "Max": 9.0, "Min": 0.5},
        {**loads, "partition-load-time-max": 12.0},
        {**lag, "Value": 5},
    ]
    assert summed([one, other]) == [
        {"name": "k:type=C,name=max-dirty-percent", "Value": 7},
        {"name": "k:type=L", "partition-load-time-max": 12.0},
        {"name": "k:type=M", "Count": 7, "EventType": "bytes", "OneMinuteRate": 1.5},
        {"name": "k:type=T", "Count": 2, "Max": 9.0, "Min": 0.5},
        {"name": "k:type=only", "Mean": 1.0},
    ]
    assert summed([[{"name": "a:b=c", "Version": "1"}], [{"name": "a:b=c", "Version": "2"}]]) == [
        {"name": "a:b=c"}
    ]


class _Answers(http.server.BaseHTTPRequestHandler):
    """Answers every question with the body that the server has."""

    def do_GET(self) -> None:
        body: bytes = self.server.body  # type: ignore[attr-defined]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\n<html>a page of somebody else</html>",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\n\r\n\xff",
        b"HTTP/1.0 404 Not Found\r\n\r\n",
        b"\0\0\0\x05not HTTP",
        b"",
    ],
)
def test_what_is_no_page_of_a_broker_is_unavailable(answer: bytes) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.body = answer  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            page = MetricsPage(f"http://127.0.0.1:{server.server_port}", timeout_s=60)
            with pytest.raises(MetricsUnavailableError):
                page.beans([])
        finally:
            server.shutdown()
            thread.join()
