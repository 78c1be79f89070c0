"""Produce over workers on one event loop: what each row of the answer says, and what a dying worker leaves."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.net.buffers import SLOTS, Lease
from pkafka.net.connection import LaterAnswer, ServerConnection
from pkafka.protocol.headers import RequestHeader, decode_request_header, decode_response, encode_request
from pkafka.protocol.hot import CurrentLeader
from pkafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pkafka.records.builder import build_batch
from pkafka.records.reading import read_records
from pkafka.server.handlers import produce, produce_answer, produce_append
from pkafka.server.handlers.produce_forwarding import COPIED_BYTES_MAX
from pkafka.server.ipc import lifeline
from pkafka.server.ipc.child import worker_name
from pkafka.server.processes.worker import Worker
from pkafka.server.serving.connection_state import ConnectionState
from pkafka.storage.config import LogConfig
from tests.unit.server.workers import (
    Family,
    follow,
    know_brokers,
    lead_replicas,
    until,
    with_family,
)

VERSION = 9
FREE = SLOTS - 1  # one is what all connections read into
GOOD = bytes(build_batch([(1, None, b"one", ()), (1, None, b"two", ())]))
LARGE_VALUES = [b"one" * 300, b"two" * 300]
LARGE = bytes(build_batch([(1, None, value, ()) for value in LARGE_VALUES]))
"""Not copied into a frame between workers."""
assert len(GOOD) < COPIED_BYTES_MAX < len(LARGE)
TRANSACTIONAL = bytes(
    build_batch([(1, None, b"x", ())], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
)


class Connection(ServerConnection):
    """As much of a connection as the handler sees; it has no socket, and never moves."""

    state: Any

    def __init__(self, worker: Worker | None = None) -> None:
        self.arena = None if worker is None else worker.peers.arena
        self.slot = None if self.arena is None else self.arena.take()
        """Where its next frame lies, when it is to lie in memory that the other workers map."""
        self.peer_host, self.listener = "10.0.0.1", "PLAINTEXT"
        self.closed = False
        self.state = ConnectionState(moves=30)
        self.answers: list[Any] = []
        self.due: list[LaterAnswer] = []
        self.has_refused = False

    @property
    def answers_due(self) -> list[LaterAnswer]:
        return self.due

    def close(self) -> None:
        self.closed = True

    @property
    def has_answers_due(self) -> bool:
        return bool(self.due)

    def send_due(self) -> None:
        """Its answers are taken in the order in which they come."""
        self.closed = self.closed or any(later.closes for later in self.due)
        self.answers += [later.answer for later in self.due if later.answer is not None]
        self.due = [later for later in self.due if later.answer is None]

    def hold_frame(self) -> Lease | None:
        if self.slot is None or self.arena is None:
            return None
        return Lease(self.slot, self.arena.give_back)


class Unread(Connection):
    """Its first answer does not come, and all others wait for it."""

    def send_due(self) -> None:
        pass


def serve(
    worker: Worker,
    connection: Connection,
    *places: tuple[str, int, bytes],
    acks: int = -1,
    version: int = VERSION,
) -> Any:
    """What the handler answers at once, None when the answer comes later."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=data)])
            for topic, index, data in places
        ],
    )
    body = encode_request(0, version, 5, "me", request)[4:]
    frame = memoryview(bytearray(body))
    if connection.slot is not None:
        connection.slot[: len(body)] = body
        frame = connection.slot[: len(body)]
    header, position = decode_request_header(frame)
    assert header == RequestHeader(0, version, 5, "me")
    answer = produce.handle(worker, connection, header, frame, position)
    if isinstance(answer, LaterAnswer):
        connection.due.append(answer)
        return None
    return answer


def response_of(answer: Any, version: int = VERSION) -> ProduceResponse:
    data = b"".join(answer)
    assert struct.unpack_from(">i", data) == (len(data) - 4,)
    _id, response = decode_response(0, version, data[4:])
    assert isinstance(response, ProduceResponse)
    return response


def rows_of(answer: Any, version: int = VERSION) -> list[tuple[str, int, ErrorCode, int]]:
    return [
        (topic.name, part.index, ErrorCode(part.error_code), part.base_offset)
        for topic in response_of(answer, version).responses
        for part in topic.partition_responses
    ]


def by_owner(family: Family) -> tuple[int, int]:
    """A partition of each of the two workers."""
    partitions = family.workers[0].partitions
    first = [index for index in range(2) if partitions.owner("t", index) == 0]
    return first[0], 1 - first[0]


def test_what_the_worker_owns_is_appended_and_answered_at_once(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        mine, _theirs = by_owner(family)
        worker, connection = family.workers[0], Connection()
        assert rows_of(serve(worker, connection, ("t", mine, GOOD))) == [("t", mine, ErrorCode.NONE, 0)]
        assert rows_of(serve(worker, connection, ("t", mine, GOOD))) == [("t", mine, ErrorCode.NONE, 2)]
        assert worker.partitions.led["t", mine].log.high_watermark == 4

    with_family(tmp_path, body)


@pytest.mark.parametrize("version", [VERSION, 11])
def test_a_request_without_record_sets_is_answered_with_nothing(tmp_path: Path, version: int) -> None:
    async def body(family: Family) -> None:
        answer = response_of(serve(family.workers[0], Connection(), version=version), version)
        assert answer.responses == []

    with_family(tmp_path, body)


def test_a_request_over_both_workers_is_answered_in_its_order(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        mine, theirs = by_owner(family)
        worker, connection = family.workers[0], Connection()
        places = [("t", theirs, GOOD), ("t", mine, b"rubbish"), ("nowhere", 0, GOOD), ("t", mine, GOOD)]
        assert serve(worker, connection, *places) is None
        await until(lambda: bool(connection.answers))
        [answer] = connection.answers
        found = rows_of(answer)
        assert found[0] == ("t", theirs, ErrorCode.NONE, 0)
        assert found[1][:2] == ("t", mine)
        assert found[1][2] in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
        assert ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1) in found
        assert ("t", mine, ErrorCode.NONE, 0) in found
        other = family.workers[1]
        assert other.partitions.led["t", theirs].log.log_end_offset == 2

    with_family(tmp_path, body)


async def have_arenas(family: Family) -> None:
    await until(lambda: all(len(worker.peers.arenas) == 1 for worker in family.workers))


def test_another_worker_reads_a_frame_where_it_lies_and_it_stays_there_until_then(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        mine, theirs = by_owner(family)
        worker, connection = family.workers[0], Connection(family.workers[0])
        assert worker.peers.arena is not None
        places = [("t", mine, GOOD), ("t", theirs, LARGE), ("t", theirs, LARGE)]
        assert serve(worker, connection, *places) is None
        assert worker.peers.arena.free_slots == FREE - 1
        await until(lambda: bool(connection.answers))
        assert worker.peers.arena.free_slots == FREE
        assert rows_of(connection.answers[0]) == [
            ("t", mine, ErrorCode.NONE, 0),
            ("t", theirs, ErrorCode.NONE, 0),
            ("t", theirs, ErrorCode.NONE, 2),
        ]
        log = family.workers[1].partitions.led["t", theirs].log
        found = log.read(0, bytes_max=1_000_000, min_one_batch=True, upper_bound=4)
        with memoryview(found.segment.read_bytes(found.position, found.length)) as data:
            assert [record.value for record in read_records(data)] == LARGE_VALUES * 2

    with_family(tmp_path, body)


def test_a_client_that_goes_or_a_worker_that_dies_keeps_no_slot(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        mine, theirs = by_owner(family)
        worker = family.workers[0]
        assert worker.peers.arena is not None
        gone = Connection(worker)
        assert serve(worker, gone, ("t", theirs, LARGE), ("t", mine, GOOD)) is None
        gone.close()
        # Its records are still being read: the slot must not be used for another frame.
        assert worker.peers.arena.free_slots == FREE - 1
        await until(lambda: worker.peers.arena is not None and worker.peers.arena.free_slots == FREE)
        assert gone.answers == []
        waiting = Connection(worker)
        assert serve(worker, waiting, ("t", theirs, LARGE), ("t", mine, GOOD)) is None
        worker.peers.others[1].close()
        await until(lambda: bool(waiting.answers))
        assert worker.peers.arena.free_slots == FREE

    with_family(tmp_path, body)


def test_a_worker_that_hangs_keeps_the_slot_but_not_the_client(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        mine, theirs = by_owner(family)
        worker = family.workers[0]
        assert worker.peers.arena is not None
        connection = Connection(worker)
        assert serve(worker, connection, ("t", theirs, LARGE), ("t", mine, GOOD)) is None
        # Directly: a turn of the loop, which is the other worker's too, and it would have answered.
        worker.peers.others[1].set_late(True)
        assert rows_of(connection.answers[0]) == [
            ("t", theirs, ErrorCode.REQUEST_TIMED_OUT, -1),
            ("t", mine, ErrorCode.NONE, 0),
        ]
        assert worker.peers.arena.free_slots == FREE - 1
        # It moves again: what it had in hand happens, and changes nothing for the client.
        await until(lambda: worker.peers.arena is not None and worker.peers.arena.free_slots == FREE)
        assert len(connection.answers) == 1
        assert family.workers[1].partitions.led["t", theirs].log.log_end_offset == 2

        now = Connection()
        answer = serve(worker, now, ("t", theirs, LARGE), ("t", mine, GOOD))
        assert rows_of(answer)[0] == ("t", theirs, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        family.lines[worker].note(lifeline.LATE, [worker_name(1), False])
        await until(lambda: not worker.peers.others[1].late)
        assert serve(worker, now, ("t", theirs, LARGE), ("t", mine, GOOD)) is None
        await until(lambda: bool(now.answers))
        assert rows_of(now.answers[0])[0] == ("t", theirs, ErrorCode.NONE, 2)

    with_family(tmp_path, body)


def test_a_frame_that_the_worker_serves_alone_is_not_held(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        mine, _theirs = by_owner(family)
        worker, connection = family.workers[0], Connection(family.workers[0])
        assert worker.peers.arena is not None
        assert serve(worker, connection, ("t", mine, GOOD), ("t", mine, GOOD)) is not None
        assert worker.peers.arena.free_slots == FREE - 1  # the connection itself gives it back

    with_family(tmp_path, body)


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("data", [GOOD, LARGE], ids=["copied", "where it lies"])
def test_a_request_for_another_worker_is_answered_by_it(tmp_path: Path, version: int, data: bytes) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        _mine, theirs = by_owner(family)
        worker = family.workers[0]
        assert worker.peers.arena is not None
        connection, own = Connection(worker), Connection(family.workers[1])
        serve(worker, connection, ("t", theirs, data), version=version)
        assert worker.peers.arena.free_slots == FREE - 1
        await until(lambda: bool(connection.answers))
        if data is LARGE:
            assert worker.peers.arena.free_slots == FREE
        at_its_owner = serve(family.workers[1], own, ("t", theirs, data), version=version)
        [row], [next_row] = (
            rows_of(connection.answers[0], version),
            rows_of(at_its_owner, version),
        )
        assert (row, next_row) == (("t", theirs, ErrorCode.NONE, 0), ("t", theirs, ErrorCode.NONE, 2))
        assert len(connection.answers[0][0]) == len(at_its_owner[0])

    with_family(tmp_path, body)


def test_a_forwarded_request_waits_for_replicas_and_a_worker_that_hangs_for_nobody(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        _mine, theirs = by_owner(family)
        worker, other = family.workers
        assert worker.peers.arena is not None
        partition = other.partitions.led["t", theirs]
        lead_replicas(partition, [0, 2], [0, 2])
        waits, hangs = Connection(worker), Connection(worker)
        serve(worker, waits, ("t", theirs, LARGE))
        await until(lambda: partition.log.log_end_offset == 2)
        assert not waits.answers
        assert serve(worker, hangs, ("t", theirs, LARGE)) is None
        worker.peers.others[1].set_late(True)
        assert [rows_of(one.answers[0])[0][2] for one in (waits, hangs)] == [ErrorCode.REQUEST_TIMED_OUT] * 2
        # Where the records lie is not used again before the other worker has answered after all.
        assert worker.peers.arena.free_slots == FREE - 2
        await until(lambda: partition.log.log_end_offset == 4)
        other.progress.follower_fetched(partition, 2, 4, 0)
        await until(lambda: worker.peers.arena is not None and worker.peers.arena.free_slots == FREE)
        assert (len(waits.answers), len(hangs.answers)) == (1, 1)

    with_family(tmp_path, body)


@pytest.mark.parametrize("data", [GOOD, LARGE], ids=["copied", "where it lies"])
def test_a_request_forwarded_to_a_worker_that_dies_is_to_be_tried_again(tmp_path: Path, data: bytes) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        _mine, theirs = by_owner(family)
        worker = family.workers[0]
        assert worker.peers.arena is not None
        connection, gone = Connection(worker), Connection(worker)
        for one in (connection, gone):
            assert serve(worker, one, ("t", theirs, data)) is None
        gone.closed = True
        worker.peers.others[1].close()  # before the other one came to it
        await until(lambda: bool(connection.answers))
        assert rows_of(connection.answers[0]) == [("t", theirs, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
        assert connection.has_refused
        assert not gone.answers
        if data is LARGE:
            assert worker.peers.arena.free_slots == FREE

    with_family(tmp_path, body)


def test_small_record_sets_travel_with_the_frame_and_nothing_is_held(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        await have_arenas(family)
        _mine, theirs = by_owner(family)
        worker, connection = family.workers[0], Connection(family.workers[0])
        assert connection.slot is not None
        places = [("t", theirs, GOOD), ("t", theirs, b""), ("t", theirs, GOOD)]
        assert serve(worker, connection, *places) is None
        connection.slot[:500] = bytes(500)  # what the client sends next
        await until(lambda: bool(connection.answers))
        codes = [row[2] for row in rows_of(connection.answers[0])]
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE]
        log = family.workers[1].partitions.led["t", theirs].log
        found = log.read(0, bytes_max=1_000_000, min_one_batch=True, upper_bound=4)
        with memoryview(found.segment.read_bytes(found.position, found.length)) as data:
            assert [record.value for record in read_records(data)] == [b"one", b"two", b"one", b"two"]

    with_family(tmp_path, body)


def test_what_a_dying_worker_had_in_hand_is_to_be_tried_again(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        mine, theirs = by_owner(family)
        worker, connection = family.workers[0], Connection()
        assert serve(worker, connection, ("t", theirs, GOOD), ("t", mine, GOOD)) is None
        worker.peers.others[1].close()  # before the other one came to it
        await until(lambda: bool(connection.answers))
        assert rows_of(connection.answers[0]) == [
            ("t", theirs, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
            ("t", mine, ErrorCode.NONE, 0),
        ]

    with_family(tmp_path, body)


@pytest.mark.parametrize("own", [True, False])
def test_without_acks_an_error_closes_the_connection_and_nothing_is_answered(
    tmp_path: Path, own: bool
) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        mine, theirs = by_owner(family)
        worker, connection = family.workers[0], Connection()
        place = mine if own else theirs
        answer = serve(worker, connection, ("t", place, GOOD), acks=0)
        if answer is None:
            await until(lambda: bool(connection.answers))
            answer = connection.answers.pop()
        assert list(answer) == []
        assert not connection.closed
        answer = serve(worker, connection, ("t", place, b"rubbish"), acks=0)
        if answer is None:
            await until(lambda: connection.closed)
        assert connection.closed
        assert not any(connection.answers)

    with_family(tmp_path, body)


@pytest.mark.parametrize(
    ("data", "acks", "code"),
    [
        (GOOD, 1, ErrorCode.NONE),
        (GOOD, -1, ErrorCode.NONE),
        (GOOD, 2, ErrorCode.INVALID_REQUIRED_ACKS),
        (GOOD[:-1], -1, ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, -1, ErrorCode.INVALID_RECORD),
    ],
)
def test_the_code_of_a_record_set(tmp_path: Path, data: bytes, acks: int, code: ErrorCode) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        [worker] = family.workers
        row, _unsafe = produce_append.append(worker.for_produce, "t", 0, bytearray(data), VERSION, acks, "me")
        assert row[:3] == ("t", 0, code)
        assert worker.partitions.led["t", 0].log.log_end_offset == (2 if not code else 0)

    with_family(tmp_path, body, workers=1)


@pytest.mark.parametrize(
    ("code", "row"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ("t", 0, ErrorCode.REQUEST_TIMED_OUT, 7, 99, 2, [], None, None)),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ("t", 0, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 7, 99, 2, [], None, None),
        ),
        (ErrorCode.KAFKA_STORAGE_ERROR, ("t", 0, ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1, [], None, None)),
    ],
)
def test_what_is_in_the_log_has_its_place_there_beside_an_error(
    code: ErrorCode, row: produce_append.Row
) -> None:
    rows: list[produce_append.Row] = [
        ("t", 0, 0, 7, 99, 2, [], None, None),
        ("t", 1, 0, 8, 99, 0, [], None, None),
    ]
    other = rows[1]
    produce_answer.note_failures(rows, {("t", 0): code}, lambda _topic, _index: None)
    assert rows == [row, other]


def test_the_log_of_offsets_is_written_by_nobody_else(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("__consumer_offsets", [0])
        [worker] = family.workers

        def code(client: str) -> int:
            row, _unsafe = produce_append.append(
                worker.for_produce, "__consumer_offsets", 0, bytearray(GOOD), VERSION, -1, client
            )
            return row[2]

        assert code("me") == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert code("__admin_client") == ErrorCode.NONE

    with_family(tmp_path, body, workers=1)


@pytest.mark.parametrize(
    ("isr", "replicas", "wanted", "code"),
    [
        ([0], [0], 2, ErrorCode.NONE),  # no more than there are
        ([0], [0, 1], 2, ErrorCode.NOT_ENOUGH_REPLICAS),
        ([0], [0, 1, 2], 1, ErrorCode.NONE),
        ([0, 1], [0, 1], 2, ErrorCode.NONE),
        ([0, 1], [0, 1, 2], 3, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_replicas_in_sync(
    tmp_path: Path, isr: list[int], replicas: list[int], wanted: int, code: ErrorCode
) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        settings = {"min.insync.replicas": str(wanted)}
        partition.update_config(LogConfig.from_topic_configs(settings, worker.config.log_config()))
        lead_replicas(partition, replicas, isr)
        row, _unsafe = produce_append.append(worker.for_produce, "t", 0, bytearray(GOOD), VERSION, -1, "me")
        assert row[2] == code

    with_family(tmp_path, body, workers=1)


def test_an_append_wakes_who_waits_for_it(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        mine, theirs = by_owner(family)
        one, other = family.workers
        waiting = asyncio.ensure_future(
            one.appends.any(
                {0: [("t", mine, 0, False)], 1: [("t", theirs, 0, False)]},
                timeout_ms=60_000,
                hurried=asyncio.Event(),
            )
        )
        await asyncio.sleep(0.02)  # nothing is to happen: only waiting shows that
        assert not waiting.done()
        produce_append.append(other.for_produce, "t", theirs, bytearray(GOOD), VERSION, 1, "me")
        await asyncio.wait_for(waiting, 60)

    with_family(tmp_path, body)


def test_rows_that_came_from_another_worker_become_errors_too() -> None:
    rows: list[Any] = [("t", index, 0, 5, -1, 0, (), None, None) for index in range(3)]
    codes = {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR, ("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    produce_answer.note_failures(rows, codes, lambda _topic, index: CurrentLeader(7, index))
    assert [row[2] for row in rows] == [*codes.values(), ErrorCode.NONE]
    assert [row[8] for row in rows] == [None, CurrentLeader(7, 1), None]


def leaders_told(answer: Any, version: int) -> tuple[list[tuple[int, int, int]], list[tuple[Any, ...]]]:
    response = response_of(answer, version)
    return (
        [
            (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch)
            for topic in response.responses
            for part in topic.partition_responses
        ],
        [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints],
    )


@pytest.mark.parametrize("version", [9, 10, 11])
def test_who_asks_the_wrong_broker_hears_who_leads(tmp_path: Path, version: int) -> None:
    """By what the owner of the partition was told, whichever worker answers, before the metadata say so."""

    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        know_brokers(family, "t", range(3), leader=0, epoch=0)
        await follow(family, "t", range(2), leader=1, epoch=4)
        moved = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for worker in family.workers:
            connection = Connection(worker)
            places = [("t", index, GOOD) for index in range(3)]
            assert serve(worker, connection, *places, version=version) is None
            await until(lambda c=connection: bool(c.answers))  # type: ignore[misc]
            told = leaders_told(connection.answers[0], version)
            if version < 10:
                assert told == ([(moved, -1, -1)] * 3, [])
            else:
                # Of the last one no worker has a replica: what the metadata say has to do.
                assert told == ([(moved, 1, 4), (moved, 1, 4), (moved, 0, 0)], [(1, "one", 9092, "r")])

    with_family(tmp_path, body)


def test_a_producer_whose_leader_goes_hears_who_leads_now(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        know_brokers(family, "t", [0], leader=0, epoch=0)
        [worker] = family.workers
        lead_replicas(worker.partitions.led["t", 0], [0, 2], [0, 2])
        connection = Connection(worker)
        assert serve(worker, connection, ("t", 0, GOOD), version=11) is None
        await follow(family, "t", [0], leader=2, epoch=9)
        await until(lambda: bool(connection.answers))
        # Broker 2 is not to be reached where this client came from.
        assert leaders_told(connection.answers[0], 11) == (
            [(ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 9)],
            [],
        )

    with_family(tmp_path, body, workers=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_behind_a_refusal_that_the_client_has_not_heard_of_all_is_refused(
    tmp_path: Path, workers: int
) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0, 1, 2])
        know_brokers(family, "t", [0, 1, 2], leader=0, epoch=0)
        by_partition = {index: family.workers[0].partitions.owner("t", index) for index in range(3)}
        waits = next(index for index, owner in by_partition.items() if owner == 0)
        refuses, serves = (index for index in range(3) if index != waits)
        worker = family.workers[0]
        lead_replicas(worker.partitions.led["t", waits], [0, 2], [0, 2])
        connection = Unread(worker)
        assert serve(worker, connection, ("t", waits, GOOD)) is None
        await follow(family, "t", [refuses], leader=2, epoch=9)
        assert serve(worker, connection, ("t", refuses, GOOD)) is None
        owner = family.workers[by_partition[refuses]].partitions
        await until(lambda: connection.due[1].answer is not None)
        await family.lead("t", [refuses], epoch=10)
        assert ("t", refuses) in owner.led
        assert serve(worker, connection, ("t", refuses, GOOD), ("t", serves, GOOD)) is None
        first, second = (later.rows for later in connection.due[1:])  # type: ignore[attr-defined]
        await until(lambda: second[1][0] != "")
        assert [row[2] for row in (*first, *second)] == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NONE,
        ]
        assert owner.led["t", refuses].log.log_end_offset == 0
        # Those answers are sent; what the client sends now it sends in its new order.
        connection.due.clear()
        answer = serve(worker, connection, ("t", refuses, GOOD))
        if answer is None:
            await until(lambda: connection.due[0].answer is not None)
        assert owner.led["t", refuses].log.log_end_offset == 2
        assert not connection.has_refused

    with_family(tmp_path, body, workers=workers)
