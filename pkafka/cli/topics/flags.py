"""The flags of pk-topics, and which of them go together."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import click

from pkafka.cli.kit.kafka_command import BadValueError
from pkafka.cli.kit.options import exclude, require

EXAMPLES: Final = {
    "list": "--list --exclude-internal",
    "describe": "--describe --topic orders",
    "create": "--create --topic orders --partitions 6 --replication-factor 3 --config retention.ms=86400000",
    "alter": "--alter --topic orders --partitions 12",
    "delete": "--delete --topic orders --exact --wait 30s",
}
REFUSED_ELSEWHERE: Final[Mapping[str, Collection[str]]] = {
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
    "held-back-partitions": {"describe"},
    "topics-with-overrides": {"describe"},
    "exact": {"list", "describe", "alter", "delete"},
    "yes": {"delete"},
    "dry-run": {"create", "alter", "delete"},
    "wait": {"create", "alter", "delete", "describe"},
}
"""Flags and the actions without which they are refused."""

IGNORED_ELSEWHERE: Final = {"partition-size-limit-per-response": ("describe",)}
PARTITION_FILTERS: Final = (
    "under_replicated_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
    "unavailable_partitions",
    "held_back_partitions",
)


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
    held_back_partitions: bool
    topics_with_overrides: bool
    partition_size_limit_per_response: int
    dry_run: bool
    wait: str | None
    exact: bool
    yes: bool


def check(flags: Flags) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: in Kafka's words.
    """
    values = flags._asdict()
    chosen = [name for name in EXAMPLES if values[name]]
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
    exclude(values, "topics-with-overrides", *(each.replace("_", "-") for each in PARTITION_FILTERS))
    exclude(values, "wait", "dry-run", "topic-id")
    exclude(values, "replica-assignment", *(["partitions", "replication-factor"] if flags.create else []))
    _check_belonging(values, action)


def _check_belonging(values: Mapping[str, object], action: str) -> None:
    for name, actions in REFUSED_ELSEWHERE.items():
        if action not in actions:
            exclude(values, name, action)
