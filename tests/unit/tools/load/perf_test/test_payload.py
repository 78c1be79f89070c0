"""What records hold: sizes, keys, files, templates, and the stamp of when they were due."""

import json
import re
import uuid
from collections import Counter
from pathlib import Path

import pytest

from pkafka.tools.load.perf_test.payload import (
    STAMP_BYTES,
    Keys,
    Values,
    due_of,
    has_room_for_stamps,
    stamp,
)
from pkafka.tools.load.perf_test.plan import Plan, PlanError

RUN = b"run-0001"


def plan(**more: object) -> Plan:
    return Plan("t", records=1, **more)  # type: ignore[arg-type]


def sizes(text: str, count: int = 5_000) -> list[int]:
    return [len(value) for value in Values(plan(record_size=text), 0).take(count)]


def test_sizes_follow_their_distribution(tmp_path: Path) -> None:
    assert set(sizes("77")) == {77}
    found = sizes("uniform:20:29")
    assert set(found) == set(range(20, 30))
    assert max(Counter(found).values()) < 2 * min(Counter(found).values())
    found = sizes("normal:100:10")
    assert 95 < sum(found) / len(found) < 105
    assert 0.6 < sum(90 <= each <= 110 for each in found) / len(found) < 0.8
    assert min(sizes("normal:20:50")) == STAMP_BYTES
    (tmp_path / "sizes").write_text("10\n20\n20\n20\n")
    counted = Counter(sizes(f"file:{tmp_path / 'sizes'}"))
    assert set(counted) == {10, 20}
    assert counted[20] > 2 * counted[10]


@pytest.mark.parametrize(
    "text", ["", "x", "0", "-5", "uniform:5", "uniform:9:5", "normal:a:b", "fixed:3", "1.5", "uniform:0:5"]
)
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(PlanError):
        Values(plan(record_size=text), 0)


def test_a_file_of_sizes_without_any_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sizes").write_text("")
    with pytest.raises(PlanError):
        Values(plan(record_size=f"file:{tmp_path / 'sizes'}"), 0)
    with pytest.raises(FileNotFoundError):
        Values(plan(record_size=f"file:{tmp_path / 'none'}"), 0)


def test_values_differ_between_records_and_producers() -> None:
    values = Values(plan(record_size="40"), 0)
    taken = values.take(10_000)
    assert len(set(taken)) == 10_000
    assert values.take(1) == taken[:1], "then they begin again"
    assert not {*taken} & {*Values(plan(record_size="40"), 1).take(10_000)}
    assert re.fullmatch(rb"[A-Z]{40}", taken[0])


def test_more_than_there_are_at_once() -> None:
    values = Values(plan(record_size="5000000"), 0)
    assert values.mean_bytes == 5_000_000
    assert values.records_per_call == 1
    assert len(values.take(9)) == 9


def test_values_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\n\ntwo\nthree\n")
    values = Values(plan(payload_file=str(file)), 0)
    assert set(values.take(1000)) == {b"one", b"two", b"three"}
    assert not has_room_for_stamps(plan(payload_file=str(file)))
    file.write_bytes(b"\n\n")
    with pytest.raises(PlanError, match="no payload"):
        Values(plan(payload_file=str(file)), 0)


def test_a_template_is_filled_in() -> None:
    template = (
        '{"n": {number}, "at": {now_ms}, "id": "{uuid}", "text": "{random:5}", "port": {int:-3:3}, '
        '"kind": "{choice:a|b}", "as it is": "{other}"}'
    )
    found = [json.loads(each) for each in Values(plan(payload_template=template), 0).take(300)]
    assert [each["n"] for each in found] == list(range(300))
    assert found[0]["at"] > 1_600_000_000_000
    assert uuid.UUID(found[0]["id"]).version == 4
    assert re.fullmatch("[A-Z]{5}", found[0]["text"])
    assert {each["port"] for each in found} == set(range(-3, 4))
    assert {each["kind"] for each in found} == {"a", "b"}
    assert found[0]["as it is"] == "{other}"
    assert len({each["id"] for each in found}) == 300


@pytest.mark.parametrize("template", ["", "{int:5:3}"])
def test_templates_that_cannot_be_filled_in(template: str) -> None:
    with pytest.raises(PlanError):
        Values(plan(payload_template=template), 0)


def test_stamps_take_the_place_of_the_beginning() -> None:
    values = Values(plan(record_size="uniform:16:30"), 0)
    plain = Values(plan(record_size="uniform:16:30"), 0).take(50)
    stamped = values.take_stamped(50, stamp(RUN, 12345))
    assert [len(each) for each in stamped] == [len(each) for each in plain]
    assert {due_of(RUN, each[:STAMP_BYTES]) for each in stamped} == {12345}
    assert [each[STAMP_BYTES:] for each in stamped] == [each[STAMP_BYTES:] for each in plain]


def test_stamps_of_other_runs_and_other_values_say_nothing() -> None:
    assert due_of(b"run-0002", stamp(RUN, 5)) is None
    assert due_of(RUN, b"short") is None
    assert due_of(RUN, b"A" * STAMP_BYTES) is None


@pytest.mark.parametrize(
    ("size", "has_room"), [("16", True), ("15", False), ("uniform:15:99", False), ("normal:100:50", True)]
)
def test_where_there_is_room_for_a_stamp(size: str, has_room: bool) -> None:
    assert has_room_for_stamps(plan(record_size=size)) is has_room


def test_keys() -> None:
    assert Keys("none", 0).take(5) is None
    counting = Keys("sequential", 0, first=1, step=3)
    assert [counting.take(2), counting.take(2)] == [[b"1", b"4"], [b"7", b"10"]]
    counted = Counter(Keys("uniform:10", 0).take(10_000) or [])
    assert set(counted) == {b"%d" % each for each in range(10)}
    assert max(counted.values()) < 1.3 * min(counted.values())
    many = Keys("uniform:10000000", 0).take(1000) or []
    assert len(set(many)) > 990


def test_keys_by_zipf() -> None:
    counted = Counter(Keys("zipf:1000", 0).take(50_000) or [])
    assert 0.8 < counted[b"0"] / (2 * counted[b"1"]) < 1.2
    assert 0.7 < counted[b"0"] / (10 * counted[b"9"]) < 1.3
    steep = Counter(Keys("zipf:1000:2", 0).take(50_000) or [])
    assert 0.8 < steep[b"0"] / (4 * steep[b"1"]) < 1.2


@pytest.mark.parametrize(
    "text",
    ["", "some", "uniform", "uniform:0", "uniform:x", "zipf:0", "zipf:5:-1", "zipf:5:x", "sequential:5"],
)
def test_other_keys_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="no distribution of keys"):
        Keys(text, 0)
