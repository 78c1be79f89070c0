"""The command line of pk-dump-log --spark: formats, files, queries, reports, and what does not go together."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pkafka.cli.dump_log import main
from tests.json_schemas import check
from tests.log_files import name_of, write_rich_files

pytestmark = pytest.mark.timeout(300)

LOCAL = ("--master", "local[2]")
Run = Callable[..., tuple[str, str]]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A directory of a partition, in a data directory."""
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    write_rich_files(directory)
    return directory


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """What a command prints: to standard output, and to standard error."""

    def run(*args: object, code: int = 0) -> tuple[str, str]:
        status = main.run([str(arg) for arg in args])
        out, err = capfd.readouterr()
        assert status == code, err
        return out, err

    return run


@pytest.mark.parametrize("form", ["text", "csv"])
def test_the_same_is_printed_as_without_spark(form: str, orders: Path, run: Run) -> None:
    path = orders / name_of(0)
    path.write_bytes(path.read_bytes()[:-7])
    args = ("--files", orders.parent, "--print-data-log", "--output", form)
    plain = run(*args, code=1)
    assert run(*args, "--spark", *LOCAL, code=1) == plain


def test_tables_in_files(orders: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    args = ("--files", orders / name_of(0), "--print-data-log", *LOCAL, "--to", out, "--output")
    assert run(*args, "json") == ("", "")
    rows = [json.loads(line) for path in out.glob("*.json") for line in path.read_text().splitlines()]
    assert len(rows) == 46
    assert rows[0]["key"] == "k"
    assert rows[0]["headers"] == [{"key": "h", "value": "x"}, {"key": "a,b"}]
    assert rows[0]["timestamp"] == "1970-01-01T00:00:01.000Z"
    _, said = run(*args, "csv", code=1)
    assert "already exists" in said
    assert len(said.splitlines()) == 1


def test_a_query_over_both_tables(orders: Path, run: Run) -> None:
    query = "select codec, count(*) as n, max(value) as v from records group by codec order by codec"
    out, _ = run("--files", orders, *LOCAL, "--offset-range", ":25", "--sql", query, "--output", "json")
    document = json.loads(out)
    check(document, "pk-dump-log.sql")
    assert document["rows"] == [
        {"codec": codec, "n": 5, "v": "\U0001f600"} for codec in ("gzip", "lz4", "none", "snappy", "zstd")
    ]
    _, said = run("--files", orders, *LOCAL, "--sql", "select no_column from records", code=1)
    assert "no_column" in said
    assert len(said.splitlines()) == 1


def test_a_report(orders: Path, run: Run) -> None:
    args = ("--files", orders.parent, *LOCAL, "--report", "size", "--output")
    (row,) = json.loads(run(*args, "json")[0])["rows"]
    check({"rows": [row]}, "pk-dump-log.report")
    (line,) = csv.DictReader(io.StringIO(run(*args, "csv")[0]))
    assert line["topic"] == "orders"
    assert int(line["bytes"]) == row["bytes"] == sum(path.stat().st_size for path in orders.glob("*.log"))
