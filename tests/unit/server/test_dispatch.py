"""The fate of each kind of failure, and what a request becomes, with a worker that only remembers."""

import asyncio
import logging
import struct
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from pkafka.errors import ApiError, ErrorCode
from pkafka.net.connection import AFTER_OTHERS, Answer, Detach, LaterAnswer, Outcome
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import decode_response, encode_request
from pkafka.protocol.messages import api_versions, create_topics, list_offsets, metadata, produce
from pkafka.protocol.schema import Message
from pkafka.server.dispatch import Dispatcher, RequestContext, frame
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS
from pkafka.server.handlers import api_versions as api_versions_handler
from pkafka.server.ipc import PeerGone


class Metrics:
    def __init__(self) -> None:
        self.refusals = 0
        self.requests: list[tuple[int, int]] = []

    def refused(self) -> None:
        self.refusals += 1

    def request(self, key: int, version: int, _took_ns: int) -> None:
        self.requests.append((key, version))


class Control:
    """The control process: what it will answer, call by call."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Any, bytes]] = []

    async def call(self, operation: str, payload: Any, blob: bytes) -> Any:
        self.asked.append((operation, payload, blob))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None, answer, ()


class Worker:
    """As much of a worker as the dispatcher sees."""

    def __init__(self, control: Control | None = None) -> None:
        self.metrics = Metrics()
        self.crashes: list[BaseException] = []
        self.spawned: list[Coroutine[Any, Any, None]] = []
        self.control = control
        self.dispatcher: Any = None

    def crash(self, error: BaseException) -> None:
        self.crashes.append(error)

    def spawn(self, work: Coroutine[Any, Any, None], _connection: object = None) -> None:
        self.spawned.append(work)

    async def control_peer(self) -> Control:
        assert self.control is not None
        return self.control

    def run_spawned(self) -> None:
        for work in self.spawned:
            asyncio.run(work)
        self.spawned.clear()


class Connection:
    """As much of a connection as the dispatcher sees."""

    listener = "PLAINTEXT"
    peer_host = "10.0.0.1"

    def __init__(self) -> None:
        self.closed = False
        self.pending: Any = None
        self.has_answers_due = False
        self.answers: list[bytes] = []

    def close(self) -> None:
        self.closed = True

    def finish(self, answer: Answer) -> None:
        self.answers.append(b"".join(answer))  # type: ignore[arg-type]


class Bench:
    """A dispatcher between a worker and a connection."""

    def __init__(self, *, control: Control | None = None, **apis: Any) -> None:
        self.worker = Worker(control)
        self.connection = Connection()
        self.dispatcher = Dispatcher(
            self.worker,  # type: ignore[arg-type]
            apis.get("frame_apis", {}),
            apis.get("message_apis", {ApiKey.API_VERSIONS: api_versions_handler.handle}),
            apis.get("control_apis", frozenset()),
        )
        self.worker.dispatcher = self.dispatcher

    def serve(self, body: bytes) -> Outcome:
        return self.dispatcher.handle(self.connection, memoryview(body))  # type: ignore[arg-type]

    def ask(self, message: Message, version: int) -> Outcome:
        assert message.__api_key__ is not None
        return self.serve(encode_request(message.__api_key__, version, 9, "me", message)[4:])


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO):
        yield caplog


NAMED = api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1")


def whole(answer: Outcome) -> bytes:
    assert answer is not None
    assert not isinstance(answer, Detach)
    data = b"".join(answer)  # type: ignore[arg-type]
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    return data[4:]


def test_api_versions_lists_exactly_what_is_served() -> None:
    bench = Bench(frame_apis=FRAME_APIS, message_apis=MESSAGE_APIS, control_apis=CONTROL_APIS)
    for version in range(5):
        answer = whole(
            bench.ask(
                api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1"),
                version,
            )
        )
        _id, response = decode_response(ApiKey.API_VERSIONS, version, answer)
        assert isinstance(response, api_versions.ApiVersionsResponse)
        assert {row.api_key for row in response.api_keys} == {*FRAME_APIS, *MESSAGE_APIS, *CONTROL_APIS}


def test_bytes_behind_a_request_are_ignored() -> None:
    bench = Bench()
    plain = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 9, -1)
    assert bench.serve(plain + b"tail") == bench.serve(plain) != ()
    assert not bench.connection.closed


@pytest.mark.parametrize("version", [-1, 5, 99, 32767])
def test_an_api_versions_request_of_no_known_version_is_answered_in_version_0(version: int) -> None:
    answer = whole(Bench().serve(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 9, -1) + b"\0future"))
    correlation_id, code, count = struct.unpack_from(">ihi", answer)
    assert (correlation_id, code, count) == (9, ErrorCode.UNSUPPORTED_VERSION, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        bytes(7),
        struct.pack(">hhih", 9_999, 0, 9, -1),
        struct.pack(">hhih", ApiKey.METADATA, 1, 9, -1),  # known, not served here
        struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 9, 100),
        struct.pack(">hhihb", ApiKey.API_VERSIONS, 3, 9, -1, 0) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_what_is_no_request_closes_the_connection(body: bytes, quiet: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    assert bench.serve(body) == ()
    assert bench.connection.closed
    assert bench.worker.metrics.refusals == 1
    assert not [record for record in quiet.records if record.levelno > logging.WARNING]


def test_another_unsupported_version_closes_the_connection() -> None:
    bench = Bench(message_apis=MESSAGE_APIS)
    assert bench.serve(struct.pack(">hhih", ApiKey.METADATA, 99, 9, -1)) == ()
    assert bench.connection.closed


def serve_metadata(outcome: Any) -> tuple[Bench, Outcome]:
    def handle(context: RequestContext, request: Message, version: int) -> Any:
        assert isinstance(request, metadata.MetadataRequest)
        assert (context.listener_name, context.header.client_id, version) == ("PLAINTEXT", "me", 9)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    bench = Bench(message_apis={ApiKey.METADATA: handle})
    return bench, bench.ask(metadata.MetadataRequest(topics=[]), 9)


def test_an_answer_at_once_is_framed_counted_and_needs_no_task() -> None:
    bench, answer = serve_metadata(metadata.MetadataResponse(cluster_id="c"))
    correlation_id, response = decode_response(ApiKey.METADATA, 9, whole(answer))
    assert isinstance(response, metadata.MetadataResponse)
    assert (correlation_id, response.cluster_id) == (9, "c")
    assert bench.worker.metrics.requests == [(ApiKey.METADATA, 9)]
    assert bench.worker.spawned == []


def test_an_encoded_body_goes_out_as_it_is() -> None:
    _bench, answer = serve_metadata(b"body")
    assert whole(answer) == struct.pack(">ib", 9, 0) + b"body"


def test_an_answer_later_is_finished_and_counted_then() -> None:
    async def later() -> Message:
        return metadata.MetadataResponse(cluster_id="later")

    bench, answer = serve_metadata(later())
    assert answer is None
    assert bench.worker.metrics.requests == []
    bench.dispatcher.finished(bench.connection.pending)
    assert bench.worker.metrics.requests == [(ApiKey.METADATA, 9)]
    bench.worker.run_spawned()
    [data] = bench.connection.answers
    assert b"later" in data


def test_only_produce_is_served_while_answers_are_due() -> None:
    bench, _answer = serve_metadata(b"body")
    bench.connection.has_answers_due = True
    assert bench.ask(metadata.MetadataRequest(), 9) is AFTER_OTHERS
    bench.connection.has_answers_due = False
    assert bench.ask(metadata.MetadataRequest(), 9) is not AFTER_OTHERS


def test_an_answer_behind_which_others_are_served_is_counted_when_it_is_there() -> None:
    connection = Connection()
    later = LaterAnswer(connection)  # type: ignore[arg-type]
    bench = Bench(frame_apis={ApiKey.PRODUCE: lambda *_: later})
    assert (
        bench.serve(encode_request(ApiKey.PRODUCE, 9, 1, "me", produce.ProduceRequest(acks=1))[4:]) is later
    )
    assert bench.worker.metrics.requests == []
    assert later.note is not None
    bench.dispatcher.finished(later.note)
    assert bench.worker.metrics.requests == [(ApiKey.PRODUCE, 9)]


def test_an_api_error_without_a_place_in_the_answer_closes_the_connection() -> None:
    bench, answer = serve_metadata(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert answer == ()
    assert bench.connection.closed

    async def later() -> Message:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    bench, answer = serve_metadata(later())
    bench.worker.run_spawned()
    assert bench.connection.closed
    assert bench.connection.answers == []


def test_a_bug_costs_the_connection_and_leaves_a_traceback(quiet: pytest.LogCaptureFixture) -> None:
    bench, answer = serve_metadata(ZeroDivisionError("bug"))
    assert answer == ()
    assert bench.connection.closed
    assert bench.worker.crashes == []
    [told] = [record for record in quiet.records if record.exc_info]
    assert "10.0.0.1: METADATA v9, request 9 of 'me', " in told.getMessage()


def test_requests_are_named_by_correlation_and_client_id(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    caplog.set_level(logging.DEBUG, "pkafka.request")
    bench.ask(NAMED, 3)
    bench.serve(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 5, 2) + b"id"[:1])
    bench.serve(struct.pack(">hhih", ApiKey.PRODUCE, 3, 77, 2) + b"id")
    bench.serve(struct.pack(">hhih", 9_999, 0, 78, -1))
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "10.0.0.1: API_VERSIONS v3, request 9 of 'me', 18 bytes"
    assert said[1].startswith("Closing the connection of 10.0.0.1: request of key 18, version 0, 11 bytes: ")
    assert said[2] == "10.0.0.1: PRODUCE v3, request 77 of 'id', 12 bytes"
    assert said[3].startswith(
        "Closing the connection of 10.0.0.1: PRODUCE v3, request 77 of 'id', 12 bytes: "
    )
    assert said[4].startswith(
        "Closing the connection of 10.0.0.1: request of key 9999, version 0, 10 bytes: "
    )
    caplog.set_level(logging.INFO, "pkafka.request")
    bench.ask(NAMED, 3)
    assert len(caplog.records) == len(said)


def test_a_broken_invariant_ends_the_worker() -> None:
    error = AssertionError("the log is wrong")
    bench, _answer = serve_metadata(error)
    assert bench.worker.crashes == [error]


def test_frame_apis_get_the_bytes_and_decide_all_themselves() -> None:
    seen: list[tuple[int, bytes]] = []
    detach = Detach(lambda _sock, _unread: None)
    outcomes: list[Any] = [(b"bytes",), None, detach]

    def handle(_worker: Any, _connection: Any, header: Any, data: memoryview, position: int) -> Any:
        seen.append((header.api_version, bytes(data[position:])))
        return outcomes.pop(0)

    bench = Bench(frame_apis={ApiKey.PRODUCE: handle})
    request = produce.ProduceRequest(acks=1, timeout_ms=7, topic_data=[])
    assert bench.ask(request, 3) == (b"bytes",)
    assert bench.ask(request, 3) is None
    assert bench.connection.pending[:2] == (ApiKey.PRODUCE, 3)
    assert bench.ask(request, 3) is detach
    assert bench.worker.metrics.requests == [(ApiKey.PRODUCE, 3)]
    assert seen == [(3, struct.pack(">hhii", -1, 1, 7, 0))] * 3


CREATE = create_topics.CreateTopicsRequest(topics=[], timeout_ms=5)


def test_what_control_serves_is_asked_there_until_somebody_answers() -> None:
    control = Control(PeerGone("control"), b"answer")
    bench = Bench(control=control, control_apis=frozenset({ApiKey.CREATE_TOPICS}))
    assert bench.ask(CREATE, 5) is None
    bench.worker.run_spawned()
    assert [operation for operation, _facts, _body in control.asked] == ["api", "api"]
    assert control.asked[0][1] == [ApiKey.CREATE_TOPICS, 5, "me", "PLAINTEXT", "10.0.0.1"]
    assert bench.connection.answers == [struct.pack(">iib", 11, 9, 0) + b"answer"]


def test_control_is_not_asked_for_a_client_that_left_or_with_bytes_that_are_no_request() -> None:
    control = Control()
    bench = Bench(control=control, control_apis=frozenset({ApiKey.CREATE_TOPICS}))
    assert bench.serve(encode_request(ApiKey.CREATE_TOPICS, 5, 9, "me", CREATE)[4:-1]) == ()
    assert bench.connection.closed
    assert bench.worker.spawned == []
    assert bench.ask(CREATE, 5) is None
    bench.worker.run_spawned()
    assert control.asked == []


def test_a_refusal_of_control_closes_the_connection() -> None:
    control = Control(ApiError(ErrorCode.INVALID_REQUEST))
    bench = Bench(control=control, control_apis=frozenset({ApiKey.CREATE_TOPICS}))
    bench.ask(CREATE, 5)
    bench.worker.run_spawned()
    assert bench.connection.closed


def test_frames_have_the_header_of_their_version() -> None:
    def header(message: Message, version: int) -> Any:
        seen: list[Any] = []

        def handle(context: RequestContext, _request: Message, _version: int) -> bytes:
            seen.append(context.header)
            return b""

        assert message.__api_key__ is not None
        Bench(message_apis={message.__api_key__: handle}).ask(message, version)
        return seen[0]

    plain = header(list_offsets.ListOffsetsRequest(replica_id=-1), 5)
    assert frame(plain, b"xy") == struct.pack(">ii", 6, 9) + b"xy"
    flexible = header(list_offsets.ListOffsetsRequest(replica_id=-1), 6)
    assert frame(flexible, b"xy") == struct.pack(">iib", 7, 9, 0) + b"xy"
    # ApiVersions is read before its version is agreed on: always the oldest header.
    versions = header(
        api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3
    )
    assert frame(versions, b"xy") == struct.pack(">ii", 6, 9) + b"xy"
