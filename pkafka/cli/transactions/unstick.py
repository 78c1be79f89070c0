"""pk-transactions unstick: ends what holds a topic's readers back. Kafka's tool has nothing like it."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.kit.confirmation import agrees, can_ask
from pkafka.cli.kit.held_partitions import row
from pkafka.cli.kit.kafka_command import CommandError, failure
from pkafka.cli.kit.options import Common, parse_duration_ms
from pkafka.cli.kit.output import View, note
from pkafka.cli.transactions.text import failed
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.transactions.unsticking import Step

_OLDER_THAN: Final = "1m"


@click.command("unstick")
@click.argument("topic")
@click.option("--partition", type=int, metavar="N", help="Only this partition.")
@click.option(
    "--older-than",
    default=_OLDER_THAN,
    metavar="DURATION",
    help=f"Leave transactions alone that are younger than this: milliseconds, or like 30s, 5m. Default {_OLDER_THAN}.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be ended, and end nothing.")
@click.option("--yes", is_flag=True, help="Ask nothing. Without it, on a terminal, the command asks first.")
@click.pass_obj
def unstick(
    common: Common, topic: str, partition: int | None, older_than: str, dry_run: bool, yes: bool
) -> None:
    """End the transactions that hold the readers of TOPIC back.

    Where a coordinator knows the transaction, it aborts all of it and shuts its producer out. A transaction that
    hangs, which no coordinator knows, is ended by a marker in its partition. A transaction whose end is decided gets
    its markers from its coordinator: the command waits for that, and does nothing.
    """
    from pkafka.tools.transactions.unsticking import Remedy

    older_than_ms = parse_duration_ms(older_than, option="older-than")
    with common.admin() as admin:
        steps = _plan(admin, topic, partition, older_than_ms)
        acts = [each for each in steps if each.remedy in (Remedy.FENCE, Remedy.MARKER)]
        outcomes: Mapping[TopicPartition, ApiError | None] = {}
        if not dry_run:
            if acts and not yes and can_ask():
                _ask(acts)
            outcomes = _carry_out(common, admin, steps)
    rows = [
        {
            **row(each.held),
            "remedy": each.remedy.value,
            "error": failure(outcomes.get(each.held.partition)),
        }
        for each in steps
    ]
    lines = [_sentence(each, outcomes.get(each.held.partition), dry_run=dry_run) for each in steps] or [
        f"No transaction holds {topic} back."
    ]
    common.show(View("partitions", lines, rows, {"dry_run": dry_run}))
    failures = sum(1 for each in rows if each["error"])
    if failures:
        raise CommandError(f"{failures} of {len(rows)} partitions are held back still")


def _plan(admin: "Admin", topic: str, partition: int | None, older_than_ms: int) -> "list[Step]":
    from pkafka.tools.transactions.holders import held_partitions
    from pkafka.tools.transactions.open_transactions import partitions_of
    from pkafka.tools.transactions.unsticking import plan

    try:
        where = (
            partitions_of(admin, [topic], led=True)
            if partition is None
            else [TopicPartition(topic, partition)]
        )
        held = held_partitions(admin, where, now_ms=int(time.time() * 1_000))
    except ApiError as error:
        raise failed(f"Failed to look for transactions that hold {topic} back", error) from error
    return plan(held, older_than_ms=older_than_ms)


def _ask(steps: "Sequence[Step]") -> None:
    """Show what would be ended, and ask.

    Raises:
        CommandError: the answer is no.
    """
    for each in steps:
        note(_sentence(each, None, dry_run=True))
    if not agrees("End these transactions?"):
        raise CommandError("nothing was ended", hint="--yes asks nothing")


def _carry_out(
    common: Common, admin: "Admin", steps: "Sequence[Step]"
) -> dict[TopicPartition, ApiError | None]:
    """End the transactions, and wait until readers get on.

    Returns:
        Why a partition is held where it was; None where it is not, or its transaction is left alone.
    """
    from pkafka.tools.transactions.unsticking import Remedy, carry_out, wait_until_moved

    outcomes = carry_out(admin, steps)
    before = {
        each.held.partition: each.held.last_stable_offset
        for each in steps
        if each.remedy is not Remedy.YOUNG and outcomes[each.held.partition] is None
    }
    try:
        still = wait_until_moved(admin, before, timeout_ms=common.timeout_ms)
    except ApiError as error:
        raise failed("Failed to see whether readers get on", error) from error
    for each in still:
        text = f"The last stable offset is {before[each]} still"
        outcomes[each] = ApiError(ErrorCode.REQUEST_TIMED_OUT, text)
    return outcomes


def _sentence(step: "Step", error: ApiError | None, *, dry_run: bool) -> str:
    from pkafka.tools.transactions.unsticking import Remedy

    held, remedy = step
    where = f"{held.partition} at {held.last_stable_offset}"
    behind = f"{held.lag} behind the high watermark"
    age = "" if held.age_ms is None else f", {held.age_ms // 1_000} s old"
    if error is not None:
        return f"Could not end what holds {where}: {error.message}"
    if remedy is Remedy.FENCE:
        assert held.known is not None
        verb = "Would abort" if dry_run else "Aborted"
        return f"{verb} transactional-id `{held.known.transactional_id}`, which held {where} ({behind}{age})."
    if remedy is Remedy.MARKER:
        assert held.holder is not None
        verb = "Would end" if dry_run else "Ended"
        producer_id = held.holder.producer.producer_id
        return (
            f"{verb} the hanging transaction of producer {producer_id}, which held {where} ({behind}{age})."
        )
    if remedy is Remedy.YOUNG:
        return f"Left alone what holds {where} ({behind}{age}): it is younger than --older-than."
    return f"Nothing to end at {where} ({behind}{age}): its markers are on their way."
