"""Transactions as the admin client lists, describes and ends them, at coordinators and leaders that move and refuse."""

from collections.abc import Callable, Iterator

import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.transaction_results import (
    AbortSpec,
    ProducerIdAndEpoch,
    TransactionDescription,
    TransactionList,
    TransactionListing,
    TransactionState,
)
from pkafka.clients.errors import UnsupportedApiError
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import (
    describe_producers,
    describe_transactions,
    find_coordinator,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from pkafka.protocol.schema import Message
from tests.fakes.broker import FakeBroker
from tests.skipped_time import LaterClock
from tests.talk import code_of

PARTITION = TopicPartition("t", 0)
SPEC = AbortSpec(PARTITION, 7, 3, 2)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.FIND_COORDINATOR] = lambda request, _version: (
            find_coordinator.FindCoordinatorResponse(
                coordinators=[
                    find_coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=broker.port)
                    for key in request.coordinator_keys  # type: ignore[attr-defined]
                ]
            )
        )
        yield broker


@pytest.fixture
def admin(broker: FakeBroker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 1}) as admin:
        admin.cluster.refresh()
        yield admin


def codes(*answers: ErrorCode) -> Callable[[], ErrorCode]:
    """One code after another, the last one for good."""
    left = list(answers)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def last(broker: FakeBroker) -> Message:
    return broker.requests[-1][2]


# -- list --------------------------------------------------------------------------------------------------


def listing(code: Callable[[], ErrorCode]) -> Callable[[Message, int], Message]:
    def answer(_request: Message, _version: int) -> Message:
        states = [
            list_transactions.TransactionState(
                transactional_id=name, producer_id=number, transaction_state=state
            )
            for name, number, state in (("b", 5, "Ongoing"), ("a", 6, "Astonished"))
        ]
        error = code()
        return list_transactions.ListTransactionsResponse(
            error_code=error, transaction_states=[] if error else states
        )

    return answer


def test_ids_are_listed_as_the_coordinator_answers(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ApiKey.LIST_TRANSACTIONS] = listing(codes(ErrorCode.NONE))
    assert admin.list_transactions() == TransactionList(
        (
            TransactionListing("b", 1, 5, TransactionState.ONGOING),
            TransactionListing("a", 1, 6, TransactionState.UNKNOWN),
        ),
        {},
    )
    admin.list_transactions(states=[TransactionState.PREPARE_ABORT], producer_ids=[5], duration_ms=9)
    request = last(broker)
    assert isinstance(request, list_transactions.ListTransactionsRequest)
    found = (request.state_filters, request.producer_id_filters, request.duration_filter)
    assert found == (["PrepareAbort"], [5], 9)


def test_a_coordinator_that_loads_is_asked_again(broker: FakeBroker, admin: Admin) -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.handlers[ApiKey.LIST_TRANSACTIONS] = listing(codes(loading, loading, ErrorCode.NONE))
    assert len(admin.list_transactions().transactions) == 2
    assert broker.count(ApiKey.LIST_TRANSACTIONS) == 3


def test_a_broker_that_does_not_list_is_named(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ApiKey.LIST_TRANSACTIONS] = listing(codes(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    found = admin.list_transactions()
    assert (found.transactions, code_of(found.errors[1])) == ((), ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_an_old_broker_cannot_filter_by_duration() -> None:
    old = {
        ApiKey.API_VERSIONS: (0, 3),
        ApiKey.METADATA: (0, 12),
        ApiKey.LIST_TRANSACTIONS: (0, 0),
    }
    with FakeBroker({}, old) as broker, Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        broker.handlers[ApiKey.LIST_TRANSACTIONS] = listing(codes(ErrorCode.NONE))
        assert len(admin.list_transactions().transactions) == 2
        with pytest.raises(UnsupportedApiError):
            admin.list_transactions(duration_ms=1_000)


# -- describe ----------------------------------------------------------------------------------------------


def test_ids_are_described_by_their_coordinators(broker: FakeBroker, admin: Admin) -> None:
    code = codes(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE)

    def answer(request: Message, _version: int) -> Message:
        assert isinstance(request, describe_transactions.DescribeTransactionsRequest)
        error, missing = code(), ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return describe_transactions.DescribeTransactionsResponse(
            transaction_states=[
                describe_transactions.TransactionState(
                    error_code=missing if one == "none" and not error else error,
                    transactional_id=one,
                    transaction_state="PrepareCommit",
                    transaction_timeout_ms=60_000,
                    transaction_start_time_ms=-1 if one == "idle" else 5,
                    producer_id=7,
                    producer_epoch=3,
                    topics=[describe_transactions.TopicData(topic="t", partitions=[2, 0])],
                )
                for one in request.transactional_ids
            ]
        )

    broker.handlers[ApiKey.DESCRIBE_TRANSACTIONS] = answer
    found = admin.describe_transactions(["a", "idle", "none"])
    partitions = (TopicPartition("t", 2), PARTITION)
    description = TransactionDescription(1, TransactionState.PREPARE_COMMIT, 7, 3, 60_000, 5, partitions)
    assert found["a"] == description
    assert found["idle"] == description._replace(start_time_ms=None)
    assert code_of(found["none"]) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert broker.count(ApiKey.DESCRIBE_TRANSACTIONS) == broker.count(ApiKey.FIND_COORDINATOR) == 3
    (lookup,) = {message.key_type for key, _, message in broker.requests if key is ApiKey.FIND_COORDINATOR}  # type: ignore[attr-defined]
    assert lookup == 1


# -- fence -------------------------------------------------------------------------------------------------


def fencing(code: Callable[[], ErrorCode]) -> Callable[[Message, int], Message]:
    def answer(_request: Message, _version: int) -> Message:
        error = code()
        return init_producer_id.InitProducerIdResponse(
            error_code=error, producer_id=-1 if error else 7, producer_epoch=-1 if error else 4
        )

    return answer


def test_a_fence_waits_until_the_transaction_is_aborted(broker: FakeBroker, admin: Admin) -> None:
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    broker.handlers[ApiKey.INIT_PRODUCER_ID] = fencing(codes(busy, busy, ErrorCode.NONE))
    assert admin.fence_producers(["a"]) == {"a": ProducerIdAndEpoch(7, 4)}
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 3
    request = last(broker)
    assert isinstance(request, init_producer_id.InitProducerIdRequest)
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("a", -1, -1)
    # KAFKA-16047: a coordinator waits for its own log no longer than the transaction may last.
    assert request.transaction_timeout_ms == admin.cluster.config.request_timeout_ms


@pytest.mark.parametrize(("request_ms", "asked_ms"), [(2_000, 5_000), (20_000, 20_000), (3_600_000, 60_000)])
def test_a_fence_asks_for_a_transaction_that_brokers_take(
    broker: FakeBroker, request_ms: int, asked_ms: int
) -> None:
    broker.handlers[ApiKey.INIT_PRODUCER_ID] = fencing(codes(ErrorCode.NONE))
    with Admin({"bootstrap.servers": broker.bootstrap, "request.timeout.ms": request_ms}) as admin:
        admin.fence_producers(["a"])
    request = last(broker)
    assert isinstance(request, init_producer_id.InitProducerIdRequest)
    assert request.transaction_timeout_ms == asked_ms


def test_each_id_is_fenced_with_an_outcome_of_its_own(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ApiKey.INIT_PRODUCER_ID] = fencing(
        codes(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.NONE)
    )
    found = admin.fence_producers(["a", "b"])
    assert code_of(found["a"]) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert found["b"] == ProducerIdAndEpoch(7, 4)


def test_a_fence_ends_with_the_time_out(broker: FakeBroker, admin: Admin) -> None:
    clock = admin.cluster.clock = LaterClock()
    busy = fencing(codes(ErrorCode.CONCURRENT_TRANSACTIONS))
    broker.handlers[ApiKey.INIT_PRODUCER_ID] = clock.skips_at(3, busy)
    found = admin.fence_producers(["a"], timeout_ms=60_000)["a"]
    assert code_of(found) is ErrorCode.CONCURRENT_TRANSACTIONS


# -- abort -------------------------------------------------------------------------------------------------


def marking(code: Callable[[], ErrorCode]) -> Callable[[Message, int], Message]:
    def answer(request: Message, _version: int) -> Message:
        assert isinstance(request, write_txn_markers.WriteTxnMarkersRequest)
        (marker,) = request.markers
        result = write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=0, error_code=code())
        topic = write_txn_markers.WritableTxnMarkerTopicResult(name="t", partitions=[result])
        return write_txn_markers.WriteTxnMarkersResponse(
            markers=[
                write_txn_markers.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[topic])
            ]
        )

    return answer


def test_a_marker_goes_to_the_leader_where_it_may_be_by_now(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ApiKey.WRITE_TXN_MARKERS] = marking(
        codes(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE)
    )
    assert admin.abort_transaction(SPEC) is None
    assert broker.count(ApiKey.WRITE_TXN_MARKERS) == 2
    request = last(broker)
    assert isinstance(request, write_txn_markers.WriteTxnMarkersRequest)
    (marker,) = request.markers
    found = (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result)
    assert found == (7, 3, 2, False)
    assert [(each.name, each.partition_indexes) for each in marker.topics] == [("t", [0])]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_marker_that_is_refused_is_not_sent_again(
    broker: FakeBroker, admin: Admin, code: ErrorCode
) -> None:
    broker.handlers[ApiKey.WRITE_TXN_MARKERS] = marking(codes(code))
    assert code_of(admin.abort_transaction(SPEC)) is code
    assert broker.count(ApiKey.WRITE_TXN_MARKERS) == 1


def test_no_marker_goes_to_a_partition_that_does_not_exist(broker: FakeBroker, admin: Admin) -> None:
    outcome = admin.abort_transaction(SPEC._replace(partition=TopicPartition("t", 9)))
    assert code_of(outcome) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.count(ApiKey.WRITE_TXN_MARKERS) == 0


# -- producers of one replica ------------------------------------------------------------------------------


def test_a_replica_is_asked_in_place_of_the_leader(broker: FakeBroker, admin: Admin) -> None:
    def answer(_request: Message, _version: int) -> Message:
        partition = describe_producers.PartitionResponse(
            partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        topic = describe_producers.TopicResponse(name="t", partitions=[partition])
        return describe_producers.DescribeProducersResponse(topics=[topic])

    broker.handlers[ApiKey.DESCRIBE_PRODUCERS] = answer
    found = admin.describe_producers([PARTITION], broker=1)
    assert code_of(found[PARTITION]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (
        broker.count(ApiKey.DESCRIBE_PRODUCERS) == 1
    )  # that broker will not have a replica the next time either
    with pytest.raises(ApiError):
        admin.describe_producers([PARTITION], broker=9)
