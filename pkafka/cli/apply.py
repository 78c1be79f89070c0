"""pk-apply: topics and settings as a file declares them; Kafka has no such tool."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.confirmation import agrees
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, CommandGroup, failure
from pkafka.cli.kit.options import Common, connection_options, version_option
from pkafka.cli.kit.output import Failure, OutputFormat, View, choose_format, hint, line, note, raw, to_json
from pkafka.cli.kit.spelling import did_you_mean
from pkafka.errors import ApiError
from pkafka.tools.cluster.declaration import (
    EVERY_BROKER,
    Action,
    Actual,
    ActualTopic,
    Declaration,
    DeclarationError,
    KeyChange,
    Secret,
    Step,
    document_of,
    parse,
    plan,
)

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import ConfigChange, ConfigResource, Outcome

_FILE = click.argument("file", metavar="FILE")
_PRUNE = click.option(
    "--prune", is_flag=True, help="Delete what the file does not name: topics with their records, and keys."
)


@click.group("pk-apply", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """Make topics and settings what a file declares.

    The file is YAML or JSON; - is standard input. pk-apply export writes one of what is there.
    """


@main.command("diff")
@_FILE
@_PRUNE
@connection_options
def diff(common: Common, file: str, prune: bool) -> int:
    """Show what apply would do; end with 1 where there is something to do."""
    wanted = _read(file)
    with common.admin() as admin:
        steps = plan(wanted, _actual(common, admin, wanted), prune=prune)
    found = [(step, _impossible(step)) for step in steps]
    _show(common, found, [_summary(steps, "to ")], dry_run=True)
    if steps and file != "-":
        hint(f"pk-apply apply {file}{' --prune' if prune else ''} does that.")
    return ExitStatus.FAILURE if steps else ExitStatus.OK


@main.command("apply")
@_FILE
@_PRUNE
@click.option("--dry-run", is_flag=True, help="Let the cluster check every change, and make none.")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@connection_options
def apply(common: Common, file: str, prune: bool, dry_run: bool, yes: bool) -> None:
    """Create, grow and set what differs; with --prune also delete."""
    wanted = _read(file)
    with common.admin() as admin:
        steps = plan(wanted, _actual(common, admin, wanted), prune=prune)
        deletions = [step for step in steps if step.action is Action.DELETE]
        if deletions and not yes and not dry_run:
            _ask(deletions, is_file_stdin=file == "-")
        outcomes = _carry_out(common, admin, steps, dry_run=dry_run)
    failures = sum(error is not None for error in outcomes)
    done = [step for step, error in zip(steps, outcomes, strict=True) if error is None]
    _show(
        common,
        list(zip(steps, outcomes, strict=True)),
        [_summary(done, "could be " if dry_run else "")],
        dry_run=dry_run,
    )
    if failures:
        raise CommandError(f"{failures} of {len(steps)} changes {'would fail' if dry_run else 'failed'}")


@main.command("export")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; repeatable.")
@connection_options
def export(common: Common, topics: tuple[str, ...]) -> None:
    """Write a declaration of the cluster as it is: YAML, or JSON with --output json."""
    with common.admin() as admin:
        names = [str(each.id) for each in admin.describe_cluster().brokers]
        brokers: dict[str, dict[str, str | None]] = (
            {} if topics else {each: {} for each in (EVERY_BROKER, *names)}
        )
        actual = _actual(common, admin, Declaration(brokers=brokers))
    if missing := sorted(set(topics) - set(actual.topics)):
        meant = did_you_mean(missing[0], actual.topics)
        raise CommandError(
            f"there is no topic {', '.join(missing)}", hint=meant or "pk-topics --list shows all"
        )
    if topics:
        actual = actual._replace(topics={each: actual.topics[each] for each in topics})
    document = document_of(actual)
    if common.output in (OutputFormat.JSON, OutputFormat.JSONL):
        line(to_json(document))
    else:
        import yaml

        raw(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())


# -- files -------------------------------------------------------------------------------------------------


def _read(file: str) -> Declaration:
    """The declaration in a file.

    Raises:
        CommandError: it is none; says what and where.
    """
    import yaml

    from pkafka.cli.kit.yaml_loader import load_yaml

    text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return parse(load_yaml(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}, line {mark.line + 1}" if mark is not None else file
        raise CommandError(f"{where}: {error.problem}", status=ExitStatus.USAGE) from error
    except RecursionError as error:
        raise CommandError(f"{file}: it is nested too deeply", status=ExitStatus.USAGE) from error
    except (yaml.YAMLError, DeclarationError) as error:
        raise CommandError(f"{file}: {' '.join(str(error).split())}", status=ExitStatus.USAGE) from error


# -- what there is -----------------------------------------------------------------------------------------


def _actual(common: Common, admin: "Admin", wanted: Declaration) -> Actual:
    """All topics, and the settings of the brokers that a declaration names.

    Raises:
        ApiError: something cannot be looked at.
    """
    from pkafka.clients.admin.results import ConfigResource, ConfigSource, ResourceType, raise_first

    descriptions = admin.describe_topics([each.name for each in admin.list_topics()])
    raise_first(descriptions)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in descriptions]
    resources += [_broker(name) for name in wanted.brokers]
    configs = admin.describe_configs(resources, timeout_ms=common.timeout_ms) if resources else {}

    def own(resource: "ConfigResource", source: ConfigSource) -> dict[str, str | Secret]:
        entries = configs[resource]
        if isinstance(entries, ApiError):
            raise entries
        return {
            each.name: Secret() if each.is_sensitive or each.value is None else each.value
            for each in entries
            if each.source is source
        }

    topics = {
        name: ActualTopic(
            len(topic.partitions),
            len(topic.partitions[0].replicas),
            own(ConfigResource(ResourceType.TOPIC, name), ConfigSource.DYNAMIC_TOPIC_CONFIG),
            topic.is_internal or name.startswith("__"),
        )
        for name, topic in descriptions.items()
        if not isinstance(topic, ApiError)
    }
    brokers = {
        name: own(
            _broker(name),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            if name == EVERY_BROKER
            else ConfigSource.DYNAMIC_BROKER_CONFIG,
        )
        for name in wanted.brokers
    }
    return Actual(topics, brokers)


def _broker(name: str) -> "ConfigResource":
    from pkafka.clients.admin.results import ConfigResource, ResourceType

    return ConfigResource(ResourceType.BROKER, "" if name == EVERY_BROKER else name)


# -- doing it ----------------------------------------------------------------------------------------------


def _carry_out(common: Common, admin: "Admin", steps: list[Step], *, dry_run: bool) -> list[Failure | None]:
    """Take the steps one after the other, also where an earlier one failed.

    Returns:
        What is wrong with each; None for one that is done.
    """
    found: list[Failure | None] = []
    for step in steps:
        if step.action is Action.IMPOSSIBLE:
            found.append(_impossible(step))
            continue
        outcome = _carry_out_one(common, admin, step, dry_run=dry_run)
        found.append(failure(outcome) if isinstance(outcome, ApiError) else None)
    return found


def _impossible(step: Step) -> Failure | None:
    return None if step.problem is None else Failure("Impossible", step.problem)


def _carry_out_one(common: Common, admin: "Admin", step: Step, *, dry_run: bool) -> "Outcome[object]":
    from pkafka.clients.admin.results import ConfigResource, NewTopic, ResourceType

    timeout_ms = common.timeout_ms
    if step.action is Action.CREATE:
        configs = {change.key: change.after for change in step.changes if change.after is not None}
        topic = NewTopic(step.name, step.partitions or -1, step.replication_factor or -1, configs=configs)
        return admin.create_topics([topic], validate_only=dry_run, timeout_ms=timeout_ms)[step.name]
    if step.action is Action.DELETE:
        # No request checks a deletion.
        return None if dry_run else admin.delete_topics([step.name], timeout_ms=timeout_ms)[step.name]
    if step.partitions is not None:
        counts = {step.name: step.partitions}
        return admin.create_partitions(counts, validate_only=dry_run, timeout_ms=timeout_ms)[step.name]
    resource = ConfigResource(ResourceType.TOPIC, step.name) if step.kind == "topic" else _broker(step.name)
    changes = {resource: [_config_change(change) for change in step.changes]}
    return admin.alter_configs(changes, validate_only=dry_run, timeout_ms=timeout_ms)[resource]


def _config_change(change: KeyChange) -> "ConfigChange":
    from pkafka.clients.admin.results import AlterOp, ConfigChange

    if change.after is None:
        return ConfigChange(change.key, AlterOp.DELETE)
    return ConfigChange(change.key, AlterOp.SET, change.after)


def _ask(deletions: list[Step], *, is_file_stdin: bool) -> None:
    """Ask whether deletions are meant.

    Raises:
        CommandError: they are not, or there is no terminal to ask at.
    """
    for step in deletions:
        note(step.text)
    if is_file_stdin or not sys.stdin.isatty():
        raise CommandError(
            f"{_topics(deletions)} would be deleted with all records, and there is no terminal to ask at; "
            "nothing was done",
            hint="--yes deletes without asking",
            status=ExitStatus.USAGE,
        )
    if not agrees(f"Delete {_topics(deletions)} with all records?"):
        raise CommandError("nothing was done")


# -- output ------------------------------------------------------------------------------------------------


def _show(
    common: Common, found: list[tuple[Step, Failure | None]], last: list[str], *, dry_run: bool
) -> None:
    lines = [
        step.text if error is None or step.problem else f"! {step.text[2:]}: {error['message']}"
        for step, error in found
    ]
    rows = [row for step, error in found for row in _rows(step, error)]
    extra = {"dry_run": dry_run}
    columns = ("action", "kind", "name", "key", "before", "after", "error")
    common.show(View("changes", [*lines, *last], rows, extra, columns))
    if choose_format(common.output) is OutputFormat.TABLE:
        for text in last:
            line(text)


def _rows(step: Step, error: Failure | None) -> list[dict[str, object]]:
    """One row for each number and each key."""
    row = {"action": step.action.name.lower(), "kind": step.kind, "name": step.name}
    pairs: list[tuple[str | None, object, object]] = []
    if step.partitions is not None or step.action is Action.CREATE:
        pairs.append(("partitions", step.partitions_before, step.partitions))
    if step.action is Action.CREATE:
        pairs.append(("replication-factor", None, step.replication_factor))
    for change in step.changes:
        before, after = (None, None) if change.is_secret else (change.before, change.after)
        pairs.append((change.key, before, after))
    return [
        {**row, "key": key, "before": before, "after": after, "error": error}
        for key, before, after in pairs or [(None, None, None)]
    ]


def _summary(steps: list[Step], prefix: str) -> str:
    """The numbers of the steps by kind, in one line."""
    count = [sum(step.action is action for step in steps) for action in Action]
    if not any(count):
        return "Nothing to do." if prefix == "to " else "Nothing was changed."
    words = {"to ": ("create", "change", "delete")}.get(prefix, ("created", "changed", "deleted"))
    text = ", ".join(f"{number} {prefix}{word}" for number, word in zip(count, words, strict=False))
    return f"{text}, {count[3]} impossible." if count[3] else f"{text}."


def _topics(steps: list[Step]) -> str:
    return "1 topic" if len(steps) == 1 else f"{len(steps)} topics"
