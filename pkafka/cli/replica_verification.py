"""pk-replica-verification: whether the replicas of topics hold the same, as kafka-replica-verification.sh."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.exit_status import compat_39
from pkafka.cli.kit.kafka_command import BadValueError, CommandError
from pkafka.cli.kit.numbers import INT_MAX, LONG
from pkafka.cli.kit.options import Common, command, streaming_connection_options
from pkafka.cli.kit.output import JsonList, OutputFormat, line, note, to_json, transient_bar
from pkafka.cli.kit.topic_filter import topic_pattern
from pkafka.model import EARLIEST, LATEST, TopicPartition

if TYPE_CHECKING:
    from rich.progress import Progress

    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import TopicDescription
    from pkafka.tools.cluster.replica_verification import Difference, Lag, Round, Verification

_ROW: Final[Mapping[str, object]] = dict.fromkeys(
    ("event", "timestamp_ms", "partitions", "topic", "partition", "offset", "lag", "difference")
)
_FETCH_BYTES: Final = 1 << 20
_FETCH_BYTES_MAX: Final = 16 << 20


@command("pk-replica-verification")
@streaming_connection_options
@click.option("--broker-list", metavar="HOST:PORT,...", help="Kafka's name of --bootstrap-server.")
@click.option("--topics-include", metavar="REGEX", help="Topics to verify; default: all.")
@click.option(
    "--topic-white-list", metavar="REGEX", hidden=True, help="Kafka's old name of --topics-include."
)
@click.option(
    "--time",
    "begin",
    type=LONG,
    metavar="MS",
    help="Where to begin: a timestamp, -1 the end, -2 the beginning. Default -1; with --once -2.",
)
@click.option(
    "--fetch-size",
    type=click.IntRange(1, INT_MAX),
    metavar="BYTES",
    help="Bytes to read of a replica at a time (1048576, more where few partitions are left).",
)
@click.option(
    "--max-wait-ms",
    type=click.IntRange(0, INT_MAX),
    default=1_000,
    metavar="MS",
    help="How long a broker waits for something new (1000).",
)
@click.option(
    "--report-interval-ms",
    type=click.IntRange(0),
    default=30_000,
    metavar="MS",
    help="Time between two reports (30000).",
)
@click.option(
    "--once",
    is_flag=True,
    help="Compare what is there now, report once, and fail where replicas differ or are behind.",
)
def main(
    common: Common,
    broker_list: str | None,
    topics_include: str | None,
    topic_white_list: str | None,
    begin: int | None,
    fetch_size: int | None,
    max_wait_ms: int,
    report_interval_ms: int,
    once: bool,
) -> None:
    """Compare all replicas of partitions up to the high watermark, and report how far it is, until Ctrl-C.

    With --once the command ends by itself: with 0 where all replicas have the same of what was committed when it
    began, with 1 where they have not, or where nothing came for the time of --timeout.
    """
    if broker_list is not None:
        if common.bootstrap_server is not None:
            raise click.UsageError('Option "[broker-list]" can\'t be used with option "[bootstrap-server]"')
        common = common._replace(bootstrap_server=broker_list)
    # As Kafka's tool: the old name counts where the new one is not given.
    chosen = topics_include if topics_include is not None else topic_white_list
    pattern = topic_pattern(".*" if chosen is None else chosen)
    if begin is None:
        begin = EARLIEST if once else LATEST
    elif begin < EARLIEST:
        raise BadValueError(f"--time {begin} is no timestamp, nor -1 or -2")
    say = _Voice(common.output)
    with common.admin() as admin:
        from pkafka.tools.cluster.replica_verification import Verification

        topics = _topics(admin, pattern.fullmatch)
        verification = Verification(
            admin,
            topics,
            _offsets(admin, topics, begin),
            fetch_bytes=fetch_size or _FETCH_BYTES,
            fetch_bytes_max=fetch_size or _FETCH_BYTES_MAX,
            wait_ms=max_wait_ms,
            once=once,
        )
        say.started(len(verification.offsets))
        with say.bar():
            if once:
                _verify_once(verification, say, common.timeout_ms)
            else:
                _verify_forever(verification, say, report_interval_ms / 1_000)


def _topics(admin: "Admin", is_included: Callable[[str], object]) -> "list[TopicDescription]":
    from pkafka.errors import ApiError

    names = sorted(each.name for each in admin.list_topics() if is_included(each.name))
    if not names:
        raise CommandError(
            "No topics found. --topics-include, if specified, is either filtering out all topics or there is no topic.",
            hint="pk-topics --list shows those that there are",
        )
    topics = []
    for name, outcome in admin.describe_topics(names).items():
        if isinstance(outcome, ApiError):
            raise CommandError(f"topic {name}: {outcome.message}")
        topics.append(outcome)
    return topics


def _offsets(admin: "Admin", topics: "list[TopicDescription]", begin: int) -> dict[TopicPartition, int]:
    from pkafka.errors import ApiError

    partitions = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
    found = admin.list_offsets(dict.fromkeys(partitions, begin))
    # Nothing is as late as the timestamp: begin at the end.
    late = [each for each, one in found.items() if not isinstance(one, ApiError) and one.offset < 0]
    if late:
        found.update(admin.list_offsets(dict.fromkeys(late, LATEST)))
    offsets = {}
    for partition, one in found.items():
        if isinstance(one, ApiError):
            raise CommandError(
                f"{partition}: {one.message}",
                hint="a partition without a leader cannot be verified; leave its topic out with --topics-include",
            )
        offsets[partition] = one.offset
    return offsets


def _verify_forever(verification: "Verification", say: "_Voice", interval_s: float) -> None:
    told_s = time.monotonic()
    while True:
        _round(verification, say)
        now_s = time.monotonic()
        if now_s - told_s > interval_s:
            say.report(verification.lag(), len(verification.offsets))
            told_s = now_s


def _verify_once(verification: "Verification", say: "_Voice", patience_ms: int) -> None:
    differences = 0
    moved_s = time.monotonic()
    while True:
        found = _round(verification, say)
        differences += len(found.differences)
        if found.moved:
            moved_s = time.monotonic()
        if verification.is_done or time.monotonic() - moved_s > patience_ms / 1_000:
            break
    say.report(verification.lag(), len(verification.offsets))
    say.end()
    if differences:
        raise CommandError(
            f"{differences} batch(es) differ between replicas",
            hint="pk-verify-log of both brokers' directories says which file is damaged",
        )
    if not verification.is_done:
        raise CommandError(
            "not every replica has what is committed",
            hint="pk-topics --describe --under-replicated-partitions shows which are behind",
        )


def _round(verification: "Verification", say: "_Voice") -> "Round":
    """Compare once, and say what differs.

    Raises:
        CommandError: replicas have other offsets, so that no more can be compared.
    """
    from pkafka.tools.cluster.replica_verification import Kind

    found = verification.round()
    say.progress(*verification.progress())
    say.unreachable({broker: str(error) for broker, error in found.unreachable.items()})
    for partition, difference in found.differences:
        say.difference(partition, difference)
        if difference.kind is Kind.OFFSET:
            say.end()
            raise CommandError(
                f"the replicas of {partition} have different offsets",
                hint="where the topic is compacted, brokers compact at times of their own; else pk-verify-log",
            )
    return found


class _Voice:
    """Says what happens, in the form that was asked for; a terminal gets the lines of text too.

    Args:
        form: of ``--output``.
    """

    def __init__(self, form: OutputFormat | None) -> None:
        self._form = form
        self._document = JsonList("events")
        self._unreachable: Mapping[int, str] = {}
        self._bar: Progress | None = None

    @contextmanager
    def bar(self) -> Iterator[None]:
        """Show on a terminal how far it is until the block ends; never within a JSON document."""
        if not sys.stderr.isatty() or compat_39() or self._form is OutputFormat.JSON:
            yield
            return
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        with transient_bar(*columns) as self._bar:
            self._bar.add_task("offsets compared", total=None)
            try:
                yield
            finally:
                self._bar = None

    def progress(self, done: int, total: int) -> None:
        """Move the bar, where there is one."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total or None)

    @contextmanager
    def _above_bar(self) -> Iterator[None]:
        """Take the bar away while a line is printed, which would continue the bar's."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def started(self, partitions: int) -> None:
        self._say({"event": "started", "partitions": partitions}, "verification process is started")

    def report(self, lag: "Lag", partitions: int) -> None:
        row = {
            **_place(lag.partition, lag.offset),
            "event": "report",
            "lag": lag.lag,
            "partitions": partitions,
        }
        name = "null" if lag.partition is None else lag.partition
        self._say(
            row,
            f"max lag is {lag.lag} for partition {name} at offset {lag.offset} among {partitions} partitions",
        )

    def difference(self, partition: TopicPartition, found: "Difference") -> None:
        from pkafka.tools.cluster.replica_verification import Kind

        one, other = found.brokers
        value, other_value = found.values
        if found.kind is Kind.OFFSET:
            text = (
                f"partition {partition}: replica {one}'s offset {value} doesn't match replica {other}'s offset"
                f" {other_value}"
            )
        else:
            text = (
                f"partition {partition} has unmatched checksum at offset {found.offset}; replica {one}'s checksum"
                f" {value}; replica {other}'s checksum {other_value}"
            )
        detail = {"kind": found.kind.value, "brokers": found.brokers, "values": found.values}
        self._say({**_place(partition, found.offset), "event": "difference", "difference": detail}, text)

    def unreachable(self, brokers: Mapping[int, str]) -> None:
        """Say so when a broker stops answering, or answers again."""
        for broker in brokers.keys() - self._unreachable.keys():
            self._note(f"broker {broker} does not answer, its replicas count as behind: {brokers[broker]}")
        for broker in self._unreachable.keys() - brokers.keys():
            self._note(f"broker {broker} answers again")
        self._unreachable = brokers

    def _note(self, text: str) -> None:
        with self._above_bar():
            note(text)

    def end(self) -> None:
        """End the output."""
        if self._form is OutputFormat.JSON:
            self._document.close({})

    def _say(self, row: Mapping[str, object], text: str) -> None:
        now_ms = time.time_ns() // 1_000_000
        row = {**_ROW, **row, "timestamp_ms": now_ms}
        with self._above_bar():
            self._print(row, text, now_ms)

    def _print(self, row: Mapping[str, object], text: str, now_ms: int) -> None:
        if self._form is OutputFormat.JSON:
            self._document.add([to_json(row)])
        elif self._form is OutputFormat.JSONL:
            line(to_json(row))
        else:
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_ms / 1_000))
            line(f"{moment},{now_ms % 1_000:03d}: {text}")


def _place(partition: TopicPartition | None, offset: int) -> dict[str, object]:
    if partition is None:
        return {}
    return {"topic": partition.topic, "partition": partition.partition, "offset": offset}


if __name__ == "__main__":
    main()
