"""Options of the data source ``pkafka-log``: what they mean, and what is said of those that mean nothing."""

from pathlib import Path

import pytest

from pkafka.pipeline.segments.options import NARROWING, ROWS, read_options
from pkafka.pipeline.segments.plan import SPLIT_BYTES, SourceError, Wanted
from pkafka.tools.logs.selection import Selection


def test_without_options_everything_is_read() -> None:
    options = read_options({"path": "/data"})
    assert options.paths == ("/data",)
    assert options.columns == tuple(ROWS["records"])
    assert options.wanted == Wanted()
    assert options.split_bytes == SPLIT_BYTES
    assert options.ddl.startswith(
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint,"
    )
    assert read_options({"path": "/data", "rows": "batches"}).columns == tuple(ROWS["batches"])


def test_names_of_options_are_taken_in_any_case() -> None:
    options = read_options(
        {
            "PATH": "/a, /b",
            "paths": '["/c,d"]',
            "Topic": "t,u",
            "partition": " 0, 3 ",
            "startingoffset": "5",
            "endingOffset": "9",
            "startTimestamp": "1000",
            "endTimestamp": "1970-01-01T00:00:02",
            "columns": "offset , error",
            "splitBytes": "8m",
        }
    )
    assert options.paths == ("/a", "/b", "/c,d")
    assert options.wanted == Wanted(frozenset("tu"), frozenset({0, 3}), Selection(5, 9, 1000, 2000))
    assert options.ddl == "`offset` bigint, `error` string"
    assert options.split_bytes == 8 << 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "load() needs a data directory"),
        ({"startingOffsets": "earliest"}, "there is no option startingOffsets; there are "),
        ({"rows": "pages"}, "rows is records or batches, not 'pages'"),
        ({"columns": "offset,size"}, "there is no column 'size' of records; there are key, value"),
        ({"columns": "offset,offset"}, "columns names one twice"),
        ({"startingOffset": "earliest"}, "startingOffset cannot be 'earliest'"),
        ({"partition": "a"}, "partition cannot be 'a'"),
        ({"endTimestamp": "noon"}, "endTimestamp cannot be 'noon'"),
        ({"splitBytes": "0"}, "splitBytes cannot be '0'"),
    ],
)
def test_what_makes_no_sense_is_said(given: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_options({"path": "/data", **given} if given else given)
    assert str(caught.value).startswith(message)


def test_the_documentation_has_every_column_and_option() -> None:
    text = (Path(__file__).parents[4] / "docs" / "logs-in-spark.md").read_text()
    for rows, columns in ROWS.items():
        promised = text.partition(f"<!-- {rows} -->\n")[2].partition("<!-- end -->")[0]
        assert promised.replace("`", "").split() == list(columns)
    for name in (*NARROWING, "rows", "columns", "splitBytes"):
        assert f"`{name}`" in text
