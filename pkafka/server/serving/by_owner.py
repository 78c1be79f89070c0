"""Requests about partitions of several workers: ask each owner for its part, and put the answers back in order.

For APIs that are not hot paths: a row goes to the owner of its partition, and one row comes back for it. Between the
workers rows travel as lists; on both sides they are named tuples of the API.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pkafka.errors import ApiError, ErrorCode, StorageError
from pkafka.server.ipc.peer import Handler, PeerGone
from pkafka.server.replicas.disks import Disks
from pkafka.server.replicas.lookup import Lookup
from pkafka.server.replicas.partitions import Partitions
from pkafka.server.serving.peers import Peers


class Owner(Protocol):
    """A worker that owns partitions, as requests about them see it."""

    @property
    def partitions(self) -> Partitions: ...

    @property
    def lookup(self) -> Lookup: ...

    @property
    def disks(self) -> Disks: ...

    @property
    def peers(self) -> Peers: ...


class Row(Protocol):
    """What an API asks of one partition: a named tuple of values that msgpack knows."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


class Answer(Protocol):
    """What the owner answers: a named tuple that begins with the error code, and can be made of the code alone."""

    @property
    def error_code(self) -> int: ...


OwnerT = TypeVar("OwnerT", bound=Owner)
RowT = TypeVar("RowT", bound=Row)
AnswerT = TypeVar("AnswerT", bound=Answer)


@dataclass(frozen=True, slots=True)
class Question(Generic[OwnerT, RowT, AnswerT]):
    """What an API asks of the owners of partitions.

    Attributes:
        operation: the name by which other workers ask.
        row: makes a row of its values.
        answer: makes an answer of its values.
        local: gives the answer of the owner.
        led_only: refuse partitions that this broker does not lead.
        away: the code for the partitions of an owner that has died and has no successor yet.
    """

    operation: str
    row: Callable[..., RowT]
    answer: Callable[..., AnswerT]
    local: Callable[[OwnerT, RowT], AnswerT]
    led_only: bool = True
    away: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def ask(self, worker: OwnerT, rows: Sequence[RowT]) -> list[AnswerT]:
        """One answer for each row, in order."""
        answers = [self.answer(int(self.away))] * len(rows)
        elsewhere: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            owner = worker.partitions.owner(row.topic, row.partition)
            if owner == worker.peers.index:
                answers[place] = self.answer_here(worker, row)
            else:
                elsewhere.setdefault(owner, []).append(place)
        calls = [
            (places, worker.peers.ask(owner, self.operation, [rows[place] for place in places]))
            for owner, places in elsewhere.items()
        ]
        for places, call in calls:
            try:
                results = (await call)[0]
            except (PeerGone, ApiError):
                continue
            for place, result in zip(places, results, strict=True):
                answers[place] = self.answer(*result)
        return answers

    def answer_here(self, worker: OwnerT, row: RowT) -> AnswerT:
        """Return the owner's answer, or the code that says why there is none."""
        try:
            if self.led_only and (row.topic, row.partition) not in worker.partitions.led:
                raise worker.lookup.missing_partition(row.topic, row.partition)
            return self.local(worker, row)
        except ApiError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                worker.disks.log_failed(row.topic, row.partition)
            return self.answer(int(error.code))
        except (StorageError, OSError) as error:
            return self.answer(int(worker.disks.refused(row.topic, row.partition, error)))

    def operations(self, worker: OwnerT) -> dict[str, Handler]:
        """What other workers may ask: the answers to rows that they send."""
        return {
            self.operation: lambda _peer, rows, _blob, _fds: [
                self.answer_here(worker, self.row(*row)) for row in rows
            ]
        }
