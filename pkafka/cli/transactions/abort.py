"""pk-transactions abort: ends a transaction, in one partition as Kafka's tool does, or by its coordinator."""

from typing import TYPE_CHECKING, NamedTuple

import click

from pkafka.cli.kit.confirmation import agrees, can_ask
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import Common, exclude, require
from pkafka.cli.kit.output import View, hint, note
from pkafka.cli.transactions.text import failed
from pkafka.errors import ApiError
from pkafka.model import TopicPartition

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.transaction_results import AbortSpec
    from pkafka.tools.transactions.open_transactions import OpenTransaction


class _Flags(NamedTuple):
    topic: str | None
    partition: int | None
    start_offset: int | None
    producer_id: int | None
    producer_epoch: int | None
    coordinator_epoch: int | None
    transactional_id: str | None
    dry_run: bool
    yes: bool


@click.command("abort")
@click.option("--topic", metavar="NAME", help="The topic of a transaction that hangs.")
@click.option("--partition", type=int, metavar="N", help="The partition in which it hangs.")
@click.option("--start-offset", type=LONG, metavar="OFFSET", help="Where it begins: brokers since 3.0.")
@click.option("--producer-id", type=LONG, metavar="ID", help="Its producer: brokers before 3.0.")
@click.option(
    "--producer-epoch",
    type=click.IntRange(-(2**15), 2**15 - 1),
    metavar="N",
    help="The producer's epoch: brokers before 3.0.",
)
@click.option(
    "--coordinator-epoch",
    type=int,
    metavar="N",
    help="The epoch of the coordinator that ended its last transaction: brokers before 3.0.",
)
@click.option(
    "--transactional-id",
    metavar="ID",
    help="In place of a partition: let the coordinator of this id abort its transaction everywhere, and shut its "
    "producer out.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be aborted, and abort nothing.")
@click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing. Without it, on a terminal, the command asks before it tears a transaction apart that its "
    "coordinator would end.",
)
@click.pass_obj
def abort(common: Common, /, **flags: object) -> None:
    """Abort a transaction.

    With --topic and --partition a marker ends what hangs in one partition. With --transactional-id the coordinator
    ends the whole transaction, as when its time is over, and its producer cannot go on.
    """
    given = _Flags(**flags)  # type: ignore[arg-type]
    _check(given)
    with common.admin() as admin:
        if given.transactional_id is not None:
            _fence(common, admin, given.transactional_id, dry_run=given.dry_run)
        else:
            _mark(common, admin, given)


def _check(flags: _Flags) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: in Kafka's words.
    """
    values = flags._asdict()
    if flags.transactional_id is not None:
        others = ("topic", "partition", "start-offset", "producer-id", "producer-epoch", "coordinator-epoch")
        for each in others:
            if values[each.replace("-", "_")] is not None:
                exclude({"transactional_id": True, each.replace("-", "_"): True}, "transactional-id", each)
        return
    require(values, "topic", "partition")
    if flags.start_offset is not None:
        return
    if flags.producer_id is None:
        raise click.UsageError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for name in ("producer-epoch", "coordinator-epoch"):
        if values[name.replace("-", "_")] is None:
            raise click.UsageError(f"Missing required argument --{name}")


# -- in one partition ---------------------------------------------------------------------------------------


def _mark(common: Common, admin: "Admin", flags: _Flags) -> None:
    """Let the leader of the partition write a marker.

    Raises:
        ApiError: it refuses.
    """
    spec, transactional_id = _wanted(admin, flags)
    if not flags.dry_run:
        if transactional_id is not None and not flags.yes:
            _ask(spec, transactional_id)
        outcome = admin.abort_transaction(spec)
        if isinstance(outcome, ApiError):
            raise failed(f"Failed to abort transaction {_text(spec)}", outcome)
    row = {**_row(spec), "start_offset": flags.start_offset, "transactional_id": transactional_id}
    lines = [f"Would abort transaction {_text(spec)}."] if flags.dry_run else []
    common.show(View("transactions", lines, [row], {"dry_run": flags.dry_run}))


def _wanted(admin: "Admin", flags: _Flags) -> "tuple[AbortSpec, str | None]":
    """The marker to write, and the transactional id whose coordinator would write one itself.

    Raises:
        CommandError: no transaction begins there.
    """
    from pkafka.clients.admin.transaction_results import AbortSpec

    assert flags.topic is not None
    assert flags.partition is not None
    where = TopicPartition(flags.topic, flags.partition)
    if flags.start_offset is None:
        assert flags.producer_id is not None
        assert flags.producer_epoch is not None
        # -1 is what Kafka's tools show of a producer whose transactions no coordinator has ended yet.
        epoch = max(0, flags.coordinator_epoch or 0)
        return AbortSpec(where, flags.producer_id, flags.producer_epoch, epoch), None
    found = _begun(admin, where, flags.start_offset)
    producer = found.producer
    spec = AbortSpec(where, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0)
    return spec, _alive(admin, found)


def _begun(admin: "Admin", where: TopicPartition, start_offset: int) -> "OpenTransaction":
    from pkafka.tools.transactions.open_transactions import open_transactions

    try:
        found = open_transactions(admin, [where])
    except ApiError as error:
        raise failed(f"Failed to validate producer state for partition {where}", error) from error
    for each in found:
        if each.start_offset == start_offset:
            return each
    raise CommandError(
        f"Could not find any open transactions starting at offset {start_offset} on partition {where}",
        hint=f"open ones start at {', '.join(str(each.start_offset) for each in found)}" if found else None,
    )


def _alive(admin: "Admin", transaction: "OpenTransaction") -> str | None:
    """The transactional id whose coordinator will end the transaction, if there is one that says so."""
    from pkafka.tools.transactions.open_transactions import known_transactions, will_end

    producer_id = transaction.producer.producer_id
    try:
        known = known_transactions(admin, [producer_id]).get(producer_id)
    except ApiError:
        return None  # Kafka's tool does not ask, and aborts without knowing
    return known.transactional_id if known is not None and will_end(transaction, known) else None


def _ask(spec: "AbortSpec", transactional_id: str) -> None:
    """Say that the transaction is alive, and ask at a terminal.

    Raises:
        CommandError: the answer is no.
    """
    note(
        f"The coordinator of transactional id {transactional_id} knows this transaction and will end it: a marker "
        f"tears it apart, as it aborts it in {spec.partition} alone. To abort all of it: abort --transactional-id."
    )
    if can_ask() and not agrees(f"Abort it in {spec.partition} alone?"):
        raise CommandError("nothing was aborted", hint="--yes asks nothing")


def _text(spec: "AbortSpec") -> str:
    """The transaction as Kafka's errors name it."""
    return (
        f"AbortTransactionSpec(topicPartition={spec.partition}, producerId={spec.producer_id}, "
        f"producerEpoch={spec.producer_epoch}, coordinatorEpoch={spec.coordinator_epoch})"
    )


def _row(spec: "AbortSpec") -> dict[str, object]:
    return {
        "topic": spec.partition.topic,
        "partition": spec.partition.partition,
        "producer_id": spec.producer_id,
        "producer_epoch": spec.producer_epoch,
        "coordinator_epoch": spec.coordinator_epoch,
    }


# -- by its coordinator -------------------------------------------------------------------------------------


def _fence(common: Common, admin: "Admin", transactional_id: str, *, dry_run: bool) -> None:
    """Let the coordinator abort the transaction of an id, if it is in one that is not decided.

    Raises:
        CommandError: it is in none, or its end is decided.
        ApiError: no coordinator knows the id, or it refuses.
    """
    found = admin.describe_transactions([transactional_id])[transactional_id]
    what = f"Failed to abort the transaction of transactional-id `{transactional_id}`"
    if isinstance(found, ApiError):
        raise failed(what, found)
    if found.start_time_ms is None or found.state.is_decided or not found.partitions:
        raise CommandError(f"{what}: it is in state {found.state.value}, so there is nothing to abort")
    if not dry_run:
        outcome = admin.fence_producers([transactional_id])[transactional_id]
        if isinstance(outcome, ApiError):
            raise failed(what, outcome)
    names = ", ".join(map(str, sorted(found.partitions)))
    lines = [f"Would abort transactional-id `{transactional_id}` in {names}."] if dry_run else []
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "coordinator_epoch": None,
            "start_offset": None,
            "transactional_id": transactional_id,
        }
        for each in sorted(found.partitions)
    ]
    common.show(View("transactions", lines, rows, {"dry_run": dry_run}))
    if not dry_run:
        hint(f"aborted in {names}")
