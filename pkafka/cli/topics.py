"""pk-topics: create, list, describe, grow and delete topics, as kafka-topics.sh."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.exit_status import ExitStatus, compat_39
from pkafka.cli.kit.kafka_command import BadValueError, CommandError
from pkafka.cli.kit.options import Common, command, connection_options, exclude, parse_duration_ms, require
from pkafka.cli.kit.output import OutputFormat, Table, View, line, note
from pkafka.cli.kit.topic_filter import topic_pattern
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.numbers import parse_int
from pkafka.java.text import split, trim
from pkafka.model import INTERNAL_TOPICS, NO_TOPIC_ID, TopicPartition, parse_topic_id, topic_id_text

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import (
        ConfigEntry,
        PartitionDescription,
        Reassignment,
        TopicDescription,
    )
    from pkafka.clients.admin.topics import TopicsClient

_EQUALS: Final = re.compile(r"\s*=\s*", re.ASCII)
_EXAMPLES: Final = {
    "list": "--list --exclude-internal",
    "describe": "--describe --topic orders",
    "create": "--create --topic orders --partitions 6 --replication-factor 3 --config retention.ms=86400000",
    "alter": "--alter --topic orders --partitions 12",
    "delete": "--delete --topic orders --exact --wait 30s",
}
_REFUSED_ELSEWHERE: Final[Mapping[str, Collection[str]]] = {
    "topic-id": {"describe"},
    "replication-factor": {"create"},
    "config": {"create"},
    "partitions": {"create", "alter"},
    "replica-assignment": {"create", "alter"},
    "if-exists": {"alter", "delete", "describe"},
    "if-not-exists": {"create"},
    "exclude-internal": {"list", "describe"},
    "under-replicated-partitions": {"describe"},
    "unavailable-partitions": {"describe"},
    "under-min-isr-partitions": {"describe"},
    "at-min-isr-partitions": {"describe"},
    "topics-with-overrides": {"describe"},
    "exact": {"list", "describe", "alter", "delete"},
    "yes": {"delete"},
    "dry-run": {"create", "alter", "delete"},
    "wait": {"create", "alter", "delete", "describe"},
}
"""Flags and the actions without which they are refused."""

_IGNORED_ELSEWHERE: Final = {"partition-size-limit-per-response": ("describe",)}
_PARTITION_FILTERS = (
    "under_replicated_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "unavailable_partitions",
)
_REPLICATION_FACTOR_MAX = 32_767
_TEXT_FORMS = (None, OutputFormat.TEXT, OutputFormat.TABLE)
_TOPIC_COLUMNS = ("name", "id", "partition_count", "replication_factor", "configs")
_PARTITION_COLUMNS = ("name", "partition", "leader", "replicas", "isr")


class Flags(NamedTuple):
    """What was given beside the connection."""

    list: bool
    describe: bool
    create: bool
    alter: bool
    delete: bool
    topic: str | None
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None
    replica_assignment: str | None
    config: tuple[str, ...]
    delete_config: tuple[str, ...]
    if_exists: bool
    if_not_exists: bool
    exclude_internal: bool
    under_replicated_partitions: bool
    unavailable_partitions: bool
    under_min_isr_partitions: bool
    at_min_isr_partitions: bool
    topics_with_overrides: bool
    partition_size_limit_per_response: int
    dry_run: bool
    wait: str | None
    exact: bool
    yes: bool


@command(
    "pk-topics",
    error_text="Error while executing topic command : ",
    actions=Actions(_EXAMPLES, {**_REFUSED_ELSEWHERE, **_IGNORED_ELSEWHERE}),
)
@connection_options
@click.option("--list", is_flag=True, help="List all topics.")
@click.option("--describe", is_flag=True, help="Show the details of topics.")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--alter", is_flag=True, help="Grow a topic.")
@click.option("--delete", is_flag=True, help="Delete topics.")
@click.option("--topic", metavar="NAME|REGEX", help="The topic; a regular expression except for --create.")
@click.option("--topic-id", metavar="ID", help="The topic's id, for --describe.")
@click.option("--partitions", type=int, metavar="N", help="Number of partitions.")
@click.option("--replication-factor", type=int, metavar="N", help="Number of replicas, for --create.")
@click.option("--replica-assignment", metavar="1:2,2:3", help="The brokers of every partition.")
@click.option("--config", multiple=True, metavar="KEY=VALUE", help="A configuration of the new topic.")
@click.option("--delete-config", multiple=True, hidden=True)
@click.option("--if-exists", is_flag=True, help="Do nothing when the topic does not exist.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when the topic exists.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option("--under-replicated-partitions", is_flag=True, help="Show only under-replicated partitions.")
@click.option("--unavailable-partitions", is_flag=True, help="Show only partitions without a live leader.")
@click.option(
    "--under-min-isr-partitions", is_flag=True, help="Show only partitions under min.insync.replicas."
)
@click.option("--at-min-isr-partitions", is_flag=True, help="Show only partitions at min.insync.replicas.")
@click.option(
    "--topics-with-overrides", is_flag=True, help="Show only topics with configurations of their own."
)
@click.option("--partition-size-limit-per-response", type=int, default=2_000, metavar="N", help="Page size.")
@click.option(
    "--dry-run", is_flag=True, help="Say what --create, --alter or --delete would do, and do nothing."
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="Wait until every partition has its leader and all replicas, or with --delete until the topics are gone.",
)
@click.option("--exact", is_flag=True, help="--topic is the name of one topic, and no regular expression.")
@click.option(
    "--yes",
    is_flag=True,
    help="--delete asks nothing: on a terminal it does before topics that were not named.",
)
def main(common: Common, **flags: object) -> None:
    """Create, list, describe, grow and delete topics."""
    given = Flags(**flags)  # type: ignore[arg-type]
    _check(given)
    seconds = parse_duration_ms(given.wait, option="wait") / 1_000 if given.wait else 0.0
    if given.list:
        with common.topics() as topics:
            common.show(_list(topics, given))
        return
    with common.admin() as admin:
        if given.describe and given.wait:
            _wait(admin, given, lambda: _existing(admin, given, required=False), seconds)
        if given.create:
            _create(admin, common, given)
        elif given.describe:
            common.show(_describe(admin, given))
        elif given.alter:
            _alter(admin, common, given)
        else:
            gone = _delete(admin, common, given)
            if given.wait:
                from pkafka.tools.topic_wait import wait_until_gone

                _refuse_late(wait_until_gone(admin, gone, seconds), given)
        if (given.create or given.alter) and given.wait:
            known = [given.topic or ""] if given.create else _existing(admin, given, required=False)
            _wait(admin, given, lambda: known, seconds)


def _wait(admin: "Admin", flags: Flags, names: Callable[[], list[str]], seconds: float) -> None:
    from pkafka.tools.topic_wait import wait_until_whole

    _refuse_late(wait_until_whole(admin, names, seconds, partitions=flags.partitions), flags)


def _refuse_late(missing: str | None, flags: Flags) -> None:
    if missing is not None:
        raise CommandError(f"{missing}, after {flags.wait}", status=ExitStatus.UNREACHABLE)


def _check(flags: Flags) -> None:
    values = flags._asdict()
    chosen = [name for name in _EXAMPLES if values[name]]
    if len(chosen) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    action = chosen[0]
    if flags.delete_config:
        raise click.UsageError('Option "[bootstrap-server]" can\'t be used with option "[delete-config]"')
    if action == "create" and flags.topic == "":
        raise BadValueError("The given topic name '' cannot be represented in a request.")
    if action in ("create", "delete", "alter"):
        require(values, "topic")
    if flags.exact:
        require(values, "topic")
    if action == "alter":
        if flags.config:
            raise click.UsageError(
                'Option combination "[bootstrap-server],[config]" can\'t be used with option "[alter]" '
                "(the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
            )
        require(values, "partitions")
    if action == "describe" and flags.if_exists and not (flags.topic or flags.topic_id):
        require(values, "topic")
    exclude(values, "topics-with-overrides", *(each.replace("_", "-") for each in _PARTITION_FILTERS))
    exclude(values, "wait", "dry-run", "topic-id")
    exclude(values, "replica-assignment", *(["partitions", "replication-factor"] if flags.create else []))
    _check_belonging(values, action)


def _check_belonging(values: Mapping[str, object], action: str) -> None:
    for name, actions in _REFUSED_ELSEWHERE.items():
        if action not in actions:
            exclude(values, name, action)


# -- list and describe ------------------------------------------------------------------------------------


def _list(admin: "TopicsClient", flags: Flags) -> View:
    listings = {each.name: each for each in admin.list_topics()}
    names = _matching(listings, flags.topic, exclude_internal=flags.exclude_internal, exact=flags.exact)
    rows = [
        {
            "name": name,
            "id": topic_id_text(listings[name].topic_id),
            "internal": listings[name].is_internal,
        }
        for name in names
    ]
    return View("topics", names or [""], rows)


def _describe(admin: "Admin", flags: Flags) -> View:
    from pkafka.clients.admin.results import ConfigResource, ResourceType

    topics = _topics_to_describe(admin, flags)
    show_partitions = not flags.topics_with_overrides
    values = flags._asdict()
    show_topics = not any(values[name] for name in _PARTITION_FILTERS)
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
    needs_configs = show_topics or flags.under_min_isr_partitions or flags.at_min_isr_partitions
    described = admin.describe_configs(resources) if needs_configs and resources else {}
    live = set(admin.cluster.view.brokers)
    moving = _reassignments(admin)
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for topic in topics:
        entries = described.get(ConfigResource(ResourceType.TOPIC, topic.name), [])
        if isinstance(entries, ApiError):
            raise entries
        overrides = {each.name: each.value for each in entries if not each.is_default}
        if flags.topics_with_overrides and not overrides:
            continue
        shown = [
            each
            for each in topic.partitions
            if show_partitions and _is_wanted(flags, topic.name, each, entries, live, moving)
        ]
        if show_topics:
            lines.append(_topic_line(topic, overrides, moving))
        elif not shown:
            continue
        lines += [_partition_line(topic.name, each, moving) for each in shown]
        rows.append(_topic_row(topic, overrides, shown, moving))
    tables = [Table(rows, _TOPIC_COLUMNS)] if show_topics else []
    if show_partitions:
        tables.append(Table(_partition_rows(rows), _PARTITION_COLUMNS))
    return View("topics", lines, rows, tables=tables)


def _topics_to_describe(admin: "Admin", flags: Flags) -> "list[TopicDescription]":
    if flags.topic_id:
        try:
            topic_id = parse_topic_id(flags.topic_id)
        except ValueError as error:
            raise click.UsageError(f"--topic-id: {error}") from error
        found = admin.describe_topic_id(topic_id)
        if isinstance(found, ApiError):
            if flags.if_exists:
                return []
            raise CommandError(f"TopicId '{flags.topic_id}' does not exist as expected")
        return [found]
    names = _existing(admin, flags, required=not flags.if_exists)
    described = admin.describe_topics(names, partitions_per_response=flags.partition_size_limit_per_response)
    topics: list[TopicDescription] = []
    for name in names:
        outcome = described[name]
        if isinstance(outcome, ApiError):
            # Deleted between the list and the description.
            if outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise outcome
        topics.append(outcome)
    return topics


def _reassignments(admin: "Admin") -> "dict[TopicPartition, Reassignment]":
    from pkafka.clients.errors import UnsupportedApiError

    try:
        return admin.list_partition_reassignments()
    except UnsupportedApiError:
        return {}
    except ApiError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise


def _is_wanted(
    flags: Flags,
    topic: str,
    partition: "PartitionDescription",
    entries: "Sequence[ConfigEntry]",
    live: set[int],
    moving: "Mapping[TopicPartition, Reassignment]",
) -> bool:
    isr = len(partition.isr)
    if flags.under_replicated_partitions:
        from pkafka.tools.metadata_view import is_under_replicated

        move = moving.get(TopicPartition(topic, partition.partition))
        return is_under_replicated(partition.replicas, partition.isr, move.adding if move else ())
    if flags.unavailable_partitions:
        return partition.leader is None or partition.leader not in live
    if flags.under_min_isr_partitions or flags.at_min_isr_partitions:
        least = next((int(each.value or 1) for each in entries if each.name == "min.insync.replicas"), 1)
        if flags.at_min_isr_partitions:
            return isr == least
        # Nobody can write without a leader, whatever the ISR is.
        return partition.leader is None or isr < least
    return True


def _replication_factor(
    topic: str, partition: "PartitionDescription", moving: "Mapping[TopicPartition, Reassignment]"
) -> int:
    """The number of replicas, without those that a reassignment is only adding."""
    move = moving.get(TopicPartition(topic, partition.partition))
    if move is None or not move.adding:
        return len(partition.replicas)
    return len(set(partition.replicas) - set(move.adding))


def _move(
    topic: str, partition: "PartitionDescription", moving: "Mapping[TopicPartition, Reassignment]"
) -> "Reassignment":
    """What a reassignment does to a partition: nothing where none is under way."""
    from pkafka.clients.admin.results import Reassignment

    none = Reassignment(partition.replicas, (), ())
    return moving.get(TopicPartition(topic, partition.partition), none)


def _topic_line(
    topic: "TopicDescription",
    overrides: Mapping[str, str | None],
    moving: "Mapping[TopicPartition, Reassignment]",
) -> str:
    factor = _replication_factor(topic.name, topic.partitions[0], moving) if topic.partitions else 0
    cells = [f"Topic: {topic.name}"]
    if topic.topic_id != NO_TOPIC_ID:
        cells.append(f"TopicId: {topic_id_text(topic.topic_id)}")
    cells.append(f"PartitionCount: {len(topic.partitions)}")
    cells.append(f"ReplicationFactor: {factor}")
    cells.append("Configs: " + ",".join(f"{key}={value}" for key, value in overrides.items()))
    return "\t".join(cells)


def _partition_line(
    topic: str, partition: "PartitionDescription", moving: "Mapping[TopicPartition, Reassignment]"
) -> str:
    leader = "none" if partition.leader is None else partition.leader
    cells = [
        "",
        f"Topic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {leader}",
        f"Replicas: {_joined(partition.replicas)}",
        f"Isr: {_joined(partition.isr)}",
    ]
    move = moving.get(TopicPartition(topic, partition.partition))
    if move is not None:
        cells.append(f"Adding Replicas: {_joined(move.adding)}")
        cells.append(f"Removing Replicas: {_joined(move.removing)}")
    cells.append("Elr: " + ("N/A" if partition.elr is None else _joined(partition.elr)))
    last = partition.last_known_elr
    cells.append("LastKnownElr: " + ("N/A" if last is None else _joined(last)))
    return "\t".join(cells)


def _topic_row(
    topic: "TopicDescription",
    overrides: Mapping[str, str | None],
    shown: "Sequence[PartitionDescription]",
    moving: "Mapping[TopicPartition, Reassignment]",
) -> dict[str, object]:
    factor = _replication_factor(topic.name, topic.partitions[0], moving) if topic.partitions else 0
    return {
        "name": topic.name,
        "id": topic_id_text(topic.topic_id),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": factor,
        "configs": dict(overrides),
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "replicas": each.replicas,
                "isr": each.isr,
                "adding_replicas": _move(topic.name, each, moving).adding,
                "removing_replicas": _move(topic.name, each, moving).removing,
                "elr": each.elr,
                "last_known_elr": each.last_known_elr,
            }
            for each in shown
        ],
    }


def _partition_rows(topics: "Sequence[Mapping[str, Any]]") -> list[dict[str, object]]:
    """One row per partition, with what it has from its topic: without rows inside rows, for a table."""
    return [
        {
            "name": topic["name"],
            "id": topic["id"],
            "partition": each["partition"],
            "leader": each["leader"],
            "replicas": each["replicas"],
            "isr": each["isr"],
            "configs": topic["configs"],
        }
        for topic in topics
        for each in topic["partitions"]
    ]


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(str(broker) for broker in brokers)


# -- create, alter, delete --------------------------------------------------------------------------------


def _create(admin: "Admin", common: Common, flags: Flags) -> None:
    from pkafka.clients.admin.results import NewTopic

    name = flags.topic or ""
    factor, count = flags.replication_factor, flags.partitions
    if factor is not None and not 1 <= factor <= _REPLICATION_FACTOR_MAX:
        raise CommandError("The replication factor must be between 1 and 32767 inclusive")
    if count is not None and count < 1:
        raise CommandError("The partitions must be greater than 0")
    assignment = parse_replica_assignment(flags.replica_assignment) if flags.replica_assignment else None
    configs = _parse_configs(flags.config)
    lines = []
    if ("." in name or "_" in name) and common.output in _TEXT_FORMS:
        # Before the outcome, as Kafka's tool: it explains a collision.
        line(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    topic = NewTopic(
        name,
        -1 if count is None else count,
        -1 if factor is None else factor,
        None if assignment is None else dict(enumerate(assignment)),
        configs,
    )
    outcome = admin.create_topics([topic], validate_only=flags.dry_run, retry_on_quota_violation=False)[name]
    created = not isinstance(outcome, ApiError)
    if isinstance(outcome, ApiError):
        exists = outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
        if not (flags.if_not_exists and exists):
            if exists:
                outcome.add_note("--if-not-exists leaves it as it is")
            raise outcome
        row: dict[str, object] = {
            "name": name,
            "created": False,
            "id": None,
            "partition_count": None,
            "replication_factor": None,
        }
    else:
        lines.append(f"Would create topic {name}." if flags.dry_run else f"Created topic {name}.")
        row = {
            "name": name,
            "created": created and not flags.dry_run,
            "id": topic_id_text(outcome.topic_id),
            "partition_count": outcome.partitions,
            "replication_factor": outcome.replication_factor,
        }
    _show_change(common, lines, [row], dry_run=flags.dry_run)


def _alter(admin: "Admin", common: Common, flags: Flags) -> None:
    names = _existing(admin, flags, required=not flags.if_exists)
    count = flags.partitions or 0
    assignments: dict[str, list[tuple[int, ...]]] | None = None
    if flags.replica_assignment:
        wanted = parse_replica_assignment(flags.replica_assignment)
        described = admin.describe_topics(names)
        assignments = {}
        for name in names:
            topic = described[name]
            if isinstance(topic, ApiError):
                raise topic
            assignments[name] = wanted[len(topic.partitions) :]
    counts = dict.fromkeys(names, count)
    outcomes = (
        admin.create_partitions(
            counts,
            assignments=assignments,
            validate_only=flags.dry_run,
            retry_on_quota_violation=False,
        )
        if counts
        else {}
    )
    _raise_first(outcomes.values())
    lines = [f"Would grow topic {name} to {count} partitions." for name in names] if flags.dry_run else []
    rows = [{"name": name, "partition_count": count} for name in names]
    _show_change(common, lines, rows, dry_run=flags.dry_run)


def _delete(admin: "Admin", common: Common, flags: Flags) -> list[str]:
    """Delete topics; returns which."""
    names = _existing(admin, flags, required=not flags.if_exists)
    lines: list[str] = []
    if flags.dry_run:
        lines = [f"Would delete topic {name}." for name in names]
    elif names:
        if not flags.exact:
            _ask(names, flags)
        _raise_first(admin.delete_topics(names, retry_on_quota_violation=False).values())
    rows = [{"name": name, "deleted": not flags.dry_run} for name in names]
    _show_change(common, lines, rows, dry_run=flags.dry_run)
    return names


def _ask(names: Sequence[str], flags: Flags) -> None:
    """Make sure that topics are meant which an expression takes in without naming them: a dot is any letter.

    Only on a terminal. Scripts rely on Kafka's expressions; they are told on standard error.

    Raises:
        CommandError: they are not.
    """
    from pkafka.cli.kit.confirmation import agrees, can_ask

    unnamed = sorted(set(names) - set((flags.topic or "").split(",")))
    if not unnamed or flags.yes or compat_39():
        return
    said = f"--topic {flags.topic} is a regular expression, which takes in {', '.join(unnamed)} too"
    if not can_ask():
        note(f"{said} (--exact means one name)")
        return
    note(said)
    if not agrees(f"Delete {len(names)} topics with all records?"):
        raise CommandError("nothing was deleted", hint="--exact means one name, --yes asks nothing")


def _show_change(
    common: Common, lines: Sequence[str], rows: Sequence[Mapping[str, object]], *, dry_run: bool
) -> None:
    if common.output in _TEXT_FORMS:
        for each in lines:
            line(each)
    else:
        common.show(View("topics", lines, rows, {"dry_run": dry_run}))


def _raise_first(outcomes: Iterable[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, ApiError):
            raise outcome


# -- names ------------------------------------------------------------------------------------------------


def _existing(admin: "Admin", flags: Flags, *, required: bool) -> list[str]:
    known = [each.name for each in admin.list_topics()]
    names = _matching(known, flags.topic, exclude_internal=flags.exclude_internal, exact=flags.exact)
    if not names and flags.topic and required:
        from pkafka.cli.kit.spelling import did_you_mean

        meant = did_you_mean(flags.topic, known)
        raise CommandError(f"Topic '{flags.topic}' does not exist as expected", hint=meant)
    return names


def _parse_configs(items: Iterable[str]) -> dict[str, str]:
    """What ``--config`` says, as Kafka's tool reads it: one ``=`` with something behind it."""
    values: dict[str, str] = {}
    for item in items:
        parts = _EQUALS.split(item)
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            raise BadValueError(
                "requirement failed: Invalid topic config: all configs to be added must be in the format"
                ' "key=val".'
            )
        values[trim(parts[0])] = trim(parts[1])
    return values


def _matching(
    known: Iterable[str], pattern: str | None, *, exclude_internal: bool, exact: bool = False
) -> list[str]:
    """The sorted names that a list of regular expressions takes in; with ``exact`` the one that it is."""
    wanted = re.compile(re.escape(pattern or "")) if exact else topic_pattern(pattern or ".*")
    return sorted(
        name
        for name in known
        if wanted.fullmatch(name) and not (exclude_internal and name in INTERNAL_TOPICS)
    )


def parse_replica_assignment(text: str) -> list[tuple[int, ...]]:
    """Read ``1:2,2:3``: the brokers per partition, all of one length and none twice.

    Raises:
        CommandError: it breaks one of these rules.
    """
    partitions: list[tuple[int, ...]] = []
    for index, part in enumerate(split(text, ",")):
        try:
            brokers = tuple(parse_int(trim(broker)) for broker in split(part, ":"))
        except ValueError as error:
            raise CommandError(str(error), hint="like 0:1,1:0", status=ExitStatus.USAGE) from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            raise CommandError(f"Partition replica lists may not contain duplicate entries: {_joined(twice)}")
        if index and len(brokers) != len(partitions[0]):
            raise CommandError(f"Partition {index} has different replication factor: {list(brokers)}")
        partitions.append(brokers)
    return partitions
