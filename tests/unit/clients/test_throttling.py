"""A broker that throttles a client is sent nothing for as long as it says (KIP-219), whichever client it is."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ClientConfig
from pkafka.clients.connection import Address
from pkafka.clients.consumer import Consumer
from pkafka.clients.errors import ClientTimeoutError
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.fetch import FetchRequest, FetchResponse
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.talk import wait_for

THROTTLE_MS = 300


class Throttling:
    """Answers of one kind of request, the first of which throttle the client; and when the requests came."""

    def __init__(self, answer: Message, *, times: int = 1) -> None:
        self.came_s: list[float] = []
        self.late_s = 0.0
        self._answer = answer
        self._times = times

    def __call__(self, _message: Message, _version: int) -> Message:
        self.came_s.append(time.monotonic())
        throttles = len(self.came_s) <= self._times
        if not throttles:
            threading.Event().wait(self.late_s)
        self._answer.throttle_time_ms = THROTTLE_MS if throttles else 0  # type: ignore[attr-defined]
        return self._answer

    @property
    def pause_s(self) -> float:
        """What lay between the first two requests."""
        return self.came_s[1] - self.came_s[0]


@contextmanager
def asking(*, version_max: int = 12, **keys: object) -> Iterator[tuple[Cluster, FakeBroker, Throttling]]:
    with FakeBroker(versions={ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: (0, version_max)}) as broker:
        answers = broker.handlers[ApiKey.METADATA] = Throttling(MetadataResponse(cluster_id="c"))
        values = {"bootstrap.servers": broker.bootstrap}
        values.update({key.replace("_", "."): str(value) for key, value in keys.items()})
        with Cluster(ClientConfig.from_properties(values)) as cluster:
            yield cluster, broker, answers


def test_the_next_request_waits() -> None:
    with asking() as (cluster, _, answers):
        for _ in range(2):
            assert cluster.request(MetadataRequest(), MetadataResponse).cluster_id == "c"
        address = cluster.any_address()
        assert cluster.network.throttle_ms(address) == 0
    assert answers.pause_s >= THROTTLE_MS / 1000


def test_a_broker_that_has_waited_itself_is_not_waited_for() -> None:
    with asking(version_max=5) as (cluster, _, answers):
        for _ in range(2):
            cluster.request(MetadataRequest(), MetadataResponse)
    assert answers.pause_s < THROTTLE_MS / 1000


def test_the_time_does_not_end_with_the_connection() -> None:
    with asking() as (cluster, broker, answers):
        cluster.request(MetadataRequest(), MetadataResponse)
        address = Address("127.0.0.1", broker.port)
        assert 0 < cluster.network.throttle_ms(address) <= THROTTLE_MS
        assert not cluster.network.can_send(address, in_flight_max=5)
        cluster.network.disconnect(address)
        cluster.request(MetadataRequest(), MetadataResponse)
    assert answers.pause_s >= THROTTLE_MS / 1000
    assert broker.connections == 2


def test_a_request_has_its_whole_time_once_it_is_sent() -> None:
    with asking(request_timeout_ms=400) as (cluster, broker, answers):
        answers.late_s = 0.2
        for _ in range(2):
            cluster.request(MetadataRequest(), MetadataResponse)
    assert len(answers.came_s) == 2
    assert broker.connections == 1


def test_a_request_that_would_wait_too_long_fails_and_costs_no_connection() -> None:
    with asking(request_timeout_ms=100, retries=0) as (cluster, broker, answers):
        cluster.request(MetadataRequest(), MetadataResponse)
        with pytest.raises(ClientTimeoutError, match="throttles this client"):
            cluster.request(MetadataRequest(), MetadataResponse)
        assert len(answers.came_s) == 1
        assert broker.connections == 1


def test_a_consumer_waits_with_its_fetches_and_counts_how_long() -> None:
    with FakeBroker({"t": 1}) as broker:
        answers = Throttling(FetchResponse(responses=[]), times=1)

        def fetch(message: Message, version: int) -> Message:
            assert isinstance(message, FetchRequest)
            return FetchResponse(responses=[]) if message.session_epoch == -1 else answers(message, version)

        broker.handlers[ApiKey.FETCH] = fetch
        config = {"bootstrap.servers": broker.bootstrap, "fetch.max.wait.ms": 1, "auto.offset.reset": "none"}
        with Consumer(config) as consumer:
            partition = TopicPartition("t", 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            wait_for(lambda: not consumer.poll(10) and len(answers.came_s) >= 2)
            registry = consumer._metrics.registry
            assert registry.value("fetch-throttle-time-max", "consumer-fetch-manager-metrics") == THROTTLE_MS
            # Every answer counts, as in Kafka; most of them are not throttled.
            assert 0 < registry.value("fetch-throttle-time-avg") < THROTTLE_MS / 2
    assert answers.pause_s >= THROTTLE_MS / 1000
