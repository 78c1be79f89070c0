"""Tables on narrow terminals."""

import io

import pytest
from rich.console import Console

from pkafka.cli.kit.output import Table, _draw

ROWS = [
    {
        "group": "shop",
        "topic": "orders",
        "partition": each,
        "current_offset": 1,
        "consumer_id": None,
        "host": None,
    }
    for each in range(2)
]


def lines(table: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(_draw(table, width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines() if line.strip()]


@pytest.mark.parametrize(("width", "has_all"), [(80, True), (40, False)])
def test_columns_without_a_value_go_where_there_is_no_room(width: int, has_all: bool) -> None:
    shown = lines(Table(ROWS), width)
    assert max(map(len, shown)) <= width
    assert ("host" in "".join(shown)) is has_all


def test_no_word_of_a_heading_and_no_number_is_broken() -> None:
    rows = [{"replication_factor": 3, "partition_count": 1_234_567_890, "configs": "retention.ms=60000" * 4}]
    text = "\n".join(lines(Table(rows), 40))
    for whole in ("replication", "partition", "1234567890", "configs"):
        assert whole in text


def test_a_table_of_nothing_but_nothing_keeps_its_columns() -> None:
    shown = "\n".join(lines(Table([{"a_long_name": None, "another_long_name": None}]), 15))
    assert "a" in shown
    assert "another" in shown
