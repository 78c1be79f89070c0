"""Connection, network and cluster against a scripted broker: negotiation, retries, time-outs, named stages."""

import os
import socket
import time

import pytest

from pkafka.clients.cluster import Cluster, To, controller_moved, parse_address
from pkafka.clients.config import ClientConfig
from pkafka.clients.errors import (
    ClientError,
    ClientTimeoutError,
    ConnectError,
    DisconnectedError,
    Stage,
    UnsupportedApiError,
)
from pkafka.errors import ConfigError
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from pkafka.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pkafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pkafka.protocol.schema import Message
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.fakes.mute_server import MuteServer
from tests.sockets import free_port

FAST = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 10}


def cluster_of(bootstrap: str, *, fail_fast: bool = True, **keys: object) -> Cluster:
    values: dict[str, object] = {"bootstrap.servers": bootstrap, "default.api.timeout.ms": 15_000, **FAST}
    values.update({key.replace("_", "."): value for key, value in keys.items()})
    return Cluster(ClientConfig.from_properties(values), fail_fast=fail_fast)


def test_metadata_tells_brokers_topics_and_leaders() -> None:
    with FakeBroker({"t": 2}) as broker, cluster_of(broker.bootstrap) as cluster:
        view = cluster.refresh(["t"])
    assert view.cluster_id == "fake"
    assert [each.leader for each in view.topics["t"].partitions] == [1, 1]
    assert view.brokers[1].port == broker.port


def test_an_old_broker_is_met_at_its_version() -> None:
    versions = {ApiKey.API_VERSIONS: (0, 2), ApiKey.METADATA: (0, 5)}
    with FakeBroker({"t": 1}, versions) as broker, cluster_of(broker.bootstrap) as cluster:
        cluster.refresh(["t"])
    assert broker.requests[0][:2] == (ApiKey.METADATA, 5)


def test_a_request_that_the_broker_lacks_is_named() -> None:
    with (
        FakeBroker(versions={ApiKey.METADATA: (0, 12)}) as broker,
        cluster_of(broker.bootstrap) as cluster,
        pytest.raises(UnsupportedApiError, match="DescribeCluster"),
    ):
        cluster.request(DescribeClusterRequest(), DescribeClusterResponse)


def test_nobody_listening_fails_at_once_at_the_connect_stage() -> None:
    started = time.monotonic()
    patient = cluster_of(f"127.0.0.1:{free_port()}", default_api_timeout_ms=60_000)
    with patient as cluster, pytest.raises(ConnectError) as caught:
        cluster.refresh()
    assert caught.value.stage is Stage.CONNECT
    assert caught.value.hint is not None
    assert time.monotonic() - started < 20


def test_socket_buffers_are_the_systems_unless_they_are_set() -> None:
    def buffers(**keys: object) -> list[int]:
        with FakeBroker() as broker, cluster_of(broker.bootstrap, fail_fast=True, **keys) as cluster:
            cluster.refresh()
            connection = cluster.network.connection(parse_address(broker.bootstrap))
            assert connection is not None
            with socket.socket(fileno=os.dup(connection.fileno())) as peer:
                options = (socket.SO_SNDBUF, socket.SO_RCVBUF)
                return [peer.getsockopt(socket.SOL_SOCKET, each) for each in options]

    # The kernel doubles what it is given, for its own use.
    assert buffers(send_buffer_bytes=20_000, receive_buffer_bytes=30_000) == [40_000, 60_000]
    assert buffers() == buffers(send_buffer_bytes=-1, receive_buffer_bytes=-1)


def test_a_service_keeps_trying_until_its_time_is_up() -> None:
    with cluster_of(f"127.0.0.1:{free_port()}", fail_fast=False, default_api_timeout_ms=200) as cluster:
        started = time.monotonic()
        with pytest.raises(ConnectError):
            cluster.refresh()
        assert time.monotonic() - started >= 0.19


def test_one_live_bootstrap_server_is_enough() -> None:
    with FakeBroker() as broker, cluster_of(f"127.0.0.1:{free_port()},{broker.bootstrap}") as cluster:
        assert cluster.refresh().controller_id == 1


@pytest.mark.parametrize(
    ("first_bytes", "hint"),
    [(b"\x15\x03\x03\x00\x02\x02\x46", "TLS"), (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP")],
)
def test_another_protocol_is_recognised(first_bytes: bytes, hint: str) -> None:
    with FakeBroker() as broker, cluster_of(broker.bootstrap) as cluster:
        broker.first_bytes = first_bytes
        with pytest.raises(ConnectError) as caught:
            cluster.refresh()
    assert caught.value.stage is Stage.HANDSHAKE
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("fail_fast", [False, True])
def test_a_silent_broker_times_out_in_the_handshake(fail_fast: bool) -> None:
    with MuteServer() as server:
        impatient = cluster_of(
            server.bootstrap, fail_fast=fail_fast, request_timeout_ms=300, default_api_timeout_ms=700
        )
        with impatient as cluster, pytest.raises(ConnectError, match="does not answer as a Kafka") as caught:
            cluster.refresh()
    assert caught.value.stage is Stage.HANDSHAKE


def test_a_request_may_take_as_long_before_the_handshake_is_answered_as_after() -> None:
    """The time for setting up a connection ends with TCP: what the broker then takes, is the request's."""
    with MuteServer() as server:
        keys = {"socket_connection_setup_timeout_ms": 100, "socket_connection_setup_timeout_max_ms": 100}
        cluster = cluster_of(
            server.bootstrap, fail_fast=False, request_timeout_ms=500, default_api_timeout_ms=1_200, **keys
        )
        with cluster, pytest.raises(ConnectError):
            cluster.refresh()
        # Three times 500 ms at most; with 100 ms for each they were twelve.
        assert 1 <= len(server.accepted_s) <= 3


def test_a_name_that_does_not_resolve_says_so() -> None:
    with cluster_of("no-such-host.invalid:9092") as cluster, pytest.raises(ConnectError) as caught:
        cluster.refresh()
    assert caught.value.stage is Stage.RESOLVE


def test_an_unanswered_request_times_out() -> None:
    with FakeBroker() as broker, cluster_of(broker.bootstrap) as cluster:
        cluster.refresh()
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda *_: NO_ANSWER
        with pytest.raises(ClientTimeoutError, match="DescribeCluster"):
            cluster.request(DescribeClusterRequest(), DescribeClusterResponse, timeout_ms=500)


def test_a_last_moment_too_short_for_a_handshake_does_not_hide_what_took_the_time() -> None:
    with (
        FakeBroker() as broker,
        cluster_of(
            broker.bootstrap, fail_fast=False, request_timeout_ms=300, default_api_timeout_ms=500
        ) as cluster,
    ):
        cluster.refresh(timeout_ms=60_000)
        broker.is_mute = True
        with pytest.raises(ClientTimeoutError, match="DescribeCluster"):
            cluster.request(DescribeClusterRequest(), DescribeClusterResponse)


def test_a_lost_connection_is_retried() -> None:
    answers: list[Message | None] = [None, DescribeClusterResponse(cluster_id="c")]
    with FakeBroker() as broker, cluster_of(broker.bootstrap) as cluster:
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda *_: answers.pop(0)
        assert cluster.request(DescribeClusterRequest(), DescribeClusterResponse).cluster_id == "c"
    assert broker.connections == 2


def test_retries_are_bounded() -> None:
    with FakeBroker() as broker, cluster_of(broker.bootstrap, retries=2) as cluster:
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda *_: None
        with pytest.raises(ClientTimeoutError):
            cluster.request(DescribeClusterRequest(), DescribeClusterResponse)
    assert broker.count(ApiKey.DESCRIBE_CLUSTER) == 3


def test_a_controller_that_moved_is_found_again() -> None:
    codes = [41, 0]

    def delete(*_: object) -> Message:
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name="t", error_code=codes.pop(0))])

    with FakeBroker() as broker, cluster_of(broker.bootstrap) as cluster:
        broker.handlers[ApiKey.DELETE_TOPICS] = delete
        response = cluster.request(
            DeleteTopicsRequest(topic_names=["t"]),
            DeleteTopicsResponse,
            to=To.CONTROLLER,
            max_version=5,
            try_again=lambda each: controller_moved(row.error_code for row in each.responses),
        )
    assert response.responses[0].error_code == 0
    assert broker.count(ApiKey.METADATA) == 2


def test_a_wrong_correlation_id_closes_the_connection() -> None:
    with FakeBroker() as broker, cluster_of(broker.bootstrap) as cluster:
        broker.first_bytes = b"\x00\x00\x00\x0a" + b"\x00\x00\x00\x63" + bytes(6)
        with pytest.raises(ConnectError, match="answered request 99"):
            cluster.refresh()


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:x", ":9092", "localhost:70000"])
def test_a_bootstrap_server_needs_host_and_port(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)


def test_addresses_of_all_forms() -> None:
    assert str(parse_address("PLAINTEXT://h:1")) == "h:1"
    assert str(parse_address("[::1]:9092")) == "[::1]:9092"


def test_requests_fail_when_the_client_is_closed() -> None:
    with FakeBroker() as broker:
        cluster = cluster_of(broker.bootstrap)
        broker.handlers[ApiKey.DESCRIBE_CLUSTER] = lambda *_: NO_ANSWER
        cluster.refresh()
        address = cluster.view.brokers[1].address
        pending = cluster.network.send(address, DescribeClusterRequest())
        cluster.close()
    assert pending.done
    assert isinstance(pending.error, DisconnectedError)


def test_a_broker_that_is_gone_costs_the_others_nothing() -> None:
    with FakeBroker({"t": 1}) as broker, cluster_of(broker.bootstrap) as cluster:
        cluster.refresh()
        (known,) = cluster.view.brokers
        answers = cluster.request_each(
            dict.fromkeys((known, 77), MetadataRequest(topics=[])), MetadataResponse
        )
    assert isinstance(answers[known], MetadataResponse)
    gone = answers[77]
    assert isinstance(gone, ClientError)
    assert gone.retriable


def test_a_topic_that_was_not_asked_for_does_not_wait_for_the_back_off() -> None:
    with (
        FakeBroker({"a": 1, "b": 1}) as broker,
        cluster_of(broker.bootstrap, retry_backoff_ms=600_000) as cluster,
    ):

        def ask(*topics: str) -> int:
            """How many requests were sent in all, after wanting these topics and polling what is under way."""
            cluster.want_refresh()
            cluster.keep_fresh(topics, allow_auto_create=False)
            while cluster.keep_fresh(topics, allow_auto_create=False) < 100_000:  # a request has 30 s
                cluster.network.poll(100)
            return len([request for request in broker.requests if request[0] == ApiKey.METADATA])

        assert [ask(), ask("a"), ask("a", "b"), ask("a", "b"), ask("b")] == [1, 2, 3, 3, 3]
        assert set(cluster.view.topics) == {"a", "b"}


def test_requests_fail_when_the_last_address_of_a_name_refuses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        # Nobody can connect to the second: the system says so at once.
        targets = (first.getsockname(), ("255.255.255.255", 9))
        rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", target) for target in targets]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_named: rows)
        with cluster_of("two.example:1") as cluster:
            pending = cluster.network.send(parse_address("two.example:1"), MetadataRequest())
            first.close()  # which resets whom it has not taken
            cluster.network.poll(1_000)
            assert isinstance(pending.error, ConnectError)


def test_no_socket_stays_open_when_a_callback_fails_while_the_client_is_closed() -> None:
    def fail(_pending: object) -> None:
        raise ZeroDivisionError

    with FakeBroker() as first, FakeBroker() as second:
        cluster = cluster_of(first.bootstrap)
        connections = []
        for broker in (first, second):
            broker.handlers[ApiKey.METADATA] = lambda *_: NO_ANSWER
            address = parse_address(broker.bootstrap)
            cluster.network.send(address, MetadataRequest(), on_done=fail)
            connections.append(cluster.network.connection(address))
        with pytest.raises(ZeroDivisionError):
            cluster.close()
        assert [each is not None and each.fileno() for each in connections] == [-1, -1]


@pytest.mark.parametrize(
    ("name", "partition", "why"),
    [("t", 2**31, "'i' format requires"), ("\ud800", 0, "surrogates not allowed")],
)
def test_a_value_that_no_version_can_carry_is_not_the_brokers_fault(
    name: str, partition: int, why: str
) -> None:
    message = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[partition])])
    with FakeBroker() as broker, cluster_of(broker.bootstrap) as cluster:
        with pytest.raises(ClientError, match=why) as caught:
            cluster.request(message, ElectLeadersResponse)
        assert broker.count(ApiKey.ELECT_LEADERS) == 0
    assert not isinstance(caught.value, UnsupportedApiError)
    assert "too old" not in str(caught.value)


def test_a_null_that_an_older_version_has_not_is_the_brokers_age() -> None:
    versions = {ApiKey.API_VERSIONS: (0, 2), ApiKey.METADATA: (0, 0)}
    with (
        FakeBroker({"t": 1}, versions) as broker,
        cluster_of(broker.bootstrap) as cluster,
        pytest.raises(UnsupportedApiError, match="too old"),
    ):
        cluster.request(MetadataRequest(topics=None), MetadataResponse)
