"""Elections, each a table of facts and what follows from them."""

import pytest

from pkafka.server.controller import election
from pkafka.server.controller.election import Elected


@pytest.mark.parametrize(
    ("isr", "online", "unclean", "expected"),
    [
        ((1, 2, 3), {1, 2, 3}, False, Elected(1, (1, 2, 3))),
        ((3, 2), {2, 3}, False, Elected(2, (3, 2))),
        ((1, 3), {2, 3}, False, Elected(3, (3,))),
        ((1,), {2, 3}, False, None),
        ((1,), {2, 3}, True, Elected(2, (2,), unclean=True)),
        ((1,), {1, 2}, True, Elected(1, (1,))),
        ((1,), set(), True, None),
        ((), {1}, False, None),
    ],
)
def test_the_leader_is_gone(
    isr: tuple[int, ...], online: set[int], unclean: bool, expected: Elected | None
) -> None:
    found = election.elect_for_offline_partition((1, 2, 3), isr, online, unclean_allowed=unclean)
    assert found == expected


def test_only_the_first_replica_is_preferred() -> None:
    assert election.elect_preferred((1, 2), (2, 1), {1, 2}) == Elected(1, (2, 1))
    assert election.elect_preferred((1, 2), (2,), {1, 2}) is None
    assert election.elect_preferred((1, 2), (2, 1), {2}) is None
    assert election.elect_preferred((), (), {2}) is None


def test_a_reassignment_leads_from_its_target() -> None:
    assert election.elect_for_reassignment((4, 5), (1, 4, 5), {1, 5}) == Elected(5, (1, 4, 5))
    assert election.elect_for_reassignment((4, 5), (1,), {1, 4, 5}) is None


def test_a_shutdown_hands_over_and_leaves_the_isr() -> None:
    assert election.elect_for_controlled_shutdown((1, 2, 3), (1, 2, 3), {1, 2, 3}, {1}) == Elected(2, (2, 3))
    assert election.elect_for_controlled_shutdown((1,), (1,), {1}, {1}) is None
    assert election.elect_for_controlled_shutdown((1, 2), (1,), {1, 2}, {1}) is None


def test_a_new_partition_is_led_by_the_first_that_lives() -> None:
    assert election.first_leader((1, 2, 3), {2, 3}) == Elected(2, (2, 3))
    assert election.first_leader((1,), set()) is None


def test_the_last_in_sync_stays_in_the_isr() -> None:
    assert election.without_replica(1, (1, 2), 1, no_leader=-1) == (-1, (2,))
    assert election.without_replica(1, (1, 2), 2, no_leader=-1) == (1, (1,))
    assert election.without_replica(1, (1,), 1, no_leader=-1) == (-1, (1,))
