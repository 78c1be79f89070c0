"""pk-delete-records: raise the start of partitions, as kafka-delete-records.sh."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.java_text import java_error
from pkafka.cli.options import CommandError, Common, command, connection_options
from pkafka.cli.output import OutputFormat, View, line
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


@command("pk-delete-records", kafka_failure=0)
@connection_options
@click.option("--offset-json-file", metavar="FILE", required=True, help="Partitions and offsets, as JSON.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
def main(common: Common, offset_json_file: str, dry_run: bool) -> None:
    """Delete the records of partitions before given offsets."""
    offsets = parse_offsets(Path(offset_json_file).read_text(encoding="utf-8"))
    is_text = common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE)
    with common.admin() as admin:
        if dry_run:
            _plan(common, offsets, _bounds(admin, common, offsets))
            return
        if is_text:
            line("Executing records delete operation")
        found = admin.delete_records(offsets, timeout_ms=common.timeout_ms)
    lines = ["Records delete operation completed:"]
    rows: list[dict[str, object]] = []
    failures = 0
    for partition in sorted(found):
        outcome = found[partition]
        row: dict[str, object] = {"topic": partition.topic, "partition": partition.partition}
        if isinstance(outcome, ApiError):
            failures += 1
            lines.append(f"partition: {partition}\terror: {java_error(outcome)}")
            row |= {"low_watermark": None, "error": outcome.code.name}
        else:
            lines.append(f"partition: {partition}\tlow_watermark: {outcome}")
            row |= {"low_watermark": outcome, "error": None}
        rows.append(row)
    common.show(View("partitions", lines, rows))
    if failures:
        raise CommandError(f"{failures} of {len(found)} partitions failed", kafka_status=0)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Read ``{"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}``.

    Raises:
        CommandError: it is not of that form, or names a partition twice.
    """
    try:
        document = json.loads(text)
        version = document.get("version", 1)
        if version != 1:
            raise CommandError(f"Not supported version field value {version}")
        rows = [
            (TopicPartition(str(row["topic"]), int(row["partition"])), int(row["offset"]))
            for row in document["partitions"]
        ]
    except json.JSONDecodeError as error:
        raise CommandError(f"The input string is not a valid JSON: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CommandError(f"The input JSON lacks or misuses a field: {error}") from error
    names = [partition for partition, _ in rows]
    twice = (
        sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    )
    if twice:
        raise CommandError(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return dict(rows)


def _bounds(
    admin: "Admin", common: Common, offsets: dict[TopicPartition, int]
) -> dict[TopicPartition, tuple[object, object]]:
    """The first and the end offset of every partition, None where they cannot be told."""
    from pkafka.clients.admin.partitions import EARLIEST, LATEST

    first = admin.list_offsets(dict.fromkeys(offsets, EARLIEST), timeout_ms=common.timeout_ms)
    last = admin.list_offsets(dict.fromkeys(offsets, LATEST), timeout_ms=common.timeout_ms)
    return {
        each: (getattr(first[each], "offset", None), getattr(last[each], "offset", None)) for each in offsets
    }


def _plan(
    common: Common,
    offsets: dict[TopicPartition, int],
    bounds: dict[TopicPartition, tuple[object, object]],
) -> None:
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for partition, offset in sorted(offsets.items()):
        first, last = bounds[partition]
        target = last if offset == -1 else offset
        lines.append(f"Would delete the records of {partition} from {first} up to {target} (end: {last}).")
        rows.append({"topic": partition.topic, "partition": partition.partition, "from": first, "to": target})
    common.show(View("partitions", lines, rows, {"dry_run": True}))
