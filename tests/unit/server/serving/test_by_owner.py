"""Rows for partitions of several workers: each answered by its owner, in order, whoever dies; ListOffsets on top."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.model import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP
from pkafka.records.builder import build_batch
from pkafka.server.handlers import list_offsets, offset_for_leader_epoch, produce
from pkafka.server.processes.worker import Worker
from pkafka.server.serving import by_owner
from pkafka.storage.config import LogConfig
from tests.unit.server.workers import Family, follow, lead_replicas, with_family

UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Row(NamedTuple):
    topic: str
    partition: int
    words: str = "x"


class Answer(NamedTuple):
    error_code: int
    worker: int = -1
    partition: int = -1
    words: str = ""


def index_of(worker: Worker, row: Row) -> Answer:
    if row.words == "refuse":
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    return Answer(0, worker.index, row.partition, row.words)


WHERE = by_owner.Question("ask", Row, Answer, index_of)


def serve(family: Family) -> None:
    """Every worker answers that question."""
    for worker in family.workers:
        worker._operations.update(WHERE.operations(worker))


def test_every_row_is_answered_by_the_owner_of_its_partition_in_order(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(6))
        serve(family)
        worker = family.workers[1]
        rows = [Row("t", index) for index in (5, 0, 3, 1)]
        rows += [Row("t", 6), Row("u", 0), Row("t", 2, "refuse"), Row("t", 4)]
        answers = await WHERE.ask(worker, rows)
        owner = worker.partitions.owner
        assert answers == [
            *(Answer(0, owner("t", index), index, "x") for index in (5, 0, 3, 1)),
            Answer(UNKNOWN),
            Answer(UNKNOWN),
            Answer(ErrorCode.POLICY_VIOLATION),
            Answer(0, owner("t", 4), 4, "x"),
        ]

    with_family(tmp_path, body, workers=3)


def test_rows_of_a_dead_owner_are_to_be_tried_again(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", range(2))
        serve(family)
        worker = family.workers[0]
        worker.peers.others[1].close()
        answers = await WHERE.ask(worker, [Row("t", 0), Row("t", 1)])
        for index, answer in enumerate(answers):
            mine = worker.partitions.owner("t", index) == 0
            assert answer.error_code == (0 if mine else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with_family(tmp_path, body)


def test_a_disk_that_refuses_takes_its_directory_offline(tmp_path: Path) -> None:
    def refuse(_worker: Worker, _row: Row) -> Answer:
        raise StorageError("the disk says no")

    async def body(family: Family) -> None:
        await family.lead("t", [0])
        question = by_owner.Question("ask", Row, Answer, refuse)
        assert question.answer_here(family.workers[0], Row("t", 0)) == Answer(ErrorCode.KAFKA_STORAGE_ERROR)

    with_family(tmp_path, body, workers=1)


# -- epochs, and who leads --


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_epochs_are_compared_before_it_counts_who_leads(tmp_path: Path, epoch: int, code: ErrorCode) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        await follow(family, "t", [0], leader=1, epoch=4)
        [worker] = family.workers
        offsets = list_offsets.Wanted("t", 0, epoch, -1, 1, 0, -1, 9)
        found = list_offsets.QUESTION.answer_here(worker, offsets)
        assert found == list_offsets.Found(code)
        row = offset_for_leader_epoch.Wanted("t", 0, epoch, 0)
        assert offset_for_leader_epoch.QUESTION.answer_here(worker, row) == offset_for_leader_epoch.Found(
            code
        )
        # A tool that looks at replicas is answered where they are.
        found = list_offsets.QUESTION.answer_here(worker, offsets._replace(replica_id=-2))
        assert found.error_code == (0 if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else code)

    with_family(tmp_path, body, workers=1)


# -- what ListOffsets asks --


def ask(
    worker: Worker,
    timestamp: int,
    *,
    version: int = 9,
    count: int = 1,
    epoch: int = -1,
    committed: bool = False,
    replica: int = -1,
) -> Any:
    """The owner's answer: an error code, or what was found."""
    row = list_offsets.Wanted("t", 0, epoch, timestamp, count, int(committed), replica, version)
    found = list_offsets.QUESTION.answer_here(worker, row)
    if found.error_code:
        return ErrorCode(found.error_code)
    return found.starts if version == 0 else (found.timestamp, found.offset, found.leader_epoch)


def test_list_offsets_by_end_and_by_time(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        assert ask(worker, LATEST) == (-1, 0, 0)
        assert ask(worker, MAX_TIMESTAMP) == (-1, -1, -1)
        for time in (100, 300, 200):
            data = build_batch([(time, None, b"a", ()), (time + 5, None, b"b", ())])
            assert produce.append(worker, "t", 0, data, 9, -1, None, None)[2] == 0
        assert ask(worker, LATEST) == (-1, 6, 0)
        assert ask(worker, EARLIEST) == (-1, 0, 0)
        assert ask(worker, EARLIEST_LOCAL) == (-1, 0, 0)
        assert ask(worker, LATEST_TIERED) == (-1, -1, -1)
        assert ask(worker, MAX_TIMESTAMP) == (305, 3, 0)
        assert ask(worker, 0) == (100, 0, 0)
        assert ask(worker, 103) == (105, 1, 0)
        assert ask(worker, 106) == (300, 2, 0)
        assert ask(worker, 306) == (-1, -1, -1)

    with_family(tmp_path, body, workers=1)


def test_a_new_leader_does_not_know_the_end_before_it_has_committed_something(tmp_path: Path) -> None:
    """KIP-207: its predecessor may have shown consumers more than its own high watermark says."""

    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        partition = worker.partitions.led["t", 0]
        lead_replicas(partition, [0, 1], [0, 1])
        data = build_batch([(100, None, b"a", ()), (200, None, b"b", ())])
        assert produce.append(worker, "t", 0, data, 9, 1, None, None)[2] == 0
        assert ask(worker, LATEST) == (-1, 0, 1), "nothing is committed, but the epoch began there"

        lead_replicas(partition, [0, 1], [0, 1])
        for asked in (LATEST, 150, 300):
            assert ask(worker, asked, version=5) == ErrorCode.OFFSET_NOT_AVAILABLE
            assert ask(worker, asked, version=5, committed=True) == ErrorCode.OFFSET_NOT_AVAILABLE
            assert ask(worker, asked, version=4) == ErrorCode.LEADER_NOT_AVAILABLE
        # What is there in any case is told, and followers and tools hear of the end of the log.
        assert ask(worker, EARLIEST) == (-1, 0, 1)
        assert ask(worker, LATEST, replica=1) == (-1, 2, 2)

        lead_replicas(partition, [0, 1], [0])
        assert ask(worker, LATEST) == (-1, 2, 3)
        assert ask(worker, 150) == (200, 1, 1)
        assert ask(worker, 300) == (-1, -1, -1)

    with_family(tmp_path, body, workers=1)


@pytest.mark.parametrize(
    ("timestamp", "version", "code"),
    [
        (MAX_TIMESTAMP, 6, ErrorCode.UNSUPPORTED_VERSION),
        (EARLIEST_LOCAL, 7, ErrorCode.UNSUPPORTED_VERSION),
        (LATEST_TIERED, 8, ErrorCode.UNSUPPORTED_VERSION),
        (-6, 9, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_special_times_came_with_their_versions(
    tmp_path: Path, timestamp: int, version: int, code: ErrorCode
) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        assert ask(family.workers[0], timestamp, version=version) == code

    with_family(tmp_path, body, workers=1)


def test_version_0_lists_the_starts_of_segments(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        [worker] = family.workers
        await family.lead("t", [0])
        settings = LogConfig.from_topic_configs({"segment.bytes": "1000"}, worker.config.log_config())
        worker.partitions.led["t", 0].update_config(settings)
        for number in range(6):
            data = build_batch([(100 * number, None, b"x" * 400, ())])
            assert produce.append(worker, "t", 0, data, 9, -1, None, None)[2] == 0
        assert ask(worker, LATEST, version=0, count=10) == [6, 4, 2, 0]
        assert ask(worker, LATEST, version=0, count=2) == [6, 4]
        assert ask(worker, EARLIEST, version=0, count=10) == [0]

    with_family(tmp_path, body, workers=1)


STARTS = [(0, 100), (3, 300), (5, 200), (9, 900)]
"""Offsets, and when their files were written; the last one is the log end."""


@pytest.mark.parametrize(
    ("timestamp", "count", "bound", "answer"),
    [
        (LATEST, 10, None, [9, 5, 3, 0]),
        (LATEST, 2, None, [9, 5]),
        (LATEST, 0, None, []),
        (LATEST, 10, 9, [9, 5, 3, 0]),
        (LATEST, 3, 4, [4, 3]),  # counted before those that nobody may see yet are left out
        (EARLIEST, 10, None, [0]),
        (99, 10, None, []),
        (100, 10, None, [0]),
        (250, 10, None, [5, 3, 0]),  # all before the newest that is old enough, whatever their times
        (1_000, 10, None, [9, 5, 3, 0]),
    ],
)
def test_starts_of_segments_up_to_a_moment(
    timestamp: int, count: int, bound: int | None, answer: list[int]
) -> None:
    assert list_offsets.starts_up_to(STARTS, timestamp, count=count, bound=bound) == answer


def test_a_negative_number_of_starts_is_an_error() -> None:
    with pytest.raises(ApiError) as caught:
        list_offsets.starts_up_to(STARTS, LATEST, count=-1, bound=None)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_empty_log_has_one_start(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        for timestamp in (LATEST, EARLIEST, 2**62):
            assert ask(family.workers[0], timestamp, version=0, count=10) == [0]

    with_family(tmp_path, body, workers=1)


def test_a_partition_that_is_named_twice_is_refused() -> None:
    rows = [list_offsets.Wanted("t", index, -1, LATEST, 1, 0, -1, 9) for index in (0, 1, 0)]
    marked = list_offsets._with_duplicates_marked(rows)
    assert [row.is_named_twice for row in marked] == [True, False, True]


def test_leader_epochs_are_compared(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0])
        [worker] = family.workers
        worker.partitions.led["t", 0].leader_epoch = 4
        assert ask(worker, -1, epoch=4) == (-1, 0, 4)
        assert ask(worker, -1, epoch=3) == ErrorCode.FENCED_LEADER_EPOCH
        assert ask(worker, -1, epoch=5) == ErrorCode.UNKNOWN_LEADER_EPOCH

    with_family(tmp_path, body, workers=1)
