"""pk-reassign-partitions --verify."""

from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common, parse_wait_s
from pkafka.cli.kit.output import View
from pkafka.cli.reassign_partitions.flags import Flags, wanted_by
from pkafka.cli.reassign_partitions.progress import bytes_row, copies_of, wait_for_all
from pkafka.cli.reassign_partitions.text import TEXT_FORMS, joined, say_in
from pkafka.cli.reassign_partitions.throttles import clear_throttles

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.reassignment.plan import PartitionState, ReplicaState

_COLUMNS: Final = ("topic", "partition", "replicas", "new_replicas", "state", "bytes_done", "bytes_total")


def verify(admin: "Admin", common: Common, flags: Flags) -> None:
    """Say how far a move is, and remove the throttles when it is done.

    Raises:
        CommandError: it is not done.
    """
    seconds = parse_wait_s(flags.wait)
    wanted = wanted_by(flags)
    found = wait_for_all(admin, wanted, seconds, timeout_ms=common.timeout_ms)
    say = say_in(common)
    say("Status of partition reassignment:")
    for each in found.partitions:
        say(_partition_text(each))
    if found.silent is None:
        say("\n".join(_replica_text(each) for each in found.replicas))
    is_cleared = not found.is_ongoing and not flags.preserve_throttles
    if is_cleared:
        clear_throttles(admin, common, wanted)
    if common.output not in TEXT_FORMS:
        copies = copies_of(admin, found, timeout_ms=common.timeout_ms)
        rows = [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "replicas": each.replicas,
                "new_replicas": each.target,
                "state": each.state.value,
                **bytes_row(copies.get(each.partition)),
            }
            for each in found.partitions
        ]
        moves = [
            {
                "topic": each.replica.topic,
                "partition": each.replica.partition,
                "broker": each.replica.broker,
                "log_dir": each.log_dir,
                "future_log_dir": each.future_log_dir,
                "new_log_dir": each.target,
                "state": each.state.value,
                "bytes_done": each.bytes_done,
                "bytes_total": each.bytes_total,
            }
            for each in found.replicas
        ]
        extra = {"log_dir_moves": moves, "throttles_cleared": is_cleared}
        common.show(View("partitions", [], rows, extra, _COLUMNS))
    if found.silent is not None:
        raise found.silent
    if found.left:
        text = f"{found.left} of {found.asked} are not where they are to be"
        if flags.wait:
            text += f", after {flags.wait}"
        if found.will_arrive:
            raise CommandError(
                f"{text}, but on the way",
                hint="--wait 10m waits for them",
                status=ExitStatus.IN_PROGRESS,
                kafka_status=0,
            )
        raise CommandError(text, hint="--execute with the same file moves them", kafka_status=0)


def _partition_text(each: "PartitionState") -> str:
    from pkafka.tools.reassignment.plan import State

    if each.state is State.IN_PROGRESS:
        return f"Reassignment of partition {each.partition} is still in progress."
    if each.state is State.COMPLETED:
        return f"Reassignment of partition {each.partition} is completed."
    return (
        f"There is no active reassignment of partition {each.partition}, but replica set is"
        f" {joined(each.replicas)} rather than {joined(each.target)}."
    )


def _replica_text(each: "ReplicaState") -> str:
    from pkafka.tools.reassignment.plan import LogDirState

    partition, broker = each.replica.topic_partition, each.replica.broker
    if each.state is LogDirState.COMPLETED:
        return f"Reassignment of replica {each.replica} completed successfully."
    if each.state is LogDirState.IN_PROGRESS:
        return f"Reassignment of replica {each.replica} is still in progress."
    if each.state is LogDirState.OTHER_TARGET:
        return (
            f"Partition {partition} on broker {broker} is being moved to log dir {each.future_log_dir}"
            f" instead of {each.target}."
        )
    if each.state is LogDirState.NOT_MOVING:
        return (
            f"Partition {partition} on broker {broker} is not being moved from log dir {each.log_dir}"
            f" to {each.target}."
        )
    return (
        f"Partition {partition} is not found in any live log dir on broker {broker}."
        " There is likely an offline log directory on the broker."
    )
