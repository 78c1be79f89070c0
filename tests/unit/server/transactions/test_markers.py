"""Markers that are owed, to this broker's workers and over real connections to others, which move, die and refuse."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState
from pkafka.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pkafka.server.cluster.metadata import LEADER_DURING_DELETE
from pkafka.server.processes.worker import Worker
from pkafka.server.transactions import markers as sender_module
from pkafka.server.transactions.debts import OwedMarkers, Receiver, Share
from pkafka.server.transactions.hosted import Marker
from pkafka.server.transactions.incarnations import sender_of
from pkafka.server.transactions.marker_owners import Answered, Row
from pkafka.server.transactions.markers import MarkerSender
from pkafka.server.transactions.transaction import PartitionKey
from tests.unit.server.transactions.marker_receiver import MarkerReceiver
from tests.unit.server.workers import Family, until, with_family

T0, T1 = ("t", 0), ("t", 1)
THERE0, THERE1 = ("there", 0), ("there", 1)
COMMIT = Marker(producer_id=7, producer_epoch=3, coordinator_epoch=5, is_commit=True)
HERE, ONE, TWO = 0, 1, 2
FOREVER_MS = 3_600_000


class Bench:
    """Markers of a worker of broker 0, in a cluster whose other brokers the test plays."""

    def __init__(self, family: Family, brokers: dict[int, MarkerReceiver], *, heals: bool = True) -> None:
        self.worker: Worker = family.workers[0]
        self.brokers = brokers
        self.live = list(brokers)
        self.existing: Sequence[PartitionKey] | None = None
        self.asked: list[list[PartitionKey]] = []
        self.sender = MarkerSender(
            metadata=self.worker.metadata,
            partitions=self.worker.partitions,
            owners=self.worker.marker_owners,
            new_link=self.worker._marker_link,
            existing=self._existing,
            timer=self.worker.timer,
            spawn=self.worker.tasks.spawn,
            heals=heals,
        )
        self.paid: list[int] = []

    async def _existing(self, keys: Sequence[PartitionKey]) -> Sequence[PartitionKey] | None:
        self.asked.append(list(keys))
        return self.existing

    def led(self, leaders: dict[PartitionKey, int], *, epoch: int = 1) -> None:
        """The controller says who leads, and which brokers live."""
        topics: dict[str, list[UpdateMetadataPartitionState]] = {}
        for (topic, index), leader in leaders.items():
            topics.setdefault(topic, []).append(
                UpdateMetadataPartitionState(partition_index=index, leader=leader, leader_epoch=epoch)
            )
        self.worker.metadata.apply(
            UpdateMetadataRequest(
                controller_epoch=1,
                topic_states=[
                    UpdateMetadataTopicState(topic_name=name, topic_id=b"i" * 16, partition_states=states)
                    for name, states in topics.items()
                ],
                live_brokers=[
                    UpdateMetadataBroker(
                        id=broker,
                        endpoints=[
                            UpdateMetadataEndpoint(
                                host="127.0.0.1", port=self.brokers[broker].port, listener="PLAINTEXT"
                            )
                        ],
                    )
                    for broker in self.live
                ],
            )
        )

    def owe(self, *keys: PartitionKey, producer_id: int = 7) -> OwedMarkers:
        marker = COMMIT._replace(producer_id=producer_id)
        return self.sender.owe("x", marker, keys, lambda: self.paid.append(producer_id))

    async def is_paid(self, *producer_ids: int) -> None:
        await until(lambda: sorted(self.paid) == sorted(producer_ids))


def on_bench(
    root: Path, body: Callable[[Bench], Awaitable[None]], *, workers: int = 1, **options: Any
) -> None:
    """Run a test with two other brokers."""

    async def run(family: Family) -> None:
        await family.lead("t", range(2))
        async with AsyncExitStack() as stack:
            brokers = {number: await stack.enter_async_context(MarkerReceiver()) for number in (ONE, TWO)}
            bench = Bench(family, brokers, **options)
            try:
                await body(bench)
            finally:
                bench.sender.close()
                await until(lambda: not family.workers[0].tasks.running)

    with_family(root, run, workers=workers)


@pytest.fixture
def no_pauses_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent again, is sent because of news."""
    for name in ("_AGAIN_MS", "_AGAIN_MAX_MS", "_LOOK_AGAIN_MS", "_FENCED_AGAIN_MS"):
        monkeypatch.setattr(sender_module, name, FOREVER_MS)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent again, is sent again soon."""
    for name in ("_AGAIN_MS", "_AGAIN_MAX_MS", "_LOOK_AGAIN_MS", "_FENCED_AGAIN_MS"):
        monkeypatch.setattr(sender_module, name, 1)


def test_partitions_of_this_broker_get_theirs_without_a_connection(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.led({T0: HERE, T1: HERE})
        debt = bench.owe(T0, T1, T0)
        assert list(debt.partitions) == [T0, T1]
        assert not bench.paid  # not before owe has returned
        await bench.is_paid(7)
        assert not debt.partitions

    on_bench(tmp_path, body, workers=2)


def test_another_broker_gets_all_that_has_come_in_one_request(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.holds = True
        bench.led({T0: HERE, THERE0: ONE, THERE1: ONE})
        bench.owe(THERE0, producer_id=1)
        await until(lambda: len(one.requests) == 1)
        bench.owe(THERE0, T0, THERE1, producer_id=2)
        bench.owe(THERE1, producer_id=3)
        cancelled = bench.owe(THERE1, producer_id=4)
        cancelled.cancel()
        await until(lambda: bench.worker.partitions.led[T0].log.log_end_offset == 1)
        assert len(one.requests) == 1  # one is in hand
        one.holds = False
        one.answer()
        await bench.is_paid(1, 2, 3)
        assert one.markers == [
            [(1, 5, True, {"there": [0]})],
            [(2, 5, True, {"there": [0, 1]}), (3, 5, True, {"there": [1]})],
        ]
        client_id, version, _request = one.requests[0]
        sender = sender_of(client_id)
        assert version == 1
        assert sender is not None
        assert (sender.broker_id, sender.worker, sender.start) == (0, 0, bench.worker.setup.start)

    on_bench(tmp_path, body)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
@pytest.mark.usefixtures("short_pauses")
def test_a_refusal_that_passes_is_asked_again_for_its_partition_alone(
    tmp_path: Path, code: ErrorCode
) -> None:
    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.code = lambda _topic, index: code if index == 0 and len(one.requests) < 3 else ErrorCode.NONE
        bench.led({THERE0: ONE, THERE1: ONE})
        debt = bench.owe(THERE0, THERE1)
        await until(lambda: len(one.requests) > 1)
        assert list(debt.partitions) == [THERE0]
        await bench.is_paid(7)
        topics = [[one[-1] for one in request] for request in one.markers]
        assert topics == [[{"there": [0, 1]}], [{"there": [0]}], [{"there": [0]}]]

    on_bench(tmp_path, body)


@pytest.mark.usefixtures("short_pauses")
def test_a_lost_connection_is_followed_by_one_that_shuts_it_out(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.holds = True
        bench.led({THERE0: ONE})
        bench.owe(THERE0)
        await until(lambda: len(one.requests) == 1)
        one.hang_up()
        one.holds = False
        await bench.is_paid(7)
        first, second = (sender_of(client_id) for client_id, _version, _request in one.requests)
        assert first is not None
        assert second is not None
        assert first[:3] == second[:3]
        assert first.number < second.number

    on_bench(tmp_path, body)


@pytest.mark.usefixtures("no_pauses_end")
def test_a_marker_follows_its_leader_at_once(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        one, two = bench.brokers[ONE], bench.brokers[TWO]
        one.code = lambda _topic, _index: ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.led({THERE0: ONE, ("other", 0): TWO})
        bench.owe(THERE0)
        await until(lambda: len(one.requests) == 1)
        bench.led({("other", 0): ONE})  # no news of its topic
        bench.led({THERE0: TWO}, epoch=2)
        await bench.is_paid(7)
        assert (len(one.requests), len(two.requests)) == (1, 1)
        assert bench.sender.unknown_destinations == 0

    on_bench(tmp_path, body)


@pytest.mark.usefixtures("no_pauses_end")
def test_markers_without_a_leader_wait_for_one(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.led({THERE0: -1, THERE1: 9})  # none, and one that is dead
        bench.owe(THERE0, THERE1)
        await until(lambda: bench.sender.unknown_destinations == 2)
        bench.led({THERE0: ONE, THERE1: TWO}, epoch=2)
        await bench.is_paid(7)
        assert bench.sender.unknown_destinations == 0
        assert not bench.asked

    on_bench(tmp_path, body)


@pytest.mark.usefixtures("no_pauses_end")
def test_a_broker_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    """It may hang, or be cut off, with a request in hand; when it is back it gets another one."""

    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.holds = True
        bench.led({THERE0: ONE})
        bench.owe(THERE0)
        await until(lambda: len(one.requests) == 1)
        bench.live = [TWO]
        bench.led({})
        await until(lambda: bool(bench.sender._waiting.topics))
        one.holds = False
        bench.live = [ONE, TWO]
        bench.led({})
        await bench.is_paid(7)
        assert len(one.requests) == 2

    on_bench(tmp_path, body)


def test_a_deleted_partition_lacks_no_marker(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.existing = []
        bench.led({THERE0: ONE})
        bench.led({THERE0: LEADER_DURING_DELETE}, epoch=2)
        bench.owe(THERE0, THERE1)
        await bench.is_paid(7)
        assert bench.asked == [[THERE0, THERE1]]

    on_bench(tmp_path, body)


@pytest.mark.parametrize("says", [[THERE0], None], ids=["exists", "does not know"])
@pytest.mark.usefixtures("no_pauses_end")
def test_metadata_that_lack_a_partition_do_not_prove_that_it_is_deleted(
    tmp_path: Path, says: list[PartitionKey] | None
) -> None:
    """The worker has just come, and has not heard of all partitions yet."""

    async def body(bench: Bench) -> None:
        bench.existing = says
        debt = bench.owe(THERE0)
        await until(lambda: bool(bench.asked) and not bench.worker.tasks.running)
        assert list(debt.partitions) == [THERE0]
        assert bench.sender.unknown_destinations == 1
        bench.led({THERE0: ONE})
        await bench.is_paid(7)
        assert len(bench.brokers[ONE].requests) == 1

    on_bench(tmp_path, body)


FENCES = [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]


@pytest.mark.parametrize("code", FENCES)
def test_a_transaction_that_another_marker_has_ended_is_over(
    tmp_path: Path, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.code = lambda _topic, _index: code
        one.producers = [
            ProducerState(producer_id=6, producer_epoch=3, current_txn_start_offset=4),
            ProducerState(producer_id=7, producer_epoch=8, coordinator_epoch=9),
        ]
        bench.led({THERE0: ONE})
        bench.owe(THERE0)
        await bench.is_paid(7)

    on_bench(tmp_path, body)
    [line] = [one.getMessage() for one in caplog.records if "refuses" in one.getMessage()]
    assert line == (
        "there-0 refuses the marker of transactional id x, which has producer id 7, epoch 3 and coordinator epoch 5:"
        f" {code.name}. Another marker, with epoch 8 and coordinator epoch 9, has ended the transaction there"
    )


@pytest.mark.parametrize("code", FENCES)
@pytest.mark.usefixtures("short_pauses")
def test_a_transaction_that_is_still_open_is_ended_when_that_is_possible(
    tmp_path: Path, code: ErrorCode
) -> None:
    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.code = lambda _topic, _index: code
        one.producers = [ProducerState(producer_id=7, producer_epoch=8, current_txn_start_offset=4)]
        bench.led({THERE0: ONE})
        bench.owe(THERE0)
        await until(lambda: len(one.markers) > 2)
        assert not bench.paid
        one.code = lambda _topic, _index: ErrorCode.NONE
        await bench.is_paid(7)

    on_bench(tmp_path, body)


def test_partitions_of_this_broker_say_why_they_refuse(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        bench.led({T0: HERE, T1: HERE})
        for key in (T0, T1):
            operators = COMMIT._replace(producer_epoch=4), [key]
            bench.worker.marker_owners.write([operators], None, lambda _codes: None)
        bench.owe(T0, T1)
        await bench.is_paid(7)

    on_bench(tmp_path, body, workers=2)


def test_as_in_kafka_a_fenced_marker_is_forgotten_where_that_is_wanted(tmp_path: Path) -> None:
    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.code = lambda _topic, _index: ErrorCode.INVALID_PRODUCER_EPOCH
        bench.led({THERE0: ONE, THERE1: ONE})
        debt = bench.owe(THERE0, THERE1)
        await until(lambda: debt.is_cancelled)
        assert not bench.paid
        assert not any(isinstance(one, DescribeProducersRequest) for *_, one in one.requests)

    on_bench(tmp_path, body, heals=False)


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_log_that_holds_no_transactions_lacks_no_marker(tmp_path: Path, code: ErrorCode) -> None:
    async def body(bench: Bench) -> None:
        bench.brokers[ONE].code = lambda _topic, _index: code
        bench.led({THERE0: ONE})
        bench.owe(THERE0)
        await bench.is_paid(7)

    on_bench(tmp_path, body)


def test_what_a_debt_that_is_cancelled_hears_later_counts_for_nothing(tmp_path: Path) -> None:
    """The id has another coordinator, or this one has read it anew and owes its markers once more (KAFKA-16352)."""

    async def body(bench: Bench) -> None:
        one = bench.brokers[ONE]
        one.holds = True
        bench.led({THERE0: ONE})
        old = bench.owe(THERE0, producer_id=1)
        await until(lambda: len(one.requests) == 1)
        old.cancel()
        one.code = lambda _topic, _index: ErrorCode.NOT_LEADER_OR_FOLLOWER
        new = bench.owe(THERE0, producer_id=1)
        one.answer()
        await until(lambda: len(one.requests) == 2)
        assert list(new.partitions) == [THERE0]
        assert not bench.paid
        one.code = lambda _topic, _index: ErrorCode.NONE
        one.answer()
        await bench.is_paid(1)

    on_bench(tmp_path, body)


def test_a_request_has_a_bound() -> None:
    sent: list[Sequence[Row]] = []
    answers: list[Answered] = []

    def send(rows: Sequence[Row], answered: Answered) -> None:
        sent.append(rows)
        answers.append(answered)

    told: list[tuple[int, int]] = []
    receiver = Receiver(
        send, lambda _receiver, share, codes: told.append((len(share.keys), len(codes or [])))
    )

    def owed(count: int) -> Share:
        keys = [("t", index) for index in range(count)]
        return Share(OwedMarkers("x", COMMIT, keys, lambda: None), keys)

    for count in (1, 9_999, 2, 20_000, 3):
        receiver.put(owed(count))
    while len(answers) < 5:
        answers[-1]([[0] * len(keys) for _marker, keys in sent[-1]])
    assert [[len(keys) for _marker, keys in rows] for rows in sent] == [[1], [9_999], [2], [20_000], [3]]
