"""Which offsets may be stored, while records are acknowledged in any order."""

from hypothesis import given
from hypothesis import strategies as st

from pkafka.connect.submitted import SubmittedRecords

A, B = {"file": "a"}, {"file": "b"}


def test_a_partition_is_stored_up_to_its_first_record_that_is_not_acknowledged() -> None:
    records = SubmittedRecords()
    first, second, third = (records.submit(A, {"at": number}) for number in (1, 2, 3))
    records.acknowledge([second])
    assert records.committable().offsets == []
    records.acknowledge([first])
    assert records.committable().offsets == [(A, {"at": 2})]
    assert records.committable().offsets == []
    records.acknowledge([third])
    assert records.committable() == ([(A, {"at": 3})], 1, 0)


def test_partitions_do_not_wait_for_each_other() -> None:
    records = SubmittedRecords()
    records.submit(A, {"at": 1})
    records.acknowledge([records.submit(B, {"at": 7})])
    assert records.committable() == ([(B, {"at": 7})], 1, 1)


@given(st.lists(st.integers(0, 2), max_size=30), st.randoms(use_true_random=False), st.data())
def test_nothing_is_stored_before_all_that_stands_before_it(
    partitions: list[int], chance: object, data: st.DataObject
) -> None:
    records = SubmittedRecords()
    sent = [(number, records.submit({"p": number}, {"at": at})) for at, number in enumerate(partitions)]
    order = data.draw(st.permutations(range(len(sent))))
    acknowledged: set[int] = set()
    stored: dict[int, int] = {}
    for each in order:
        records.acknowledge([sent[each][1]])
        acknowledged.add(each)
        for partition, offset in records.committable().offsets:
            assert offset is not None
            stored[partition["p"]] = offset["at"]
        for number in range(3):
            own = [at for at, partition in enumerate(partitions) if partition == number]
            whole = [
                at for index, at in enumerate(own) if all(other in acknowledged for other in own[: index + 1])
            ]
            assert stored.get(number) == (whole[-1] if whole else None)
