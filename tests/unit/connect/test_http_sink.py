"""Records as requests at a server that fails in every way."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pkafka.connect.connectors.http_requests import Fate, fate_of, retry_after_ms
from pkafka.connect.connectors.http_sink import HttpSinkConnector, HttpSinkTask
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.schema import Schema, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.errors import ConnectError, RetriableError
from pkafka.model import TopicPartition
from tests.http_server import HttpServer, Reply, Request, http_server
from tests.sockets import free_port


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server


class Sink:
    """A task, and what it asks of its worker."""

    def __init__(self, url: str, *, tolerates: bool = True, **settings: str) -> None:
        self.dead: list[tuple[int, str]] = []
        self.waits: list[int] = []
        self.task = HttpSinkTask()
        self.task.initialize(
            SimpleNamespace(
                configs={},
                errant_records=SimpleNamespace(report=self._report) if tolerates else None,
                timeout=self.waits.append,
            )
        )
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.task.start({"http.url": url, "retry.backoff.ms": "7", **named})

    def _report(self, record: SinkRecord, error: Exception) -> "Future[None]":
        self.dead.append((record.offset, str(error)))
        return Future()

    def put(self, *values: Any, key: Any = None, topic: str = "t", first: int = 0) -> None:
        self.task.put([record(value, offset, key, topic) for offset, value in enumerate(values, first)])


def record(value: Any, offset: int = 0, key: Any = None, topic: str = "t") -> SinkRecord:
    return SinkRecord(topic, 0, None, key, None, value, offset=offset)


@pytest.fixture
def sink(server: HttpServer) -> Iterator[Callable[..., Sink]]:
    made: list[Sink] = []

    def make(path: str = "", **settings: Any) -> Sink:
        made.append(Sink(server.url + path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.task.stop()


def test_each_record_is_a_request(server: HttpServer, sink: Callable[..., Sink]) -> None:
    made = sink(
        "/${topic}/${key}", http_method="PUT", http_headers="X-A: 1, X-B:2", http_record_headers="true"
    )
    made.put({"a": 1.5, "b": None}, "text", key="k/ä", topic="t.1")
    first, second = server.requests
    assert (first.method, first.path) == ("PUT", "/t.1/k%2F%C3%A4")
    assert (json.loads(first.body), second.body) == ({"a": 1.5, "b": None}, b'"text"')
    wanted = {
        "Content-Type": "application/json",
        "X-A": "1",
        "X-B": "2",
        "Kafka-Topic": "t.1",
        "Kafka-Offset": "0",
    }
    assert wanted.items() <= first.headers.items()


def test_a_struct_is_json_without_its_schema(server: HttpServer, sink: Callable[..., Sink]) -> None:
    schema = SchemaBuilder.struct().field("id", Schema.INT32).build()
    made = sink()
    made.task.put([SinkRecord("t", 0, None, None, schema, Struct(schema).put("id", 3), offset=0)])
    assert server.bodies == [b'{"id":3}']


@pytest.mark.parametrize(
    ("format", "value", "body"),
    [
        ("text", "ä", "ä".encode()),
        ("text", {"a": 1}, b"{a=1}"),
        ("text", b"raw", b"raw"),
        ("bytes", b"\x00", b"\x00"),
        ("bytes", "ä", "ä".encode()),
    ],
)
def test_other_bodies(
    server: HttpServer, sink: Callable[..., Sink], format: str, value: Any, body: bytes
) -> None:
    sink(body_format=format).put(value)
    assert server.bodies == [body]


@pytest.mark.parametrize(
    ("settings", "bodies"),
    [
        ({"batch_max_records": "2"}, [b"[1,2]", b"[3]"]),
        ({"batch_max_records": "9", "batch_shape": "lines"}, [b"1\n2\n3\n"]),
        ({"batch_max_records": "9", "batch_max_bytes": "2"}, [b"[1,2]", b"[3]"]),
        ({"batch_max_records": "9", "batch_shape": "lines", "body_format": "text"}, [b"1\n2\n3\n"]),
    ],
)
def test_batches(
    server: HttpServer, sink: Callable[..., Sink], settings: dict[str, str], bodies: list[bytes]
) -> None:
    sink(**settings).put(1, 2, 3)
    assert server.bodies == bodies


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 0, -1])
def test_a_server_that_does_not_answer_for_now_is_asked_again_for_the_rest(
    server: HttpServer, sink: Callable[..., Sink], status: int
) -> None:
    made = sink()
    server.answer = lambda request: Reply(status) if request.body == b"2" else Reply()
    for _ in range(2):
        with pytest.raises(RetriableError):
            made.put(1, None, 2, 3)
    server.answer = lambda _request: Reply()
    made.put(1, None, 2, 3)
    assert server.bodies == [b"1", b"2", b"2", b"2", b"3"]
    assert made.waits == [7, 7]
    made.put(1)  # as after offsets were set back
    assert server.bodies[-1] == b"1"


def test_what_is_not_sent_is_not_reported_twice_nor_lost(
    server: HttpServer, sink: Callable[..., Sink]
) -> None:
    made = sink("/${key}", batch_max_records="1")
    good, bad = record(1, 0, "k"), record(2, 1, None)
    server.answer = lambda _request: Reply(503)
    with pytest.raises(RetriableError):
        made.task.put([good, bad])
    assert made.dead == []
    server.answer = lambda request: Reply(503 if request.body == b"3" else 200)
    for _ in range(2):
        with pytest.raises(RetriableError):
            made.task.put([good, bad, record(3, 2, "k")])
    assert [offset for offset, _ in made.dead] == [1]
    assert server.bodies == [b"1", b"1", b"3", b"3"]


def test_partitions_that_go_elsewhere_and_come_back_begin_anew(
    server: HttpServer, sink: Callable[..., Sink]
) -> None:
    made = sink()
    server.answer = lambda request: Reply(503 if request.body == b"2" else 200)
    with pytest.raises(RetriableError):
        made.put(1, 2)
    made.task.close([TopicPartition("t", 0)])
    server.answer = lambda _request: Reply()
    made.put(1, 2)
    assert server.bodies == [b"1", b"2", b"1", b"2"]


def test_tries_end(server: HttpServer, sink: Callable[..., Sink]) -> None:
    made = sink(max_retries="2")
    server.answer = lambda _request: Reply(500, b"out of order")
    for _ in range(2):
        with pytest.raises(RetriableError):
            made.put(1)
    with pytest.raises(ConnectError, match="answers 500 out of order, in 3 tries") as raised:
        made.put(1)
    assert not isinstance(raised.value, RetriableError)


def _later(seconds: str, _request: Request) -> Reply:
    return Reply(429, headers={"Retry-After": seconds})


def test_the_server_says_how_long_to_wait(server: HttpServer, sink: Callable[..., Sink]) -> None:
    made = sink(retry_after_max_ms="5000")
    for seconds in ("2", "3600"):
        server.answer = partial(_later, seconds)
        with pytest.raises(RetriableError):
            made.put(1)
    assert made.waits == [2000, 5000]


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        (None, None),
        (" 12 ", 12_000),
        ("Thu, 01 Jan 2026 00:00:10 GMT", 10_000),
        ("Wed, 31 Dec 2025 00:00:10 GMT", 0),
        ("soon", None),
        ("-1", None),
        ("9" * 40, 999_999_999_000),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, wait_ms: int | None) -> None:
    assert retry_after_ms(header, datetime(2026, 1, 1, tzinfo=UTC)) == wait_ms


def test_a_server_that_is_not_there_is_asked_again() -> None:
    made = Sink(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(RetriableError, match="was not answered"):
        made.put(1)
    made.task.stop()


def test_a_server_that_is_silent_is_not_waited_for(server: HttpServer, sink: Callable[..., Sink]) -> None:
    made = sink(request_timeout_ms="100")
    is_over = threading.Event()
    server.answer = lambda _request: Reply() if is_over.wait(30) else Reply(500)
    with pytest.raises(RetriableError, match="was not answered"):
        made.put(1)
    is_over.set()


@pytest.mark.parametrize("status", [301, 400, 404, 422])
def test_what_is_refused_is_a_dead_letter(server: HttpServer, sink: Callable[..., Sink], status: int) -> None:
    made = sink()
    server.answer = lambda request: Reply(status, b"no good") if request.body == b"2" else Reply()
    made.put(1, 2, 3)
    assert server.bodies == [b"1", b"2", b"3"]
    assert made.dead == [(1, f"{server.url} answers {status} no good")]


def test_without_tolerance_it_ends_the_task(server: HttpServer, sink: Callable[..., Sink]) -> None:
    made = sink(tolerates=False)
    server.answer = lambda _request: Reply(400, b"x" * 100_000)
    with pytest.raises(ConnectError) as raised:
        made.put(1)
    assert len(str(raised.value)) < 3000


def test_of_a_batch_that_is_refused_only_the_culprits_are_dead(
    server: HttpServer, sink: Callable[..., Sink]
) -> None:
    made = sink(batch_max_records="8")
    taken: list[int] = []

    def answer(request: Request) -> Reply:
        values = json.loads(request.body)
        if {3, 6} & set(values):
            return Reply(400)
        taken.extend(values)
        return Reply()

    server.answer = answer
    made.put(*range(8))
    assert [offset for offset, _ in made.dead] == [3, 6]
    assert taken == [0, 1, 2, 4, 5, 7]


@pytest.mark.parametrize("status", [401, 403, 407])
def test_who_is_not_let_in_ends_and_loses_nothing(
    server: HttpServer, sink: Callable[..., Sink], status: int
) -> None:
    made = sink()
    server.answer = lambda _request: Reply(status)
    with pytest.raises(ConnectError, match=f"answers {status}"):
        made.put(1)
    assert made.dead == []


@pytest.mark.parametrize(
    ("behaviour", "requests", "dead"),
    [
        ("ignore", [("POST", "/a", b"1")], []),
        ("delete", [("DELETE", "/a", b""), ("POST", "/a", b"1")], []),
        ("fail", [("POST", "/a", b"1")], [0]),
    ],
)
def test_a_record_without_a_value(
    server: HttpServer,
    sink: Callable[..., Sink],
    behaviour: str,
    requests: list[tuple[str, str, bytes]],
    dead: list[int],
) -> None:
    made = sink("/${key}", behavior_on_null_values=behaviour)
    server.answer = lambda request: Reply(404 if request.method == "DELETE" else 200)
    made.put(None, 1, key="a")
    assert [(each.method, each.path, each.body) for each in server.requests] == requests
    assert [offset for offset, _ in made.dead] == dead


def test_what_cannot_be_sent_is_a_dead_letter(server: HttpServer, sink: Callable[..., Sink]) -> None:
    made = sink(body_format="bytes")
    made.put(1, b"2")
    assert server.bodies == [b"2"]
    assert "neither bytes nor text" in made.dead[0][1]


def test_logins_that_stay_the_same(server: HttpServer, sink: Callable[..., Sink]) -> None:
    sink(auth_type="basic", auth_user="ann", auth_password="s:1").put(1)
    sink(auth_type="bearer", auth_token="abc").put(1)
    found = [each.headers["Authorization"] for each in server.requests]
    assert found == [f"Basic {base64.b64encode(b'ann:s:1').decode()}", "Bearer abc"]


class Tokens:
    """A server of records that takes the latest token, and gives one."""

    def __init__(self) -> None:
        self.given = 0
        self.status = 200

    def __call__(self, request: Request) -> Reply:
        if request.path != "/token":
            is_let_in = request.headers["Authorization"] == f"Bearer t{self.given}"
            return Reply(200 if is_let_in else 401)
        assert request.headers["Authorization"] == f"Basic {base64.b64encode(b'me:secret').decode()}"
        assert request.body == b"grant_type=client_credentials&scope=write"
        self.given += 1
        return Reply(self.status, json.dumps({"access_token": f"t{self.given}", "expires_in": 3600}).encode())


def test_a_token_is_used_until_it_is_refused(server: HttpServer, sink: Callable[..., Sink]) -> None:
    tokens = Tokens()
    server.answer = tokens
    made = sink(
        "/records",
        auth_type="oauth2",
        oauth2_token_url=f"{server.url}/token",
        oauth2_client_id="me",
        oauth2_client_secret="secret",
        oauth2_scope="write",
    )
    made.put(1, 2)
    tokens.given += 1  # somebody else got one, and the first counts no more
    made.put(3, first=2)
    assert [each.path for each in server.requests] == [
        *("/token", "/records", "/records"),
        *("/records", "/token", "/records"),
    ]
    tokens.given, tokens.status = 7, 503
    with pytest.raises(RetriableError, match="gives no token for now: 503"):
        made.put(4, first=3)
    tokens.status = 400
    with pytest.raises(ConnectError, match="gives no token: 400"):
        made.put(4, first=3)


@pytest.mark.parametrize(
    ("status", "count", "fate"),
    [
        (204, 1, Fate.DONE),
        (400, 2, Fate.SPLIT),
        (400, 1, Fate.REFUSED),
        (404, 2, Fate.REFUSED),
        (599, 1, Fate.AGAIN),
    ],
)
def test_fates(status: int, count: int, fate: Fate) -> None:
    assert fate_of(status, count) is fate


@pytest.mark.parametrize(
    ("settings", "key", "said"),
    [
        ({"http.url": "ftp://x"}, "http.url", "begins with http"),
        ({"http.headers": "a b"}, "http.headers", "Name: value"),
        ({"auth.type": "basic"}, "auth.user", "auth.type=basic needs it"),
        (
            {"batch.max.records": "2", "http.url": "http://x/${key}"},
            "batch.max.records",
            "request for each record",
        ),
        ({"batch.max.records": "2", "body.format": "text"}, "batch.shape", "Only values of JSON"),
        ({"batch.max.records": "0"}, "batch.max.records", "at least 1"),
    ],
)
def test_settings_are_refused(settings: dict[str, str], key: str, said: str) -> None:
    values = HttpSinkConnector().validate({"http.url": "http://x", **settings})
    assert [(each.name, said in each.errors[0]) for each in values if each.errors] == [(key, True)]


def test_every_setting_is_documented() -> None:
    assert all(key.documentation for key in HttpSinkConnector.CONFIG.keys.values())
