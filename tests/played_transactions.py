"""A producer's machine of transactions, played by a test: coordinators answer what the test says."""

from collections.abc import Callable
from typing import Any, Final

from pkafka.clients.offsets import ConsumerGroupMetadata
from pkafka.clients.producer.transaction_requests import Ask
from pkafka.clients.producer.transactions import Transactions
from pkafka.errors import ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.messages import add_partitions_to_txn as adding
from pkafka.protocol.messages import txn_offset_commit as offset_commit
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pkafka.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from pkafka.protocol.messages.find_coordinator import (
    Coordinator as Found,
)
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pkafka.protocol.schema import Message

ONE, TWO = TopicPartition("t", 0), TopicPartition("u", 3)
GROUP = ConsumerGroupMetadata("g", 4, "member", None)
LAST_EPOCH: Final = 32_766
"""The last that a coordinator gives; the one behind it is for fencing."""
END_OF_VERSION_2: Final = 5
"""The version of EndTxn in transactions of transaction.version 2."""


class Played:
    """A machine whose coordinators do what the test says; a second passes with every step.

    Args:
        version: of the coordinators' answers.
        finalized: the level of transaction.version that the cluster has; a test may change it.
    """

    def __init__(
        self, *, initialized: bool = True, begun: bool = False, version: int = 5, finalized: int = 0
    ) -> None:
        self.finalized = finalized
        self.rules = Transactions("id", timeout_ms=60_000, finalized_version=lambda: self.finalized)
        self.now_ms = 0
        self.version = version
        self.version_max: int | None = None
        """Of the request that was asked last."""
        self.asked: list[str] = []
        if initialized or begun:
            init = self.rules.init()
            self.settle()
            assert init.done
            init.taken = True
            self.asked.clear()
        if begun:
            self.rules.begin()
            self.rules.admits(ONE)
            self.settle()
            assert self.rules.admits(ONE)
            self.asked.clear()

    def next(self, *, has_unsettled: bool = False) -> Ask | None:
        self.now_ms += 1_000
        ask = self.rules.next(self.now_ms, has_unsettled=has_unsettled)
        if ask is not None:
            self.version_max = ask.max_version
        return ask

    def expect(self, kind: type[Message]) -> Any:
        """The next request, which has to be of a kind; coordinators are found on the way."""
        while True:
            ask = self.next()
            assert ask is not None, f"no {kind.__name__}"
            if isinstance(ask.request, kind):
                return ask.request
            assert isinstance(ask.request, FindCoordinatorRequest)
            self.answer(ask.request)

    def answer(self, request: Message, code: ErrorCode = ErrorCode.NONE) -> None:
        answer = ANSWERS[type(request)](request, code)
        if isinstance(request, EndTxnRequest) and self.version_max == END_OF_VERSION_2 and not code:
            assert isinstance(answer, EndTxnResponse)
            answer.producer_id, answer.producer_epoch = _after(request)
        self.rules.answered(request, answer, self.now_ms, version=self.version)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Answer every request of the producer with success."""
        while (ask := self.next()) is not None:
            self.asked.append(type(ask.request).__name__)
            self.answer(ask.request)


def _after(request: EndTxnRequest) -> tuple[int, int]:
    """The next epoch, or the next id when that was the last one."""
    if request.producer_epoch == LAST_EPOCH:
        return request.producer_id + 1, 0
    return request.producer_id, request.producer_epoch + 1


def _found(request: FindCoordinatorRequest, code: ErrorCode) -> Message:
    if request.coordinator_keys:
        one = Found(key=request.coordinator_keys[0], node_id=0, host="h", port=9, error_code=code)
        return FindCoordinatorResponse(coordinators=[one])
    return FindCoordinatorResponse(node_id=0, host="h", port=9, error_code=code)


def _initialized(request: InitProducerIdRequest, code: ErrorCode) -> Message:
    return InitProducerIdResponse(producer_id=7, producer_epoch=request.producer_epoch + 1, error_code=code)


def _added(request: adding.AddPartitionsToTxnRequest, code: ErrorCode) -> Message:
    return adding.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            adding.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    adding.AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def _stored(request: offset_commit.TxnOffsetCommitRequest, code: ErrorCode) -> Message:
    return offset_commit.TxnOffsetCommitResponse(
        topics=[
            offset_commit.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


ANSWERS: dict[type[Message], Callable[[Any, ErrorCode], Message]] = {
    FindCoordinatorRequest: _found,
    InitProducerIdRequest: _initialized,
    adding.AddPartitionsToTxnRequest: _added,
    AddOffsetsToTxnRequest: lambda _, code: AddOffsetsToTxnResponse(error_code=code),
    offset_commit.TxnOffsetCommitRequest: _stored,
    EndTxnRequest: lambda _, code: EndTxnResponse(error_code=code),
}
