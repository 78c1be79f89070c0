"""pk-reassign-partitions --execute."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.exit_status import compat_39
from pkafka.cli.kit.kafka_command import CommandError, failure
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import View, hint, note
from pkafka.cli.reassign_partitions.flags import Flags, wanted_by
from pkafka.cli.reassign_partitions.forecast import Forecast
from pkafka.cli.reassign_partitions.text import TEXT_FORMS, begun_text, plural, refuse, say_in
from pkafka.errors import ApiError, ErrorCode, PkafkaError
from pkafka.model import TopicPartition, TopicPartitionReplica

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import Outcome
    from pkafka.tools.reassignment.run import Prepared
    from pkafka.tools.reassignment.throttling import Throttling

_COLUMNS: Final = ("topic", "partition", "replicas", "new_replicas", "error", "bytes")
_VERIFY_LATER: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is"
    " removed."
)


def execute(admin: "Admin", common: Common, flags: Flags) -> None:
    """Begin to move partitions and replicas, or say what that would do."""
    from pkafka.tools.reassignment import plan, run

    prepared = run.prepare(admin, wanted_by(flags), additional=flags.additional)
    say = say_in(common)
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
        say(begun_text(replica, path))

    failed = {each: outcome for each, outcome in outcomes.items() if isinstance(outcome, ApiError)}
    try:
        if not flags.dry_run and not failed:
            names = [str(each) for each in sorted(prepared.proposed)]
            say(f"Successfully started partition reassignment{plural(names)} for {','.join(names)}")
            run.move_log_dirs(admin, prepared.log_dirs, timeout_ms=common.timeout_ms, begun=begun)
            hint(
                f"--verify --reassignment-json-file {flags.reassignment_json_file} --wait 10m says when it is done."
            )
    finally:
        if common.output not in TEXT_FORMS:
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
            common.show(View("partitions", [], rows, extra, _COLUMNS))
    refuse(failed, "Error reassigning partition(s):")


def _begin(
    admin: "Admin", common: Common, flags: Flags, prepared: "Prepared"
) -> "Mapping[TopicPartition, Outcome[None]]":
    """Set the throttles that were asked for, on present and new moves, and begin.

    Where nothing has begun, the command removes the throttles again: no --verify would remove them later.
    """
    from pkafka.tools.reassignment import run
    from pkafka.tools.reassignment.throttling import Throttling

    say = say_in(common)
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
    """Write the present assignment to a file before partitions move; beside the plan where no name is given.

    Returns:
        The path of the file; None where none was written.

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


def _error(outcome: "Outcome[None] | None") -> ApiError | None:
    return outcome if isinstance(outcome, ApiError) else None
