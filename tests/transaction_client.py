"""A client that asks about transactions, request by request, as a test says."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from pkafka.errors import ErrorCode
from pkafka.model import NO_PRODUCER_ID
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
from pkafka.protocol.schema import Message
from pkafka.server.coordinator.keyed_topic import partition_of
from tests.raw_client import RawClient
from tests.talk import wait_for

INIT_VERSIONS = range(6)
ADD_VERSIONS = range(4)
"""Of AddPartitionsToTxn as producers send it."""
BATCHED_VERSIONS = range(4, 6)
"""Of AddPartitionsToTxn as brokers send it."""
OFFSETS_VERSIONS = range(5)
END_VERSIONS = range(5)
LIST_VERSIONS = range(2)

Places = Sequence[tuple[str, Sequence[int]]]
"""Topics and partitions, as a request has them."""


class Identity(NamedTuple):
    """Names a producer."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1


class TransactionClient:
    """One connection to the broker that coordinates all transactions."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = RawClient(bootstrap)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def ask(self, message: Message, version: int) -> Any:
        """Ask, and give back what is answered."""
        return self.client.call(message, version)

    def coordinate(self, partitions: int) -> None:
        """Have __transaction_state made, and wait until all of it is coordinated and there are unused ids."""
        find = FindCoordinatorRequest(key="t", key_type=1)
        wait_for(lambda: not self.client.call(find, 1).error_code, what="a coordinator")
        names = {
            partition_of(name, partitions): name for name in (f"warm-{n}" for n in range(20 * partitions))
        }
        request = DescribeTransactionsRequest(transactional_ids=list(names.values()))

        def are_loaded() -> bool:
            states = self.client.call(request, 0).transaction_states
            return all(one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND for one in states)

        wait_for(are_loaded, what="the coordinators of transactions")
        unused = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        wait_for(lambda: not self.client.call(unused, 1).error_code, what="unused producer ids")

    # -- a producer's requests --

    def init(
        self,
        transactional_id: str | None,
        expected: Identity | None = None,
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> Identity:
        """Ask for an identity; what is answered, whatever the error."""
        named = expected or Identity()
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=named.producer_id,
            producer_epoch=named.epoch,
        )
        answer = self.ask(request, version)
        return Identity() if answer is None else Identity(answer.producer_id, answer.producer_epoch)

    def add(self, transactional_id: str, producer: Identity, places: Places, *, version: int = 3) -> Any:
        """Put partitions into a transaction, as a producer does."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=_topics(places),
        )
        return self.ask(request, version)

    def add_offsets(
        self, transactional_id: str, producer: Identity, group_id: str = "g", *, version: int = 4
    ) -> Any:
        """Put the offsets of a group into a transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        return self.ask(request, version)

    def end(self, transactional_id: str, producer: Identity, *, commit: bool = True, version: int = 4) -> Any:
        """Commit or abort a transaction."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        return self.ask(request, version)

    # -- requests of brokers and operators --

    def batched(self, *transactions: AddPartitionsToTxnTransaction, version: int = 5) -> Any:
        """Add partitions to several transactions, or verify them, as brokers do."""
        return self.ask(AddPartitionsToTxnRequest(transactions=list(transactions)), version)

    def describe(self, *transactional_ids: str) -> Any:
        return self.ask(DescribeTransactionsRequest(transactional_ids=list(transactional_ids)), 0)

    def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int = -1,
        version: int = 1,
    ) -> Any:
        """List transactional ids of the broker."""
        request = ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=duration_ms
        )
        return self.ask(request, version)

    def state(self, transactional_id: str) -> str:
        """The state of an id as DescribeTransactions names it; empty when there is none."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        [found] = self.client.call(request, 0).transaction_states
        return str(found.transaction_state)

    def wait_for_state(self, transactional_id: str, state: str) -> None:
        """Wait until an id is in a state."""
        wait_for(
            lambda: self.state(transactional_id) == state,
            timeout_s=60,
            what=f"{transactional_id} in {state}",
        )


def part(
    transactional_id: str, producer: Identity, places: Places, *, verify: bool
) -> AddPartitionsToTxnTransaction:
    """One transaction of a batched request."""
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify,
        topics=_topics(places),
    )


def _topics(places: Places) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions)) for topic, partitions in places]
