"""The benchmark of single levers runs, and says something of each."""

from pathlib import Path

import pytest

from benchmarks import levers

TINY = levers.Scale(seconds=0.05, bytes=2_000_000, partitions=(1, 2))


@pytest.mark.parametrize("name", [*levers.MACHINE, *levers.BROKER])
def test_a_lever_gives_figures_with_and_without_it(name: str, tmp_path: Path) -> None:
    rows = list(levers.rows_of(name, TINY, tmp_path))
    assert len({row.way for row in rows}) > 1
    assert all(row.value >= 0 for row in rows)
    assert not list(tmp_path.iterdir())


def test_compression_makes_records_smaller(tmp_path: Path) -> None:
    rows = levers.rows_of("compression", TINY, tmp_path)
    sizes = {row.way: row.value for row in rows if row.unit == "bytes a record"}
    assert all(size < sizes["none"] for codec, size in sizes.items() if codec != "none")
