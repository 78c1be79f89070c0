"""pk-dump-log: what is in the files of a log, as kafka-dump-log.sh; works on files, needs no broker."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli import output
from pkafka.cli.options import CommandError, command, stream_output_option
from pkafka.cli.output import OutputFormat

if TYPE_CHECKING:
    from pkafka.tools.dump_log import ContentOf, Dump

_LATER: Final = (
    "transaction_log_decoder",
    "cluster_metadata_decoder",
    "remote_log_metadata_decoder",
)


@command("pk-dump-log", kafka_failure=0)
@click.option("--files", metavar="FILE,...", required=True, help="Files or directories to dump.")
@click.option("--print-data-log", is_flag=True, help="Show the records with keys and values.")
@click.option("--deep-iteration", is_flag=True, help="Show the records.")
@click.option("--skip-record-metadata", is_flag=True, help="Show only keys and values of records.")
@click.option(
    "--max-bytes", type=int, default=2**31 - 1, metavar="N", help="Read at most so many bytes per segment."
)
@click.option(
    "--max-message-size", type=int, default=5_242_880, metavar="N", help="Accepted; there is no limit here."
)
@click.option("--verify-index-only", is_flag=True, help="Check indexes without showing them.")
@click.option("--index-sanity-check", is_flag=True, help="Check what a broker checks at start.")
@click.option(
    "--key-decoder-class", metavar="CLASS", is_flag=False, flag_value="", help="Only StringDecoder."
)
@click.option(
    "--value-decoder-class", metavar="CLASS", is_flag=False, flag_value="", help="Only StringDecoder."
)
@click.option("--offsets-decoder", is_flag=True, help="Show the records of groups and committed offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Not supported yet.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Not supported yet.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Not supported yet.")
@stream_output_option
def main(files: str, **flags: object) -> None:
    """Dump segments, indexes, aborted transactions and producer snapshots."""
    from pkafka.tools.dump_log import SUFFIXES, Dump

    for name in _LATER:
        if flags[name]:
            raise CommandError(f"--{name.replace('_', '-')} is not supported by this version of pk-dump-log")
    for name in ("key_decoder_class", "value_decoder_class"):
        if flags[name] and not str(flags[name]).endswith("StringDecoder"):
            raise CommandError(f"--{name.replace('_', '-')} {flags[name]}: only StringDecoder exists here")
    content = bool(flags["print_data_log"] or flags["offsets_decoder"])
    max_bytes = flags["max_bytes"]
    assert isinstance(max_bytes, int)
    dump = Dump(
        records=content or bool(flags["deep_iteration"]),
        bytes_max=max_bytes,
        verify_only=bool(flags["verify_index_only"]),
        sanity_only=bool(flags["index_sanity_check"]),
    )
    form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
    printer = _Printer(
        form,
        content=content,
        metadata=not flags["skip_record_metadata"],
        decode=_offsets_decoder() if flags["offsets_decoder"] else None,
    )
    for path in _expand(files, SUFFIXES):
        if path.suffix in SUFFIXES:
            printer.dump(dump, path)
        else:
            printer.file(path)
            output.note(f"Ignoring unknown file {path}")
    printer.close(dump.problems)
    for problem in dump.problems:
        output.note(problem)
    if dump.problems:
        raise CommandError(f"{len(dump.problems)} problem(s) found")


def _offsets_decoder() -> "ContentOf":
    from pkafka.tools.offsets_decoder import decode_offsets_record

    return decode_offsets_record


def _expand(files: str, suffixes: tuple[str, ...]) -> list[Path]:
    """The files named; a directory stands for every file in it that can be dumped, in order of offsets.

    Raises:
        CommandError: one does not exist, or a directory holds no file of a log.
    """
    paths: list[Path] = []
    for text in files.split(","):
        path = Path(text.strip())
        if path.is_dir():
            inside = [each for each in path.iterdir() if each.suffix in suffixes and each.name[0].isdigit()]
            if not inside:
                raise CommandError(f"{path}: this directory holds no file of a log")
            paths += sorted(inside, key=lambda each: (each.name.split(".")[0], each.suffix))
        elif text.strip():
            if not path.exists():
                raise CommandError(f"{path}: there is no such file")
            paths.append(path)
    return paths


class _Printer:
    """Text lines in blocks, or one JSON object per row."""

    def __init__(
        self, form: OutputFormat, *, content: bool, metadata: bool, decode: "ContentOf | None"
    ) -> None:
        self._form = form
        self._decode = decode
        self._content = content
        self._metadata = metadata
        self._document = output.JsonList("rows")

    def file(self, path: Path) -> None:
        """Say which file follows."""
        if self._form is OutputFormat.TEXT:
            output.raw(f"Dumping {path}\n".encode())

    def dump(self, dump: "Dump", path: Path) -> None:
        """Print everything in one file."""
        from pkafka.tools.dump_log import document_of, plain_content, text_of

        decode = self._decode or plain_content
        self.file(path)
        block: list[str] = []
        for row in dump.rows(path):
            if self._form is OutputFormat.TEXT:
                text = text_of(row, content=self._content, metadata=self._metadata, decode=decode)
                block.append(text)
            else:
                block.append(output.to_json({"file": str(path), **document_of(row, decode=self._decode)}))
            if len(block) >= 1_000:
                self._flush(block)
        self._flush(block)

    def close(self, problems: Sequence[str]) -> None:
        """End the JSON document."""
        if self._form is OutputFormat.JSON:
            self._document.close({"problems": list(problems)})

    def _flush(self, block: list[str]) -> None:
        if self._form is OutputFormat.JSON:
            self._document.add(block)
        elif block:
            output.raw(("\n".join(block) + "\n").encode())
        block.clear()
