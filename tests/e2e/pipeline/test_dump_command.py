"""The command line of pk-dump-log --spark: formats, files, queries, reports, and what does not go together."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pkafka.cli.dump_log import main
from tests.json_schemas import check
from tests.log_files import name_of, write_rich_files
from tests.spark import END_S, of_program

pytestmark = pytest.mark.timeout(900)

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A directory of a partition, in a data directory."""
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    write_rich_files(directory)
    return directory


@pytest.fixture
def run(run_command: Run) -> Run:
    return partial(run_command, main)


@pytest.mark.parametrize("form", ["text", "csv"])
def test_the_same_is_printed_as_without_spark(form: str, orders: Path, run: Run) -> None:
    path = orders / name_of(0)
    path.write_bytes(path.read_bytes()[:-7])
    args = ("--files", orders.parent, "--print-data-log", "--output", form)
    plain = run(*args, status=1)
    assert run(*args, "--spark", status=1) == plain


def test_tables_in_files(orders: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "out"
    args = ("--files", orders / name_of(0), "--print-data-log", "--to", out, "--output")
    assert run(*args, "json") == ("", "")
    rows = [json.loads(line) for path in out.glob("*.json") for line in path.read_text().splitlines()]
    assert len(rows) == 46
    assert rows[0]["key"] == "k"
    assert rows[0]["headers"] == [{"key": "h", "value": "x"}, {"key": "a,b"}]
    assert rows[0]["timestamp"] == "1970-01-01T00:00:01.000Z"
    _, said = run(*args, "csv", status=1)
    assert "already exists" in said
    assert len(said.splitlines()) == 1


def of_query(orders: Path, query: str) -> tuple[str, ...]:
    return ("--files", str(orders), "--offset-range", ":25", "--sql", query, "--output", "json")


def test_a_query_over_both_tables(orders: Path, run: Run) -> None:
    query = "select codec, count(*) as n, max(value) as v from records group by codec order by codec"
    document = json.loads(run(*of_query(orders, query))[0])
    check(document, "pk-dump-log.sql")
    assert document["rows"] == [
        {"codec": codec, "n": 5, "v": "\U0001f600"} for codec in ("gzip", "lz4", "none", "snappy", "zstd")
    ]
    _, said = run(*of_query(orders, "select no_column from records"), status=1)
    assert "no_column" in said
    assert len(said.splitlines()) == 1


def test_a_report(orders: Path, run: Run) -> None:
    args = ("--files", orders.parent, "--report", "size", "--output")
    (row,) = json.loads(run(*args, "json")[0])["rows"]
    check({"rows": [row]}, "pk-dump-log.report")
    (line,) = csv.DictReader(io.StringIO(run(*args, "csv")[0]))
    assert line["topic"] == "orders"
    assert int(line["bytes"]) == row["bytes"] == sum(path.stat().st_size for path in orders.glob("*.log"))


@pytest.mark.nightly  # starts Spark in a program of its own
def test_a_program_prints_the_same_and_leaves_no_files(orders: Path, run: Run, tmp_path: Path) -> None:
    here, files = tmp_path / "here", tmp_path / "files"
    here.mkdir()
    query = "select count(*) as n from records join batches using (topic)"
    command = [sys.executable, "-c", "from pkafka.cli.dump_log import main; main()", *of_query(orders, query)]
    done = subprocess.run(
        [*command, "--master", "local[1]"],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=True,
        cwd=here,
        env=of_program(files),
    )
    assert (done.stdout, done.stderr) == run(*of_query(orders, query))
    assert json.loads(done.stdout)["rows"][0]["n"] > 0
    assert (list(here.iterdir()), list(files.iterdir())) == ([], [])
