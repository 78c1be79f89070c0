"""pk-verify-log: whether logs on disk are sound; Kafka has no such tool. Works on files, needs no broker."""

import click

from pkafka.cli.kit import log_files
from pkafka.cli.kit.log_verdicts import verify
from pkafka.cli.kit.options import command, text_output_option
from pkafka.cli.kit.output import OutputFormat


@command("pk-verify-log")
@click.option(
    "--files", metavar="FILE,...", required=True, help="Segments, or directories of partitions or of data."
)
@click.option("--deep-iteration", is_flag=True, help="Decode the records too.")
@click.option("--compacted", is_flag=True, help="Do not take gaps between offsets for damage.")
@text_output_option
def main(files: str, deep_iteration: bool, compacted: bool, **flags: object) -> None:
    """Check logs: every batch, and the files beside the segments against them."""
    form = OutputFormat(flags["output"]) if flags["output"] else OutputFormat.TEXT
    verify(log_files.named_paths(files), form, deep=deep_iteration, compacted=compacted)
