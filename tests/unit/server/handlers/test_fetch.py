"""Fetch over workers on one event loop: whose bytes fit, what a dead worker leaves, what old clients get."""

import asyncio
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.net.answers import FileRange
from pkafka.net.connection import ServerConnection
from pkafka.protocol.headers import RequestHeader, decode_response, encode_request
from pkafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from pkafka.records.builder import build_batch
from pkafka.records.reading import read_records
from pkafka.server.handlers import fetch
from pkafka.server.handlers.fetch_versions import beside_error
from pkafka.server.limits.replication_quota import ReplicationQuota
from pkafka.server.processes.worker import Worker
from pkafka.server.replicas import reading
from pkafka.server.replicas.reading import Found, Limits, within
from pkafka.server.serving.connection_state import ConnectionState
from tests.open_files import count_open_files
from tests.unit.server.workers import (
    Family,
    append_as_producer,
    follow,
    know_brokers,
    lead_replicas,
    until,
    with_family,
)

VERSION = 12


def limits(bytes_max: int, *, at_least_one: bool = True) -> Limits:
    return Limits(bytes_max, at_least_one, 0, -1, VERSION)


@pytest.fixture
def batches(tmp_path: Path) -> Any:
    """A file of batches of 100 bytes each."""
    path = tmp_path / "batches"
    path.write_bytes(b"".join(struct.pack(">qi", n, 88) + bytes(88) for n in range(100)))
    with path.open("rb") as file:
        yield file.fileno()


def sizes(found: Sequence[Found]) -> list[int]:
    return [one.length for one in found]


@pytest.mark.parametrize(
    ("lengths", "partition_limits", "bytes_max", "kept"),
    [
        ([300, 300], [1_000, 1_000], 1_000, [300, 300]),
        ([300, 300], [1_000, 1_000], 500, [300, 200]),  # cut; the last batch may be cut within
        ([300, 300], [1_000, 1_000], 350, [300, 0]),  # what is left holds no batch
        ([300, 300, 300], [1_000] * 3, 450, [300, 150, 0]),
        ([300, 300], [10, 10], 10, [300, 0]),  # the first may exceed every limit, nobody else
        ([0, 300, 300], [10, 10, 250], 1_000, [0, 300, 250]),
        ([0, 0], [1_000, 1_000], 0, [0, 0]),
    ],
)
def test_what_workers_found_is_cut_in_the_order_asked(
    batches: int, lengths: list[int], partition_limits: list[int], bytes_max: int, kept: list[int]
) -> None:
    found = [Found(0, records=FileRange(batches, 0, length)) for length in lengths]
    assert sizes(within(found, partition_limits, limits(bytes_max))) == kept


def test_before_version_3_nobody_may_exceed_the_limits(batches: int) -> None:
    found = [Found(0, records=FileRange(batches, 0, 300))]
    assert sizes(within(found, [1_000], limits(50, at_least_one=False))) == [0]


# -- over workers --


class Connection(ServerConnection):
    """As much of a connection as the handler sees; it has no socket, and never moves."""

    state: Any
    hurry: Any

    def __init__(self) -> None:
        self.peer_host, self.listener = "10.0.0.1", "PLAINTEXT"
        self.closed = False
        self.state = ConnectionState(moves=30)
        self.answers: list[bytes] = []
        self.hurry = None

    def finish(self, answer: Any) -> None:
        self.answers.append(assembled(answer))


def assembled(answer: Any) -> bytes:
    """The answer with the bytes of its files."""
    return b"".join(
        os.pread(part.fd, part.length, part.position) if isinstance(part, FileRange) else part
        for part in answer
    )


def ask(worker: Worker, connection: Connection, partitions: Sequence[int], **options: int) -> Any:
    version = options.get("version", VERSION)
    request = FetchRequest(
        replica_id=options.get("replica_id", -1) if version < 15 else -1,
        replica_state=ReplicaState(replica_id=options.get("replica_id", -1) if version >= 15 else -1),
        max_wait_ms=options.get("max_wait_ms", 0),
        min_bytes=1,
        max_bytes=1_000_000,
        topics=[
            FetchTopic(
                topic="t" if version < 13 else "",
                topic_id=b"i" * 16 if version >= 13 else bytes(16),
                partitions=[
                    FetchPartition(
                        partition=index,
                        current_leader_epoch=options.get("epoch", -1),
                        fetch_offset=0,
                        partition_max_bytes=options.get("bytes_max", 1_000_000),
                    )
                    for index in partitions
                ],
            )
        ],
    )
    body = encode_request(1, version, 5, "me", request)[4:]
    header = RequestHeader(1, version, 5, "me")
    return fetch.handle(worker, connection, header, memoryview(body), 8 + 2 + 2 + (version >= 12))


def append(family: Family, index: int, value: bytes) -> None:
    owner = family.workers[family.workers[0].partitions.owner("t", index)]
    row = append_as_producer(owner, "t", index, build_batch([(1, None, value, ())]), 1)
    assert row[2] == 0


def test_one_answer_has_the_bytes_of_both_workers(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(4))
        for index in range(4):
            append(family, index, b"value %d" % index)
        for worker in family.workers:
            connection = Connection()
            assert ask(worker, connection, range(4)) is None
            await until(lambda c=connection: bool(c.answers))  # type: ignore[misc]
            places = [connection.answers[0].index(b"value %d" % index) for index in range(4)]
            assert places == sorted(places)

    with_family(tmp_path, body)


@pytest.mark.parametrize(("version", "magic"), [(1, 0), (3, 1)])
def test_old_clients_get_the_records_of_both_workers_in_their_format(
    tmp_path: Path, version: int, magic: int
) -> None:
    """Converted they need more room than the limits, which are about the log."""

    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        values = [b"value %d" % number for number in range(60)]
        rows = [(1, b"key", value, ()) for value in values]
        for index in range(2):
            owner = family.workers[family.workers[0].partitions.owner("t", index)]
            assert append_as_producer(owner, "t", index, build_batch(rows), 1)[2] == 0
        in_the_log = len(build_batch(rows))
        for worker in family.workers:
            connection = Connection()
            assert ask(worker, connection, range(2), version=version, bytes_max=in_the_log) is None
            await until(lambda c=connection: bool(c.answers))  # type: ignore[misc]
            _, response = decode_response(1, version, connection.answers[0][4:])
            assert isinstance(response, FetchResponse)
            for part in response.responses[0].partitions:
                assert part.records is not None
                assert part.records[16] == magic
                assert len(part.records) > in_the_log
                assert [record.value for record in read_records(part.records)] == values

    with_family(tmp_path, body)


@pytest.mark.parametrize(
    ("error", "version", "answered"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, 5, (ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 0)),
        (ErrorCode.KAFKA_STORAGE_ERROR, 6, (ErrorCode.KAFKA_STORAGE_ERROR, None, 0)),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 9, (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, [], -1)),
        (ErrorCode.UNSUPPORTED_VERSION, 3, (ErrorCode.UNSUPPORTED_VERSION, [], -1)),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 4, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [], 0)),
        (ErrorCode.OFFSET_OUT_OF_RANGE, 4, (ErrorCode.OFFSET_OUT_OF_RANGE, None, 0)),
    ],
)
def test_what_stands_beside_an_error(
    error: ErrorCode, version: int, answered: tuple[ErrorCode, object, int]
) -> None:
    assert beside_error(Found(error), version) == answered


def test_no_descriptor_is_left_after_many_fetches(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(4))
        worker = family.workers[0]

        async def once() -> None:
            connection = Connection()
            assert ask(worker, connection, range(4)) is None
            await until(lambda: bool(connection.answers))

        for index in range(4):
            append(family, index, b"x")
        await once()
        before = count_open_files()
        for _ in range(50):
            await once()
        assert count_open_files() == before

    with_family(tmp_path, body)


@pytest.mark.parametrize("place", [0, 1])
def test_a_wait_ends_with_an_append_at_whichever_worker(tmp_path: Path, place: int) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        worker, connection = family.workers[0], Connection()
        assert ask(worker, connection, range(2), max_wait_ms=60_000) is None
        await until(lambda: all(one.progress.fetches.size for one in family.workers))
        append(family, place, b"news")
        await until(lambda: bool(connection.answers))
        assert b"news" in connection.answers[0]
        await until(lambda: not worker.progress.fetches.size)

    with_family(tmp_path, body)


def test_a_log_is_not_read_under_the_id_of_an_earlier_topic_of_its_name(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        worker = family.workers[0]
        mine = next(index for index in range(2) if worker.partitions.owner("t", index) == 0)
        append(family, mine, b"new")
        log = worker.partitions.led["t", mine].log
        for topic_id, code in (
            (log.topic_id, 0),
            (None, 0),
            (bytes(15) + b"x", ErrorCode.INCONSISTENT_TOPIC_ID),
        ):
            [found] = reading.read(
                worker, [("t", mine, -1, 0, -1, 1_000_000, topic_id, -1)], limits(1_000_000)
            )
            assert found.error == code
            assert bool(found.length) == (code == 0)

    with_family(tmp_path, body)


def test_partitions_of_a_dead_worker_are_to_be_asked_for_again(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        worker, connection = family.workers[0], Connection()
        mine = next(index for index in range(2) if worker.partitions.owner("t", index) == 0)
        append(family, mine, b"mine")
        worker.peers.others[1].close()
        assert ask(worker, connection, range(2), max_wait_ms=60_000) is None
        await until(lambda: bool(connection.answers))
        [answer] = connection.answers
        assert b"mine" in answer
        assert struct.pack(">ih", 1 - mine, ErrorCode.NOT_LEADER_OR_FOLLOWER) in answer

    with_family(tmp_path, body)


def test_a_client_that_left_is_not_answered(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        worker, connection = family.workers[0], Connection()
        assert ask(worker, connection, range(2), max_wait_ms=60_000) is None
        await until(lambda: bool(worker.progress.fetches.size))
        connection.closed = True
        append(family, 0, b"x")
        append(family, 1, b"x")
        await until(lambda: not worker.progress.fetches.size)
        assert connection.answers == []

    with_family(tmp_path, body)


@pytest.mark.parametrize("partitions", [[0], [1], [0, 1]])
def test_a_fetch_ends_its_wait_when_told_to(tmp_path: Path, partitions: list[int]) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        worker = family.workers[0]
        connection = Connection()
        assert ask(worker, connection, partitions, max_wait_ms=3_600_000) is None
        await until(lambda: worker.progress.fetches.size + family.workers[1].progress.fetches.size > 0)
        assert connection.answers == []
        connection.hurry()
        await until(lambda: bool(connection.answers))
        assert worker.progress.fetches.size == 0

    with_family(tmp_path, body)


def test_a_fetch_of_a_closed_connection_waits_no_longer(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        for worker in family.workers:
            connection = Connection()
            mine = worker.partitions.owner("t", 0) != worker.index
            assert ask(worker, connection, [int(mine)], max_wait_ms=3_600_000) is None
            assert worker.progress.fetches.size == 1
            connection.closed = True
            connection.hurry()
            assert (worker.progress.fetches.size, connection.answers) == (0, [])

    with_family(tmp_path, body)


def test_a_follower_gets_all_that_comes_in_one_turn_of_the_loop(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        (worker,) = {family.workers[family.workers[0].partitions.owner("t", 0)]}
        lead_replicas(worker.partitions.led["t", 0], [0, 1], [0, 1])
        connection = Connection()
        assert ask(worker, connection, [0], replica_id=1, max_wait_ms=30_000) is None
        append(family, 0, b"value 0")
        append(family, 0, b"value 1")
        assert connection.answers == []
        await until(lambda: bool(connection.answers))
        assert values_in(connection.answers[0]) == [0, 1]

    with_family(tmp_path, body)


# -- throttled replicas --


async def lead_throttled(family: Family, *, isr: Sequence[int], throttled: str = "*") -> None:
    """Broker 0 leads three partitions, of which broker 1 has replicas, and has used up its quota."""
    await family.lead("t", range(3))
    for index in range(3):
        owner = family.workers[family.workers[0].partitions.owner("t", index)]
        lead_replicas(owner.partitions.led["t", index], [0, 1], list(isr))
        append(family, index, b"value %d" % index)
    for worker in family.workers:
        worker.quotas.set_rates({"leader.replication.throttled.rate": "1000"})
        worker.quotas.set_topic_configs({"t": {"leader.replication.throttled.replicas": throttled}}, 0)
    family.workers[0].quotas.leader.record(1_000_000)


def values_in(answer: bytes) -> list[int]:
    return [index for index in range(3) if b"value %d" % index in answer]


@pytest.mark.parametrize(
    ("isr", "throttled", "replica_id", "answered"),
    [
        pytest.param([0], "1:0", 1, [0, 2], id="out of sync"),
        pytest.param([0], "1:1", 1, [0, 1, 2], id="throttled on another leader"),
        pytest.param([0, 1], "1:0", 1, [0, 1, 2], id="in sync"),
        pytest.param([0], "1:0", -1, [0, 1, 2], id="a consumer"),
    ],
)
def test_throttled_replicas_wait_out_of_sync_while_the_quota_is_used_up(
    tmp_path: Path, isr: list[int], throttled: str, replica_id: int, answered: list[int]
) -> None:
    async def body(family: Family) -> None:
        await lead_throttled(family, isr=isr, throttled=throttled)
        connection = Connection()
        assert ask(family.workers[0], connection, range(3), replica_id=replica_id) is None
        await until(lambda: bool(connection.answers))
        assert values_in(connection.answers[0]) == answered

    with_family(tmp_path, body)


def test_a_fetch_of_throttled_replicas_waits(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await lead_throttled(family, isr=[0])
        connection = Connection()
        assert ask(family.workers[0], connection, range(3), replica_id=1, max_wait_ms=100_000) is None
        await until(lambda: all(one.progress.fetches.size for one in family.workers))
        append(family, 0, b"not for you")
        await asyncio.sleep(0.02)  # nothing is to happen: only waiting shows that
        assert connection.answers == []
        connection.hurry()
        await until(lambda: len(connection.answers) == 1)
        assert ask(family.workers[0], connection, range(3), replica_id=1, max_wait_ms=50) is None
        await until(lambda: len(connection.answers) == 2)
        assert [values_in(answer) for answer in connection.answers] == [[], []]

    with_family(tmp_path, body)


def test_what_throttled_replicas_get_counts_in_sync_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[int] = []
    monkeypatch.setattr(ReplicationQuota, "record", lambda _quota, size_bytes: recorded.append(size_bytes))
    size = len(build_batch([(1, None, b"value 0", ())]))

    async def body(family: Family) -> None:
        await lead_throttled(family, isr=[0, 1], throttled="0:0,1:0")
        recorded.clear()
        for replica_id in (-1, 1):
            connection = Connection()
            assert ask(family.workers[0], connection, range(3), replica_id=replica_id) is None
            await until(lambda c=connection: bool(c.answers))  # type: ignore[misc]
        assert recorded == [2 * size]

    with_family(tmp_path, body)


def test_what_followers_get_is_not_counted_as_consumed(tmp_path: Path) -> None:
    size = len(build_batch([(1, None, b"value 0", ())]))

    async def body(family: Family) -> None:
        await family.lead("t", range(3))
        for index in range(3):
            owner = family.workers[family.workers[0].partitions.owner("t", index)]
            # Broker 2 has one of the three already; those of both workers it is to get.
            adding = [] if index == 2 else [2]
            lead_replicas(owner.partitions.led["t", index], [0, 1, 2], [0], adding=adding)
            append(family, index, b"value %d" % index)
        assert len({family.workers[0].partitions.owner("t", index) for index in (0, 1)}) == 2
        for replica_id in (-1, 1, 2):
            connection = Connection()
            assert ask(family.workers[0], connection, range(3), replica_id=replica_id) is None
            await until(lambda c=connection: bool(c.answers))  # type: ignore[misc]
            assert connection.state.follows is (replica_id > 0)
        metrics = family.workers[0].metrics
        assert dict(metrics.fetches) == {"t": 9}
        assert dict(metrics.bytes_out) == {"t": 3 * size}
        assert metrics.replication_bytes_out == 6 * size
        assert metrics.reassignment_bytes_out == 2 * size

    with_family(tmp_path, body)


def test_throttled_replicas_take_no_place_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RANGES_MAX", 1)

    async def body(family: Family) -> None:
        await lead_throttled(family, isr=[0], throttled="0:0,1:0")
        [worker] = family.workers
        follows = Limits(1_000_000, True, 0, 1, VERSION)
        rows = [("t", index, -1, 0, -1, 1_000_000, None, 0) for index in range(3)]
        found = reading.read(worker, rows, follows)
        assert [one.length > 0 for one in found] == [False, False, True]
        assert [one.readable_end for one in found] == [1, 1, 1]

    with_family(tmp_path, body, workers=1)


# -- who leads --


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_broker_that_is_no_replica_hears_of_epochs_where_it_names_one(
    tmp_path: Path, epoch: int, code: ErrorCode
) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        row = ("t", 0, epoch, 0, -1, 1_000_000, None, 0)
        [found] = reading.read(family.workers[0], [row], Limits(1_000_000, True, 0, 7, VERSION))
        assert found.error == code

    with_family(tmp_path, body, workers=1)


@pytest.mark.parametrize(
    ("version", "epoch", "code", "leader"),
    [
        (17, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER, (1, 4)),
        (16, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER, (1, 4)),
        (17, 3, ErrorCode.FENCED_LEADER_EPOCH, (1, 4)),
        (17, 5, ErrorCode.UNKNOWN_LEADER_EPOCH, (-1, -1)),
        (15, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER, (-1, -1)),
        (12, 3, ErrorCode.FENCED_LEADER_EPOCH, (-1, -1)),
    ],
)
def test_who_asks_the_wrong_broker_hears_who_leads(
    tmp_path: Path, version: int, epoch: int, code: ErrorCode, leader: tuple[int, int]
) -> None:
    """A broker that wants to follow has to ask the leader; epochs are looked at first, as in Kafka."""

    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        know_brokers(family, "t", range(2), leader=0, epoch=0)
        await follow(family, "t", range(2), leader=1, epoch=4)
        for worker in family.workers:
            connection = Connection()
            assert ask(worker, connection, range(2), version=version, epoch=epoch, replica_id=2) is None
            await until(lambda c=connection: bool(c.answers))  # type: ignore[misc]
            _id, response = decode_response(1, version, connection.answers[0][4:])
            assert isinstance(response, FetchResponse)
            assert [
                (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch)
                for part in response.responses[0].partitions
            ] == [(code, *leader)] * 2
            endpoints = [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
            assert endpoints == ([(1, "one", 9092, "r")] if leader[0] >= 0 else [])

    with_family(tmp_path, body)
