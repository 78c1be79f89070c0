"""What is done about a transaction that holds a partition back, by what its coordinator says."""

import pytest

from pkafka.clients.admin.results import ProducerState
from pkafka.clients.admin.transaction_results import TransactionDescription, TransactionState
from pkafka.model import TopicPartition
from pkafka.tools.transactions.holders import HeldPartition
from pkafka.tools.transactions.open_transactions import KnownTransaction, OpenTransaction, hanging
from pkafka.tools.transactions.unsticking import Remedy, plan

HERE, ELSEWHERE = TopicPartition("t", 0), TopicPartition("t", 1)
OPEN = OpenTransaction(HERE, ProducerState(7, 3, 0, 1_000, None, 5))
MINUTE_MS = 60_000


def known(state: TransactionState, *partitions: TopicPartition) -> KnownTransaction:
    return KnownTransaction("a", TransactionDescription(1, state, 7, 3, 60_000, 1_000, partitions))


def held(
    its: KnownTransaction | None, *, holder: OpenTransaction | None = OPEN, age_ms: int | None = 5 * MINUTE_MS
) -> HeldPartition:
    return HeldPartition(HERE, 5, 12, holder, its, age_ms)


@pytest.mark.parametrize(
    ("partition", "remedy"),
    [
        pytest.param(held(known(TransactionState.ONGOING, HERE)), Remedy.FENCE, id="its coordinator has it"),
        pytest.param(held(None), Remedy.MARKER, id="no coordinator knows the producer"),
        pytest.param(
            held(known(TransactionState.ONGOING, ELSEWHERE)), Remedy.MARKER, id="the coordinator is elsewhere"
        ),
        pytest.param(held(known(TransactionState.EMPTY)), Remedy.MARKER, id="the coordinator is done"),
        pytest.param(held(known(TransactionState.PREPARE_COMMIT, HERE)), Remedy.WAIT, id="to be committed"),
        pytest.param(held(known(TransactionState.PREPARE_ABORT, HERE)), Remedy.WAIT, id="to be aborted"),
        pytest.param(held(None, holder=None, age_ms=None), Remedy.WAIT, id="no transaction is open any more"),
        pytest.param(held(None, age_ms=MINUTE_MS - 1), Remedy.YOUNG, id="it is young"),
    ],
)
def test_what_ends_a_transaction(partition: HeldPartition, remedy: Remedy) -> None:
    (step,) = plan([partition], older_than_ms=MINUTE_MS)
    assert step.remedy is remedy


def test_what_holds_a_partition_is_told_in_offsets() -> None:
    assert held(None).lag == 7
    assert held(None).is_hanging
    assert not held(known(TransactionState.ONGOING, HERE)).is_hanging
    assert not held(None, holder=None).is_hanging


def test_a_transaction_hangs_where_no_coordinator_lists_its_partition() -> None:
    other = OpenTransaction(ELSEWHERE, OPEN.producer)
    assert hanging([OPEN, other], {}) == [OPEN, other]
    assert hanging([OPEN, other], {7: known(TransactionState.ONGOING, HERE)}) == [other]
    assert hanging([OPEN, other], {8: known(TransactionState.ONGOING, HERE)}) == [OPEN, other]
