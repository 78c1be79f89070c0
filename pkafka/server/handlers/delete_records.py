"""DeleteRecords (key 21, v0-2): raise the log start offset of partitions.

v2 flexible

Followers learn the new start with their next fetch. The answer waits until all live replicas have raised theirs.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from pkafka.errors import ApiError, ErrorCode
from pkafka.model import INTERNAL_TOPICS, Offset
from pkafka.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from pkafka.security.acl import Operation
from pkafka.server.ipc.peer import Handler, Payload, Peer, PeerGone
from pkafka.server.ports.authorized import Authorized, by_right, rights_in
from pkafka.server.replicas.delayed import DelayedOperation
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.replicas.progress import Progress
from pkafka.server.serving import by_owner
from pkafka.server.serving.context import RequestContext

HIGH_WATERMARK: Final = -1
_NO_LOW_WATERMARK: Final = -1
_AWAIT: Final = "await_low_watermarks"


class Port(by_owner.Owner, Authorized, Protocol):
    """What DeleteRecords asks of its worker."""

    @property
    def progress(self) -> Progress: ...


class Wanted(NamedTuple):
    """Asks that a partition begins at an offset."""

    topic: str
    partition: int
    offset: Offset


class Deleted(NamedTuple):
    """Tells the lowest start of the logs of live replicas, and the start that they are to have."""

    error_code: int
    low_watermark: Offset = _NO_LOW_WATERMARK
    target: Offset = _NO_LOW_WATERMARK


async def handle(
    context: RequestContext[Port], request: DeleteRecordsRequest, _version: int
) -> DeleteRecordsResponse:
    """Ask the owners of all partitions."""
    wanted: dict[str, dict[int, Offset]] = {}
    deletable, denied = by_right(
        rights_in(context), Operation.DELETE, request.topics, lambda topic: topic.name
    )
    for topic in deletable:
        for partition in topic.partitions:
            # When the request names a partition twice, the last offset counts.
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition.offset
    rows = [
        Wanted(name, index, offset) for name, offsets in wanted.items() for index, offset in offsets.items()
    ]
    answers = await QUESTION.ask(context.worker, rows)
    await _wait_for_followers(context.worker, rows, answers, request.timeout_ms)
    topics = []
    for name, group in groupby(zip(rows, answers, strict=True), key=lambda pair: pair[0].topic):
        partitions = [
            DeleteRecordsPartitionResult(
                partition_index=row.partition,
                error_code=answer.error_code,
                low_watermark=answer.low_watermark,
            )
            for row, answer in group
        ]
        topics.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics + [_refused(topic) for topic in denied])


def _refused(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=one.partition_index,
                low_watermark=_NO_LOW_WATERMARK,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for one in topic.partitions
        ],
    )


def local(worker: Port, row: Wanted) -> Deleted:
    """Raise the start of a partition of this worker.

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
    worker.progress.fetches.check(partition.key)
    worker.progress.fetches.check(partition.stable_key)
    return Deleted(ErrorCode.NONE, partition.low_watermark(), target)


QUESTION: Final = by_owner.Question("delete_records", Wanted, Deleted, local)


async def _wait_for_followers(
    worker: Port, rows: Sequence[Wanted], answers: list[Deleted], timeout_ms: int
) -> None:
    """Replace each answer whose followers still have the records by the final one."""
    waiting: dict[int, list[int]] = {}
    for place, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        if not answer.error_code and answer.low_watermark < answer.target:
            waiting.setdefault(worker.partitions.owner(row.topic, row.partition), []).append(place)

    async def ask(owner: int, places: list[int]) -> None:
        wanted = [rows[place]._replace(offset=answers[place].target) for place in places]
        try:
            if owner == worker.peers.index:
                found = await await_followers(worker, wanted, timeout_ms)
            else:
                reply = (await worker.peers.ask(owner, _AWAIT, [wanted, timeout_ms]))[0]
                found = [Deleted(*one) for one in reply]
        except (PeerGone, ApiError):
            found = [Deleted(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(places)
        for place, answer in zip(places, found, strict=True):
            answers[place] = answer

    await asyncio.gather(*(ask(owner, places) for owner, places in waiting.items()))


class _DelayedDeleteRecords(DelayedOperation):
    __slots__ = ("_answers", "_done", "_partitions", "_wanted")

    def __init__(
        self, partitions: Partitions, wanted: Sequence[Wanted], done: "asyncio.Future[list[Deleted]]"
    ) -> None:
        super().__init__()
        self._partitions = partitions
        self._wanted = wanted
        self._done = done
        self._answers: list[Deleted | None] = [None] * len(wanted)

    def try_complete(self) -> bool:
        for place, (topic, index, target) in enumerate(self._wanted):
            if self._answers[place] is None:
                partition = self._partitions.led.get((topic, index))
                if partition is None:
                    self._answers[place] = Deleted(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                elif partition.low_watermark() >= target:
                    self._answers[place] = Deleted(ErrorCode.NONE, partition.low_watermark(), target)
        return all(answer is not None for answer in self._answers)

    def on_complete(self) -> None:
        late = Deleted(ErrorCode.REQUEST_TIMED_OUT)
        if not self._done.done():
            self._done.set_result([late if answer is None else answer for answer in self._answers])


def await_followers(worker: Port, wanted: Sequence[Wanted], timeout_ms: int) -> Awaitable[list[Deleted]]:
    """Wait until no live replica of partitions of this worker has records below an offset.

    Args:
        wanted: the partitions and offsets.

    Returns:
        For each the error code and, with NONE, the low watermark.
    """
    done: asyncio.Future[list[Deleted]] = asyncio.get_running_loop().create_future()
    operation = _DelayedDeleteRecords(worker.partitions, wanted, done)
    if operation.try_complete():
        operation.force_complete()
    else:
        keys = [(topic, index) for topic, index, _ in wanted]
        worker.progress.deletions.watch(operation, keys, timeout_ms=timeout_ms)
    return done


def operations(worker: Port) -> dict[str, Handler]:
    """What other workers may ask of this one."""

    def awaited(
        _peer: Peer, payload: Payload, _blob: memoryview, _fds: list[int]
    ) -> Awaitable[list[Deleted]]:
        wanted, timeout_ms = payload
        return await_followers(worker, [Wanted(*row) for row in wanted], timeout_ms)

    return {**QUESTION.operations(worker), _AWAIT: awaited}
