"""Which process takes a connector or a task."""

from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.hosts.placement import HostLoad, Name, parted, place
from pkafka.connect.states import TaskName


def test_the_first_work_makes_the_first_process() -> None:
    assert place([], 2) is None
    assert place([], 2, is_task=False) is None


def test_tasks_get_a_process_each_while_there_may_be_more() -> None:
    one = [HostLoad(7, connectors=1, tasks=0)]
    assert place(one, 2) == 7
    busy = [HostLoad(7, connectors=0, tasks=1)]
    assert place(busy, 2) is None
    assert place(busy, 1) == 7
    assert place(busy, 2, is_task=False) == 7


def test_the_one_with_the_fewest_is_next() -> None:
    hosts = [HostLoad(1, 0, 3), HostLoad(2, 5, 2), HostLoad(3, 0, 2)]
    assert place(hosts, 3) == 3
    assert place(hosts, 3, is_task=False) == 3


def test_suspects_are_kept_together_and_away_from_others() -> None:
    hosts = [HostLoad(1, 0, 3), HostLoad(2, 0, 3, party=9)]
    assert place(hosts, 2, party=9) == 2
    assert place(hosts, 2, party=8) is None
    assert place(hosts, 1, party=8) == 1  # there is no more room
    assert place([HostLoad(2, 0, 1, party=9)], 1) is None
    assert place(hosts, 1) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True))
def test_suspects_are_halved(tasks: list[tuple[str, int]]) -> None:
    names: list[Name] = ["a", *(TaskName(*each) for each in tasks)]
    halves = parted(names)
    assert sorted(map(str, names)) == sorted(str(name) for half in halves for name in half)
    assert all(halves)
    assert len(halves) == min(len(names), 2)
    assert max(map(len, halves)) - min(map(len, halves)) <= 1


def test_no_suspects_have_no_halves() -> None:
    assert parted([]) == []


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.booleans(), st.sampled_from([None, None, 1, 2, 3])), max_size=40),
)
def test_there_are_never_more_than_twice_as_many(most: int, work: list[tuple[bool, int | None]]) -> None:
    hosts: list[HostLoad] = []
    for is_task, party in work:
        number = place(hosts, most, party=party, is_task=is_task)
        if number is None:
            number = len(hosts)
            hosts.append(HostLoad(number, 0, 0, party))
        found = hosts[number]
        hosts[number] = found._replace(
            tasks=found.tasks + is_task, connectors=found.connectors + (not is_task)
        )
    assert len(hosts) <= 2 * most
    assert sum(each.party is None for each in hosts) <= most or any(party for _, party in work)
