"""pk-reassign-partitions: move partitions to other brokers, as kafka-reassign-partitions.sh."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pkafka.cli.actions import Actions
from pkafka.cli.exit_status import ExitStatus
from pkafka.cli.java_numbers import LONG
from pkafka.cli.java_text import java_exception
from pkafka.cli.kafka_command import BadValueError, CommandError, explain, failure
from pkafka.cli.options import Common, command, connection_options, parse_duration_ms
from pkafka.cli.output import OutputFormat, View, choose_format, hint, line
from pkafka.errors import ApiError
from pkafka.model import TopicPartition, TopicPartitionReplica

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Outcome, Reassignment
    from pkafka.tools.reassignment.plan import PartitionState, ReplicaState, Wanted

_EXAMPLES = {
    "generate": "--generate --topics-to-move-json-file topics.json --broker-list 1,2,3",
    "execute": "--execute --reassignment-json-file plan.json --throttle 10000000",
    "verify": "--verify --reassignment-json-file plan.json --wait 10m",
    "cancel": "--cancel --reassignment-json-file plan.json",
    "list": "--list",
}
_TEXT_FORMS = (None, OutputFormat.TEXT, OutputFormat.TABLE)
_NEEDED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_BELONGS = {
    "topics-to-move-json-file": {"generate"},
    "broker-list": {"generate"},
    "disable-rack-aware": {"generate"},
    "reassignment-json-file": {"execute", "verify", "cancel"},
    "throttle": {"execute"},
    "replica-alter-log-dirs-throttle": {"execute"},
    "additional": {"execute"},
    "preserve-throttles": {"verify", "cancel"},
    "dry-run": {"execute", "cancel"},
    "wait": {"verify"},
}
_VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is"
    " removed."
)


class Flags(NamedTuple):
    """What was given beside the connection."""

    generate: bool
    execute: bool
    verify: bool
    cancel: bool
    list: bool
    topics_to_move_json_file: str | None
    broker_list: str | None
    disable_rack_aware: bool
    reassignment_json_file: str | None
    throttle: int | None
    replica_alter_log_dirs_throttle: int | None
    additional: bool
    preserve_throttles: bool
    dry_run: bool
    wait: str | None


def _kafka_text(error: Exception) -> str | None:
    """What Kafka's tool prints of a failure to standard output, without the stack of Java below it."""
    from pkafka.tools.json_input import JsonInputError
    from pkafka.tools.reassignment.plan import ReassignmentError

    if isinstance(error, BadValueError):
        return f"Error: {error.format_message()}"
    if isinstance(error, ReassignmentError) and error.lines is not None:
        return "\n".join(error.lines)
    if isinstance(error, CommandError | click.UsageError):
        return None
    if isinstance(error, ApiError):
        return f"Error: {java_exception(error)}"
    if isinstance(error, OSError) and error.filename:
        return f"Error: Unable to read file {error.filename}"
    if isinstance(error, JsonInputError):
        return f"Error: {error.words}"
    return f"Error: {explain(error)[0]}"


@command("pk-reassign-partitions", error_text=_kafka_text, actions=Actions(_EXAMPLES, _BELONGS))
@connection_options
@click.option("--generate", is_flag=True, help="Propose where topics could be.")
@click.option("--execute", is_flag=True, help="Begin to move partitions.")
@click.option("--verify", is_flag=True, help="Say how far it is; remove the throttles when it is done.")
@click.option("--cancel", is_flag=True, help="Give a move up, and remove the throttles.")
@click.option("--list", is_flag=True, help="Show all partitions that move.")
@click.option("--topics-to-move-json-file", metavar="FILE", help="Topics, as JSON, for --generate.")
@click.option("--broker-list", metavar="0,1,2", help="Where they could be, for --generate.")
@click.option("--disable-rack-aware", is_flag=True, help="Propose without regard to racks.")
@click.option("--reassignment-json-file", metavar="FILE", help="Partitions and their brokers, as JSON.")
@click.option(
    "--throttle", type=LONG, metavar="BYTES", help="Bytes a second that moves between brokers may have."
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=LONG,
    metavar="BYTES",
    help="Bytes a second that moves between directories of a broker may have.",
)
@click.option("--additional", is_flag=True, help="Begin although others move; or change their throttle.")
@click.option("--preserve-throttles", is_flag=True, help="Leave the throttles as they are.")
@click.option("--dry-run", is_flag=True, help="Say what --execute or --cancel would do, and do nothing.")
@click.option("--wait", metavar="DURATION", help="With --verify: wait until all is where it is to be.")
def main(common: Common, **flags: object) -> None:
    """Move partitions to other brokers, or replicas to other directories."""
    given = Flags(**flags)  # type: ignore[arg-type]
    _check(given)
    with common.admin() as admin:
        if given.generate:
            _generate(admin, common, given)
        elif given.execute:
            _execute(admin, common, given)
        elif given.verify:
            _verify(admin, common, given)
        elif given.cancel:
            _cancel(admin, common, given)
        else:
            moving = admin.list_partition_reassignments(timeout_ms=common.timeout_ms)
            common.show(
                View("partitions", _list_lines(moving), [_list_row(*each) for each in sorted(moving.items())])
            )


def _check(flags: Flags) -> None:
    values = flags._asdict()
    chosen = [name for name in _EXAMPLES if values[name]]
    if len(chosen) != 1:
        names = ", ".join(f"--{name}" for name in _EXAMPLES)
        raise click.UsageError(f"Command must include exactly one action: {names}")
    action = chosen[0]
    for name in _NEEDED[action]:
        if values[name.replace("-", "_")] is None:
            raise click.UsageError(f'Missing required argument "[{name}]"')
    for name, actions in _BELONGS.items():
        if action not in actions and values[name.replace("-", "_")] not in (None, False):
            raise click.UsageError(f'Option "--{name}" can\'t be used with action "--{action}"')


def _wanted(flags: Flags) -> "Wanted":
    from pkafka.tools.reassignment.plan import parse_wanted

    return parse_wanted(Path(flags.reassignment_json_file or "").read_bytes())


# -- generate and list ------------------------------------------------------------------------------------


def _generate(admin: "Admin", common: Common, flags: Flags) -> None:
    from pkafka.tools.reassignment.plan import parse_brokers, parse_topics, to_json
    from pkafka.tools.reassignment.run import generate

    data = Path(flags.topics_to_move_json_file or "").read_bytes()
    brokers = parse_brokers(flags.broker_list or "")
    found = generate(admin, parse_topics(data), brokers, use_racks=not flags.disable_rack_aware)
    lines = [
        "Current partition replica assignment",
        to_json(found.current),
        "",
        "Proposed partition reassignment configuration",
        to_json(found.proposed),
    ]
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": found.current[each],
            "proposed_replicas": found.proposed.get(each, ()),
        }
        for each in sorted(found.current)
    ]
    common.show(View("partitions", lines, rows))
    if choose_format(common.output) is OutputFormat.TABLE:
        hint("--output text prints both as JSON, which --execute takes from a file.")


def _list_lines(moving: "Mapping[TopicPartition, Reassignment]") -> list[str]:
    if not moving:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for partition, move in sorted(moving.items()):
        text = f"{partition}: replicas: {_joined(move.replicas)}."
        text += f" adding: {_joined(move.adding)}." if move.adding else ""
        text += f" removing: {_joined(move.removing)}." if move.removing else ""
        lines.append(text)
    return lines


def _list_row(partition: TopicPartition, move: "Reassignment") -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": move.replicas,
        "adding": move.adding,
        "removing": move.removing,
    }


# -- execute ----------------------------------------------------------------------------------------------


def _execute(admin: "Admin", common: Common, flags: Flags) -> None:
    from pkafka.tools.reassignment import plan, run

    rate = -1 if flags.throttle is None else flags.throttle
    log_dir_rate = (
        -1 if flags.replica_alter_log_dirs_throttle is None else flags.replica_alter_log_dirs_throttle
    )
    prepared = run.prepare(admin, _wanted(flags), additional=flags.additional)
    say = line if common.output in _TEXT_FORMS else _nothing
    say("Current partition replica assignment\n")
    say(plan.to_json(prepared.current))
    say("\nSave this to use as the --reassignment-json-file option during rollback")
    outcomes: Mapping[TopicPartition, Outcome[None]] = {}
    started: set[TopicPartitionReplica] = set()
    if flags.dry_run:
        for partition in sorted(prepared.proposed):
            to = _joined(prepared.proposed[partition])
            say(f"Would move {partition} from {_joined(prepared.current[partition])} to {to}.")
        for replica, path in sorted(prepared.log_dirs.items()):
            say(f"Would move replica {replica} to {path}.")
    else:
        if rate >= 0 or log_dir_rate >= 0:
            say(_VERIFY_LATER)
        if rate >= 0:
            run.throttle_replication(admin, prepared, rate)
            say(f"The inter-broker throttle limit was set to {rate} B/s")
        if log_dir_rate >= 0:
            run.throttle_log_dirs(admin, prepared, log_dir_rate)
            say(f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s")
        outcomes = run.begin(admin, prepared.proposed, timeout_ms=common.timeout_ms)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": prepared.current[each],
            "new_replicas": prepared.proposed[each],
            "error": failure(_error(outcomes.get(each))),
        }
        for each in sorted(prepared.proposed)
    ]

    def begun(replica: TopicPartitionReplica, path: str) -> None:
        started.add(replica)
        where = f"{replica.topic}-{replica.partition} with broker {replica.broker}"
        say(f"Successfully started moving log directory to {path} for replica {where} ")

    failed = {each: outcome for each, outcome in outcomes.items() if isinstance(outcome, ApiError)}
    try:
        if not flags.dry_run and not failed:
            names = [str(each) for each in sorted(prepared.proposed)]
            say(f"Successfully started partition reassignment{_s(names)} for {','.join(names)}")
            run.move_log_dirs(admin, prepared.log_dirs, timeout_ms=common.timeout_ms, begun=begun)
            hint(
                f"--verify --reassignment-json-file {flags.reassignment_json_file} --wait 10m says when it is done."
            )
    finally:
        if common.output not in _TEXT_FORMS:
            moves = [_log_dir_row(*each, each[0] in started) for each in sorted(prepared.log_dirs.items())]
            common.show(View("partitions", [], rows, {"log_dir_moves": moves, "dry_run": flags.dry_run}))
    _refuse(failed, "Error reassigning partition(s):")


def _refuse(failed: "Mapping[TopicPartition, ApiError]", headline: str) -> None:
    from pkafka.tools.reassignment.plan import ReassignmentError

    if failed:
        texts = [f"{each}: {failed[each].message}" for each in sorted(failed)]
        raise ReassignmentError(f"{headline} {'; '.join(texts)}", [headline, *texts])


def _log_dir_row(replica: TopicPartitionReplica, path: str, is_started: bool) -> dict[str, object]:
    return {
        "topic": replica.topic,
        "partition": replica.partition,
        "broker": replica.broker,
        "log_dir": path,
        "started": is_started,
    }


# -- verify -----------------------------------------------------------------------------------------------


def _verify(admin: "Admin", common: Common, flags: Flags) -> None:
    from pkafka.tools.reassignment import run

    seconds = parse_duration_ms(flags.wait, option="wait") / 1_000 if flags.wait else 0.0
    wanted = _wanted(flags)
    found = run.wait_until_complete(lambda: run.verify(admin, wanted, timeout_ms=common.timeout_ms), seconds)
    say = line if common.output in _TEXT_FORMS else _nothing
    say("Status of partition reassignment:")
    for each in found.partitions:
        say(_partition_text(each))
    say("\n".join(_replica_text(each) for each in found.replicas))
    is_cleared = not found.is_ongoing and not flags.preserve_throttles
    if is_cleared:
        _clear_throttles(admin, common, wanted)
    if common.output not in _TEXT_FORMS:
        rows = [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "replicas": each.replicas,
                "new_replicas": each.target,
                "state": each.state.value,
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
            }
            for each in found.replicas
        ]
        common.show(View("partitions", [], rows, {"log_dir_moves": moves, "throttles_cleared": is_cleared}))
    if found.left:
        text = f"{found.left} of {len(found.partitions) + len(found.replicas)} are not where they are to be"
        if flags.wait:
            raise CommandError(f"{text}, after {flags.wait}", status=ExitStatus.UNREACHABLE, kafka_status=0)
        raise CommandError(text, kafka_status=0)


def _partition_text(each: "PartitionState") -> str:
    from pkafka.tools.reassignment.plan import State

    if each.state is State.IN_PROGRESS:
        return f"Reassignment of partition {each.partition} is still in progress."
    if each.state is State.COMPLETED:
        return f"Reassignment of partition {each.partition} is completed."
    return (
        f"There is no active reassignment of partition {each.partition}, but replica set is"
        f" {_joined(each.replicas)} rather than {_joined(each.target)}."
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


# -- cancel -----------------------------------------------------------------------------------------------


def _cancel(admin: "Admin", common: Common, flags: Flags) -> None:
    from pkafka.tools.reassignment import run
    from pkafka.tools.reassignment.plan import LogDirState

    wanted = _wanted(flags)
    moving = run.cancellable(admin, wanted)
    say = line if common.output in _TEXT_FORMS else _nothing
    outcomes: Mapping[TopicPartition, Outcome[None]] = {}
    if moving and not flags.dry_run:
        outcomes = run.begin(admin, dict.fromkeys(moving), timeout_ms=common.timeout_ms)
    failed = {each: outcome for each, outcome in outcomes.items() if isinstance(outcome, ApiError)}
    rows = [
        {"topic": each.topic, "partition": each.partition, "error": failure(failed.get(each))}
        for each in moving
    ]
    is_cleared = not failed and not flags.preserve_throttles and not flags.dry_run

    def show_document() -> None:
        if common.output not in _TEXT_FORMS:
            extra = {"throttles_cleared": is_cleared, "dry_run": flags.dry_run}
            common.show(View("partitions", [], rows, extra))

    if failed:
        show_document()
    _refuse(failed, f"Error cancelling partition reassignment{_s(failed)} for:")
    names = ",".join(map(str, moving))
    if not moving:
        say("None of the specified partition reassignments are active.")
    elif flags.dry_run:
        say(f"Would cancel partition reassignment{_s(moving)} for: {names}")
    else:
        say(f"Successfully cancelled partition reassignment{_s(moving)} for: {names}")
    states = run.log_dir_states(admin, wanted.log_dirs, timeout_ms=common.timeout_ms)
    busy = (LogDirState.IN_PROGRESS, LogDirState.OTHER_TARGET)
    back = {each.replica: each.log_dir or "" for each in states if each.state in busy}
    if flags.dry_run:
        for replica, path in back.items():
            say(f"Would leave replica {replica} in {path}.")
        show_document()
        return

    def begun(replica: TopicPartitionReplica, path: str) -> None:
        where = f"{replica.topic}-{replica.partition} with broker {replica.broker}"
        say(f"Successfully started moving log directory to {path} for replica {where} ")

    run.move_log_dirs(admin, back, timeout_ms=common.timeout_ms, begun=begun)
    # Kafka's tool forgets the line end.
    prefix = "" if back else "None of the specified partition moves are active."
    if is_cleared:
        _clear_throttles(admin, common, wanted, prefix)
    elif prefix:
        say(prefix)
    show_document()


def _clear_throttles(admin: "Admin", common: Common, wanted: "Wanted", prefix: str = "") -> None:
    from pkafka.tools.reassignment import run

    say = line if common.output in _TEXT_FORMS else _nothing
    whose = run.throttled_by(admin, wanted)
    say(f"{prefix}Clearing broker-level throttles on broker{_s(whose.brokers)} {_joined(whose.brokers)}")
    run.clear_broker_throttles(admin, whose.brokers)
    say(f"Clearing topic-level throttles on topic{_s(whose.topics)} {','.join(whose.topics)}")
    run.clear_topic_throttles(admin, whose.topics)


# -- text -------------------------------------------------------------------------------------------------


def _nothing(_: str) -> None:
    """Where a document is asked for, nothing is said besides."""


def _error(outcome: "Outcome[None] | None") -> ApiError | None:
    return outcome if isinstance(outcome, ApiError) else None


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(str(broker) for broker in brokers)


def _s(values: "Iterable[object]") -> str:
    return "" if len(list(values)) == 1 else "s"
