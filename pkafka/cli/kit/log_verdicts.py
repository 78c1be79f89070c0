"""How pk-verify-log, and pk-dump-log with --verify, check logs and show what is wrong with them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit import log_files, output
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import OutputFormat, Table, View, show

if TYPE_CHECKING:
    from pkafka.tools.logs.verification.report import LogReport

_SUMMARY: Final = (
    "log",
    "verdict",
    "segments",
    "batches",
    "records",
    "first_offset",
    "next_offset",
    "damage",
)


def verify(paths: Sequence[Path], form: OutputFormat, *, deep: bool = False, compacted: bool = False) -> None:
    """Check what is in files and directories, and show it.

    Raises:
        CommandError: there is damage, or nothing to check.
    """
    reports: list[LogReport] = []
    for report in _reports(paths, deep=deep, compacted=compacted):
        reports.append(report)
        if form is OutputFormat.TEXT:
            # At once, as the next log may take its time.
            for text in _lines(report):
                output.line(text)
    if not reports:
        raise CommandError("there is no segment of a log in these files")
    damaged = sum(report.damage > 0 for report in reports)
    if form is not OutputFormat.TEXT:
        _show(reports, damaged, form)
    if damaged:
        raise CommandError(f"{damaged} of {len(reports)} log(s) damaged")


def _show(reports: "Sequence[LogReport]", damaged: int, form: OutputFormat) -> None:
    rows = [_document(report) for report in reports]
    summary = [{name: value for name, value in row.items() if name != "problems"} for row in rows]
    problems = [{"log": row["log"], **problem} for row in rows for problem in row["problems"]]  # type: ignore[attr-defined] # a list, as _document makes it
    extra = {"logs_damaged": damaged, "logs_checked": len(reports)}
    tables = [Table(summary, _SUMMARY), Table(problems)] if form is OutputFormat.TABLE else [Table(summary)]
    show(View("logs", (), rows, extra, tables=tables), form)


def _reports(paths: Sequence[Path], *, deep: bool, compacted: bool) -> "Iterator[LogReport]":
    from pkafka.tools.logs.verification.log import compacted_partitions, verify_data_directory, verify_log

    partitions: list[tuple[Path | None, list[Path]]] = []
    for path in paths:
        found = log_files.partition_directories(path) if path.is_dir() else []
        if found and not _segments(path):
            partitions.append((path, found))
        elif path.is_dir() or path.suffix == ".log":
            partitions.append((None, [path]))
    segments = [
        each for _, logs in partitions for log in logs for each in (_segments(log) if log.is_dir() else [log])
    ]
    with log_files.progress(segments, "checked") as read:
        for data_directory, logs in partitions:
            ends: dict[str, tuple[int, int]] = {}
            for log in logs:
                directory = log if log.is_dir() else log.parent
                files = _segments(log) if log.is_dir() else [log]
                if not files:
                    continue
                report = verify_log(
                    files,
                    is_whole=log.is_dir(),
                    is_compacted=compacted
                    or directory.resolve().name in compacted_partitions(directory.resolve().parent),
                    deep=deep,
                    on_read=read,
                )
                ends[log.name] = report.first_offset, report.next_offset
                yield report
            if data_directory is not None:
                yield verify_data_directory(data_directory, ends)


def _segments(directory: Path) -> list[Path]:
    return sorted(each for each in directory.glob("*.log") if each.stem.isdecimal() and each.is_file())


def _document(report: "LogReport") -> dict[str, object]:
    return {
        "log": str(report.path),
        "verdict": "damaged" if report.damage else "sound",
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.size_bytes,
        "first_offset": report.first_offset if report.first_offset >= 0 else None,
        "next_offset": report.next_offset if report.first_offset >= 0 else None,
        "compacted": report.is_compacted,
        "damage": report.damage,
        "remarks": report.remarks,
        "problems": [
            {
                "file": problem.file,
                "check": problem.check,
                "position": problem.position if problem.position >= 0 else None,
                "size": problem.size if problem.size >= 0 else None,
                "message": problem.message,
                "damage": problem.is_damage,
            }
            for problem in report.problems
        ],
    }


def _lines(report: "LogReport") -> Iterator[str]:
    verdict = f"damaged, {report.damage} problem(s)" if report.damage else "sound"
    if report.segments:
        offsets = "no offsets"
        if report.first_offset >= 0:
            offsets = f"offsets {report.first_offset} to {report.next_offset - 1}"
        yield (
            f"{report.path}: {verdict}: {report.segments} segment(s), {report.batches} batch(es), "
            f"{report.records} record(s), {offsets}"
        )
    else:
        yield f"{report.path}: {verdict}: the files of the directory itself"
    for problem in report.problems:
        kind = "" if problem.is_damage else " (no damage)"
        yield f"  {problem.file}: {problem.check}: {problem.message}{kind}"
    hidden = report.damage + report.remarks - len(report.problems)
    if hidden:
        yield f"  and {hidden} more"
