"""The benchmark of single levers runs, and says something of each."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import levers
from benchmarks.scale import Scale

TINY = Scale(seconds=0.05, bytes=2_000_000, partitions=(1, 2), read_partitions=2, consumers=(2, 3))


OTHERS = sorted({*levers.MACHINE, *levers.BROKER} - {"partitions", "consumers"})
"""Those have tests of their own."""


@pytest.mark.parametrize("name", OTHERS)
def test_a_lever_gives_figures_with_and_without_it(name: str, tmp_path: Path) -> None:
    rows = list(levers.rows_of(name, TINY, tmp_path))
    assert len({row.way for row in rows}) > 1
    assert all(row.value >= 0 for row in rows)
    assert not list(tmp_path.iterdir())


def test_more_partitions_cost_files_and_memory_of_brokers_and_clients(tmp_path: Path) -> None:
    rows = list(levers.rows_of("partitions", replace(TINY, partitions=(1, 50)), tmp_path))
    costs = {
        unit: [row.value for row in rows if row.unit == unit]
        for unit in ("open files", "MB of memory", "MB of a producer's memory", "MB of a consumer's memory")
    }
    assert all(len(values) == 2 and min(values) > 0 for values in costs.values())
    few, many = costs["open files"]
    assert many >= few + 49


def test_readers_past_the_number_of_partitions_are_idle(tmp_path: Path) -> None:
    rows = list(levers.rows_of("consumers", TINY, tmp_path))
    idle = {int(row.way): row.value for row in rows if row.unit == "idle readers"}
    assert idle == {2: 0, 3: 1}


def test_a_fail_over_is_timed_by_the_number_of_partitions(tmp_path: Path) -> None:
    rows = list(levers.rows_of("fail-over", replace(TINY, partitions=(20,)), tmp_path))
    assert [row.way for row in rows if row.unit == "s until all are led again"] == ["20"]
    assert all(row.value > 0 for row in rows)
    assert not list(tmp_path.iterdir())


def test_all_rows_are_one_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert levers.main(["compression", "--quick", "--json", "--directory", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found} == {"rows", "advice"}
    assert {*found["rows"][0]} == {"lever", "way", "value", "unit"}


def test_compression_makes_records_smaller(tmp_path: Path) -> None:
    rows = levers.rows_of("compression", TINY, tmp_path)
    sizes = {row.way: row.value for row in rows if row.unit == "bytes a record"}
    assert all(size < sizes["none"] for codec, size in sizes.items() if codec != "none")
