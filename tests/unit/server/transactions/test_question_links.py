"""Questions about transactions to a coordinator in another broker."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pkafka.errors import ErrorCode
from pkafka.model import TRANSACTION_STATE_TOPIC
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions.transaction import PartitionKey, Producer
from tests.fakes.broker import NO_ANSWER, FakeBroker
from tests.unit.server.workers import Family, until, with_family

STATES = range(3)
PRODUCER = Producer(7, 3)
ADD = ApiKey.ADD_PARTITIONS_TO_TXN
Codes = dict[PartitionKey, int]


@pytest.fixture
def other() -> Iterator[FakeBroker]:
    with FakeBroker() as broker:
        yield broker


def answering(broker: FakeBroker, codes: Codes) -> list[AddPartitionsToTxnRequest]:
    """Let a broker answer with these codes, NONE for other partitions; returns the requests that it gets."""
    requests: list[AddPartitionsToTxnRequest] = []

    def answer(request: AddPartitionsToTxnRequest, _version: int) -> AddPartitionsToTxnResponse:
        requests.append(request)
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=codes.get((topic.name, index), 0),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in one.topics
                    ],
                )
                for one in request.transactions
            ]
        )

    broker.handlers[ADD] = answer  # type: ignore[assignment]
    return requests


def with_worker(
    root: Path,
    broker: FakeBroker,
    body: Callable[[Worker], Awaitable[None]],
    settings: dict[str, str] | None = None,
) -> None:
    """Run a body with a worker whose transactions are all coordinated by another broker."""

    async def run(family: Family) -> None:
        [worker] = family.workers
        endpoint = UpdateMetadataEndpoint(host="127.0.0.1", port=broker.port, listener="PLAINTEXT")
        states = [UpdateMetadataPartitionState(partition_index=each, leader=1) for each in STATES]
        topic = UpdateMetadataTopicState(
            topic_name=TRANSACTION_STATE_TOPIC, topic_id=b"s" * 16, partition_states=states
        )
        worker.metadata.apply(
            UpdateMetadataRequest(
                controller_epoch=1,
                topic_states=[topic],
                live_brokers=[UpdateMetadataBroker(id=1, endpoints=[endpoint])],
            )
        )
        try:
            await body(worker)
        finally:
            worker.questions.close()

    count = {"transaction.state.log.num.partitions": str(len(STATES))}
    with_family(root, run, workers=1, settings={**count, **(settings or {})})


async def asked(
    worker: Worker, *questions: tuple[str, Producer, PartitionKey]
) -> list[tuple[PartitionKey, ErrorCode]]:
    """The answers to questions of one turn, in the order in which they came."""
    answers: list[tuple[PartitionKey, ErrorCode]] = []

    def taken(key: PartitionKey) -> Callable[[ErrorCode], None]:
        return lambda code: answers.append((key, code))

    for name, producer, key in questions:
        worker.questions.ask(name, producer, key, taken(key))
    await until(lambda: len(answers) == len(questions))
    return answers


async def code_of(worker: Worker) -> ErrorCode:
    [(_key, code)] = await asked(worker, ("x", PRODUCER, ("t", 0)))
    return code


def rows(request: AddPartitionsToTxnRequest) -> list[tuple[str, int, int, bool, Sequence[PartitionKey]]]:
    return [
        (
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            one.verify_only,
            [(topic.name, index) for topic in one.topics for index in topic.partitions],
        )
        for one in request.transactions
    ]


def test_questions_of_one_turn_go_together(tmp_path: Path, other: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        requests = answering(other, {("t", 1): int(ErrorCode.TRANSACTION_ABORTABLE)})
        answers = await asked(
            worker,
            ("x", PRODUCER, ("t", 0)),
            ("x", PRODUCER, ("t", 1)),
            ("x", PRODUCER, ("u", 0)),
            ("y", Producer(8, 0), ("t", 0)),
        )
        assert answers == [
            (("t", 0), ErrorCode.NONE),
            (("t", 1), ErrorCode.TRANSACTION_ABORTABLE),
            (("u", 0), ErrorCode.NONE),
            (("t", 0), ErrorCode.NONE),
        ]
        assert [rows(request) for request in requests] == [
            [("x", 7, 3, True, [("t", 0), ("t", 1), ("u", 0)]), ("y", 8, 0, True, [("t", 0)])]
        ]
        assert worker.questions.failures == 1
        assert worker.questions.times.count == 2

    with_worker(tmp_path, other, body)


def test_two_producers_of_one_id_do_not_share_a_request(tmp_path: Path, other: FakeBroker) -> None:
    """A broker tells the answers apart by the id."""

    async def body(worker: Worker) -> None:
        requests = answering(other, {})
        newer = PRODUCER._replace(epoch=4)
        await asked(worker, ("x", PRODUCER, ("t", 0)), ("x", newer, ("t", 0)))
        assert [row[2] for request in requests for row in rows(request)] == [3, 4]
        assert len(requests) == 2

    with_worker(tmp_path, other, body)


@pytest.mark.parametrize(("knows", "version"), [(4, 4), (5, 5)])
def test_the_newest_version_that_both_know_is_spoken(tmp_path: Path, knows: int, version: int) -> None:
    async def body(worker: Worker) -> None:
        assert await code_of(worker) is ErrorCode.INVALID_TXN_STATE
        assert [asked_version for key, asked_version, _ in broker.requests if key == ADD] == [version]

    with FakeBroker(versions={ApiKey.API_VERSIONS: (0, 4), ADD: (0, knows)}) as broker:
        answering(broker, {("t", 0): int(ErrorCode.INVALID_TXN_STATE)})
        with_worker(tmp_path, broker, body)


@pytest.mark.parametrize("versions", [{}, {ADD: (0, 3)}])
def test_a_broker_that_cannot_be_asked_is_not_waited_for(
    tmp_path: Path, versions: dict[ApiKey, tuple[int, int]]
) -> None:
    """Transactions go on, as in Kafka."""

    async def body(worker: Worker) -> None:
        assert await code_of(worker) is ErrorCode.NONE
        assert all(key != ADD for key, _version, _request in broker.requests)

    with FakeBroker(versions={ApiKey.API_VERSIONS: (0, 4), **versions}) as broker:
        with_worker(tmp_path, broker, body)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (999, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_the_coordinator_says(tmp_path: Path, other: FakeBroker, said: int, heard: ErrorCode) -> None:
    async def body(worker: Worker) -> None:
        answering(other, {("t", 0): int(said)})
        assert await code_of(worker) is heard

    with_worker(tmp_path, other, body)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_request_that_is_refused_as_a_whole(
    tmp_path: Path, other: FakeBroker, said: ErrorCode, heard: ErrorCode
) -> None:
    async def body(worker: Worker) -> None:
        other.handlers[ADD] = lambda _request, _version: AddPartitionsToTxnResponse(error_code=said)
        assert await code_of(worker) is heard

    with_worker(tmp_path, other, body)


def test_what_an_answer_leaves_out_is_not_verified(tmp_path: Path, other: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        other.handlers[ADD] = lambda _request, _version: AddPartitionsToTxnResponse()
        assert await code_of(worker) is ErrorCode.UNKNOWN_SERVER_ERROR

    with_worker(tmp_path, other, body)


def test_a_lost_connection_is_made_again(tmp_path: Path, other: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        other.handlers[ADD] = lambda _request, _version: None
        assert await code_of(worker) is ErrorCode.NETWORK_EXCEPTION
        answering(other, {})
        assert await code_of(worker) is ErrorCode.NONE

    with_worker(tmp_path, other, body)


def test_a_silent_broker(tmp_path: Path, other: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        other.handlers[ADD] = lambda _request, _version: NO_ANSWER
        assert await code_of(worker) is ErrorCode.NETWORK_EXCEPTION

    with_worker(tmp_path, other, body, {"request.timeout.ms": "300"})


def test_a_broker_that_is_gone(tmp_path: Path, other: FakeBroker) -> None:
    async def body(worker: Worker) -> None:
        answering(other, {})
        assert await code_of(worker) is ErrorCode.NONE
        worker.metadata.apply(UpdateMetadataRequest(controller_epoch=1))
        assert await code_of(worker) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_worker(tmp_path, other, body)
