"""pk-reassign-partitions: move partitions to other brokers, as kafka-reassign-partitions.sh."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.exit_status import ExitStatus, compat_39
from pkafka.cli.kit.java_text import java_exception
from pkafka.cli.kit.kafka_command import BadValueError, CommandError, explain, failure
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import Common, command, connection_options, parse_duration_ms
from pkafka.cli.kit.output import OutputFormat, View, choose_format, hint, line, note
from pkafka.cli.reassign_partitions.progress import Forecast, bytes_row, copies_of, wait_for_all
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition, TopicPartitionReplica

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Outcome, Reassignment
    from pkafka.tools.reassignment.disk import Copies
    from pkafka.tools.reassignment.plan import PartitionState, ReplicaState, Wanted
    from pkafka.tools.reassignment.run import Prepared
    from pkafka.tools.reassignment.throttling import Throttling

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
    "rollback-file": {"execute"},
}
# CSV has its columns without any row, too.
_GENERATE_COLUMNS = ("topic", "partition", "replicas", "proposed_replicas")
_EXECUTE_COLUMNS = ("topic", "partition", "replicas", "new_replicas", "error", "bytes")
_VERIFY_COLUMNS = ("topic", "partition", "replicas", "new_replicas", "state", "bytes_done", "bytes_total")
_CANCEL_COLUMNS = ("topic", "partition", "error")
_LIST_COLUMNS = ("topic", "partition", "replicas", "adding", "removing", "bytes_done", "bytes_total")
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
    rollback_file: str | None


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
@click.option(
    "--verify",
    is_flag=True,
    help="Say how far it is; remove the throttles when it is done. Ends with 0 then, with 5 while it is on the way, "
    "and with 1 where nothing moves what is elsewhere.",
)
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
@click.option(
    "--rollback-file",
    metavar="FILE",
    help="With --execute: where to write the way back; default: beside the plan, as PLAN.rollback.json.",
)
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
            _list(admin, common)


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
    common.show(View("partitions", lines, rows, {}, _GENERATE_COLUMNS))
    if choose_format(common.output) is OutputFormat.TABLE:
        hint("--output text prints both as JSON, which --execute takes from a file.")


def _list(admin: "Admin", common: Common) -> None:
    moving = admin.list_partition_reassignments(timeout_ms=common.timeout_ms)
    copies: Mapping[TopicPartition, Copies] = {}
    if moving and choose_format(common.output) is not OutputFormat.TEXT:
        from pkafka.tools.reassignment import run

        copies = run.progress(admin, moving, timeout_ms=common.timeout_ms)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": move.replicas,
            "adding": move.adding,
            "removing": move.removing,
            **bytes_row(copies.get(each)),
        }
        for each, move in sorted(moving.items())
    ]
    common.show(View("partitions", _list_lines(moving), rows, {}, _LIST_COLUMNS))


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


# -- execute ----------------------------------------------------------------------------------------------


def _execute(admin: "Admin", common: Common, flags: Flags) -> None:
    from pkafka.tools.reassignment import plan, run

    prepared = run.prepare(admin, _wanted(flags), additional=flags.additional)
    say = line if common.output in _TEXT_FORMS else _nothing
    current = plan.to_json(prepared.current)
    say(f"Current partition replica assignment\n\n{current}\n")
    say("Save this to use as the --reassignment-json-file option during rollback")
    outcomes: Mapping[TopicPartition, Outcome[None]] = {}
    started: set[TopicPartitionReplica] = set()
    forecast, back = None, None
    if flags.dry_run:
        forecast = Forecast(
            prepared, run.foresee(admin, prepared, timeout_ms=common.timeout_ms), _rate(flags.throttle)
        )
        for each in forecast.lines(_rate(flags.replica_alter_log_dirs_throttle)):
            say(each)
    else:
        if flags.rollback_file is not None or prepared.current != prepared.proposed:
            back = _save_way_back(flags, current)
        outcomes = _begin(admin, common, flags, prepared)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": prepared.current[each],
            "new_replicas": prepared.proposed[each],
            "error": failure(_error(outcomes.get(each))),
            "bytes": None if forecast is None else forecast.bytes_of(each),
        }
        for each in sorted(prepared.proposed)
    ]

    def begun(replica: TopicPartitionReplica, path: str) -> None:
        started.add(replica)
        say(_begun_text(replica, path))

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
            moves = [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "broker": each.broker,
                    "log_dir": path,
                    "started": each in started,
                    "bytes": None if forecast is None else forecast.foreseen.replicas[each],
                }
                for each, path in sorted(prepared.log_dirs.items())
            ]
            extra = {
                "log_dir_moves": moves,
                "dry_run": flags.dry_run,
                "brokers": [] if forecast is None else forecast.broker_rows(),
                "total_bytes": None if forecast is None else forecast.total_bytes,
                "estimated_seconds": None if forecast is None else forecast.seconds,
                "rollback_file": back,
            }
            common.show(View("partitions", [], rows, extra, _EXECUTE_COLUMNS))
    _refuse(failed, "Error reassigning partition(s):")


def _begin(
    admin: "Admin", common: Common, flags: Flags, prepared: "Prepared"
) -> "Mapping[TopicPartition, Outcome[None]]":
    """Throttle what moves and is to move, as far as that is asked for, and begin.

    Where nothing has begun, the throttles are taken back: nobody would look for them.
    """
    from pkafka.tools.reassignment import run
    from pkafka.tools.reassignment.throttling import Throttling

    say = line if common.output in _TEXT_FORMS else _nothing
    rate, log_dir_rate = _rate(flags.throttle), _rate(flags.replica_alter_log_dirs_throttle)
    throttling = Throttling(admin, prepared.live)
    absent: set[int] = set()
    try:
        if rate is not None or log_dir_rate is not None:
            say(_VERIFY_LATER)
        if rate is not None:
            absent.update(throttling.replication(prepared.moves, rate))
            say(f"The inter-broker throttle limit was set to {rate} B/s")
        if log_dir_rate is not None:
            absent.update(throttling.log_dirs(prepared.log_dirs, log_dir_rate))
            say(f"The replica-alter-dir throttle limit was set to {log_dir_rate} B/s")
    except BaseException:
        _take_back(throttling)
        raise
    for broker in sorted(absent):
        note(
            f"broker {broker} is not alive and has no throttle: --execute --additional sets it when it is back"
        )
    try:
        outcomes = run.begin(admin, prepared.proposed, timeout_ms=common.timeout_ms)
    except ApiError as error:
        if error.code is not ErrorCode.REQUEST_TIMED_OUT:  # then it may have begun all the same
            _take_back(throttling)
        raise
    if all(isinstance(each, ApiError) for each in outcomes.values()):
        _take_back(throttling)
    return outcomes


def _take_back(throttling: "Throttling") -> None:
    try:
        throttling.undo()
    except PkafkaError as error:
        note(
            f"the throttles that were set are still there ({error}): --cancel with the same file removes them"
        )


def _save_way_back(flags: Flags, current: str) -> str | None:
    """Write where partitions are, before they move, to a file; beside the plan where no name is given.

    Raises:
        CommandError: the file that is named is there already, or cannot be written.
    """
    from pkafka.tools.reassignment import rollback

    if flags.rollback_file is not None:
        try:
            rollback.write_new(Path(flags.rollback_file), current)
        except FileExistsError:
            raise CommandError(
                f"{flags.rollback_file} is there already, and may be the only way back from an earlier move",
                hint="nothing was begun; give --rollback-file another name",
            ) from None
        return flags.rollback_file
    if compat_39():
        return None
    try:
        path = rollback.write_beside(Path(flags.reassignment_json_file or ""), current)
    except OSError as error:
        note(f"no rollback file was written: {error.filename}: {error.strerror}")
        return None
    if path is not None:
        note(f"{path} leads back: it is for --execute --reassignment-json-file")
    return None if path is None else str(path)


def _rate(given: int | None) -> int | None:
    """A throttle, if there is to be one; Kafka takes -1 for none."""
    return given if given is not None and given >= 0 else None


def _begun_text(replica: TopicPartitionReplica, path: str) -> str:
    where = f"{replica.topic}-{replica.partition} with broker {replica.broker}"
    return f"Successfully started moving log directory to {path} for replica {where} "


def _refuse(failed: "Mapping[TopicPartition, ApiError]", headline: str) -> None:
    from pkafka.tools.reassignment.plan import ReassignmentError

    if failed:
        texts = [f"{each}: {failed[each].message}" for each in sorted(failed)]
        raise ReassignmentError(f"{headline} {'; '.join(texts)}", [headline, *texts])


# -- verify -----------------------------------------------------------------------------------------------


def _verify(admin: "Admin", common: Common, flags: Flags) -> None:
    seconds = parse_duration_ms(flags.wait, option="wait") / 1_000 if flags.wait else 0.0
    wanted = _wanted(flags)
    found = wait_for_all(admin, wanted, seconds, timeout_ms=common.timeout_ms)
    say = line if common.output in _TEXT_FORMS else _nothing
    say("Status of partition reassignment:")
    for each in found.partitions:
        say(_partition_text(each))
    if found.silent is None:
        say("\n".join(_replica_text(each) for each in found.replicas))
    is_cleared = not found.is_ongoing and not flags.preserve_throttles
    if is_cleared:
        _clear_throttles(admin, common, wanted)
    if common.output not in _TEXT_FORMS:
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
        common.show(View("partitions", [], rows, extra, _VERIFY_COLUMNS))
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
    back: list[ReplicaState] = []
    stopped: set[TopicPartitionReplica] = set()

    def begun(replica: TopicPartitionReplica, path: str) -> None:
        stopped.add(replica)
        say(_begun_text(replica, path))

    try:
        _refuse(failed, f"Error cancelling partition reassignment{_s(failed)} for:")
        names = ",".join(map(str, moving))
        if not moving:
            say("None of the specified partition reassignments are active.")
        elif flags.dry_run:
            say(f"Would cancel partition reassignment{_s(moving)} for: {names}")
        else:
            say(f"Successfully cancelled partition reassignment{_s(moving)} for: {names}")
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
                _clear_throttles(admin, common, wanted, prefix)
            elif prefix:
                say(prefix)
    except PkafkaError:
        is_cleared = False
        raise
    finally:
        if common.output not in _TEXT_FORMS:
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
            common.show(View("partitions", [], rows, extra, _CANCEL_COLUMNS))
    if silent is not None:
        raise silent


def _clear_throttles(admin: "Admin", common: Common, wanted: "Wanted", prefix: str = "") -> None:
    """Remove throttles of all brokers that are there, and in any case those of the topics."""
    from pkafka.tools.reassignment import throttling

    say = line if common.output in _TEXT_FORMS else _nothing
    whose = throttling.throttled_by(admin, wanted)
    say(f"{prefix}Clearing broker-level throttles on broker{_s(whose.brokers)} {_joined(whose.brokers)}")
    try:
        for broker, error in throttling.clear_brokers(admin, whose.brokers).items():
            note(
                f"broker {broker} keeps its throttle, if it has one ({error}):"
                " --verify removes it when the broker is back"
            )
    finally:
        say(f"Clearing topic-level throttles on topic{_s(whose.topics)} {','.join(whose.topics)}")
        throttling.clear_topics(admin, whose.topics)


# -- text -------------------------------------------------------------------------------------------------


def _nothing(_: str) -> None:
    """Where a document is asked for, nothing is said besides."""


def _error(outcome: "Outcome[None] | None") -> ApiError | None:
    return outcome if isinstance(outcome, ApiError) else None


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(str(broker) for broker in brokers)


def _s(values: "Iterable[object]") -> str:
    return "" if len(list(values)) == 1 else "s"
