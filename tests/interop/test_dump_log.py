"""pk-dump-log and Kafka's DumpLogSegments on the same files: the same text, on standard output and standard error."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.records.builder import build_batch
from tests.differences import first_difference
from tests.interop.conftest import JavaTool
from tests.log_files import (
    RECORDS,
    SegmentFile,
    metadata_records,
    name_of,
    remote_log_records,
    rich_segment,
    segment_of_records,
    transaction_records,
    write_rich_files,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

JAVA = "kafka.tools.DumpLogSegments"
API = "org.apache.kafka.tools.api"
RICH = [name_of(0), name_of(100), f"{10:020}-{1:010}.checkpoint", "bootstrap.checkpoint"]
INDEXES = [name_of(0, suffix) for suffix in (".index", ".timeindex", ".txnindex")]


class Dumps:
    """Runs both tools on the same files, which are named the same way."""

    def __init__(self, java_tool: JavaTool, directory: Path) -> None:
        self._java_tool = java_tool
        self._directory = directory

    def ours(self, *args: object, code: int = 0, compat: bool = False) -> tuple[str, list[str]]:
        program = "from pkafka.cli.dump_log import main; main()"
        environment = {**os.environ, **({"PK_COMPAT": "3.9"} if compat else {})}
        done = subprocess.run(
            [sys.executable, "-c", program, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )
        assert done.returncode == code, done
        notes = [line for line in done.stderr.splitlines() if not line.startswith("pk-dump-log: ")]
        return done.stdout, notes

    def theirs(self, *args: object, code: int = 0) -> tuple[str, list[str]]:
        done = self._java_tool(JAVA, *map(str, args))
        assert done.returncode == code, done
        return done.stdout, [line for line in done.stderr.splitlines() if not line.startswith("\t")]

    def path(self, *names: str) -> str:
        return ",".join(str(self._directory / name) for name in names)

    def same(self, *args: object, names: list[str], damaged: bool = False) -> str:
        """Insist on the same text, and return it; the statuses differ where only ours tells of damage."""
        files = self.path(*names)
        out, notes = self.ours("--files", files, *args, code=int(damaged))
        expected, expected_notes = self.theirs("--files", files, *args)
        assert not first_difference(out, expected)
        assert notes == expected_notes
        return out


@pytest.fixture
def dumps(java_tool: JavaTool, tmp_path: Path) -> Dumps:
    return Dumps(java_tool, tmp_path)


@pytest.fixture
def rich(dumps: Dumps, tmp_path: Path) -> Dumps:
    write_rich_files(tmp_path)
    return dumps


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--deep-iteration",),
        ("--print-data-log",),
        ("--print-data-log", "--skip-record-metadata"),
        ("--deep-iteration", "--skip-record-metadata"),
        ("--skip-record-metadata",),
        ("-print-data-log", "--max-message-size=7"),
        ("--value-decoder-class",),
        ("--key-decoder-class", f"{API}.StringDecoder"),
        (
            "--key-decoder-class",
            "kafka.serializer.StringDecoder",
            "--value-decoder-class",
            f"{API}.StringDecoder",
        ),
        ("--max-bytes", 0),
        ("--max-bytes", 128),
        ("--max-bytes", 700, "--print-data-log"),
        ("--verify-index-only", "--index-sanity-check"),
    ],
    ids=str,
)
def test_segments_of_every_kind(rich: Dumps, flags: tuple[object, ...]) -> None:
    shown = rich.same(*flags, names=RICH)
    assert shown.count("Dumping ") == len(RICH)


@pytest.mark.parametrize(
    "flags", [(), ("--verify-index-only",), ("--index-sanity-check",), ("--print-data-log",)]
)
def test_files_beside_segments(rich: Dumps, flags: tuple[str, ...]) -> None:
    rich.same(*flags, names=[*INDEXES, name_of(50, ".snapshot")])


def test_numbers_as_keys_and_values(dumps: Dumps, tmp_path: Path) -> None:
    numbers = [(struct.pack(">i", n), struct.pack(">q", n << 33)) for n in (-5, 0, 7)]
    (tmp_path / name_of(0)).write_bytes(
        segment_of_records([*numbers, (None, None), (b"\0\0\0\1more", bytes(9))])
    )
    shown = dumps.same(
        *(
            "--key-decoder-class",
            f"{API}.IntegerDecoder",
            "--value-decoder-class",
            "kafka.serializer.LongDecoder",
        ),
        names=[name_of(0)],
    )
    assert "kafka.serializer.LongDecoder is deprecated." in shown
    assert f" key: -5 payload: {-5 << 33}\n" in shown
    (tmp_path / name_of(0)).write_bytes(segment_of_records([(b"abc", b"")]))
    for tool in (dumps.ours, dumps.theirs):
        tool("--files", dumps.path(name_of(0)), "--key-decoder-class", f"{API}.LongDecoder", code=1)


@pytest.mark.parametrize(
    ("flag", "records"),
    [
        ("--transaction-log-decoder", transaction_records()),
        ("--cluster-metadata-decoder", metadata_records()),
        ("--remote-log-metadata-decoder", remote_log_records()),
    ],
    ids=["transactions", "cluster metadata", "remote log metadata"],
)
def test_records_of_internal_topics(
    dumps: Dumps, tmp_path: Path, flag: str, records: list[tuple[bytes | None, bytes | None]]
) -> None:
    if flag.startswith("--remote"):
        # For a record without a value Kafka's tool shows a NullPointerException.
        records = [record for record in records if record[1] is not None]
    (tmp_path / name_of(0)).write_bytes(segment_of_records(records))
    shown = dumps.same(flag, names=[name_of(0)])
    assert shown.count("payload: ") >= len(records) - 1
    dumps.same(flag, "--skip-record-metadata", names=[name_of(0)])


def test_of_two_decoders_the_same_one_wins(dumps: Dumps, tmp_path: Path) -> None:
    (tmp_path / name_of(0)).write_bytes(segment_of_records(metadata_records()))
    dumps.same("--cluster-metadata-decoder", "--remote-log-metadata-decoder", names=[name_of(0)])
    dumps.same("--print-data-log", "--cluster-metadata-decoder", "--value-decoder-class", names=[name_of(0)])


def damaged_segments(directory: Path) -> None:
    """One kind of damage each: content, checksum, junk behind, a batch cut off, offsets that jump back."""
    whole = rich_segment()
    data, places = bytes(whole.data), [position for _, _, position in whole.places]
    (directory / name_of(1)).write_bytes(_flipped(data, places[1] + 65))
    (directory / name_of(2)).write_bytes(_flipped(data, 30))
    (directory / name_of(3)).write_bytes(data[: places[2]] + b"junk")
    (directory / name_of(4)).write_bytes(data[: places[2] + 30])
    (directory / name_of(5)).write_bytes(data[: places[2]] + data[: places[1]] + data[places[4] : places[5]])
    (directory / name_of(6)).write_bytes(b"abc")


def _flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("flag", ["--max-message-size=9", "--deep-iteration"])
def test_damage_is_shown_alike_and_only_pkafka_ends_with_1(
    dumps: Dumps, tmp_path: Path, number: int, flag: str
) -> None:
    damaged_segments(tmp_path)
    files = dumps.path(name_of(number))
    # Offsets that jump back are seen only where records are looked at.
    code = int(number != 5 or flag == "--deep-iteration")
    expected, _ = dumps.theirs("--files", files, flag)
    assert not first_difference(dumps.ours("--files", files, flag, code=code)[0], expected)
    assert not first_difference(dumps.ours("--files", files, flag, code=0, compat=True)[0], expected)


def test_the_compressed_records_of_a_damaged_batch_are_left_out_but_the_rest_is_shown(
    dumps: Dumps, tmp_path: Path
) -> None:
    damaged_segments(tmp_path)
    files = dumps.path(name_of(1))
    assert not first_difference(dumps.ours("--files", files, code=1)[0], dumps.theirs("--files", files)[0])


HARMFUL = [name_of(20, ".index"), *(name_of(number, ".timeindex") for number in (20, 21, 22))]


def indexes_that_disagree(directory: Path) -> list[str]:
    """Indexes that point to what is not in the log, in each way; returns the names of the files."""
    names = []
    size = len(build_batch(RECORDS))
    positions = [size * number for number in range(4)]
    wrong = {
        20: ([(7, positions[1]), (9, positions[2])], [(1003, 4), (1009, 400)]),
        21: ([(4, 0), (9, positions[1])], [(1003, 4), (1002, 9)]),
        22: ([(9, positions[1])], [(1001, 9), (1000, 14)]),
        23: ([(9, positions[1])], []),
    }
    for base, (offsets, times) in wrong.items():
        path = directory / name_of(base)
        rebased = SegmentFile(base)
        for _ in range(4):
            rebased.records(RECORDS)  # type: ignore[arg-type] # with headers
        path.write_bytes(rebased.data)
        path.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *each) for each in offsets))
        path.with_suffix(".timeindex").write_bytes(b"".join(struct.pack(">qi", *each) for each in times))
        names += [name_of(base, ".index"), name_of(base, ".timeindex")]
    return names


@pytest.mark.parametrize("flags", [(), ("--verify-index-only",)])
def test_indexes_that_disagree_with_the_log(dumps: Dumps, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """One file at a time: in which order Kafka's tool lists several depends on their names' hashes."""
    for name in indexes_that_disagree(tmp_path):
        dumps.same(*flags, names=[name], damaged=name in HARMFUL)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_that_a_broker_would_not_keep(dumps: Dumps, tmp_path: Path, suffix: str) -> None:
    indexes_that_disagree(tmp_path)
    path = tmp_path / name_of(20, suffix)
    files = dumps.path(path.name)
    dumps.same("--index-sanity-check", names=[path.name])
    path.write_bytes(path.read_bytes() + b"abc")
    for tool in (dumps.ours, dumps.theirs):
        shown, _ = tool("--files", files, "--index-sanity-check", code=1)
        assert shown == f"Dumping {files}\n"
    path.write_bytes(b"")
    dumps.same("--index-sanity-check", names=[path.name])
    dumps.same(names=[path.name])


def test_damaged_snapshots(dumps: Dumps, tmp_path: Path) -> None:
    for number, data in enumerate((struct.pack(">hIi", 1, 0, 0), struct.pack(">hIi", 2, 0, 0))):
        (tmp_path / name_of(number, ".snapshot")).write_bytes(data)
        out, notes = dumps.ours("--files", dumps.path(name_of(number, ".snapshot")), code=1)
        expected, expected_notes = dumps.theirs("--files", dumps.path(name_of(number, ".snapshot")))
        assert out == expected
        assert notes[0].endswith(expected_notes[0])


@pytest.mark.parametrize(
    "flags",
    [
        ("--no-such-flag",),
        ("--max-bytes", "abc"),
        ("--max-bytes", 99_999_999_999),
        ("--max-bytes", -1),
        ("--files", "x"),
        ("--print-data-log", "--key-decoder-class", "no.such.Decoder"),
        ("--value-decoder-class", "builtins.dict"),
    ],
    ids=str,
)
def test_wrong_flags_end_both(rich: Dumps, flags: tuple[object, ...]) -> None:
    files = rich.path(name_of(0))
    rich.theirs("--files", files, *flags, code=1)
    rich.ours("--files", files, *flags, code=1, compat=True)


def test_names_and_files_that_are_none_end_both(rich: Dumps, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"")
    for name in ("x.log", name_of(77), "nothere"):
        for tool in (rich.ours, rich.theirs):
            tool("--files", rich.path(name), code=1)
    for tool in (rich.ours, rich.theirs):
        tool("--print-data-log", code=2 if tool == rich.ours else 1)
    (tmp_path / "0.swap").write_bytes(b"")
    rich.same(names=["0.swap"])
    assert rich.ours("--files", rich.path("partition.metadata"), compat=True) == rich.theirs(
        "--files", rich.path("partition.metadata")
    )
