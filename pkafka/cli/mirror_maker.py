"""pk-mirror-maker: copy topics to another cluster for as long as it runs, as kafka-mirror-maker.sh."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import BadValueError, CommandError
from pkafka.cli.kit.numbers import INT_MAX
from pkafka.cli.kit.options import command, output_option
from pkafka.cli.kit.output import OutputFormat, View, show, transient_bar
from pkafka.cli.kit.signals import Signals
from pkafka.cli.kit.topic_filter import topic_pattern

if TYPE_CHECKING:
    from pkafka.tools.mirroring.maker import Mirror, MirrorMaker
    from pkafka.tools.mirroring.statistics import TopicCount

_THREAD_FAILED: Final = 255
"""What Kafka's tool ends with when a stream fails."""
_LOOK_S: Final = 0.5


@command("pk-mirror-maker")
@click.option(
    "--consumer.config", "consumer_config", required=True, metavar="FILE", help="Consumer of the source."
)
@click.option(
    "--producer.config", "producer_config", required=True, metavar="FILE", help="Producer to the target."
)
@click.option("--include", metavar="REGEX", help="Topics to copy: whole names; a comma stands for |.")
@click.option("--whitelist", metavar="REGEX", hidden=True, help="Kafka's old name of --include.")
@click.option(
    "--num.streams",
    "num_streams",
    type=int,
    default=1,
    metavar="N",
    help="How many consumers (1).",
)
@click.option(
    "--offset.commit.interval.ms",
    "commit_interval_ms",
    type=click.IntRange(0, INT_MAX),
    default=60_000,
    metavar="MS",
    help="Time between two commits (60000).",
)
@click.option(
    "--abort.on.send.failure",
    "abort_on_send_failure",
    type=click.Choice(["true", "false"], case_sensitive=False),
    default="true",
    help="Whether to stop at the first record that cannot be sent (true), or to leave it out.",
)
@click.option(
    "--message.handler",
    "message_handler",
    metavar="CLASS",
    help="Python class whose handle() makes records of a record.",
)
@click.option(
    "--message.handler.args", "message_handler_args", metavar="TEXT", help="What the class is called with."
)
@click.option(
    "--consumer.rebalance.listener",
    "rebalance_listener",
    metavar="CLASS",
    help="Python class that is told of rebalances.",
)
@click.option(
    "--rebalance.listener.args", "rebalance_listener_args", metavar="TEXT", help="What it is called with."
)
@click.option("--new.consumer", "new_consumer", is_flag=True, hidden=True, help="Does nothing, as in Kafka.")
@click.option(
    "--keep-partitions",
    is_flag=True,
    help="Send each record to the partition number that it has in the source; this is the fastest way.",
)
@output_option
def main(**flags: object) -> int:
    """Copy topics from one cluster to another until a signal comes.

    Keys, values, headers and timestamps stay. The producer chooses the partition by the key, so that the target may
    have another number of partitions. Offsets are committed after the target has acknowledged what was copied.
    """
    mirror = _mirror(flags)
    form = OutputFormat(flags["output"]) if flags["output"] else None
    from pkafka.tools.mirroring.maker import MirrorMaker

    begun_s = time.monotonic()
    with Signals() as signals:
        maker = MirrorMaker(mirror)
        maker.start()
        with _progress() as told:
            while not signals.came() and not maker.wait(_LOOK_S):
                told(maker.statistics.total())
        maker.close()
    show(_view(maker, time.monotonic() - begun_s), form)
    if maker.failure is not None:
        raise _explained(maker.failure)
    return signals.status()


def _mirror(flags: Mapping[str, object]) -> "Mirror":
    from pkafka.java.properties import load_properties

    consumer = load_properties(str(flags["consumer_config"]))
    producer = load_properties(str(flags["producer_config"]))
    include = flags["include"] if flags["include"] is not None else flags["whitelist"]
    if include is None:
        raise click.UsageError("include list must be specified")
    keeps = bool(flags["keep_partitions"])
    if keeps and flags["message_handler"]:
        raise click.UsageError(
            "--keep-partitions copies whole batches, so it cannot be used with --message.handler"
        )
    from pkafka.tools.mirroring.maker import Mirror

    streams, interval_ms = flags["num_streams"], flags["commit_interval_ms"]
    assert isinstance(streams, int)
    assert isinstance(interval_ms, int)
    if streams < 1:
        # Kafka's tool copies nothing then, and says that all is well.
        raise CommandError("--num.streams: at least one is needed", status=ExitStatus.USAGE, kafka_status=0)
    mirror = Mirror(
        consumer,
        producer,
        _pattern(str(include)),
        streams,
        interval_ms,
        aborts_on_failure=str(flags["abort_on_send_failure"]).lower() == "true",
        keeps_partitions=keeps,
    )
    return _with_plugins(mirror, flags)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return topic_pattern(text)
    except BadValueError as error:
        # Kafka notices it in the thread of a stream.
        raise CommandError(
            error.format_message(), status=ExitStatus.USAGE, kafka_status=_THREAD_FAILED
        ) from error


def _with_plugins(mirror: "Mirror", flags: Mapping[str, object]) -> "Mirror":
    from pkafka.tools.mirroring.handlers import load_handler, load_listener

    handler, listener = flags["message_handler"], flags["rebalance_listener"]
    return mirror._replace(
        handler=None if handler is None else load_handler(str(handler), _text(flags["message_handler_args"])),
        listener=None
        if listener is None
        else load_listener(str(listener), _text(flags["rebalance_listener_args"])),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _explained(failure: Exception) -> CommandError:
    from pkafka.cli.kit.kafka_command import explain
    from pkafka.tools.mirroring.sending import FewPartitionsError

    message, hint, _, status = explain(failure)
    if isinstance(failure, FewPartitionsError):
        hint = f"pk-topics --alter --topic {failure.partition.topic} --partitions N gives it more"
    return CommandError(message, hint=hint, status=status, kafka_status=_THREAD_FAILED)


def _view(maker: "MirrorMaker", seconds: float) -> View:
    total = maker.statistics.total()
    rows = [{"topic": topic, **_numbers(count)} for topic, count in maker.statistics.topics().items()]
    extra = {**_numbers(total), "commits": maker.statistics.commits, "seconds": round(seconds, 3)}
    return View("topics", (), rows, extra)


def _numbers(count: "TopicCount") -> dict[str, int]:
    return {
        "records": count.records,
        "bytes": count.size_bytes,
        "raw_records": count.raw_records,
        "dropped": count.dropped,
    }


@contextmanager
def _progress() -> "Iterator[Callable[[TopicCount], None]]":
    """What was copied, on standard error while it goes on, where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with transient_bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
        task = bar.add_task("waiting for records", total=None)
        began_s = time.monotonic()

        def told(total: "TopicCount") -> None:
            rate = total.records / max(time.monotonic() - began_s, 0.001)
            text = f"{total.records:,} records, {total.size_bytes / 1e6:,.1f} MB, {rate:,.0f} records/s"
            bar.update(task, description=text + (f", {total.dropped:,} dropped" if total.dropped else ""))

        yield told


if __name__ == "__main__":
    main()
