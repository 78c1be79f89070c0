"""Any sequence of requests, lost records and restarts: what must hold of one transactional id whatever comes."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pkafka.errors import ErrorCode
from pkafka.server.transactions.records import decode_value, encode_value
from pkafka.server.transactions.states import MAY_FOLLOW, TransactionState
from pkafka.server.transactions.transaction import Decision, Facts, Producer, Transaction, unused

KEYS = [("t", 0), ("t", 1), ("u", 0)]
REFUSED_FOR_GOOD = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}


class TransactionalId(RuleBasedStateMachine):
    """One id; records are written in order, and the last ones may be lost with the coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.next_id = 7
        self.transaction = Transaction(unused(7, 100, 0))
        self.log: list[bytes] = []
        self.given: list[Producer] = []
        """The identities that producers were told, in order."""
        self.decided: dict[int, bool] = {}
        """By the number of the transaction: whether it was decided to be committed."""
        self.begun = 0

    # -- requests --

    def _write(self, decision: Decision, *, is_lost: bool) -> Facts | None:
        if isinstance(decision, ErrorCode):
            return None
        assert self.transaction.pending is decision
        if is_lost:
            self.transaction.failed()
            return None
        before = self.transaction.facts
        if decision.state is TransactionState.ONGOING and before.state is not TransactionState.ONGOING:
            self.begun += 1
        if decision.state.is_decided:
            is_commit = decision.state is TransactionState.PREPARE_COMMIT
            assert self.decided.setdefault(self.begun, is_commit) is is_commit
        self.log.append(encode_value(decision))
        self.transaction.stored()
        if decision.state.is_decided:
            self.transaction.complete(self.now_ms)
        return decision

    def _anyone(self, place: int) -> Producer:
        return self.given[-1 - place % len(self.given)] if self.given else Producer(7, 0)

    @rule(place=st.integers(0, 3), is_bump=st.booleans(), is_lost=st.booleans())
    def init(self, place: int, is_bump: bool, is_lost: bool) -> None:
        expected = self._anyone(place) if is_bump else None
        new = None
        if self.transaction.needs_producer_id(expected):
            self.next_id += 1
            new = self.next_id
        was = self.transaction.facts
        decision = self.transaction.init(expected, timeout_ms=100, now_ms=self.now_ms, new_producer_id=new)
        written = self._write(decision, is_lost=is_lost)
        if written is not None and written.state is TransactionState.EMPTY:
            is_repeated = written.producer == was.producer
            # Only a producer that asks for the same bump again is told the same.
            assert not is_repeated or (is_bump and written.last_epoch >= 0)
            self.given.append(written.producer)

    @rule(place=st.integers(0, 3), keys=st.sets(st.sampled_from(KEYS)), is_lost=st.booleans())
    def add(self, place: int, keys: set[tuple[str, int]], is_lost: bool) -> None:
        producer = self._anyone(place)
        decision = self.transaction.add(producer, sorted(keys), self.now_ms)
        self._check_refusal(producer, decision)
        if decision is ErrorCode.NONE:
            assert keys <= set(self.transaction.facts.partitions)
        self._write(decision, is_lost=is_lost)

    @rule(place=st.integers(0, 3), is_commit=st.booleans(), is_lost=st.booleans())
    def end(self, place: int, is_commit: bool, is_lost: bool) -> None:
        producer = self._anyone(place)
        decision = self.transaction.end(producer, self.now_ms, is_commit=is_commit)
        self._check_refusal(producer, decision)
        if decision is ErrorCode.NONE:
            assert self.decided[self.begun] is is_commit
        self._write(decision, is_lost=is_lost)

    def _check_refusal(self, producer: Producer, decision: Decision) -> None:
        is_current = producer == self.transaction.facts.producer
        assert (decision in REFUSED_FOR_GOOD) is not is_current

    # -- the coordinator --

    @rule(ms=st.integers(0, 200))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(is_lost=st.booleans())
    def time_out(self, is_lost: bool) -> None:
        if self.transaction.is_timed_out(self.now_ms):
            self._write(self.transaction.fence(self.now_ms), is_lost=is_lost)

    @precondition(lambda self: self.transaction.facts.state.is_decided)
    @rule()
    def all_marked(self) -> None:
        pending = self.transaction.pending
        assert pending is not None
        self.log.append(encode_value(pending))
        self.transaction.stored()

    @precondition(lambda self: self.log)
    @rule()
    def restart(self) -> None:
        before = self.transaction.facts
        self.transaction = Transaction(decode_value(self.log[-1]))
        facts = self.transaction.facts
        if facts.state.is_decided:
            self.transaction.complete(self.now_ms)
        # A fence that was lost takes its epoch along; nothing else may differ.
        assert facts.producer_id == before.producer_id or before.producer_epoch == -1
        assert 0 <= before.producer_epoch - facts.producer_epoch <= 1 or before.producer_epoch == -1

    # -- always --

    @invariant()
    def what_is_pending_may_follow(self) -> None:
        transaction = self.transaction
        if transaction.pending is not None:
            assert transaction.facts.state in MAY_FOLLOW[transaction.pending.state]

    @invariant()
    def records_follow_each_other(self) -> None:
        facts = [decode_value(value) for value in self.log[-2:]]
        if len(facts) == 2:
            assert facts[0].state in MAY_FOLLOW[facts[1].state]
            if facts[0].producer_id == facts[1].producer_id:
                assert facts[0].producer_epoch <= facts[1].producer_epoch


TestTransactionalId = TransactionalId.TestCase
