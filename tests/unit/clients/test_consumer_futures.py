"""Futures of requests, and the three ways to poll for one."""

import threading
import time
from collections.abc import Iterator

import pytest

from pkafka.clients.cluster import Cluster
from pkafka.clients.config import ConsumerConfig
from pkafka.clients.connection import Address
from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.consumer.network import ConsumerNetwork, Gate
from pkafka.clients.errors import ConnectError, Stage, WakeupError
from pkafka.errors import ApiError, ErrorCode
from pkafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.fakes.broker import FakeBroker

LOST = ConnectError(Stage.CONNECT, "h:1", "nobody")


def test_a_future_ends_once_and_tells_everybody_in_order() -> None:
    future: RequestFuture[int] = RequestFuture()
    seen: list[object] = []
    future.add_listener(seen.append, seen.append)
    future.add_listener(lambda value: seen.append(value + 1))
    with pytest.raises(AssertionError, match="not here yet"):
        _ = future.value
    future.complete(1)
    future.add_listener(seen.append)
    assert seen == [1, 2, 1]
    assert (future.done, future.succeeded, future.failed, future.value) == (True, True, False, 1)
    with pytest.raises(AssertionError, match="twice"):
        future.fail(LOST)


def test_a_failed_future_raises_and_knows_whether_to_try_again() -> None:
    future = RequestFuture[int].failed_with(LOST)
    seen: list[Exception] = []
    future.add_listener(lambda _: None, seen.append)
    assert seen == [LOST]
    assert future.retriable
    with pytest.raises(ConnectError):
        _ = future.value
    assert not RequestFuture.failed_with(ApiError(ErrorCode.INVALID_GROUP_ID)).retriable


def test_a_future_becomes_one_of_what_the_answer_means() -> None:
    def double(value: int, outcome: RequestFuture[str]) -> None:
        if value < 0:
            outcome.fail(LOST)
        else:
            outcome.complete(str(value * 2))

    future: RequestFuture[int] = RequestFuture()
    composed = future.compose(double)
    seen: list[str] = []
    composed.add_listener(seen.append)
    future.complete(4)
    assert (composed.value, seen) == ("8", ["8"])
    assert RequestFuture.of(-1).compose(double).error is LOST
    other = ApiError(ErrorCode.INVALID_GROUP_ID)
    assert RequestFuture[int].failed_with(other).compose(double).error is other


def test_chained_futures_end_alike() -> None:
    first, second = RequestFuture[int](), RequestFuture[int]()
    first.chain(second)
    first.complete(5)
    assert second.value == 5
    third = RequestFuture[int]()
    RequestFuture[int].failed_with(LOST).chain(third)
    assert third.error is LOST


@pytest.fixture
def net() -> Iterator[ConsumerNetwork]:
    with FakeBroker({"t": 1}) as broker:
        config = ConsumerConfig.from_properties({"bootstrap.servers": broker.bootstrap})
        with Cluster(config) as cluster:
            yield ConsumerNetwork(cluster)


def ask(net: ConsumerNetwork) -> RequestFuture[MetadataResponse]:
    return net.send(net.cluster.any_address(), MetadataRequest(topics=[]), MetadataResponse)


def test_three_ways_to_poll_and_three_to_get_the_answer(net: ConsumerNetwork) -> None:
    def read(answer: MetadataResponse, outcome: RequestFuture[str]) -> None:
        outcome.complete(answer.cluster_id or "")

    until_done = ask(net).compose(read)
    assert not until_done.done
    assert net.poll_until(until_done, net.now_ms + 60_000)
    assert until_done.value == "fake"

    seen: list[object] = []
    listened = ask(net)
    listened.add_listener(seen.append)
    while not seen:
        net.poll(60_000)
    assert seen == [listened.value]

    both = ask(net).compose(read)
    both.add_listener(seen.append)
    while not both.done:
        net.poll_now()
    assert seen[1] == "fake"

    start = time.monotonic()
    net.poll(50)
    assert time.monotonic() - start >= 0.04
    assert not net.poll_until(RequestFuture(), net.now_ms)


def test_nobody_there_is_an_outcome(net: ConsumerNetwork) -> None:
    future = net.send(Address("127.0.0.1", 1), MetadataRequest(topics=[]), MetadataResponse)
    net.poll_until(future, net.now_ms + 60_000)
    assert isinstance(future.error, ConnectError)


def test_a_wake_up_is_raised_once_and_can_be_kept_for_later(net: ConsumerNetwork) -> None:
    future = ask(net)
    net.wakeup()
    with net.without_wakeup():
        net.poll_until(future, net.now_ms + 60_000)
    assert future.done
    with pytest.raises(WakeupError):
        net.poll(0)
    net.poll(0)


def test_the_background_gives_way_and_waits_its_turn() -> None:
    interrupted = threading.Event()
    gate = Gate(interrupted.set)
    assert gate.enter_in_background()
    inside = threading.Event()

    def application() -> None:
        gate.enter()
        gate.enter()
        inside.set()

    thread = threading.Thread(target=application)
    thread.start()
    assert interrupted.wait(60)
    assert gate.is_wanted
    assert not inside.is_set()
    gate.leave_in_background()
    assert inside.wait(60)
    thread.join()
    assert not gate.enter_in_background()
    gate.leave()
    assert not gate.enter_in_background()
    with gate.outside():
        assert gate.enter_in_background()
        gate.leave_in_background()
    assert not gate.enter_in_background()
    gate.leave()
    assert gate.enter_in_background()
