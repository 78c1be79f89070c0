"""How pk-dump-log --stats shows the figures of logs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pkafka.cli.kit import log_files
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import OutputFormat, Table, View, show

if TYPE_CHECKING:
    from pkafka.tools.logs.selection import Selection
    from pkafka.tools.logs.stats import LogStats


def show_stats(files: Sequence[Path], selection: "Selection", form: OutputFormat) -> None:
    """Read the segments among files, and show the figures of each log: the segments of a directory are one.

    Raises:
        CommandError: there is no segment among them, or one is damaged.
    """
    from pkafka.tools.logs.stats import LogStats

    segments = [path for path in files if path.suffix == ".log"]
    if not segments:
        raise CommandError("there is no segment of a log in these files")
    stats: dict[Path, LogStats] = {}
    with log_files.progress(segments, "read") as read:
        for path in segments:
            log = stats.setdefault(path.parent, LogStats(path.parent))
            log.read(path, selection, read)
    rows = [_document(each) for each in stats.values()]
    flat = [
        {name: value for name, value in row.items() if not isinstance(value, list | dict)} for row in rows
    ]
    details = [
        {"log": row["log"], "codec": name, **figures}
        for row in rows
        for name, figures in row["codecs"].items()  # type: ignore[attr-defined] # a dict, as _document makes it
    ]
    tables = [Table(flat), Table(details)] if form is OutputFormat.TABLE else [Table(flat)]
    show(View("logs", _lines(rows), rows, tables=tables), form)
    damaged = sum(each.damaged_bytes for each in stats.values())
    if damaged:
        raise CommandError(f"{damaged} damaged bytes")


def _document(stats: "LogStats") -> dict[str, object]:
    return {
        "log": str(stats.path),
        "segments": stats.files,
        "bytes": stats.size_bytes,
        "batches": stats.batch_bytes.count,
        "records": stats.records,
        "first_offset": _known(stats.first_offset),
        "last_offset": _known(stats.last_offset),
        "gaps": stats.gaps,
        "missing_offsets": stats.missing_offsets,
        "first_timestamp": _known(stats.first_timestamp),
        "last_timestamp": _known(stats.last_timestamp),
        "late_batches": stats.late_batches,
        "null_keys": stats.null_keys,
        "null_values": stats.null_values,
        "distinct_keys": stats.keys.count,
        "distinct_keys_exact": stats.keys.is_exact,
        "records_with_headers": stats.headers,
        "transactional_batches": stats.transactional_batches,
        "control_batches": stats.control_batches,
        "commits": stats.committed,
        "aborts": stats.aborted,
        "damaged_batches": stats.damaged_batches,
        "damaged_bytes": stats.damaged_bytes,
        "batch_bytes": stats.batch_bytes.document(),
        "batch_records": stats.batch_records.document(),
        "key_bytes": stats.key_bytes.document(),
        "value_bytes": stats.value_bytes.document(),
        "codecs": {name: vars(figures) for name, figures in sorted(stats.codecs.items())},
        "formats": {str(magic): count for magic, count in sorted(stats.formats.items())},
        "leader_epochs": sorted(stats.leader_epochs),
        "producers": [
            {"producer_id": number, **vars(figures)} for number, figures in sorted(stats.producers.items())
        ],
        "producers_unlisted": stats.producers_unlisted,
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _lines(rows: Sequence[Mapping[str, object]]) -> Iterator[str]:
    for row in rows:
        yield f"{row['log']}:"
        for name, value in row.items():
            if name == "log":
                continue
            label = name.replace("_", " ")
            if name == "codecs":
                yield from _codec_lines(value)  # type: ignore[arg-type] # as _document makes it
            elif name == "producers":
                yield from _producer_lines(value)  # type: ignore[arg-type] # as _document makes it
            elif isinstance(value, dict):
                shown = ", ".join(f"{key.replace('_', ' ')} {each}" for key, each in value.items())
                yield f"  {label}: {shown}"
            elif isinstance(value, list):
                yield f"  {label}: {', '.join(map(str, value))}"
            else:
                yield f"  {label}: {str(value).lower() if isinstance(value, bool | None) else value}"


def _codec_lines(codecs: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for name, figures in codecs.items():
        compressed, plain = figures["compressed_bytes"], figures["plain_bytes"]
        share = f" ({compressed / plain:.1%})" if plain else ""
        yield (
            f"  codec {name}: {figures['batches']} batches, {figures['records']} records, "
            f"{compressed} bytes of {plain} plain{share}"
        )


def _producer_lines(producers: Sequence[Mapping[str, int]]) -> Iterator[str]:
    for each in producers:
        yield (
            f"  producer {each['producer_id']}: epoch {each['epoch']}, {each['batches']} batches, "
            f"{each['records']} records, offsets {each['first_offset']} to {each['last_offset']}"
        )
