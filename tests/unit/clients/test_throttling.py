"""A broker that throttles a client is sent nothing for as long as it says (KIP-219), whichever client it is."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pkafka.clients.admin import Admin, quotas
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import Address
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError
from pkafka.clock import Clock, ManualClock
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pkafka.protocol.messages.fetch import FetchRequest, FetchResponse
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.skipped_time import LaterClock
from tests.talk import wait_for

THROTTLE_MS = 300


class Throttling:
    """Answers of one kind of request, the first of which throttles the client; and when the requests came."""

    def __init__(self, answer: Message) -> None:
        self.came_s: list[float] = []
        self.throttle_ms = THROTTLE_MS
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self._answer = answer

    def __call__(self, _message: Message, _version: int) -> Message:
        self.came_s.append(time.monotonic())
        is_first = len(self.came_s) == 1
        if not is_first:
            self.may_go_on.wait(60)
        self._answer.throttle_time_ms = self.throttle_ms if is_first else 0  # type: ignore[attr-defined]
        return self._answer

    @property
    def pause_ms(self) -> float:
        """What lay between the first two requests; clients reckon with whole milliseconds."""
        return (self.came_s[1] - self.came_s[0]) * 1_000 + 1


@contextmanager
def asking(
    *, version_max: int = 12, clock: Clock | None = None, **keys: object
) -> Iterator[tuple[Cluster, FakeBroker, Throttling]]:
    with FakeBroker(versions={ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (0, version_max)}) as broker:
        answers = broker.handlers[ApiKey.METADATA] = Throttling(MetadataResponse(cluster_id="c"))
        values = {"bootstrap.servers": broker.bootstrap}
        values.update({key.replace("_", "."): str(value) for key, value in keys.items()})
        with Cluster(ClientConfig.from_properties(values), clock=clock) as cluster:
            yield cluster, broker, answers


def poll_until(cluster: Cluster, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        cluster.network.poll(10)
        return condition()

    wait_for(holds)


def test_the_next_request_waits() -> None:
    with asking() as (cluster, _, answers):
        for _ in range(2):
            assert cluster.request(MetadataRequest(), MetadataResponse).cluster_id == "c"
        address = cluster.any_address()
        assert cluster.network.throttle_ms(address) == 0
    assert answers.pause_ms >= THROTTLE_MS


def test_a_broker_that_has_waited_itself_is_not_waited_for() -> None:
    with asking(version_max=5) as (cluster, _, answers):
        answers.throttle_ms = 20_000
        for _ in range(2):
            cluster.request(MetadataRequest(), MetadataResponse)
    assert answers.pause_ms < answers.throttle_ms


def test_the_time_does_not_end_with_the_connection() -> None:
    with asking() as (cluster, broker, answers):
        cluster.request(MetadataRequest(), MetadataResponse)
        cluster.network.disconnect(Address("127.0.0.1", broker.port))
        cluster.request(MetadataRequest(), MetadataResponse)
    assert answers.pause_ms >= THROTTLE_MS
    assert broker.connections == 2


def test_for_how_long_nothing_is_sent_is_known() -> None:
    with asking() as (cluster, broker, answers):
        answers.throttle_ms = 60_000
        cluster.request(MetadataRequest(), MetadataResponse)
        address = Address("127.0.0.1", broker.port)
        for _ in range(2):
            assert 0 < cluster.network.throttle_ms(address) <= 60_000
            assert not cluster.network.can_send(address, in_flight_max=5)
            cluster.network.disconnect(address)


def test_a_request_has_its_whole_time_once_it_is_sent() -> None:
    clock = ManualClock()
    with asking(clock=clock, request_timeout_ms=30_000) as (cluster, broker, answers):
        answers.throttle_ms = 20_000
        cluster.request(MetadataRequest(), MetadataResponse)
        answers.may_go_on.clear()
        pending = cluster.network.send(cluster.any_address(), MetadataRequest())
        clock.advance(ms=20_000)
        poll_until(cluster, lambda: len(answers.came_s) == 2)
        clock.advance(ms=25_000)
        cluster.network.poll(10)
        assert not pending.done
        answers.may_go_on.set()
        poll_until(cluster, lambda: pending.done)
        assert pending.error is None
    assert len(answers.came_s) == 2
    assert broker.connections == 1


def test_a_request_that_would_wait_too_long_fails_and_costs_no_connection() -> None:
    with asking(retries=0) as (cluster, broker, answers):
        answers.throttle_ms = 60_000
        cluster.request(MetadataRequest(), MetadataResponse)
        with pytest.raises(ClientTimeoutError, match="throttles this client"):
            cluster.request(MetadataRequest(), MetadataResponse, timeout_ms=500)
        assert len(answers.came_s) == 1
        assert broker.connections == 1


def test_a_consumer_waits_with_its_fetches_and_counts_how_long() -> None:
    with FakeBroker({"t": 1}) as broker:
        answers = Throttling(FetchResponse(responses=[]))

        def fetch(message: Message, version: int) -> Message:
            assert isinstance(message, FetchRequest)
            return FetchResponse(responses=[]) if message.session_epoch == -1 else answers(message, version)

        broker.handlers[ApiKey.FETCH] = fetch
        config = {"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": 1, "auto.offset.reset": "none"}
        with Consumer(config) as consumer:
            partition = TopicPartition("t", 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            wait_for(lambda: not consumer.poll(10) and len(answers.came_s) >= 5)
            registry = consumer._metrics.registry
            assert registry.value("fetch-throttle-time-max", "consumer-fetch-manager-metrics") == THROTTLE_MS
            # Every answer counts, as in Kafka; most of them are not throttled.
            assert 0 < registry.value("fetch-throttle-time-avg") < THROTTLE_MS / 2
    assert answers.pause_ms >= THROTTLE_MS


# -- changes that are too many ------------------------------------------------------------------------------------


class Changing:
    """A controller that lets one topic be created a request, and refuses the others for a time."""

    def __init__(self, throttle_ms: int = 50) -> None:
        self.asked: list[list[str]] = []
        self._throttle_ms = throttle_ms

    def __call__(self, message: Message, _version: int) -> Message:
        assert isinstance(message, CreateTopicsRequest)
        self.asked.append([topic.name for topic in message.topics])
        rows = [
            CreatableTopicResult(
                name=topic.name, error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED if index else ErrorCode.NONE
            )
            for index, topic in enumerate(message.topics)
        ]
        is_over = len(rows) > 1
        return CreateTopicsResponse(topics=rows, throttle_time_ms=self._throttle_ms if is_over else 0)


@contextmanager
def changing(controller: Changing, **keys: object) -> Iterator[Admin]:
    with FakeBroker() as broker:
        broker.handlers[ApiKey.CREATE_TOPICS] = controller
        values = {"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 5}
        values.update({key.replace("_", "."): str(value) for key, value in keys.items()})
        with Admin(values) as admin:
            yield admin


NEW = [NewTopic("a", 1, 1), NewTopic("b", 1, 1), NewTopic("c", 1, 1)]


def test_what_a_quota_refuses_is_asked_for_again() -> None:
    controller = Changing()
    with changing(controller) as admin:
        begun_s = time.monotonic()
        outcomes = admin.create_topics(NEW)
        assert time.monotonic() - begun_s >= 0.09, "twice the time that the controller wants"
    assert controller.asked == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert not any(isinstance(outcome, ApiError) for outcome in outcomes.values())


def test_a_quota_may_be_reported_instead() -> None:
    controller = Changing()
    with changing(controller) as admin:
        outcomes = admin.create_topics(NEW, retry_on_quota_violation=False)
    assert controller.asked == [["a", "b", "c"]]
    assert {name for name, outcome in outcomes.items() if isinstance(outcome, ApiError)} == {"b", "c"}


@pytest.mark.parametrize("request_timeout_ms", [300, 30_000])
def test_what_a_quota_refuses_for_too_long_stays_refused(
    request_timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Changing(throttle_ms=600_000)
    is_over_quota = quotas._is_over_quota
    with changing(controller, request_timeout_ms=request_timeout_ms, default_api_timeout_ms=60_000) as admin:
        clock = admin.cluster.clock = LaterClock()

        def almost_over(outcome: object) -> bool:
            """All but a second of the time is over when the first answer has come."""
            clock.skipped_ms = 59_000
            return is_over_quota(outcome)

        monkeypatch.setattr(quotas, "_is_over_quota", almost_over)
        outcomes = admin.create_topics(NEW)
    # More than once only when an answer did not come in time.
    assert {tuple(names) for names in controller.asked} == {("a", "b", "c")}
    refused = outcomes["c"]
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
