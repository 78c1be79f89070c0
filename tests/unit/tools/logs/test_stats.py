"""Figures of logs whose content is known."""

import json
from pathlib import Path

import pytest

from pkafka.cli.dump_log import main
from pkafka.records.builder import build_batch
from pkafka.records.compression import Codec
from pkafka.tools.logs.selection import EVERYTHING, Selection
from pkafka.tools.logs.stats import DistinctKeys, LogStats, Sizes
from tests.log_files import name_of, old_segment, rich_segment


def stats_of(path: Path, selection: Selection = EVERYTHING) -> LogStats:
    stats = LogStats(path.parent)
    stats.read(path, selection)
    return stats


def test_figures_of_every_kind_of_batch(tmp_path: Path) -> None:
    stats = stats_of(rich_segment().write(tmp_path))
    assert (stats.batch_bytes.count, stats.records) == (18, 39)
    assert (stats.first_offset, stats.last_offset, stats.gaps, stats.missing_offsets) == (0, 49, 1, 4)
    assert (stats.control_batches, stats.transactional_batches, stats.committed, stats.aborted) == (
        7,
        4,
        1,
        1,
    )
    assert (stats.null_keys, stats.null_values, stats.headers, stats.keys.count) == (8, 7, 10, 4)
    assert set(stats.codecs) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {figures.plain_bytes for name, figures in stats.codecs.items() if name != "none"} == {68}
    assert stats.codecs["gzip"].compressed_bytes != 68
    assert stats.leader_epochs == {3, 4, 5}
    assert {number: (each.batches, each.records) for number, each in stats.producers.items()} == {
        77: (1, 5),
        78: (4, 2),
        79: (1, 0),
    }
    assert (stats.damaged_batches, stats.damaged_bytes) == (0, 0)
    assert stats_of(tmp_path / name_of(0), Selection(5, 11)).batch_bytes.count == 2


def test_figures_of_old_formats(tmp_path: Path) -> None:
    stats = stats_of(old_segment().write(tmp_path))
    assert (stats.records, stats.first_offset, stats.last_offset, stats.gaps) == (36, 100, 135, 0)
    assert stats.formats == {0: 6, 1: 12}


def test_damage_is_counted_and_passed_over(tmp_path: Path) -> None:
    segment = rich_segment()
    _, (_, _, second), (_, _, third), *_ = segment.places
    segment.data[second + 70] ^= 1
    path = segment.write(tmp_path)
    path.write_bytes(path.read_bytes() + b"junk")
    stats = stats_of(path)
    assert (stats.damaged_batches, stats.damaged_bytes) == (1, third - second + 4)
    assert stats.batch_bytes.count == 17


def test_sizes_say_what_most_values_do_not_exceed() -> None:
    sizes = Sizes()
    sizes.add_all([100] * 98 + [1, 5_000])
    assert sizes.document() == {"min": 1, "mean": 148.0, "p50_at_most": 127, "p99_at_most": 127, "max": 5_000}
    assert Sizes().document()["mean"] is None


def test_distinct_keys_are_exact_while_few_and_close_when_many() -> None:
    keys = DistinctKeys()
    for number in range(4_000):
        keys.add(b"%d" % (number % 1_000))
    assert (keys.count, keys.is_exact) == (1_000, True)
    for number in range(100_000):
        keys.add(b"%d" % number)
    assert not keys.is_exact
    assert keys.count == pytest.approx(100_000, rel=0.05)


def test_the_command_shows_them_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name_of(0)
    path.write_bytes(build_batch([(1, b"k", b"value" * 100, ())] * 10, codec=Codec.ZSTD))
    args = ["--files", str(tmp_path), "--stats"]
    assert main.run(args) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{tmp_path}:\n  segments: 1\n  bytes: {path.stat().st_size}\n")
    assert "  codec zstd: 1 batches, 10 records, " in text
    assert main.run([*args, "--output", "json"]) == 0
    (log,) = json.loads(capsys.readouterr().out)["logs"]
    assert (log["records"], log["codecs"]["zstd"]["plain_bytes"] > 5_000) == (10, True)
    assert main.run([*args, "--output", "csv"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["distinct_keys"] == "1"
    assert main.run([*args, "--output", "table"]) == 0
    assert "zstd" in capsys.readouterr().out
    path.write_bytes(path.read_bytes() + b"x")
    assert main.run(args) == 1
    assert main.run([*args, "--verify"]) == 2
