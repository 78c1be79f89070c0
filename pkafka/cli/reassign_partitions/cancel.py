"""pk-reassign-partitions --cancel."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.kafka_command import failure
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import View
from pkafka.cli.reassign_partitions.flags import Flags, wanted_by
from pkafka.cli.reassign_partitions.text import TEXT_FORMS, begun_text, plural, refuse, say_in
from pkafka.cli.reassign_partitions.throttles import clear_throttles
from pkafka.errors import ApiError, PkafkaError
from pkafka.model import TopicPartition, TopicPartitionReplica

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Outcome
    from pkafka.tools.reassignment.plan import ReplicaState

_COLUMNS: Final = ("topic", "partition", "error")


def cancel(admin: "Admin", common: Common, flags: Flags) -> None:
    """Cancel moves, and remove the throttles."""
    from pkafka.tools.reassignment import run
    from pkafka.tools.reassignment.plan import LogDirState

    wanted = wanted_by(flags)
    moving = run.cancellable(admin, wanted)
    say = say_in(common)
    outcomes: Mapping[TopicPartition, Outcome[None]] = {}
    if moving and not flags.dry_run:
        outcomes = run.begin(admin, dict.fromkeys(moving), timeout_ms=common.timeout_ms)
    failed = {each: outcome for each, outcome in outcomes.items() if isinstance(outcome, ApiError)}
    rows = [
        {"topic": each.topic, "partition": each.partition, "error": failure(failed.get(each))}
        for each in moving
    ]
    is_cleared = not failed and not flags.preserve_throttles and not flags.dry_run
    back: list[ReplicaState] = []
    stopped: set[TopicPartitionReplica] = set()

    def begun(replica: TopicPartitionReplica, path: str) -> None:
        stopped.add(replica)
        say(begun_text(replica, path))

    try:
        refuse(failed, f"Error cancelling partition reassignment{plural(failed)} for:")
        names = ",".join(map(str, moving))
        if not moving:
            say("None of the specified partition reassignments are active.")
        elif flags.dry_run:
            say(f"Would cancel partition reassignment{plural(moving)} for: {names}")
        else:
            say(f"Successfully cancelled partition reassignment{plural(moving)} for: {names}")
        states, silent = run.log_dir_states(admin, wanted.log_dirs, timeout_ms=common.timeout_ms)
        back += [each for each in states if each.state in (LogDirState.IN_PROGRESS, LogDirState.OTHER_TARGET)]
        if flags.dry_run:
            for each in back:
                say(f"Would leave replica {each.replica} in {each.log_dir}.")
        else:
            homes = {each.replica: each.log_dir or "" for each in back}
            run.move_log_dirs(admin, homes, timeout_ms=common.timeout_ms, begun=begun)
            # Kafka's tool forgets the line end.
            prefix = "" if back or silent is not None else "None of the specified partition moves are active."
            if is_cleared:
                clear_throttles(admin, common, wanted, prefix)
            elif prefix:
                say(prefix)
    except PkafkaError:
        is_cleared = False
        raise
    finally:
        if common.output not in TEXT_FORMS:
            moves = [
                {
                    "topic": each.replica.topic,
                    "partition": each.replica.partition,
                    "broker": each.replica.broker,
                    "log_dir": each.log_dir,
                    "future_log_dir": each.future_log_dir,
                    "stopped": each.replica in stopped,
                }
                for each in back
            ]
            extra = {"log_dir_moves": moves, "throttles_cleared": is_cleared, "dry_run": flags.dry_run}
            common.show(View("partitions", [], rows, extra, _COLUMNS))
    if silent is not None:
        raise silent
