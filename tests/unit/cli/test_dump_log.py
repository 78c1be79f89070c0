"""The command line of pk-dump-log: files, formats, statuses."""

import csv
import importlib.util
import io
import json
from pathlib import Path

import pytest

from pkafka.cli.dump_log import main
from pkafka.records.builder import build_batch
from pkafka.tools.logs.rows import FIELDS
from tests.log_files import name_of, segment_of_records, write_rich_files


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A directory of a partition."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    write_rich_files(directory)
    return directory


def run(*args: object, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main.run([str(arg) for arg in args]) == code
    return capsys.readouterr().out


def test_directories_and_patterns_stand_for_their_files(
    rich: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rich.parent / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (rich.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 3\n")

    def dumped(files: str) -> list[str]:
        lines = run("--files", files, capsys=capsys).splitlines()
        return [line.removeprefix("Dumping ") for line in lines if line.startswith("Dumping ")]

    own = ["meta.properties", "cleaner-offset-checkpoint"]
    whole = dumped(str(rich.parent))
    assert sorted(whole) == sorted(
        str(path) for path in [*(rich.parent / name for name in own), *rich.iterdir()]
    )
    assert dumped(str(rich)) == whole[2:]
    assert dumped(f"{rich}/*.log") == [f"{rich}/{name_of(0)}", f"{rich}/{name_of(100)}"]
    assert dumped(f"{rich}/{name_of(0)},{rich}/*0.index") == [
        *(f"{rich}/{name}" for name in (name_of(0), name_of(0, ".index"), name_of(100, ".index")))
    ]
    run("--files", f"{rich}/*.nothing", capsys=capsys, code=1)


def test_every_format_has_the_same_rows(rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--files", rich / name_of(0), "--print-data-log", "--output")
    rows = json.loads(run(*args, "json", capsys=capsys))["rows"]
    lines = [json.loads(line) for line in run(*args, "jsonl", capsys=capsys).splitlines()]
    assert lines == rows
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("batch"), kinds.count("record"), kinds.count("note")) == (18, 46, 1)
    table = list(csv.DictReader(io.StringIO(run(*args, "csv", capsys=capsys))))
    assert [row["kind"] for row in table] == [kind for kind in kinds if kind != "note"]
    assert [row["offset"] for row in table if row["kind"] == "record"] == [
        str(row["offset"]) for row in rows if row["kind"] == "record"
    ]
    assert json.loads(table[1]["headers"]) == [{"name": "h", "value": "x"}, {"name": "a,b", "value": None}]
    shown = run(*args, "table", capsys=capsys)
    assert "lastOffset" not in shown
    assert f"{rich / name_of(0)}: batch" in shown


def test_flags_that_narrow_and_form(rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = rich / name_of(0)
    out = run(
        "--files", segment, "--offset-range", "6:7", "--payload", "hex", "--print-headers", capsys=capsys
    )
    assert out.splitlines()[3:] == [
        "| offset: 6 CreateTime: 1001 keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] headers: [] "
        "payload: 7061796c6f6164fffe"
    ]
    out = run("--files", segment, "--time-range", "1970-01-01T00:00:03Z:", capsys=capsys)
    assert out.count("baseOffset: ") == 5
    out = run("--files", rich / name_of(0, ".timeindex"), "--offset-range", "5:", capsys=capsys)
    assert out.splitlines()[1:] == ["timestamp: 2000 offset: 36"]


def test_a_range_of_offsets_leaves_out_whole_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for base in (0, 10, 20, 30):
        (tmp_path / name_of(base)).write_bytes(build_batch([(1, None, b"v", ())] * 10, base_offset=base))
        (tmp_path / name_of(base, ".index")).write_bytes(b"")

    def segments(wanted: str) -> list[int]:
        lines = run("--files", tmp_path, "--offset-range", wanted, capsys=capsys).splitlines()
        return [
            int(Path(line).stem) for line in lines if line.startswith("Dumping ") and line.endswith(".log")
        ]

    assert segments("12:21") == [10, 20]
    assert segments("19:20") == [10]
    assert segments(":10") == [0]
    assert segments("30:") == [30]
    assert segments("99:") == [30]


@pytest.mark.parametrize(
    "flags",
    [
        ("--offset-range", "7"),
        ("--time-range", "soon"),
        ("--payload", "xml"),
        ("--payload", "hex", "--offsets-decoder"),
        ("--payload", "hex", "--key-decoder-class", "LongDecoder"),
        ("--stats", "--verify"),
        ("--verify", "--index-sanity-check"),
        ("--max-bytes", "-1"),
        ("--key-decoder-class", "no.such.Decoder"),
    ],
)
def test_flags_that_make_no_sense(
    rich: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--files", rich, *flags, capsys=capsys, code=2) == ""


def test_a_decoder_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "class Pair:\n    def from_bytes(self, data):\n        return [data[0], data[1]]\n"
    (tmp_path / "own_decoders.py").write_text(module)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / name_of(0)
    path.write_bytes(segment_of_records([(b"k", bytes((1, 2)))]))
    args = ("--files", path, "--value-decoder-class", "own_decoders.Pair")
    assert run(*args, capsys=capsys).splitlines()[-1].endswith(" key: k payload: [1, 2]")
    assert json.loads(run(*args, "--output", "json", capsys=capsys))["rows"][2]["value"] == [1, 2]
    path.write_bytes(segment_of_records([(b"k", b"")]))
    run(*args, capsys=capsys, code=1)


def test_damage_ends_with_1_and_with_0_for_those_who_want_kafkas_statuses(
    rich: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = rich / name_of(0)
    segment.write_bytes(segment.read_bytes() + b"junk")
    run("--files", segment, capsys=capsys, code=1)
    monkeypatch.setenv("PK_COMPAT", "3.9")
    run("--files", segment, capsys=capsys)
    run("--files", rich / "gone.log", capsys=capsys, code=1)


def promised(section: str) -> list[str]:
    """The lines of the documentation between two marks."""
    text = (Path(__file__).parents[3] / "docs" / "log-inspection.md").read_text()
    return text.partition(f"<!-- {section} -->\n")[2].partition("<!-- end -->")[0].splitlines()


def test_the_documentation_has_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = dict(line.strip("| ").split(" | ") for line in promised("rows")[2:])
    assert {kind: tuple(fields.replace("`", "").split()) for kind, fields in table.items()} == FIELDS
    (tmp_path / name_of(0)).write_bytes(segment_of_records([(b"k", b"v")]))
    for section, flag in (("stats", "--stats"), ("verify", "--verify")):
        (log,) = json.loads(run("--files", tmp_path, flag, "--output", "json", capsys=capsys))["logs"]
        assert list(log) == " ".join(promised(section)).replace("`", "").split()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--spark", "--stats"), 'Option "[stats]" can\'t be used with option "[spark]"'),
        (("--report", "size", "--verify"), 'Option "[verify]" can\'t be used with option "[report]"'),
        (("--sql", "select 1", "--report", "keys"), 'Option "[sql]" can\'t be used with option "[report]"'),
        (("--to", "x", "--offsets-decoder"), 'Option "[to]" can\'t be used with option "[offsets-decoder]"'),
        (("--output", "parquet"), "parquet is a format of files: --to says where"),
        (("--to", "x", "--output", "table"), "files are written as json, parquet, csv, not as table"),
        (("--report", "audit", "--bucket", "0s"), "--bucket is longer than nothing"),
        (("--tier", "a=b"), "--tier is for --report audit"),
        (("--report", "size", "--tier", "a=b"), "--tier is for --report audit"),
        (("--report", "audit", "--tier", "orders"), "--tier is NAME=REGEX, not orders"),
        (("--report", "audit", "--tier", "a=b", "--tier", "a=c"), "--tier a is there twice"),
        (
            ("--report", "audit", "--tier", "a=("),
            "--tier a=(: no regular expression: missing ), unterminated subpattern at position 0",
        ),
        (("--report", "audit", "--bucket", "long"), "Cannot parse argument 'long' of option bucket"),
    ],
    ids=str,
)
def test_flags_of_spark_that_make_no_sense(
    flags: tuple[str, ...], message: str, rich: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["--files", str(rich), *flags]) == 2
    assert capsys.readouterr().err == f"pk-dump-log: {message} (see pk-dump-log --help)\n"


def test_files_without_a_segment_need_no_spark(rich: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--files", rich / name_of(0, ".index"), "--report", "size", capsys=capsys, code=1)


def test_without_the_extra_one_line_says_what_brings_spark(
    rich: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "pyspark" else find(name, *rest)
    )
    assert main.run(["--files", str(rich), "--spark"]) == 1
    said = capsys.readouterr()
    assert said.err == "pk-dump-log: pyspark is not installed: pip install 'pkafka[spark]' brings it\n"
    assert said.out == ""
