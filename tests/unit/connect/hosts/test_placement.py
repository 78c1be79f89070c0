"""Which process takes a connector or a task."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.hosts.placement import HostLoad, Name, most_with_suspects, parted, place, to_relieve
from pkafka.connect.states import TaskName


def test_the_first_work_makes_the_first_process() -> None:
    assert place([], 2) is None
    assert place([], 2, is_task=False) is None


def test_tasks_get_a_process_each_while_there_may_be_more() -> None:
    one = [HostLoad(7, connectors=1, tasks=0)]
    assert place(one, 2) == 7
    taken = [HostLoad(7, connectors=0, tasks=1, is_taken=True)]
    assert place(taken, 2) is None
    assert place(taken, 1) == 7
    assert place(taken, 2, is_task=False) == 7


def test_tasks_keep_away_from_a_process_that_is_taken() -> None:
    hosts = [HostLoad(1, 0, 2, is_taken=True), HostLoad(2, 0, 5)]
    assert place(hosts, 2) == place(hosts, 3) == 2
    assert place(hosts, 2, is_task=False) == 1


def test_the_busy_process_with_most_tasks_is_relieved_while_there_may_be_more() -> None:
    idle, busy = HostLoad(1, 0, 9), HostLoad(2, 0, 4, is_taken=True)
    assert to_relieve([idle, busy], 3) == 2
    assert to_relieve([idle, busy, HostLoad(3, 0, 5, is_taken=True)], 4) == 3
    assert to_relieve([idle, busy], 2) is None, "there are as many as there may be"
    assert to_relieve([idle], 3) is None
    assert to_relieve([busy._replace(tasks=1)], 3) is None, "it would be as busy elsewhere"
    assert to_relieve([busy._replace(party=5)], 3) is None, "its tasks are suspects"


def test_the_one_with_the_fewest_is_next() -> None:
    hosts = [HostLoad(1, 0, 3), HostLoad(2, 5, 2), HostLoad(3, 0, 2)]
    assert place(hosts, 3) == 3
    assert place(hosts, 3, is_task=False) == 3


def test_suspects_are_kept_together_and_away_from_others() -> None:
    hosts = [HostLoad(1, 0, 3), HostLoad(2, 0, 3, party=9)]
    assert place(hosts, 2, party=9) == 2
    assert place(hosts, 2, party=8) is None
    full = [*hosts, *(HostLoad(number, 0, 4, party=number) for number in range(10, 19))]
    assert place(full, 1, party=8) == 1  # there is no more room
    assert place([HostLoad(2, 0, 1, party=9)], 1) is None
    assert place(hosts, 1) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True))
def test_suspects_are_parted(tasks: list[tuple[str, int]]) -> None:
    names: list[Name] = ["a", *(TaskName(*each) for each in tasks)]
    parts = parted(names)
    assert sorted(map(str, names)) == sorted(str(name) for part in parts for name in part)
    assert all(parts)
    assert len(parts) == min(len(names), 4)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_culprit_is_alone_before_the_others_fail() -> None:
    """Also where there is one core: 64 tasks, of which the fourth death is that of the culprit alone."""
    parties: dict[Name, int] = {}
    homes: dict[Name, int] = {}
    names: list[Name] = [TaskName("c", number) for number in range(64)]
    deaths = dict.fromkeys(names, 0)
    party_of: dict[int, int | None] = {}
    numbers = itertools.count()

    def give(name: Name) -> None:
        loads = [
            HostLoad(number, 0, list(homes.values()).count(number), party)
            for number, party in party_of.items()
        ]
        found = place(loads, 1, party=parties.get(name))
        if found is None:
            found = next(numbers)
            party_of[found] = parties.get(name)
        homes[name] = found

    for name in names:
        give(name)
    for _ in range(4):
        dead = homes[names[5]]
        fallen = [name for name, home in homes.items() if home == dead]
        del party_of[dead]
        for name in fallen:
            deaths[name] += 1
            del homes[name]
        for part in parted(fallen):
            parties.update(dict.fromkeys(part, next(numbers)))
        for name in fallen:
            give(name)
    assert [name for name, count in deaths.items() if count == 4] == [names[5]]


def test_no_suspects_have_no_parts() -> None:
    assert parted([]) == []


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.booleans(), st.sampled_from([None, None, 1, 2, 3])), max_size=40),
)
def test_there_are_never_more_than_there_may_be(most: int, work: list[tuple[bool, int | None]]) -> None:
    hosts: list[HostLoad] = []
    for is_task, party in work:
        number = place(hosts, most, party=party, is_task=is_task)
        if number is None:
            number = len(hosts)
            hosts.append(HostLoad(number, 0, 0, party))
        found = hosts[number]
        hosts[number] = found._replace(
            tasks=found.tasks + is_task,
            connectors=found.connectors + (not is_task),
            is_taken=found.is_taken or is_task,
        )
    assert len(hosts) <= most_with_suspects(most)
    assert sum(each.party is None for each in hosts) <= most or any(party for _, party in work)
