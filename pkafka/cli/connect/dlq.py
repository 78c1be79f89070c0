"""pk-connect dlq: look at the dead letters of sink connectors, and send them back to where they came from."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.connect.asking import Worker
from pkafka.cli.kit import output
from pkafka.cli.kit.client_options import settle_consumer
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.moments import moment_ms
from pkafka.cli.kit.options import Common, bootstrap_option

if TYPE_CHECKING:
    from pkafka.tools.dead_letters.letters import Choice
    from pkafka.tools.dead_letters.topic import Handled, LetterTopic

_COLUMNS: Final = (
    *(
        "partition",
        "offset",
        "time",
        "connector",
        "stage",
        "exception",
        "message",
        "origin",
        "to",
        "replayed",
    ),
)


@click.command("dlq")
@click.argument("action", type=click.Choice(["show", "replay"]), metavar="show|replay")
@click.argument("topic")
@bootstrap_option
@click.option("--command-config", metavar="FILE", help="Properties file for the clients.")
@click.option(
    "--connector", "connectors", multiple=True, metavar="NAME", help="Only letters of this connector."
)
@click.option(
    "--error",
    "exceptions",
    multiple=True,
    metavar="CLASS",
    help="Only letters of this exception: its class, with or without the package.",
)
@click.option("--from-time", metavar="TIME", help="Only records of this time or later: ISO, ms, or -10m.")
@click.option("--to-time", metavar="TIME", help="Only records before this time.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="No more than so many letters.")
@click.option("--from-beginning", is_flag=True, help="show: letters that were replayed, too.")
@click.option("--reset", is_flag=True, help="replay: forget what was replayed before; send it again.")
@click.option("--to", metavar="TOPIC", help="replay: send all letters to this topic.")
@click.option("--dry-run", is_flag=True, help="replay: show what would be sent.")
@click.pass_obj
def dlq(
    worker: Worker,
    action: str,
    topic: str,
    bootstrap_server: str | None,
    command_config: str | None,
    connectors: tuple[str, ...],
    exceptions: tuple[str, ...],
    from_time: str | None,
    to_time: str | None,
    limit: int | None,
    from_beginning: bool,
    reset: bool,
    to: str | None,
    dry_run: bool,
) -> int:
    """Show the dead letters of a topic that were not replayed yet, or replay them.

    A replayed letter is the record as it was, with its key, value, time and headers, in the topic and the partition
    that it came from. A letter is replayed once, however often the command runs: what was replayed is kept in the
    offsets of the group pk-connect-dlq-TOPIC, which change in the transaction that sends. Brokers forget these when
    offsets.retention.minutes have passed without a replay.

    The topic and the reasons are in headers that the connector writes with
    errors.deadletterqueue.context.headers.enable=true; letters without them can be sent by --to.
    """
    if action == "show" and (reset or to or dry_run):
        raise click.UsageError("--reset, --to and --dry-run go with replay")
    if action == "replay" and from_beginning:
        raise click.UsageError("--from-beginning goes with show; replay has --reset")
    from pkafka.tools.dead_letters.letters import Choice

    choice = Choice(
        connectors,
        exceptions,
        None if from_time is None else moment_ms(from_time),
        None if to_time is None else moment_ms(to_time),
    )
    common = Common(bootstrap_server, command_config, worker.form, round(worker.timeout_s * 1000))
    with _letter_topic(common, topic) as letters:
        if action == "show" or dry_run:
            found = list(letters.letters(choice, from_beginning=from_beginning or reset, limit=limit))
            if dry_run and to is not None:
                found = [replace(each, to=to) for each in found]
        else:
            found = _replay(common, topic, letters, choice, anew=reset, to=to, limit=limit)
    return _show(worker, found, replays=action == "replay", dry_run=dry_run)


@contextmanager
def _letter_topic(common: Common, topic: str) -> "Iterator[LetterTopic]":
    """The topic, and a bar on a terminal that says how much of it was looked at."""
    from pkafka.clients.consumer import Consumer
    from pkafka.tools.dead_letters.topic import LetterTopic, group_of

    properties = {
        **common.admin_properties(),
        "group.id": group_of(topic),
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
        "key.deserializer": None,
        "value.deserializer": None,
    }
    settle_consumer(properties)
    with ExitStack() as stack:
        consumer = stack.enter_context(Consumer(properties, fail_fast=True))
        advance: list[Callable[[int], None]] = []
        letters = LetterTopic(consumer, topic, lambda count: advance[0](count))
        advance.append(stack.enter_context(_bar(letters.size)))
        yield letters


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    with output.transient_bar(TextColumn("letters"), BarColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task("letters", total=total)
        yield lambda count: bar.advance(task, count)


def _replay(
    common: Common,
    topic: str,
    letters: "LetterTopic",
    choice: "Choice",
    *,
    anew: bool,
    to: str | None,
    limit: int | None,
) -> "list[Handled]":
    from pkafka.clients.producer import Producer
    from pkafka.tools.dead_letters.topic import group_of

    producer = Producer(
        {
            **common.properties(),
            "client.id": "pk-connect-dlq",
            "transactional.id": group_of(topic),
            "enable.idempotence": True,
            "acks": "all",
            "key.serializer": None,
            "value.serializer": None,
        }
    )
    try:
        return letters.replay(producer, choice, anew=anew, to=to, limit=limit)
    finally:
        producer.close(common.timeout_ms / 1000)


def _show(worker: Worker, found: "list[Handled]", *, replays: bool, dry_run: bool) -> int:
    rows = [_row(each, replays=replays, dry_run=dry_run) for each in found]
    done = sum(each.is_replayed for each in found) if replays and not dry_run else 0
    lost = sum(each.to is None for each in found) if replays else 0
    worker.show("letters", rows, _COLUMNS, extra={"replayed": done})
    if replays:
        output.note(
            f"{len(found) - lost} letters would be replayed" if dry_run else f"{done} letters replayed"
        )
    if lost:
        output.note(f"{lost} letters do not say where they came from: --to names a topic for them")
    return ExitStatus.FAILURE if lost else ExitStatus.OK


def _row(handled: "Handled", *, replays: bool, dry_run: bool) -> dict[str, object]:
    from pkafka.tools.json_bytes import value_of

    letter, record = handled.letter, handled.letter.record
    origin = None if letter.topic is None else f"{letter.topic}-{letter.partition}@{letter.offset}"
    return {
        "partition": record.partition,
        "offset": record.offset,
        "time": _iso(record.timestamp),
        "connector": letter.connector,
        "task": letter.task,
        "stage": letter.stage,
        "exception": letter.exception,
        "message": letter.message,
        "origin": origin,
        "to": handled.to if replays else None,
        "replayed": handled.is_replayed and not dry_run,
        "key": value_of(record.key),
        "value": value_of(record.value),
        "headers": [{"key": name, "value": value_of(value)} for name, value in letter.headers],
    }


def _iso(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
