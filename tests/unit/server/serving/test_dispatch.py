"""The fate of each kind of failure, and what a request becomes, with a worker that only remembers."""

import asyncio
import base64
import json
import logging
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from pkafka.clock import ManualClock
from pkafka.errors import ApiError, ErrorCode
from pkafka.net.answers import Answer, FileRange
from pkafka.net.connection import AFTER_OTHERS, Detach, LaterAnswer, Outcome, ServerConnection
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import RequestHeader, decode_response, encode_request, encode_response
from pkafka.protocol.messages import (
    api_versions,
    create_topics,
    expire_delegation_token,
    fetch,
    list_offsets,
    metadata,
    produce,
    sasl_authenticate,
)
from pkafka.protocol.messages import incremental_alter_configs as alter
from pkafka.protocol.schema import Message
from pkafka.security.principal import Principal
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS
from pkafka.server.handlers import api_versions as api_versions_handler
from pkafka.server.ipc import tasks
from pkafka.server.ipc.peer import Peer, PeerGone, Reply
from pkafka.server.limits.client_quotas import ClientQuotas
from pkafka.server.limits.rate_table import RateTable
from pkafka.server.metrics import counters
from pkafka.server.metrics.counters import FOLLOWERS_FETCH
from pkafka.server.security.login import LoggedIn, Session
from pkafka.server.serving import dispatch
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.server.serving.context import Caller, Forwarded, RequestContext
from pkafka.server.serving.control_line import ControlLine
from pkafka.server.serving.dispatch import Dispatcher, frame
from pkafka.server.serving.request_log import logger as request_logger


class Metrics(counters.Metrics):
    def later_request(self, api_key: int, api_version: int, local_ns: int, whole_ns: int) -> None:
        assert 0 < local_ns < whole_ns
        super().later_request(api_key, api_version, local_ns, whole_ns)


class Control(Peer):
    """The control process: what it will answer, call by call."""

    def __init__(self, *answers: Any) -> None:
        self.gone = False
        self.answers = list(answers)
        self.asked: list[tuple[str, Any, bytes]] = []

    def call(
        self, operation: str, payload: Any = None, blob: Any = b"", fds: Any = ()
    ) -> "asyncio.Future[Reply]":
        self.asked.append((operation, payload, blob))
        answer = self.answers.pop(0)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result((None, answer, []))
        return future


class Tasks(tasks.Tasks):
    """Keeps coroutines until the test runs them."""

    def __init__(self) -> None:
        self.crashes: list[BaseException] = []
        self.crash = self.crashes.append
        self.spawned: list[Coroutine[Any, Any, None]] = []

    def spawn(self, work: Coroutine[Any, Any, None], connection: object = None) -> None:
        self.spawned.append(work)

    def run(self) -> None:
        for work in self.spawned:
            asyncio.run(work)
        self.spawned.clear()


class Worker:
    """As much of a worker as handlers see here."""

    dispatcher: "Dispatcher[Any]"


class Ends(socket.socket):
    """Of a connected socket, the two addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.close()

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.9", 9092

    def getpeername(self) -> tuple[str, int]:
        return "10.0.0.1", 40_000


class Connection(ServerConnection):
    """As much of a connection as the dispatcher sees."""

    pending: Any
    state: Any

    def __init__(self) -> None:
        self.peer_host, self.listener = "10.0.0.1", "PLAINTEXT"
        self.closed = False
        self.pending = None
        self.state = ConnectionState(number=7)
        self.sock = Ends()
        self.are_due = False
        self.encrypted = False
        self.answers: list[bytes] = []
        self.pauses: list[float] = []

    @property
    def is_encrypted(self) -> bool:
        return self.encrypted

    @property
    def has_answers_due(self) -> bool:
        return self.are_due

    def close(self) -> None:
        self.closed = True

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def finish(self, answer: Answer) -> None:
        self.answers.append(b"".join(answer))  # type: ignore[arg-type]


class Bench:
    """A dispatcher between a worker and a connection."""

    def __init__(self, *, control: Control | None = None, **apis: Any) -> None:
        self.metrics = Metrics()
        self.tasks = Tasks()
        self.clock = ManualClock()
        self.quotas = ClientQuotas(RateTable(samples=11, window_ms=1000), self.clock)
        control_line = ControlLine()
        control_line.peer = control
        worker = Worker()
        self.connection = Connection()
        self.dispatcher = Dispatcher(
            worker,
            apis.get("frame_apis", {}),
            apis.get("message_apis", {ApiKey.API_VERSIONS: api_versions_handler.handle}),
            apis.get("control_apis", frozenset()),
            tasks=self.tasks,
            metrics=self.metrics,
            quotas=self.quotas,
            control_line=control_line,
        )
        worker.dispatcher = self.dispatcher

    def serve(self, body: bytes) -> Outcome:
        return self.dispatcher.handle(self.connection, memoryview(body))

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


def test_what_clients_say_to_later_brokers_is_neither_announced_nor_served() -> None:
    """A producer would take the broker for one that has transaction.version 2."""
    bench = Bench(frame_apis=FRAME_APIS, message_apis=MESSAGE_APIS, control_apis=CONTROL_APIS)
    _id, response = decode_response(ApiKey.API_VERSIONS, 3, whole(bench.ask(NAMED, 3)))
    assert isinstance(response, api_versions.ApiVersionsResponse)
    highest = {row.api_key: row.max_version for row in response.api_keys}
    later = {ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5}
    for key, version in later.items():
        assert highest[key] == version - 1
        bench = Bench(frame_apis=FRAME_APIS, message_apis=MESSAGE_APIS, control_apis=CONTROL_APIS)
        assert bench.serve(struct.pack(">hhihb", key, version, 9, -1, 0)) == ()
        assert bench.connection.closed


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
    assert bench.metrics.refused_requests == 1
    assert not [record for record in quiet.records if record.levelno > logging.WARNING]


def test_another_unsupported_version_closes_the_connection() -> None:
    bench = Bench(message_apis=MESSAGE_APIS)
    assert bench.serve(struct.pack(">hhih", ApiKey.METADATA, 99, 9, -1)) == ()
    assert bench.connection.closed


def serve_metadata(outcome: Any) -> tuple[Bench, Outcome]:
    def handle(context: RequestContext[object], request: Message, version: int) -> Any:
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
    assert bench.metrics.requests == {(ApiKey.METADATA, 9): 1}
    assert bench.tasks.spawned == []


@pytest.mark.parametrize(("follows", "counted_as"), [(False, ApiKey.FETCH), (True, FOLLOWERS_FETCH)])
@pytest.mark.parametrize("at_once", [True, False])
def test_fetches_of_followers_are_counted_apart(follows: bool, counted_as: int, at_once: bool) -> None:
    def handle(_worker: object, connection: Connection, *_request: object) -> Answer | None:
        connection.state.follows = follows
        return (b"answer",) if at_once else None

    bench = Bench(frame_apis={ApiKey.FETCH: handle})
    bench.ask(fetch.FetchRequest(topics=[]), 12)
    if not at_once:
        bench.dispatcher.finished(bench.connection.pending, ())
    assert bench.metrics.requests == {(counted_as, 12): 1}


def test_an_encoded_body_goes_out_as_it_is() -> None:
    _bench, answer = serve_metadata(b"body")
    assert whole(answer) == struct.pack(">ib", 9, 0) + b"body"


def test_an_answer_later_is_finished_and_counted_then() -> None:
    async def later() -> Message:
        return metadata.MetadataResponse(cluster_id="later")

    bench, answer = serve_metadata(later())
    assert answer is None
    assert bench.metrics.requests == {}
    bench.dispatcher.finished(bench.connection.pending, ())
    assert bench.metrics.requests == {(ApiKey.METADATA, 9): 1}
    bench.tasks.run()
    [data] = bench.connection.answers
    assert b"later" in data


def test_only_produce_is_served_while_answers_are_due() -> None:
    bench, _answer = serve_metadata(b"body")
    bench.connection.are_due = True
    assert bench.ask(metadata.MetadataRequest(), 9) is AFTER_OTHERS
    bench.connection.are_due = False
    assert bench.ask(metadata.MetadataRequest(), 9) is not AFTER_OTHERS


def test_an_answer_behind_which_others_are_served_is_counted_when_it_is_there() -> None:
    connection = Connection()
    later = LaterAnswer(connection)
    bench = Bench(frame_apis={ApiKey.PRODUCE: lambda *_: later})
    assert (
        bench.serve(encode_request(ApiKey.PRODUCE, 9, 1, "me", produce.ProduceRequest(acks=1))[4:]) is later
    )
    assert bench.metrics.requests == {}
    assert later.note is not None
    bench.dispatcher.finished(later.note, ())
    assert bench.metrics.requests == {(ApiKey.PRODUCE, 9): 1}


def test_an_api_error_without_a_place_in_the_answer_closes_the_connection() -> None:
    bench, answer = serve_metadata(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert answer == ()
    assert bench.connection.closed

    async def later() -> Message:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    bench, answer = serve_metadata(later())
    bench.tasks.run()
    assert bench.connection.closed
    assert bench.connection.answers == []


def test_a_bug_costs_the_connection_and_leaves_a_traceback(quiet: pytest.LogCaptureFixture) -> None:
    bench, answer = serve_metadata(ZeroDivisionError("bug"))
    assert answer == ()
    assert bench.connection.closed
    assert bench.tasks.crashes == []
    [told] = [record for record in quiet.records if record.exc_info]
    assert "10.0.0.1: METADATA v9, request 9 of 'me', " in told.getMessage()


def test_requests_are_named_by_correlation_and_client_id(quiet: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.serve(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 5, 2) + b"id"[:1])
    bench.serve(struct.pack(">hhih", ApiKey.PRODUCE, 3, 77, 2) + b"id")
    bench.serve(struct.pack(">hhih", 9_999, 0, 78, -1))
    said = [
        record.getMessage().removeprefix("Closing the connection of 10.0.0.1: ") for record in quiet.records
    ]
    assert said[0].startswith("request of key 18, version 0, 11 bytes: ")
    assert said[1].startswith("PRODUCE v3, request 77 of 'id', 12 bytes: ")
    assert said[2].startswith("request of key 9999, version 0, 10 bytes: ")


@pytest.fixture
def request_log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """The request log at DEBUG; gives what was written since it was last asked."""
    caplog.set_level(logging.DEBUG, request_logger.name)

    def lines() -> list[dict[str, Any]]:
        texts = [record.getMessage() for record in caplog.records if record.name == request_logger.name]
        caplog.clear()
        return [json.loads(text.removeprefix("Completed request:")) for text in texts]

    return lines


def test_an_answered_request_is_a_line_of_json(request_log: Callable[[], list[dict[str, Any]]]) -> None:
    bench = Bench()
    bench.ask(NAMED, 3)
    [line] = request_log()
    response = line.pop("response")
    times = {name: line.pop(name) for name in list(line) if name.endswith("TimeMs")}
    assert line == {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": 18,
            "requestApiVersion": 3,
            "correlationId": 9,
            "clientId": "me",
            "requestApiKeyName": "API_VERSIONS",
        },
        "request": {"clientSoftwareName": "x", "clientSoftwareVersion": "1"},
        "connection": "10.0.0.9:9092-10.0.0.1:40000-7",
        "securityProtocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "listener": "PLAINTEXT",
        "clientInformation": {"softwareName": "x", "softwareVersion": "1"},
    }
    assert response["apiKeys"] == [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]
    assert times["totalTimeMs"] == times["localTimeMs"] > 0
    assert set(times) == {
        *("totalTimeMs", "requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "throttleTimeMs"),
        *("responseQueueTimeMs", "sendTimeMs"),
    }


@pytest.mark.parametrize(
    ("is_encrypted", "logs_in", "protocol"),
    [
        (False, False, "PLAINTEXT"),
        (True, False, "SSL"),
        (False, True, "SASL_PLAINTEXT"),
        (True, True, "SASL_SSL"),
    ],
)
def test_a_line_says_how_its_client_came_in(
    request_log: Callable[[], list[dict[str, Any]]], is_encrypted: bool, logs_in: bool, protocol: str
) -> None:
    bench = Bench()
    alice = Principal("User", "CN=alice")
    session = Session(LoggedIn(alice, "PLAIN"), None) if logs_in else None
    bench.connection.encrypted = is_encrypted
    bench.connection.state = ConnectionState(principal=alice, session=session)
    bench.ask(NAMED, 3)
    [line] = request_log()
    assert (line["securityProtocol"], line["principal"]) == (protocol, "User:CN=alice")


def test_at_info_only_requests_of_versions_that_will_be_gone_are_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, request_logger.name)
    bench = Bench(frame_apis={ApiKey.PRODUCE: lambda *_: ()})
    for version in (3, 2):
        bench.ask(produce.ProduceRequest(acks=0, topic_data=[]), version)
    [line] = [record for record in caplog.records if record.name == request_logger.name]
    assert line.levelno == logging.INFO
    assert '"requestApiVersion":2,' in line.getMessage()
    assert '"requestApiVersionDeprecated":true}' in line.getMessage()


def test_a_request_that_waits_is_written_with_its_answer(
    request_log: Callable[[], list[dict[str, Any]]],
) -> None:
    later = LaterAnswer(Connection())
    bench = Bench(frame_apis={ApiKey.PRODUCE: lambda *_: later})
    part = produce.PartitionProduceData(index=3, records=b"1234")
    data = produce.TopicProduceData(name="t", partition_data=[part])
    bench.ask(produce.ProduceRequest(acks=1, timeout_ms=7, topic_data=[data]), 9)
    assert request_log() == []
    assert later.note is not None
    response = produce.ProduceResponse(responses=[], throttle_time_ms=5)
    bench.dispatcher.finished(later.note, (encode_response(ApiKey.PRODUCE, 9, 9, response),))
    [line] = request_log()
    assert line["request"] == {
        "transactionalId": None,
        "acks": 1,
        "timeoutMs": 7,
        "topicData": [{"name": "t", "partitionData": [{"index": 3, "recordsSizeInBytes": 4}]}],
    }
    assert line["response"] == {"responses": [], "throttleTimeMs": 5}
    assert line["throttleTimeMs"] == 5
    assert line["remoteTimeMs"] > 0
    assert line["totalTimeMs"] == pytest.approx(line["localTimeMs"] + line["remoteTimeMs"], abs=0.002)


def test_records_in_files_are_measured_not_read(request_log: Callable[[], list[dict[str, Any]]]) -> None:
    partition = fetch.PartitionData(partition_index=0, high_watermark=9, records=bytes(1_000))
    response = fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic="t", partitions=[partition])]
    )
    whole_answer = encode_response(ApiKey.FETCH, 12, 9, response)
    begin = whole_answer.index(bytes(1_000))
    answer = (whole_answer[:begin], FileRange(-1, 0, 1_000), whole_answer[begin + 1_000 :])
    bench = Bench(frame_apis={ApiKey.FETCH: lambda *_: answer})
    bench.ask(fetch.FetchRequest(topics=[]), 12)
    [line] = request_log()
    [shown] = line["response"]["responses"][0]["partitions"]
    assert (shown["recordsSizeInBytes"], shown["highWatermark"]) == (1_000, 9)


def test_secrets_do_not_stand_in_the_request_log(request_log: Callable[[], list[dict[str, Any]]]) -> None:
    def config(name: str) -> alter.AlterableConfig:
        return alter.AlterableConfig(name=name, config_operation=0, value="secret")

    bench = Bench(message_apis={ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda *_: b""})
    names = {
        4: ["ssl.key.password", "listener.name.x.ssl.key.password", "log.retention.ms", "of.a.plugin"],
        2: ["retention.ms", "unknown"],
        8: ["root"],
        16: ["interval.ms"],
    }
    resources = [
        alter.AlterConfigsResource(
            resource_type=kind, resource_name="0", configs=[config(name) for name in all_of_it]
        )
        for kind, all_of_it in names.items()
    ]
    bench.ask(alter.IncrementalAlterConfigsRequest(resources=resources), 1)
    [line] = request_log()
    shown = [one["value"] for resource in line["request"]["resources"] for one in resource["configs"]]
    hidden = "[hidden]"
    assert shown == [hidden, hidden, "secret", hidden, "secret", hidden, "secret", hidden]


def test_what_logs_in_does_not_stand_in_the_request_log(
    request_log: Callable[[], list[dict[str, Any]]],
) -> None:
    bench = Bench(
        message_apis=dict.fromkeys((ApiKey.SASL_AUTHENTICATE, ApiKey.EXPIRE_DELEGATION_TOKEN), lambda *_: b"")
    )
    bench.ask(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0a\0password"), 2)
    bench.ask(expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"token"), 2)
    hidden = base64.b64encode(b"[hidden]").decode()
    assert [line["request"].get("authBytes", line["request"].get("hmac")) for line in request_log()] == [
        hidden
    ] * 2


def test_the_request_log_is_off_and_silent_about_what_it_cannot_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    with caplog.at_level(logging.INFO):
        bench.ask(NAMED, 3)
    assert not caplog.records
    caplog.set_level(logging.DEBUG, request_logger.name)
    Bench().serve(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 9, -1) + b"\0future")
    [line] = [one.getMessage() for one in caplog.records if one.name == request_logger.name]
    assert '"request":"","response":""' in line
    assert '"softwareName":"unknown"' in line


def test_a_broken_invariant_ends_the_worker() -> None:
    error = AssertionError("the log is wrong")
    bench, _answer = serve_metadata(error)
    assert bench.tasks.crashes == [error]


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
    assert bench.metrics.requests == {(ApiKey.PRODUCE, 3): 1}
    assert seen == [(3, struct.pack(">hhii", -1, 1, 7, 0))] * 3


CREATE = create_topics.CreateTopicsRequest(topics=[], timeout_ms=5)


def test_what_control_serves_is_asked_there_until_somebody_answers() -> None:
    control = Control(PeerGone("control"), b"answer")
    bench = Bench(control=control, control_apis=frozenset({ApiKey.CREATE_TOPICS}))
    assert bench.ask(CREATE, 5) is None
    bench.tasks.run()
    assert [operation for operation, _facts, _body in control.asked] == ["api", "api"]
    assert control.asked[0][1] == Forwarded(ApiKey.CREATE_TOPICS, 5, Caller("me", "10.0.0.1", "PLAINTEXT"))
    assert bench.connection.answers == [struct.pack(">iib", 11, 9, 0) + b"answer"]


def test_control_is_not_asked_for_a_client_that_left_or_with_bytes_that_are_no_request() -> None:
    control = Control()
    bench = Bench(control=control, control_apis=frozenset({ApiKey.CREATE_TOPICS}))
    assert bench.serve(encode_request(ApiKey.CREATE_TOPICS, 5, 9, "me", CREATE)[4:-1]) == ()
    assert bench.connection.closed
    assert bench.tasks.spawned == []
    assert bench.ask(CREATE, 5) is None
    bench.tasks.run()
    assert control.asked == []


def test_a_refusal_of_control_closes_the_connection() -> None:
    control = Control(ApiError(ErrorCode.INVALID_REQUEST))
    bench = Bench(control=control, control_apis=frozenset({ApiKey.CREATE_TOPICS}))
    bench.ask(CREATE, 5)
    bench.tasks.run()
    assert bench.connection.closed


def test_frames_have_the_header_of_their_version() -> None:
    def header(message: Message, version: int) -> Any:
        seen: list[Any] = []

        def handle(context: RequestContext[object], _request: Message, _version: int) -> bytes:
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


def _slow(seconds: float) -> Callable[[Any, Any, int], Message]:
    def handle(_context: Any, _request: Any, _version: int) -> Message:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        return list_offsets.ListOffsetsResponse()

    return handle


def test_the_time_of_a_request_may_slow_its_client_down() -> None:
    bench = Bench(message_apis={ApiKey.LIST_OFFSETS: _slow(0.02)})
    _id, answer = decode_response(2, 7, whole(bench.ask(list_offsets.ListOffsetsRequest(), 7)))
    assert isinstance(answer, list_offsets.ListOffsetsResponse)
    assert answer.throttle_time_ms == 0
    bench.quotas.change([("users", "ANONYMOUS", {"request_percentage": "0.01"})])
    _id, answer = decode_response(2, 7, whole(bench.ask(list_offsets.ListOffsetsRequest(), 7)))
    assert isinstance(answer, list_offsets.ListOffsetsResponse)
    assert answer.throttle_time_ms == 1000
    assert bench.connection.pauses == [1.0]
    # Version 1 cannot say it.
    whole(bench.ask(list_offsets.ListOffsetsRequest(), 1))
    assert bench.connection.pauses == [1.0, 1.0]
    assert bench.metrics.requests[2, 7] == 2


def test_the_time_counts_where_an_answer_comes_later() -> None:
    bench = Bench(message_apis={ApiKey.LIST_OFFSETS: _slow(0.02)})
    bench.quotas.change([("clients", "me", {"request_percentage": "0.01"})])
    answer = (encode_response(2, 7, 9, list_offsets.ListOffsetsResponse()),)
    note = 2, 7, 0, 20_000_000, _metered_note(bench, ApiKey.LIST_OFFSETS)
    sent = bench.dispatcher.finished(note, answer)
    _id, response = decode_response(2, 7, whole(sent))
    assert isinstance(response, list_offsets.ListOffsetsResponse)
    assert response.throttle_time_ms == 1000
    # Brokers' requests are left alone.
    stop = 5, 3, 0, 20_000_000, _metered_note(bench, ApiKey.STOP_REPLICA)
    assert bench.dispatcher.finished(stop, (b"as it was",)) == (b"as it was",)


def _metered_note(bench: Bench, key: ApiKey) -> object:
    header = RequestHeader(key, 7, 9, "me")
    return dispatch._Metered(bench.connection, header, None)


def test_a_longer_wait_that_an_answer_says_already_stays() -> None:
    header = RequestHeader(ApiKey.LIST_OFFSETS, 7, 9, "me")
    answer = (encode_response(2, 7, 9, list_offsets.ListOffsetsResponse(throttle_time_ms=5_000)),)
    for throttle_ms, told_ms in ((1_000, 5_000), (6_000, 6_000)):
        _id, response = decode_response(2, 7, whole(dispatch.told_to_wait(header, answer, throttle_ms)))
        assert isinstance(response, list_offsets.ListOffsetsResponse)
        assert response.throttle_time_ms == told_ms
