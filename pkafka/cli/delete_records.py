"""pk-delete-records: raise the start of partitions, as kafka-delete-records.sh."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.confirmation import agrees, can_ask
from pkafka.cli.kit.java_text import java_error
from pkafka.cli.kit.kafka_command import CommandError, failure, status_of
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.kit.output import OutputFormat, View, line, note
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Outcome
    from pkafka.clients.offsets import ListedOffset


@command("pk-delete-records", kafka_failure=0)
@connection_options
@click.option("--offset-json-file", metavar="FILE", required=True, help="Partitions and offsets, as JSON.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing. Without it, on a terminal, the command says what it would delete, and asks.",
)
def main(common: Common, offset_json_file: str, dry_run: bool, yes: bool) -> None:
    """Delete the records of partitions before given offsets."""
    offsets = parse_offsets(Path(offset_json_file).read_bytes())
    is_text = common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE)
    with common.admin() as admin:
        if dry_run:
            _plan(common, admin, offsets)
            return
        if not yes and can_ask():
            _ask(common, admin, offsets)
        if is_text:
            line("Executing records delete operation")
        found = admin.delete_records(offsets, timeout_ms=common.timeout_ms)
    lines = ["Records delete operation completed:"]
    rows: list[dict[str, object]] = []
    failures: list[Exception] = []
    for partition in sorted(found):
        outcome = found[partition]
        if isinstance(outcome, ApiError):
            failures.append(outcome)
            lines.append(f"partition: {partition}\terror: {java_error(outcome)}")
            rows.append(_row(partition, error=outcome))
        else:
            lines.append(f"partition: {partition}\tlow_watermark: {outcome}")
            rows.append(_row(partition, low_watermark=outcome))
    common.show(View("partitions", lines, rows, {"dry_run": False}))
    if failures:
        message = f"{len(failures)} of {len(found)} partitions failed"
        raise CommandError(message, status=status_of(failures), kafka_status=0)


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Read ``{"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}``.

    Raises:
        CommandError: it is not of that form, or names a partition twice.
    """
    import json

    try:
        document = json.loads(data)
        if not isinstance(document, dict):
            raise _wrong_file("The input JSON is not an object with the field partitions")
        version = document.get("version", 1)
        if version != 1:
            raise _wrong_file(f"Not supported version field value {version}")
        rows = [
            (TopicPartition(str(row["topic"]), _whole(row["partition"], 32)), _whole(row["offset"], 64))
            for row in document["partitions"]
        ]
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong_file(f"The input string is not a valid JSON: {error}") from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _wrong_file(
            "The input JSON lacks or misuses a field: partitions is a list of objects with topic, partition and offset"
        ) from error
    names = [partition for partition, _ in rows]
    twice = (
        sorted({str(name) for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    )
    if twice:
        raise _wrong_file(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return dict(rows)


def _whole(value: object, bits: int) -> int:
    """A number as JSON has it: neither in quotes nor with a point."""
    limit = 1 << (bits - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise ValueError(value)
    return value


def _wrong_file(message: str) -> CommandError:
    return CommandError(message, kafka_status=1)


def _plan(common: Common, admin: "Admin", offsets: dict[TopicPartition, int]) -> None:
    """Say what would happen.

    Raises:
        CommandError: some partition would fail.
    """
    lines, rows = _foreseen(common, admin, offsets)
    common.show(View("partitions", lines, rows, {"dry_run": True}))
    failures = sum(1 for row in rows if row["error"])
    if failures:
        raise CommandError(f"{failures} of {len(rows)} partitions would fail", kafka_status=0)


def _ask(common: Common, admin: "Admin", offsets: dict[TopicPartition, int]) -> None:
    """Ask whether these records are meant: a file names them, and the command line does not show it.

    Raises:
        CommandError: the answer is no.
    """
    for each in _foreseen(common, admin, offsets)[0]:
        note(each)
    if not agrees("Delete these records?"):
        raise CommandError("nothing was deleted", hint="--yes asks nothing")


def _foreseen(
    common: Common, admin: "Admin", offsets: dict[TopicPartition, int]
) -> tuple[list[str], list[dict[str, object]]]:
    """What would happen, as far as the ends of the partitions tell: as text, and as rows."""

    first = admin.list_offsets(dict.fromkeys(offsets, EARLIEST), timeout_ms=common.timeout_ms)
    last = admin.list_offsets(dict.fromkeys(offsets, LATEST), timeout_ms=common.timeout_ms)
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for partition, offset in sorted(offsets.items()):
        try:
            start, target, end = _planned(offset, first[partition], last[partition])
        except ApiError as error:
            lines.append(f"Would fail for {partition}: {error.message}")
            rows.append(_row(partition, error=error))
            continue
        lines.append(f"Would delete the records of {partition} from {start} up to {target} (end: {end}).")
        rows.append(_row(partition, low_watermark=target, log_start_offset=start))
    return lines, rows


def _row(
    partition: TopicPartition,
    *,
    low_watermark: int | None = None,
    log_start_offset: int | None = None,
    error: ApiError | None = None,
) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "log_start_offset": log_start_offset,
        "low_watermark": low_watermark,
        "error": failure(error),
    }


def _planned(
    offset: int, first: "Outcome[ListedOffset]", last: "Outcome[ListedOffset]"
) -> tuple[int, int, int]:
    """The first offset, the one that would be the first then, and the end.

    Raises:
        ApiError: the broker would refuse.
    """
    if isinstance(first, ApiError):
        raise first
    if isinstance(last, ApiError):
        raise last
    target = last.offset if offset == -1 else offset
    if not 0 <= target <= last.offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return first.offset, max(first.offset, target), last.offset
