"""pk-dump-log: what is in the files of a log, as kafka-dump-log.sh; works on files, needs no broker."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pkafka.cli.dump_log import in_spark
from pkafka.cli.kit import log_files, output
from pkafka.cli.kit.exit_status import compat_39
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command, exclude
from pkafka.cli.kit.output import OutputFormat, View, show
from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from pkafka.tools.logs.dump import Dump
    from pkafka.tools.logs.records.decoders import Content
    from pkafka.tools.logs.rows import Row
    from pkafka.tools.logs.selection import Selection

_DECODERS: Final = {
    "offsets_decoder": "OFFSETS",
    "transaction_log_decoder": "TRANSACTIONS",
    "cluster_metadata_decoder": "CLUSTER_METADATA",
    "remote_log_metadata_decoder": "REMOTE_LOG_METADATA",
}
_CLASSES: Final = ("key_decoder_class", "value_decoder_class")
_STRING_DECODER: Final = "StringDecoder"
_CLASS_HELP: Final = (
    "A decoder of Kafka's (StringDecoder, LongDecoder, ...), or a Python class that has from_bytes."
)
_ROWS_AT_ONCE: Final = 1_000
_TEXT_AT_ONCE: Final = 1 << 20


class _Shown(NamedTuple):
    """Which parts of a record are shown, and how."""

    content: bool
    metadata: bool
    header_values: bool
    by: "Content"
    deprecations: list[str]


@command("pk-dump-log")
@click.option(
    "--files", metavar="FILE,...", required=True, help="Files, directories or patterns (*.log) to dump."
)
@click.option("--print-data-log", is_flag=True, help="Show the records with keys and values.")
@click.option("--deep-iteration", is_flag=True, help="Show the records.")
@click.option("--skip-record-metadata", is_flag=True, help="Show only keys and values of records.")
@click.option(
    "--max-bytes",
    type=click.IntRange(0, 2**31 - 1),
    default=2**31 - 1,
    metavar="N",
    help="Read at most so many bytes per segment.",
)
@click.option(
    "--max-message-size", type=int, default=5_242_880, metavar="N", help="Accepted; there is no limit here."
)
@click.option("--verify-index-only", is_flag=True, help="Check indexes without showing them.")
@click.option("--index-sanity-check", is_flag=True, help="Check what a broker checks at start.")
@click.option("--key-decoder-class", metavar="CLASS", is_flag=False, flag_value="", help=_CLASS_HELP)
@click.option("--value-decoder-class", metavar="CLASS", is_flag=False, flag_value="", help=_CLASS_HELP)
@click.option("--offsets-decoder", is_flag=True, help="Show the records of groups and committed offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Show the records of transactions.")
@click.option(
    "--cluster-metadata-decoder", is_flag=True, help="Show the records of a KRaft cluster's metadata."
)
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Show the records of tiered segments.")
@click.option("--offset-range", metavar="A:B", help="Only what is from offset A up to, but without, B.")
@click.option(
    "--time-range", metavar="A:B", help="As --offset-range, by time: in ms, or as ISO 8601 (UTC by default)."
)
@click.option(
    "--payload",
    type=click.Choice(["text", "hex", "base64", "json"]),
    help="Show keys, values and payloads, in this form.",
)
@click.option("--print-headers", is_flag=True, help="Show the values of headers too, as JSON.")
@click.option("--skip-damage", is_flag=True, help="Go on after damage with the next plausible batch.")
@click.option("--stats", is_flag=True, help="Show sizes, codecs, keys, gaps and producers instead.")
@click.option("--verify", is_flag=True, help="Check whole logs instead, as pk-verify-log does.")
@in_spark.spark_options
def main(files: str, **flags: object) -> None:
    """Dump segments, indexes, aborted transactions, producer snapshots and checkpoints."""
    from pkafka.tools.logs.dump import Dump

    selection = _selection(flags)
    with_spark = in_spark.wants_spark(flags)
    if in_spark.wants_table(flags):
        records = bool(flags["print_data_log"] or flags["deep_iteration"] or flags["payload"])
        in_spark.show_or_write(log_files.named_paths(files), flags, selection, records=records)
        return
    form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
    shown = _shown(flags)
    for name in ("stats", "verify"):
        exclude(flags, name, *({"stats", "verify"} - {name}), "verify-index-only", "index-sanity-check")
    paths = log_files.named_paths(files)
    if flags["verify"]:
        from pkafka.cli.kit.log_verdicts import verify

        verify(paths, form)
        return
    chosen = log_files.files_to_dump(paths)
    if not selection.is_everything:
        chosen = log_files.without_segments_elsewhere(chosen, selection.offset_from, selection.offset_to)
    if flags["stats"]:
        from pkafka.cli.dump_log.stats import show_stats

        show_stats(chosen, selection, form)
        return
    max_bytes = flags["max_bytes"]
    assert isinstance(max_bytes, int)
    with log_files.progress(chosen, "dumped") as read:
        dump = Dump(
            records=shown.content or bool(flags["deep_iteration"]),
            bytes_max=max_bytes,
            verify_only=bool(flags["verify_index_only"]),
            sanity_only=bool(flags["index_sanity_check"]),
            selection=selection,
            resync=bool(flags["skip_damage"]),
            on_read=read,
        )
        if with_spark:
            in_spark.dump(dump, chosen, flags, lambda made: _PRINTERS[form](made, chosen, shown))
        else:
            _PRINTERS[form](dump, chosen, shown)
    for problem in dump.findings.lines():
        output.note(problem)
    if dump.findings.damage:
        raise CommandError(f"{dump.findings.damage} problem(s) found", kafka_status=0)


def _selection(flags: dict[str, object]) -> "Selection":
    from pkafka.tools.logs.selection import RangeError, Selection, offset_range, time_range

    try:
        offsets = offset_range(str(flags["offset_range"])) if flags["offset_range"] else (None, None)
        times = time_range(str(flags["time_range"])) if flags["time_range"] else (None, None)
    except RangeError as error:
        raise click.UsageError(str(error)) from error
    return Selection(*offsets, *times)


def _shown(flags: dict[str, object]) -> _Shown:
    from pkafka.tools.logs.records import decoders

    classes = [flags[name] for name in _CLASSES]
    named = [name for name in _DECODERS if flags[name]]
    # Two decoders are accepted, as by Kafka's tool, and the first of them wins.
    by: Content = decoders.PLAIN
    deprecations: list[str] = []
    if flags["payload"]:
        for name in (*_CLASSES, *named):
            exclude(flags, "payload", name.replace("_", "-"))
        by = decoders.content_in(decoders.PayloadForm(flags["payload"]))
    elif named:
        by = getattr(decoders, _DECODERS[named[0]])
    elif any(each is not None for each in classes):
        names = [str(each or _STRING_DECODER) for each in classes]
        options = [f"--{name.replace('_', '-')}" for name in _CLASSES]
        by = decoders.decoded_by(
            *(decoders.decoder(option, name) for option, name in zip(options, names, strict=True))
        )
        # Kafka's tool makes the decoder of values first.
        deprecations = [text for name in reversed(names) if (text := decoders.deprecation(name))]
    content = bool(
        flags["print_data_log"] or named or flags["payload"] or any(each is not None for each in classes)
    )
    return _Shown(content, not flags["skip_record_metadata"], bool(flags["print_headers"]), by, deprecations)


def _print_text(dump: "Dump", files: Sequence[Path], shown: _Shown) -> None:
    from pkafka.tools.logs.dump import is_known
    from pkafka.tools.logs.side_files import NAMED_FILES

    for path in files:
        output.raw(f"Dumping {path}\n".encode())
        if not is_known(path) or (compat_39() and path.name in NAMED_FILES):
            output.raw(b"")
            output.note(f"Ignoring unknown file {path}")
            continue
        if path.suffix in (".log", ".checkpoint"):
            output.raw("".join(f"{text}\n" for text in shown.deprecations).encode())
        for block in dump.text(
            path,
            content=shown.content,
            metadata=shown.metadata,
            header_values=shown.header_values,
            by=shown.by,
        ):
            output.raw(block)


def _print_json(dump: "Dump", files: Sequence[Path], shown: _Shown) -> None:
    document = output.JsonList("rows")
    for block in _json_blocks(dump, files, shown):
        document.add(block)
    document.close({"problems": dump.findings.sentences()})


def _print_jsonl(dump: "Dump", files: Sequence[Path], shown: _Shown) -> None:
    for block in _json_blocks(dump, files, shown):
        output.raw("".join(f"{row}\n" for row in block).encode(errors="replace"))


def _json_blocks(dump: "Dump", files: Sequence[Path], shown: _Shown) -> Iterator[list[str]]:
    """Rows as JSON, many at a time; those before an error come before it."""
    block: list[str] = []
    size = 0
    try:
        for row in _documents(dump, files, shown):
            text = output.to_json(row)
            block.append(text)
            size += len(text)
            if len(block) >= _ROWS_AT_ONCE or size > _TEXT_AT_ONCE:
                yield block
                block = []
                size = 0
    except (PkafkaError, OSError):
        yield block
        raise
    yield block


def _print_csv(dump: "Dump", files: Sequence[Path], shown: _Shown) -> None:
    """Print one table of all files: the columns of every kind of row that they can give."""
    from pkafka.tools.logs.dump import kinds_in
    from pkafka.tools.logs.rows import FIELDS

    kinds = [kind for path in files for kind in kinds_in(path, records=dump.records)]
    columns = list(dict.fromkeys(field for kind in kinds for field in FIELDS[kind]))
    rows = (row for row in _documents(dump, files, shown) if row["kind"] != "note")
    output.csv_rows(["file", "kind", *columns], map(_flat, rows))


def _flat(row: dict[str, object]) -> dict[str, object]:
    """A row whose lists and objects are JSON."""
    return {
        name: output.to_json(value) if isinstance(value, list | dict) else value
        for name, value in row.items()
    }


def _print_table(dump: "Dump", files: Sequence[Path], shown: _Shown) -> None:
    """Print consecutive rows of one file and kind as a table, so many rows at most."""
    rows = _documents(dump, files, shown)
    for (file, kind), group in groupby(rows, key=lambda row: (row["file"], row["kind"])):
        while block := list(islice(group, _ROWS_AT_ONCE)):
            texts = [str(row["text"]) for row in block] if kind == "note" else [f"{file}: {kind}"]
            for text in texts:
                output.line(text)
            if kind != "note":
                bare = [{name: row[name] for name in row if name not in ("file", "kind")} for row in block]
                show(View("rows", (), bare), OutputFormat.TABLE)


def _documents(dump: "Dump", files: Sequence[Path], shown: _Shown) -> Iterable[dict[str, object]]:
    from pkafka.tools.logs.dump import is_known
    from pkafka.tools.logs.rows import document_of

    def document(path: Path, row: "Row") -> dict[str, object]:
        return {"file": str(path), **document_of(row, documents=shown.by.documents)}

    for path in files:
        if not is_known(path):
            output.note(f"Ignoring unknown file {path}")
            continue
        for row in dump.rows(path):
            yield document(path, row)


_PRINTERS: Final[dict[OutputFormat, Callable[["Dump", Sequence[Path], _Shown], None]]] = {
    OutputFormat.TEXT: _print_text,
    OutputFormat.JSON: _print_json,
    OutputFormat.JSONL: _print_jsonl,
    OutputFormat.CSV: _print_csv,
    OutputFormat.TABLE: _print_table,
}
