"""DeleteRecords (key 21, v0-2): raise the log start offset of partitions.

v2 flexible

Followers learn the new start with their next fetch. The answer waits until all live replicas have raised theirs.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import INTERNAL_TOPICS, Offset
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from pkafka.server.ipc.peer import PeerGone
from pkafka.server.replicas.delayed import DelayedOperation
from pkafka.server.serving.by_owner import Row, ask_owners
from pkafka.server.serving.dispatch import RequestContext

if TYPE_CHECKING:
    from pkafka.server.processes.worker import Worker

HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1


async def handle(
    context: RequestContext, request: DeleteRecordsRequest, _version: int
) -> DeleteRecordsResponse:
    """Ask the owners of all partitions."""
    wanted: dict[str, dict[int, Offset]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            # When the request names a partition twice, the last offset counts.
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition.offset
    rows: list[Row] = [
        [name, index, offset] for name, offsets in wanted.items() for index, offset in offsets.items()
    ]
    answers = await ask_owners(context.worker, "delete_records", rows, local)
    await _wait_for_followers(context.worker, rows, answers, request.timeout_ms)
    topics = []
    for name, group in groupby(zip(rows, answers, strict=True), key=lambda pair: pair[0][0]):
        partitions = [
            DeleteRecordsPartitionResult(
                partition_index=row[1],
                error_code=answer[0],
                low_watermark=_NO_LOW_WATERMARK if answer[0] else answer[1],
            )
            for row, answer in group
        ]
        topics.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def local(worker: "Worker", row: Row) -> Row:
    """Answer for a partition of this worker: code, low watermark, and the low watermark to wait for.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (the topic does not delete) or INVALID_TOPIC_EXCEPTION.
    """
    topic, index, offset = row
    if topic in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = worker.partitions.led[topic, index]
    log = partition.log
    if not log.config.deletes:
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    target = log.high_watermark if offset == HIGH_WATERMARK else offset
    if target < 0 or target > log.high_watermark:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.raise_log_start_offset(target)
    worker.progress.fetches.check((topic, index))
    return [0, partition.low_watermark(), target]


async def _wait_for_followers(
    worker: "Worker", rows: Sequence[Row], answers: list[Row], timeout_ms: int
) -> None:
    """Replace each answer whose followers still have the records by the final one."""
    waiting: dict[int, list[int]] = {}
    for place, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        if not answer[0] and answer[1] < answer[2]:
            waiting.setdefault(worker.partitions.owner(row[0], row[1]), []).append(place)

    async def ask(owner: int, places: list[int]) -> None:
        wanted = [[rows[place][0], rows[place][1], answers[place][2]] for place in places]
        try:
            if owner == worker.index:
                found = await await_followers(worker, wanted, timeout_ms)
            else:
                found = (await worker.peers.ask(owner, "await_low_watermarks", [wanted, timeout_ms]))[0]
        except (PeerGone, ApiError):
            found = [[int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]] * len(places)
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer

    await asyncio.gather(*(ask(owner, places) for owner, places in waiting.items()))


class _DelayedDeleteRecords(DelayedOperation):
    __slots__ = ("_answers", "_done", "_wanted", "_worker")

    def __init__(
        self, worker: "Worker", wanted: Sequence[Sequence[Any]], done: "asyncio.Future[list[Row]]"
    ) -> None:
        super().__init__()
        self._worker = worker
        self._wanted = wanted
        self._done = done
        self._answers: list[Row | None] = [None] * len(wanted)

    def try_complete(self) -> bool:
        for place, (topic, index, target) in enumerate(self._wanted):
            if self._answers[place] is None:
                partition = self._worker.partitions.led.get((topic, index))
                if partition is None:
                    self._answers[place] = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
                elif partition.low_watermark() >= target:
                    self._answers[place] = [0, partition.low_watermark()]
        return all(answer is not None for answer in self._answers)

    def on_complete(self) -> None:
        late: Row = [int(ErrorCode.REQUEST_TIMED_OUT)]
        if not self._done.done():
            self._done.set_result([late if answer is None else answer for answer in self._answers])


def await_followers(
    worker: "Worker", wanted: Sequence[Sequence[Any]], timeout_ms: int
) -> Awaitable[list[Row]]:
    """Wait until no live replica of partitions of this worker has records below an offset.

    Args:
        wanted: topic, partition and offset of each.

    Returns:
        For each the error code and, with NONE, the low watermark.
    """
    done: asyncio.Future[list[Row]] = worker.loop.create_future()
    operation = _DelayedDeleteRecords(worker, wanted, done)
    if operation.try_complete():
        operation.force_complete()
    else:
        keys = [(topic, index) for topic, index, _ in wanted]
        worker.progress.deletions.watch(operation, keys, timeout_ms=timeout_ms)
    return done
