"""A client that asks about transactions, request by request, as a test says."""

import itertools
from collections.abc import Sequence
from typing import Any, Self

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pkafka.protocol.messages.describe_transactions import DescribeTransactionsRequest
from pkafka.protocol.messages.end_txn import EndTxnRequest
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from pkafka.protocol.messages.init_producer_id import InitProducerIdRequest
from pkafka.protocol.messages.list_transactions import ListTransactionsRequest
from pkafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.raw_client import RawClient, batch
from tests.talk import wait_for

PASSING = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a producer hears for a moment, and asks again."""


class TransactionClient:
    """One connection to ``bootstrap``, for a transactional id of its own."""

    def __init__(self, bootstrap: str, transactional_id: str = "x") -> None:
        self.transactional_id = transactional_id
        self.client = RawClient(bootstrap)
        self.producer = -1, -1
        """Producer id and epoch."""
        self._sequences = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def coordinate(self) -> None:
        """Have __transaction_state made, and wait until the id's coordinator serves."""
        request = FindCoordinatorRequest(key_type=1, key=self.transactional_id)
        wait_for(lambda: not self.client.call(request, 1).error_code, what="a coordinator")
        described = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        wait_for(
            lambda: ErrorCode(self.client.call(described, 0).transaction_states[0].error_code) not in PASSING,
            what="the coordinator",
        )

    def init(
        self, version: int = 4, *, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1)
    ) -> tuple[ErrorCode, tuple[int, int]]:
        """InitProducerId: the error, and the identity that was given."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = self.client.call(request, version)
        return ErrorCode(answer.error_code), (answer.producer_id, answer.producer_epoch)

    def begin(self, **options: Any) -> tuple[int, int]:
        """InitProducerId until it is granted; the identity counts from now on."""

        def given() -> bool:
            error, self.producer = self.init(**options)
            assert error in (*PASSING, ErrorCode.NONE), error.name
            return not error

        wait_for(given, what="an identity")
        self._sequences = itertools.count()
        return self.producer

    def add(
        self,
        *keys: tuple[str, int],
        version: int = 3,
        producer: tuple[int, int] | None = None,
        verify_only: bool = False,
    ) -> dict[tuple[str, int], ErrorCode]:
        """AddPartitionsToTxn: the error of each partition."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in keys]
        producer_id, epoch = producer or self.producer
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
            found = self.client.call(request, version).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=topics,
            )
            answer = self.client.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
            [result] = answer.results_by_transaction
            found = result.topic_results
        return {
            (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
            for topic in found
            for one in topic.results_by_partition
        }

    def add_offsets(
        self, group: str, version: int = 3, *, producer: tuple[int, int] | None = None
    ) -> ErrorCode:
        """AddOffsetsToTxn."""
        producer_id, epoch = producer or self.producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=group,
        )
        return ErrorCode(self.client.call(request, version).error_code)

    def produce(self, topic: str, *values: bytes, partition: int = 0, version: int = 9) -> ErrorCode:
        """Produce the next batch of the transaction to a partition."""
        producer_id, epoch = self.producer
        data = batch(
            *values,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=next(self._sequences) if len(values) == 1 else 0,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=partition, records=data)]
                )
            ],
        )
        answer = self.client.call(request, version)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def end(
        self, *, commit: bool = True, version: int = 3, producer: tuple[int, int] | None = None
    ) -> ErrorCode:
        """EndTxn."""
        producer_id, epoch = producer or self.producer
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        return ErrorCode(self.client.call(request, version).error_code)

    def ended(self, *, commit: bool = True) -> None:
        """EndTxn until all markers are written."""
        wait_for(lambda: self.end(commit=commit) is ErrorCode.NONE and self.is_over, what="the end")

    @property
    def is_over(self) -> bool:
        """Whether no transaction of the id is open or decided."""
        return self.state not in ("Ongoing", "PrepareCommit", "PrepareAbort")

    @property
    def state(self) -> str:
        """The state of the id; empty when there is no such id."""
        return str(self.describe().transaction_state)

    def describe(self, transactional_id: str | None = None) -> Any:
        """DescribeTransactions of one id."""
        name = self.transactional_id if transactional_id is None else transactional_id
        [state] = self.client.call(
            DescribeTransactionsRequest(transactional_ids=[name]), 0
        ).transaction_states
        return state

    def listed(
        self,
        version: int = 1,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
    ) -> Any:
        """ListTransactions."""
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=duration_ms
        )
        return self.client.call(request, version)
