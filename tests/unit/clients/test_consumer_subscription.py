"""What a consumer reads, and how its partitions get and lose their positions."""

import re

import pytest

from pkafka.clients.consumer.assignors.api import RebalanceProtocol
from pkafka.clients.consumer.errors import IllegalStateError
from pkafka.clients.consumer.rebalance import Surrender, Takeover, after_join, before_join, moved_too_early
from pkafka.clients.consumer.subscription import Leader, Mode, Status, Subscription
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.model import EARLIEST, TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def assigned(*partitions: TopicPartition) -> Subscription:
    subscription = Subscription()
    subscription.assign(partitions)
    return subscription


def test_a_partition_that_stays_keeps_its_position() -> None:
    subscription = assigned(T0, T1)
    subscription.seek(T0, 5)
    subscription.state(T0).paused = True
    changes = subscription.changes
    subscription.assign([T0, U0])
    assert subscription.positions() == {T0: 5}
    assert subscription.state(T0).paused
    assert subscription.in_status(Status.INITIALIZING) == [U0]
    assert subscription.changes == changes + 1
    subscription.assign([U0, T0])
    assert subscription.changes == changes + 1
    with pytest.raises(IllegalStateError, match="t-1"):
        subscription.state(T1)


def test_only_settled_partitions_are_fetched() -> None:
    subscription = assigned(T0, T1, U0)
    assert not subscription.is_settled
    for partition in (T0, T1, U0):
        subscription.seek(partition, 1)
    assert subscription.is_settled
    assert subscription.fetchable(0) == [T0, T1, U0]
    subscription.state(T0).paused = True
    subscription.state(T1).retry_at_ms = 50
    subscription.mark_pending_revocation([U0])
    assert subscription.fetchable(49) == []
    assert subscription.fetchable(50) == [T1]
    assert [subscription.is_fetchable(each) for each in (T0, T1, U0)] == [False, True, False]
    subscription.assign([T0, T1, U0])
    assert subscription.is_fetchable(U0)


def test_a_reset_is_waited_for() -> None:
    subscription = assigned(T0)
    subscription.seek(T0, 1)
    subscription.reset(T0, EARLIEST)
    assert subscription.in_status(Status.RESETTING) == [T0]
    assert subscription.state(T0).reset_to == EARLIEST
    assert subscription.all_consumed() == {}
    subscription.seek(T0, 4, 2)
    assert subscription.all_consumed() == {T0: OffsetAndMetadata(4, "", 2)}


def test_a_new_leader_is_asked_about_a_position_whose_epoch_is_known() -> None:
    subscription = assigned(T0)
    assert not subscription.leader_is(T0, Leader(1, 3))
    subscription.seek(T0, 4)
    assert not subscription.leader_is(T0, Leader(1, 3))
    subscription.advance(T0, 9, 3)
    assert not subscription.leader_is(T0, Leader(1, 3))
    assert subscription.leader_is(T0, Leader(2, 4))
    assert not subscription.is_fetchable(T0)
    assert subscription.all_consumed() == {}
    subscription.validated(T0)
    assert subscription.is_settled
    assert not subscription.leader_is(T0, Leader())


def test_a_committed_position_with_an_epoch_is_validated_first() -> None:
    subscription = assigned(T0, T1)
    subscription.seek_unvalidated(T0, 4, 2, Leader(1, 3))
    subscription.seek_unvalidated(T1, 4, -1, Leader(1, 3))
    assert subscription.in_status(Status.VALIDATING) == [T0]
    assert subscription.is_fetchable(T1)


def test_the_leader_of_a_group_watches_the_topics_of_all() -> None:
    subscription = Subscription()
    subscription.subscribe(["t"], None)
    assert subscription.add_group_topics(["u"])
    assert not subscription.add_group_topics(["u", "t"])
    assert subscription.topics() == {"t", "u"}
    subscription.reset_group_topics()
    assert subscription.topics() == {"t"}
    assert subscription.matches([T0, T1])
    assert not subscription.matches([T0, U0])


def test_a_pattern_names_topics_that_may_change() -> None:
    subscription = Subscription()
    subscription.subscribe_pattern(re.compile("t|u.*"), None)
    assert subscription.set_matching(["t"])
    assert not subscription.set_matching(["t"])
    assert subscription.set_matching(["t", "u"])
    assert subscription.wanted_topics == {"t", "u"}
    assert subscription.matches([T0, U0, TopicPartition("uvw", 0)])
    assert not subscription.matches([TopicPartition("tt", 0)])
    assert subscription.is_automatic
    subscription.unsubscribe()
    assert subscription.mode is Mode.NONE
    assert subscription.topics() == set()


EAGER, COOPERATIVE = RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE


def test_what_is_given_up_before_joining() -> None:
    owned = [T0, U0]
    assert before_join(EAGER, lost=False, owned=owned, topics={"t"}) == Surrender([], owned, [])
    assert before_join(EAGER, lost=False, owned=[], topics={"t"}) == Surrender([], [], [])
    assert before_join(COOPERATIVE, lost=False, owned=owned, topics={"t"}) == Surrender([], [U0], [T0])
    assert before_join(COOPERATIVE, lost=False, owned=[T0], topics={"t"}) == Surrender([], None, [T0])
    for protocol in RebalanceProtocol:
        assert before_join(protocol, lost=True, owned=owned, topics={"t"}) == Surrender(owned, None, [])


def test_what_an_assignment_takes_and_brings() -> None:
    assert after_join(EAGER, owned=[], assigned=[T0, T1]) == Takeover([], [T0, T1])
    # Taken over a second time, after the user's listener failed.
    assert after_join(EAGER, owned=[T0, T1], assigned=[T0, T1]) == Takeover([], [])
    assert after_join(COOPERATIVE, owned=[T0, T1], assigned=[T1, U0]) == Takeover([T0], [U0])
    assert after_join(COOPERATIVE, owned=[T0], assigned=[T0]) == Takeover([], [])


def test_a_partition_is_not_given_before_it_was_given_up() -> None:
    owned = {"a": [T0, T1], "b": []}
    assert moved_too_early(owned, {"a": [T0], "b": [T1]}) == {T1}
    assert moved_too_early(owned, {"a": [T0], "b": []}) == set()
    assert moved_too_early(owned, {"a": [T0, T1], "b": [U0]}) == set()
