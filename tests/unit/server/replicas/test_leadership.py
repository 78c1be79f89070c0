"""A leader's decisions as traces: fetches come, time passes, the controller answers."""

import pytest

from pkafka.errors import ErrorCode
from pkafka.server.replicas.leadership import IsrProposal, Leadership, Verdict

LAG_MS = 30_000
ALIVE = {1, 2, 3}


class Leader:
    """Broker 1 leading one partition of replicas 1, 2, 3; its log ends where the test says."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), *, log_end: int = 0, min_isr: int = 1) -> None:
        self.state = Leadership(1, LAG_MS)
        self.now_ms = 1_000_000
        self.log_end = log_end
        self.high_watermark = 0
        self.min_isr = min_isr
        self.alive = set(ALIVE)
        self.lead(isr)

    def lead(
        self, isr: tuple[int, ...], *, epoch: int = 5, partition_epoch: int = 0, is_new: bool = True
    ) -> None:
        self.state.begin(
            replicas=(1, 2, 3),
            isr=isr,
            leader_epoch=epoch,
            partition_epoch=partition_epoch,
            log_end=self.log_end,
            now_ms=self.now_ms,
            is_new_leader=is_new,
        )

    def append(self, count: int) -> None:
        self.log_end += count

    def fetch(self, broker: int, offset: int) -> IsrProposal | None:
        """A follower fetches: it has all before the offset."""
        self.state.followers[broker].fetched(
            offset=offset, log_start_offset=0, leader_end=self.log_end, now_ms=self.now_ms
        )
        proposal = self.state.expansion(
            broker, high_watermark=self.high_watermark, is_eligible=self.alive.__contains__
        )
        self.advance()
        return proposal

    def advance(self) -> None:
        moved = self.state.high_watermark(
            log_end=self.log_end,
            now_ms=self.now_ms,
            min_insync_replicas=self.min_isr,
            is_eligible=self.alive.__contains__,
        )
        if moved is not None and moved > self.high_watermark:
            self.high_watermark = moved

    def shrink(self) -> IsrProposal | None:
        return self.state.shrinkage(log_end=self.log_end, now_ms=self.now_ms)

    def acknowledges(self, required: int) -> ErrorCode | None:
        return self.state.acknowledges(
            required, high_watermark=self.high_watermark, min_insync_replicas=self.min_isr
        )


def test_what_all_in_sync_have_is_committed() -> None:
    leader = Leader()
    leader.append(10)
    assert leader.fetch(2, 10) is None
    assert (leader.high_watermark, leader.acknowledges(10)) == (0, None)
    leader.fetch(3, 4)
    assert (leader.high_watermark, leader.acknowledges(4), leader.acknowledges(5)) == (
        4,
        ErrorCode.NONE,
        None,
    )
    leader.fetch(3, 10)
    assert leader.acknowledges(10) is ErrorCode.NONE


def test_who_falls_behind_leaves_and_what_the_others_have_is_committed_when_the_controller_agrees() -> None:
    leader = Leader()
    leader.append(10)
    leader.now_ms += LAG_MS
    assert leader.shrink() is None  # both have as long as the lag allows
    leader.fetch(2, 10)
    leader.now_ms += 1
    proposal = leader.shrink()
    assert proposal == IsrProposal((1, 2), leader_epoch=5, partition_epoch=0)
    leader.advance()
    assert leader.high_watermark == 0  # until then 3 counts
    assert leader.shrink() is None  # one at a time
    assert leader.state.decided((1, 2), leader_epoch=5, partition_epoch=1) is Verdict.DONE
    leader.advance()
    assert leader.high_watermark == 10


def test_who_fetches_at_the_end_stays_in_step_however_long_there_is_no_news() -> None:
    leader = Leader()
    leader.append(10)
    for _ in range(10):
        for follower in (2, 3):
            leader.fetch(follower, 10)
        leader.now_ms += LAG_MS - 1
        assert leader.shrink() is None


def test_a_follower_under_load_is_in_step_while_it_reaches_the_end_of_before() -> None:
    leader = Leader()
    for _ in range(100):  # never at the end, always where the end was at its last fetch
        before = leader.log_end
        leader.append(10)
        leader.now_ms += LAG_MS // 2
        leader.fetch(2, before)
        leader.fetch(3, before)
        assert leader.shrink() is None
    for _ in range(5):  # no more: one record at a time of ten
        leader.append(10)
        leader.now_ms += LAG_MS // 2
        leader.fetch(2, leader.log_end)
        leader.fetch(3, before)
        before += 1
    proposal = leader.shrink()
    assert proposal is not None
    assert proposal.isr == (1, 2)


def test_a_follower_joins_when_it_has_what_is_committed() -> None:
    leader = Leader((1, 2))
    leader.append(10)
    leader.fetch(2, 10)
    assert leader.high_watermark == 10
    assert leader.fetch(3, 9) is None
    proposal = leader.fetch(3, 10)
    assert proposal == IsrProposal((1, 2, 3), leader_epoch=5, partition_epoch=0)
    leader.append(1)
    leader.fetch(2, 11)
    assert leader.high_watermark == 10  # a member to be counts at once
    leader.fetch(3, 11)
    assert leader.high_watermark == 11


def test_nobody_joins_who_has_not_reached_the_start_of_the_epoch() -> None:
    leader = Leader((1,), log_end=100)
    leader.high_watermark = 50
    assert leader.fetch(2, 60) is None
    assert leader.fetch(2, 100) is not None


def test_a_dead_broker_does_not_join_and_is_not_waited_for() -> None:
    leader = Leader((1, 2))
    leader.alive.discard(3)
    leader.append(10)
    assert leader.fetch(3, 9) is None
    leader.fetch(2, 10)
    assert leader.high_watermark == 10
    assert leader.fetch(3, 10) is None


def test_who_is_about_to_join_is_waited_for_by_the_high_watermark() -> None:
    leader = Leader((1, 2))
    leader.fetch(3, 0)
    leader.state.decided((1, 2), leader_epoch=5, partition_epoch=1)  # not taken in, but in step
    leader.append(10)
    leader.fetch(2, 10)
    assert leader.high_watermark == 0
    leader.now_ms += LAG_MS + 1
    leader.advance()
    assert leader.high_watermark == 10


def about_to_join() -> tuple[Leader, IsrProposal]:
    """Broker 3 has all that is committed, and is proposed for the ISR of 1 and 2."""
    leader = Leader(isr=(1, 2))
    leader.append(10)
    leader.fetch(2, 10)
    proposal = leader.fetch(3, 10)
    assert proposal is not None
    return leader, proposal


def test_who_may_not_join_is_not_waited_for() -> None:
    # A broker that stops has given its leadership away, and still fetches from its successor.
    leader, proposal = about_to_join()
    leader.append(5)
    leader.fetch(2, 15)
    assert leader.high_watermark == 10  # it may be in sync already
    assert leader.state.answered(proposal, ErrorCode.INELIGIBLE_REPLICA) is Verdict.GIVE_UP
    leader.advance()
    assert leader.high_watermark == 15
    # It has all that is committed once more, and is proposed once more.
    again = leader.fetch(3, 15)
    assert again is not None
    leader.append(5)
    leader.fetch(2, 20)
    assert leader.high_watermark == 15


@pytest.mark.parametrize("news", ["its broker is back", "the controller decides"])
def test_who_might_not_join_is_waited_for_again_after_news(news: str) -> None:
    leader, proposal = about_to_join()
    leader.state.answered(proposal, ErrorCode.INELIGIBLE_REPLICA)
    if news == "its broker is back":
        leader.state.broker_changed(3)
    else:
        leader.lead((1, 2), partition_epoch=1, is_new=False)
    leader.append(5)
    leader.fetch(2, 15)
    assert leader.high_watermark == 10
    leader.now_ms += LAG_MS + 1
    leader.fetch(2, 15)
    assert leader.high_watermark == 15


def test_other_refusals_say_nothing_of_who_was_to_join() -> None:
    leader, proposal = about_to_join()
    assert leader.state.answered(proposal, ErrorCode.OPERATION_NOT_ATTEMPTED) is Verdict.GIVE_UP
    leader.append(5)
    leader.fetch(2, 15)
    assert leader.high_watermark == 10


def test_nothing_is_committed_below_the_least_in_sync() -> None:
    leader = Leader((1,), min_isr=2)
    assert not leader.state.is_enough_in_sync(2)
    leader.append(5)
    leader.advance()
    assert leader.high_watermark == 0
    assert leader.state.is_enough_in_sync(1)
    assert leader.state.in_sync_min(7) == 3


def test_records_that_were_committed_by_too_few_are_answered_so() -> None:
    leader = Leader((1, 2, 3), min_isr=2)
    leader.append(5)
    for broker in (2, 3):
        leader.fetch(broker, 5)
    leader.state.decided((1,), leader_epoch=5, partition_epoch=1)
    assert leader.acknowledges(5) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Verdict.GIVE_UP),
        (ErrorCode.INELIGIBLE_REPLICA, Verdict.GIVE_UP),
        (ErrorCode.FENCED_LEADER_EPOCH, Verdict.WAIT),
        (ErrorCode.INVALID_UPDATE_VERSION, Verdict.WAIT),
        (ErrorCode.NOT_CONTROLLER, Verdict.AGAIN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.AGAIN),
    ],
)
def test_what_a_refusal_means(code: ErrorCode, verdict: Verdict) -> None:
    leader = Leader((1, 2))
    proposal = leader.fetch(3, 0)
    assert proposal is not None
    assert leader.state.answered(proposal, code) is verdict
    assert (leader.state.proposed is None) is (verdict is Verdict.GIVE_UP)
    assert leader.state.isr == (1, 2)


def test_answers_of_before_a_new_decision_count_for_nothing() -> None:
    leader = Leader((1, 2))
    proposal = leader.fetch(3, 0)
    assert proposal is not None
    leader.lead((1, 2), epoch=6, partition_epoch=4, is_new=False)
    assert leader.state.answered(proposal, ErrorCode.OPERATION_NOT_ATTEMPTED) is Verdict.WAIT
    assert leader.state.decided((1, 2, 3), leader_epoch=5, partition_epoch=1) is Verdict.WAIT
    assert (leader.state.isr, leader.state.partition_epoch) == ((1, 2), 4)


def test_records_are_deleted_everywhere_below_the_lowest_start_of_the_living() -> None:
    leader = Leader(log_end=10)
    for broker, start in ((2, 7), (3, 2)):
        leader.state.followers[broker].fetched(
            offset=10, log_start_offset=start, leader_end=10, now_ms=leader.now_ms
        )
    assert leader.state.low_watermark(8, leader.alive.__contains__) == 2
    leader.alive.discard(3)
    assert leader.state.low_watermark(8, leader.alive.__contains__) == 7
    assert leader.state.low_watermark(5, leader.alive.__contains__) == 5


def test_a_proposal_that_may_still_be_carried_out_counts_until_it_is_answered() -> None:
    leader = Leader((1, 2))
    proposal = leader.fetch(3, 0)
    leader.lead(
        (1, 2), is_new=False
    )  # as before: a controller that has just been elected says everything again
    assert leader.state.proposed is proposal
    leader.append(10)
    leader.fetch(2, 10)
    leader.now_ms += LAG_MS + 1
    leader.advance()
    assert leader.high_watermark == 0
    leader.lead((1, 2), partition_epoch=1, is_new=False)
    assert leader.state.proposed is None


def test_what_the_process_before_proposed_counts_until_it_is_answered() -> None:
    leader = Leader((1,))
    leader.state.resume(IsrProposal((1, 2), 5, 1))
    assert leader.state.proposed is None, "something else was decided since"
    proposal = IsrProposal((1, 2), 5, 0)
    leader.state.resume(proposal)
    leader.append(10)
    leader.advance()
    assert leader.high_watermark == 0
    assert leader.fetch(3, 0) is None
    leader.state.resume(IsrProposal((1, 3), 5, 0))
    assert leader.state.proposed is proposal
    assert leader.state.decided((1, 2), leader_epoch=5, partition_epoch=1) is Verdict.DONE
    assert leader.state.maximal_isr == (1, 2)


def test_a_proposal_that_was_refused_is_over_when_the_controller_says_how_it_is() -> None:
    leader = Leader((1, 2))
    proposal = leader.fetch(3, 0)
    assert proposal is not None
    assert leader.state.answered(proposal, ErrorCode.INVALID_UPDATE_VERSION) is Verdict.WAIT
    leader.lead((1, 2), is_new=False)
    assert leader.state.proposed is None


def test_what_a_leader_knows_of_followers_counts_only_while_no_other_may_have_led() -> None:
    """A leader of the epoch between, of which this broker never heard, may have had them cut their logs."""
    leader = Leader((1, 2, 3))
    leader.append(10)
    leader.fetch(2, 10)
    leader.lead((1, 2), epoch=6, is_new=False)
    leader.advance()
    assert leader.high_watermark == 10, "the next epoch: 3 is gone"
    leader.append(10)
    leader.fetch(2, 20)
    leader.append(10)
    leader.lead((1, 2), epoch=8, partition_epoch=1, is_new=False)
    assert leader.state.followers[2].log_end_offset < 20
    leader.advance()
    assert leader.high_watermark == 20
    leader.fetch(2, 15)
    leader.advance()
    assert leader.acknowledges(25) is None
