"""A follower's fetchers: what they ask of a leader, how patiently, and what a change of the controller's mind does.

What a leader answers late touches nothing.
"""

import asyncio
import errno
import gc
import itertools
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from pkafka.errors import ErrorCode
from pkafka.net.channel import Channel, open_channel
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from pkafka.protocol.schema import Message
from pkafka.records.batch import stamp
from pkafka.records.builder import build_batch
from pkafka.server.cluster import broker_link
from pkafka.server.processes.worker import Worker
from pkafka.server.replication.fetcher import _Ends, _Fetcher, _Followed
from tests.fakes.broker import NO_ANSWER, Answer, FakeBroker
from tests.sockets import full_port
from tests.unit.server.workers import Family, until, with_family

TOPIC_ID = b"t" * 16
LEADER = 5


async def follow(
    worker: Worker, index: int, *, leader: int = LEADER, epoch: int, is_added: bool = True
) -> None:
    state = LeaderAndIsrPartitionState(
        partition_index=index,
        leader=leader,
        leader_epoch=epoch,
        isr=[0, leader],
        replicas=[0, leader],
        adding_replicas=[0] if is_added else [],
        partition_epoch=epoch,
        is_new=True,
    )
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[state])
    await worker.decisions.leader_and_isr(
        LeaderAndIsrRequest(controller_id=0, controller_epoch=1, topic_states=[topic])
    )


def following(worker: Worker, index: int) -> tuple[_Fetcher, _Followed]:
    for (leader, _), fetcher in worker.fetchers._fetchers.items():
        if leader == LEADER and (TOPIC_ID, index) in fetcher._followed:
            return fetcher, fetcher._followed[TOPIC_ID, index]
    raise AssertionError(f"nobody follows {index}")


def with_worker(
    root: Path,
    body: Callable[[Worker], Awaitable[None]],
    *,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run a test's body with a worker; its leader listens at ``port``, where there is one."""

    async def run(family: Family) -> None:
        [worker] = family.workers
        if port is not None:
            endpoint = UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener="PLAINTEXT")
            leader = UpdateMetadataBroker(id=LEADER, endpoints=[endpoint])
            worker.metadata.apply(UpdateMetadataRequest(controller_epoch=1, live_brokers=[leader]))
        try:
            await asyncio.wait_for(body(worker), 60)
        finally:
            worker.fetchers.close()
            await asyncio.sleep(0)

    with_family(root, run, workers=1, settings=settings)


def test_a_partition_whose_leader_knows_better_is_followed_again_when_the_controller_says_so(
    tmp_path: Path,
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await follow(worker, 1, epoch=1)
        fetcher, fenced = following(worker, 0)
        fetcher._rest(fenced, ErrorCode.FENCED_LEADER_EPOCH)
        # Nothing is left of that leader's, and its fetcher ends.
        await follow(worker, 1, leader=6, epoch=2)
        assert [leader for leader, _ in worker.fetchers._fetchers] == [6]
        await follow(worker, 0, epoch=2)
        assert following(worker, 0)[1].leader_epoch == 2

    with_worker(tmp_path, body)


def test_where_a_log_begins_and_ends_counts_for_the_epoch_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        fetcher, asked = following(worker, 0)
        log = asked.partition.log
        log.truncate_fully_and_start_at(100)

        async def ends_late(_followed: _Followed) -> _Ends:
            await follow(worker, 0, epoch=2)
            return _Ends(0, 10)

        monkeypatch.setattr(fetcher, "_ends", ends_late)
        await fetcher._find_place(asked)
        assert log.log_end_offset == 100
        await fetcher._find_place(following(worker, 0)[1])
        assert log.log_end_offset == 10

    with_worker(tmp_path, body)


def test_records_that_a_replica_misses_are_told_once_its_leader_has_answered(tmp_path: Path) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await follow(worker, 1, epoch=1)
        assert worker.fetchers.lags() == []
        following(worker, 1)[1].lag = 7
        assert worker.fetchers.lags() == [(0, LEADER, "t", 1, 7)]
        assert worker.partitions.hosted["t", 1].is_reassigning

    with_worker(tmp_path, body)


def test_what_is_told_of_fetchers(tmp_path: Path) -> None:
    async def body(worker: Worker) -> None:
        assert worker.fetchers.gauges() == {"failed": 0, "dead": 0, "requests": {}}
        await follow(worker, 0, epoch=1)
        await follow(worker, 1, epoch=1)
        fetcher, fenced = following(worker, 0)
        fetcher.requests = 3
        fetcher._rest(fenced, ErrorCode.FENCED_LEADER_EPOCH)
        assert worker.fetchers.gauges() == {"failed": 1, "dead": 0, "requests": {f"0-{LEADER}": 3}}
        await follow(worker, 0, epoch=2)
        assert worker.fetchers.gauges()["failed"] == 0

    with_worker(tmp_path, body)


# -- settings --

BACKOFF_MS = 60
CLOCK_S = 0.002
"""What a pause may seem shorter on a clock of whole milliseconds."""


@pytest.fixture
def leader() -> Iterator[FakeBroker]:
    """Has nothing new, and says so after a moment."""

    def nothing_new(_request: Message, _version: int) -> Answer:
        time.sleep(0.02)
        return FetchResponse()

    with FakeBroker() as broker:
        broker.handlers[ApiKey.FETCH] = nothing_new
        yield broker


def fetches(leader: FakeBroker) -> list[FetchRequest]:
    return [request for _, _, request in leader.requests if isinstance(request, FetchRequest)]


def partitions_of(request: FetchRequest) -> set[int]:
    return {one.partition for topic in request.topics for one in topic.partitions}


def test_what_a_follower_asks_of_its_leader(tmp_path: Path, leader: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: bool(fetches(leader)))

    settings = {
        "replica.fetch.wait.max.ms": "123",
        "replica.fetch.min.bytes": "45",
        "replica.fetch.max.bytes": "6789",
        "replica.fetch.response.max.bytes": "98765",
    }
    with_worker(tmp_path, body, port=leader.port, settings=settings)
    request = fetches(leader)[0]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (123, 45, 98765)
    assert [one.partition_max_bytes for one in request.topics[0].partitions] == [6789]


@pytest.mark.parametrize("refused", ["connection", "partition"])
def test_a_follower_rests_after_errors_no_longer_than_it_may(
    tmp_path: Path, leader: FakeBroker, refused: str
) -> None:
    backoff_s = BACKOFF_MS / 1000
    times: list[float] = []

    def refuse(_request: Message, _version: int) -> Answer:
        times.append(time.monotonic())
        if refused == "connection":
            return None
        data = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: len(times) > 12)

    leader.handlers[ApiKey.FETCH] = refuse
    with_worker(tmp_path, body, port=leader.port, settings={"replica.fetch.backoff.ms": str(BACKOFF_MS)})
    rests_s = [later - earlier for earlier, later in itertools.pairwise(times)]
    # Twice as long after each error, from 20 ms on: without a limit the least of the last four were 5 s.
    assert backoff_s - CLOCK_S <= min(rests_s[8:12]) < 5


def test_a_leader_that_does_not_answer_in_time_is_asked_by_another_connection(
    tmp_path: Path, leader: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: leader.connections > 1)

    leader.handlers[ApiKey.FETCH] = lambda _request, _version: NO_ANSWER
    with_worker(tmp_path, body, port=leader.port, settings={"request.timeout.ms": "170"})
    assert "did not answer within 0.17 s" in caplog.text


def test_how_long_a_leader_may_take_to_accept_a_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: "did not take the connection" in caplog.text)

    settings = {"replica.socket.timeout.ms": "180", "replica.fetch.wait.max.ms": "100"}
    with full_port() as port:
        with_worker(tmp_path, body, port=port, settings=settings)
    assert "did not take the connection within 0.18 s" in caplog.text


def test_the_receive_buffer_of_a_follower(tmp_path: Path, leader: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: bool(fetches(leader)))
        channel = following(worker, 0)[0]._link._channel
        assert channel is not None
        sock = channel._transport.get_extra_info("socket")
        # The kernel takes twice as much, for its own bookkeeping (socket(7)).
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (40_000, 80_000)

    settings = {"replica.socket.receive.buffer.bytes": "40000"}
    with_worker(tmp_path, body, port=leader.port, settings=settings)


def test_the_kernel_adapts_the_receive_buffer_unless_it_is_set(
    tmp_path: Path, leader: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its size would say nothing: what the key has by default is also what the kernel begins with.
    asked: list[object] = []

    async def open_noted(*arguments: Any, **options: Any) -> Channel:
        asked.append(options["receive_buffer_bytes"])
        return await open_channel(*arguments, **options)

    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: bool(fetches(leader)))

    monkeypatch.setattr(broker_link, "open_channel", open_noted)
    with_worker(tmp_path, body, port=leader.port)
    assert set(asked) == {None}


def test_a_closed_fetcher_leaves_no_garbage_in_cycles(
    tmp_path: Path, leader: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    # What pytest notes of a warning keeps the error in it.
    caplog.set_level(logging.CRITICAL, logger="pkafka.server.replication.fetcher")

    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: len(fetches(leader)) > 2)
        gc.collect()
        gc.disable()
        try:
            leader.handlers[ApiKey.FETCH] = lambda _request, _version: None  # it closes the connection
            await until(lambda: following(worker, 0)[0]._told != "")
            worker.fetchers.close()
            await until(lambda: not any(isinstance(one, _Fetcher) for one in gc.get_objects()))
        finally:
            gc.enable()

    with_worker(tmp_path, body, port=leader.port)


def test_several_fetchers_share_the_partitions_of_a_leader(tmp_path: Path, leader: FakeBroker) -> None:
    partitions = set(range(6))

    async def body(worker: Worker) -> None:
        for index in partitions:
            await follow(worker, index, epoch=1)
        await until(lambda: shares(leader) == [{0, 2, 4}, {1, 3, 5}])
        assert leader.connections == 2
        following(worker, 1)[1].lag = 7
        following(worker, 2)[1].lag = 8
        assert {fetcher for fetcher, *_ in worker.fetchers.lags()} == {0, 1}

        resize(worker, 1)
        seen = len(leader.requests)
        await until(lambda: partitions_of_last(leader, seen) == partitions)
        assert leader.connections == 3
        # It goes on where the other two were.
        assert sorted(worker.fetchers.lags()) == [(0, LEADER, "t", 1, 7), (0, LEADER, "t", 2, 8)]

        resize(worker, 2)
        await follow(worker, 0, epoch=2)
        seen = len(leader.requests)
        await until(lambda: shares(leader, seen) == [{0, 2, 4}, {1, 3, 5}])
        assert leader.connections == 5

    with_worker(tmp_path, body, port=leader.port, settings={"num.replica.fetchers": "2"})


def resize(worker: Worker, size: int) -> None:
    """What the control process says when num.replica.fetchers is changed."""
    worker._live_settings._broker_config(
        worker._life.line, {"num.replica.fetchers": str(size)}, memoryview(b""), []
    )


def shares(leader: FakeBroker, since: int = 0) -> list[set[int]]:
    """The sets of partitions, without those of fewer that were asked for before all were followed."""
    seen: list[set[int]] = []
    for _, _, request in leader.requests[since:]:
        assert isinstance(request, FetchRequest)
        asked = partitions_of(request)
        seen = [one for one in seen if not one < asked]
        if asked not in seen:
            seen.append(asked)
    return sorted(seen, key=min)


def partitions_of_last(leader: FakeBroker, since: int) -> set[int]:
    asked = fetches(leader)[since:]
    return partitions_of(asked[-1]) if asked else set()


# -- one answer after the other --


def _batches(request: Message) -> FetchResponse:
    """One more batch, at whatever offset a follower asks for, in a session."""
    assert isinstance(request, FetchRequest)
    responses = []
    for topic in request.topics:
        for one in topic.partitions:
            batch = build_batch([(1, None, b"v", [])])
            stamp(batch, 0, len(batch), base_offset=one.fetch_offset, leader_epoch=1)
            data = PartitionData(partition_index=one.partition, records=bytes(batch), high_watermark=0)
            responses.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=[data]))
    return FetchResponse(session_id=7, responses=responses)


def test_a_follower_fetches_on_without_its_task(
    tmp_path: Path, leader: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    fetch = _Fetcher._fetch

    async def counted(fetcher: _Fetcher) -> None:
        begun.append(fetcher)
        await fetch(fetcher)

    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        log = worker.partitions.hosted["t", 0].log
        await until(lambda: log.log_end_offset > 9)
        assert len(begun) == 1
        # Another partition is fetched with the next request, not when this one has nothing more.
        await follow(worker, 1, epoch=1)
        other = worker.partitions.hosted["t", 1].log
        await until(lambda: other.log_end_offset > 9)
        assert len(begun) == 1

    monkeypatch.setattr(_Fetcher, "_fetch", counted)
    leader.handlers[ApiKey.FETCH] = lambda request, _version: _batches(request)
    with_worker(tmp_path, body, port=leader.port)
    sessions = [(one.session_id, one.session_epoch) for one in fetches(leader)[:4]]
    assert sessions == [(0, 0), (7, 1), (7, 2), (7, 3)]


def test_a_broker_that_stops_does_not_follow_what_it_gives_away(tmp_path: Path, leader: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        await until(lambda: bool(fetches(leader)))
        worker._operations["leaving"](cast("Any", None), None, memoryview(b""), [])
        await follow(worker, 1, epoch=1)
        asked = len(fetches(leader))
        await until(lambda: len(fetches(leader)) > asked + 3)
        assert set(following(worker, 0)[0]._followed) == {(TOPIC_ID, 0)}  # what it follows, it goes on with
        await follow(worker, 0, leader=6, epoch=2)
        assert not worker.fetchers._fetchers
        assert worker.fetchers.gauges()["failed"] == 0

    with_worker(tmp_path, body, port=leader.port)
    assert {partition for request in fetches(leader) for partition in partitions_of(request)} == {0}


def test_a_leader_that_closes_the_connection_is_reached_again(tmp_path: Path, leader: FakeBroker) -> None:
    def now_and_then(request: Message, _version: int) -> Answer:
        return None if len(fetches(leader)) % 4 == 0 else _batches(request)

    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        log = worker.partitions.hosted["t", 0].log
        await until(lambda: log.log_end_offset > 9)

    leader.handlers[ApiKey.FETCH] = now_and_then
    with_worker(tmp_path, body, port=leader.port)
    assert leader.connections > 2


@pytest.mark.parametrize("is_added", [False, True])
def test_what_comes_from_a_leader_is_counted(tmp_path: Path, leader: FakeBroker, is_added: bool) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1, is_added=is_added)
        log = worker.partitions.hosted["t", 0].log
        await until(lambda: log.log_end_offset > 3)
        metrics = worker.metrics
        assert metrics.replication_bytes_in == log.size_bytes
        assert metrics.reassignment_bytes_in == (log.size_bytes if is_added else 0)
        assert not metrics.bytes_in

    leader.handlers[ApiKey.FETCH] = lambda request, _version: _batches(request)
    with_worker(tmp_path, body, port=leader.port)


def test_a_disk_that_refuses_what_came_ends_the_fetcher(
    tmp_path: Path, leader: FakeBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(worker: Worker) -> None:
        await follow(worker, 0, epoch=1)
        log = worker.partitions.hosted["t", 0].log
        await until(lambda: log.log_end_offset > 3)

        def refuse(_data: object) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        monkeypatch.setattr(log, "append_as_follower", refuse)
        await until(lambda: ("t", 0) in worker.partitions.offline)
        assert not worker.fetchers._fetchers
        asked = len(fetches(leader))
        await asyncio.sleep(0.1)
        assert len(fetches(leader)) <= asked + 1  # one may have been on its way

    leader.handlers[ApiKey.FETCH] = lambda request, _version: _batches(request)
    with_worker(tmp_path, body, port=leader.port)
    assert not [record for record in caplog.records if record.name == "asyncio"]
