"""Markers that reach the workers of one broker: on real logs, by frames, with the codes that Kafka gives."""

import asyncio
import dataclasses
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pkafka.errors import ErrorCode
from pkafka.model import CONSUMER_OFFSETS_TOPIC
from pkafka.records.builder import build_batch
from pkafka.records.control import ControlType, EndTransactionMarker, decode_end_marker
from pkafka.records.reading import read_batches
from pkafka.records.validation import trust
from pkafka.server.ipc.child import worker_name
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.incarnations import Sender
from pkafka.server.transactions.marker_appends import ProducerAt
from pkafka.server.transactions.marker_owners import Codes, Row
from pkafka.server.transactions.transaction import PartitionKey
from tests.unit.server.workers import Family, follow, know_brokers, lead_replicas, until, with_family

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
COMMIT = Marker(producer_id=7, producer_epoch=3, coordinator_epoch=5, is_commit=True)
GOOD = int(ErrorCode.NONE)


def on_workers(root: Path, body: Callable[[Family], Awaitable[None]]) -> None:
    """Run a test with two workers that lead the topic t."""

    async def run(family: Family) -> None:
        await family.lead("t", range(3))
        await body(family)

    with_family(root, run)


async def write(worker: Worker, rows: Sequence[Row], sender: Sender | None = None) -> Codes:
    """Have markers written through a worker."""
    answered: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()
    worker.marker_owners.write(rows, sender, answered.set_result)
    return [list(codes) for codes in await asyncio.wait_for(answered, 20)]


def owner(family: Family, key: PartitionKey) -> Worker:
    return family.workers[family.workers[0].partitions.owner(*key)]


def markers_in(family: Family, key: PartitionKey) -> list[tuple[int, int, EndTransactionMarker]]:
    """The markers in a log: producer id, epoch and what the record says."""
    directory = owner(family, key).partitions.led[key].log.directory
    data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return [
        (header.producer_id, header.producer_epoch, decode_end_marker(records[0].key, records[0].value))
        for header, records in read_batches(data)
        if header.is_control
    ]


def begin(family: Family, key: PartitionKey, *, sequence: int = 0) -> None:
    """Let a producer begin a transaction."""
    worker = owner(family, key)
    data = build_batch(
        [(1, b"k", b"v", ())],
        producer_id=COMMIT.producer_id,
        producer_epoch=COMMIT.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    worker.appending.append(worker.partitions.led[key], trust(data), needs_all=False, now_ms=1)


async def at(family: Family, key: PartitionKey) -> ProducerAt | None:
    """What the log of a partition knows of the producer, asked for by another worker."""
    asking = family.workers[1 - owner(family, key).index]
    return await asking.marker_owners.producer_at(key, 7)


def test_each_partition_gets_its_marker_whichever_worker_owns_it(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        for key in (T0, T1, T2):
            begin(family, key)
            assert (await at(family, key)) == ProducerAt(3, -1, 0)
        other = Marker(8, 0, 5, is_commit=False)
        codes = await write(family.workers[0], [(COMMIT, [T0, T1]), (other, [T1])])
        assert codes == [[GOOD, GOOD], [GOOD]]
        assert markers_in(family, T0) == [(7, 3, EndTransactionMarker(ControlType.COMMIT, 5))]
        assert markers_in(family, T1) == [
            (7, 3, EndTransactionMarker(ControlType.COMMIT, 5)),
            # Nothing is known of this producer; its marker is written all the same (KAFKA-10702 is about its index).
            (8, 0, EndTransactionMarker(ControlType.ABORT, 5)),
        ]
        assert await at(family, T0) == await at(family, T1) == ProducerAt(3, 5)
        assert (await at(family, T2)) == ProducerAt(3, -1, 0)

    on_workers(tmp_path, body)


def test_a_refused_marker_says_nothing_of_others_for_the_same_partition(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        begin(family, T0)
        rows: list[Row] = [
            (COMMIT._replace(producer_epoch=2), [T0]),
            (Marker(8, 0, 5, is_commit=True), [T0]),
            (COMMIT, [T0]),
            (COMMIT._replace(coordinator_epoch=4), [T0]),
        ]
        assert await write(family.workers[0], rows) == [
            [ErrorCode.INVALID_PRODUCER_EPOCH],
            [GOOD],
            [GOOD],
            [ErrorCode.TRANSACTION_COORDINATOR_FENCED],
        ]
        assert [found[0] for found in markers_in(family, T0)] == [8, 7]

    on_workers(tmp_path, body)


def test_partitions_that_are_not_led_here(tmp_path: Path) -> None:
    """Kafka looks at its replicas: what lives on other brokers is as unknown as what does not exist."""

    async def body(family: Family) -> None:
        await follow(family, "t", [1], leader=1, epoch=1)
        know_brokers(family, "elsewhere", [0], leader=1, epoch=1)
        keys = [T0, T1, ("t", 9), ("t", -1), ("elsewhere", 0), ("no topic", 0)]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await write(family.workers[0], [(COMMIT, keys)]) == [
            [GOOD, ErrorCode.NOT_LEADER_OR_FOLLOWER, unknown, unknown, unknown, unknown]
        ]
        assert await family.workers[0].marker_owners.producer_at(T1, 7) is None

    on_workers(tmp_path, body)


def test_too_few_replicas_refuse_a_marker_before_it_is_written(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        partition = owner(family, T0).partitions.led[T0]
        partition.update_config(dataclasses.replace(partition.log.config, min_insync_replicas=2))
        lead_replicas(partition, [0, 1], [0])
        assert await write(family.workers[0], [(COMMIT, [T0])]) == [[ErrorCode.NOT_ENOUGH_REPLICAS]]
        assert not markers_in(family, T0)

    on_workers(tmp_path, body)


def test_the_answer_waits_for_the_replicas_in_sync(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        worker = owner(family, T0)
        partition = worker.partitions.led[T0]
        lead_replicas(partition, [0, 1], [0, 1])
        answered: list[Codes] = []
        family.workers[0].marker_owners.write([(COMMIT, [T0, T1])], None, answered.append)
        await until(lambda: bool(markers_in(family, T0)) and bool(markers_in(family, T1)))
        assert not answered
        worker.progress.follower_fetched(partition, 1, partition.log.log_end_offset, 0)
        await until(lambda: bool(answered))
        assert [list(codes) for codes in answered[0]] == [[GOOD, GOOD]]

    on_workers(tmp_path, body)


def test_an_owner_that_is_gone_leads_nothing(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        one = owner(family, T0)
        other = family.workers[1 - one.index]
        other.peers.others[one.index].close()
        assert await write(other, [(COMMIT, [T0, T1])]) == [[ErrorCode.NOT_LEADER_OR_FOLLOWER, GOOD]]
        assert await other.marker_owners.producer_at(T0, 7) is None

    on_workers(tmp_path, body)


def test_a_request_of_an_earlier_connection_ends_no_later_transaction(tmp_path: Path) -> None:
    """The transaction that was open is over, and the next one of the same producer epoch has begun."""

    async def body(family: Family) -> None:
        know_brokers(family, "elsewhere", [0], leader=1, epoch=1)
        late, present = Sender(1, 0, "ab", 10), Sender(1, 0, "ab", 11)
        through, elsewhere = family.workers
        begin(family, T0)
        assert await write(through, [(COMMIT, [T0])], present) == [[GOOD]]
        begin(family, T0, sequence=1)
        open_one = await at(family, T0)
        # It comes by a connection to another worker: the owner of the partition is who knows.
        for worker in (elsewhere, through):
            assert await write(worker, [(COMMIT, [T0])], late) == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
        assert await at(family, T0) == open_one
        assert open_one is not None
        assert open_one.is_open
        assert await write(elsewhere, [(COMMIT, [T0])], present) == [[GOOD]]

    on_workers(tmp_path, body)


def test_frames_of_a_dead_worker_end_no_later_transaction(tmp_path: Path) -> None:
    """They are in the channel still when its successor introduces itself; nothing more is read from it then."""

    async def body(family: Family) -> None:
        there = owner(family, T0)
        dead = family.workers[1 - there.index]
        begin(family, T0)
        answered: list[Codes | None] = []
        # In one turn of the loop: the marker is in the channel, and the successor comes before it is read.
        dead.marker_owners.send(there.index, [(COMMIT, [T0])], answered.append)
        ours, theirs = socket.socketpair()
        there._neighbours.meet(worker_name(dead.index), ours)
        await until(lambda: bool(answered))
        assert answered == [None]
        assert not markers_in(family, T0)
        theirs.close()

    on_workers(tmp_path, body)


def test_no_transaction_ends_in_offsets_that_are_still_loaded(tmp_path: Path) -> None:
    async def run(family: Family) -> None:
        await family.lead(CONSUMER_OFFSETS_TOPIC, range(1))
        key = (CONSUMER_OFFSETS_TOPIC, 0)
        worker = owner(family, key)
        worker.groups.end(0)
        refused = [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
        assert await write(family.workers[0], [(COMMIT, [key])]) == refused
        assert not markers_in(family, key)
        worker.groups.begin(0)
        await until(lambda: not worker.groups.refusal(0))
        assert await write(family.workers[0], [(COMMIT, [key])]) == [[GOOD]]

    with_family(tmp_path, run)
