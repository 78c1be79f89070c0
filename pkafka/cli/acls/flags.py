"""The flags of pk-acls, and which of them go together."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import click

from pkafka.cli.kit.kafka_command import BadValueError
from pkafka.cli.kit.options import exclude, require
from pkafka.security.acl import PatternType

EXAMPLES: Final = {
    "add": "--add --allow-principal User:alice --producer --topic orders",
    "remove": "--remove --allow-principal User:alice --operation Write --topic orders --force",
    "list": "--list --topic orders",
    "explain": "--explain --principal User:alice --host 10.0.0.7 --operation Write --topic orders",
}
BELONGS: Final[Mapping[str, Collection[str]]] = {
    "allow-principal": ("add", "remove"),
    "deny-principal": ("add", "remove"),
    "allow-host": ("add", "remove"),
    "deny-host": ("add", "remove"),
    "producer": ("add", "remove"),
    "consumer": ("add", "remove"),
    "idempotent": ("add", "remove"),
    "operation": ("add", "remove", "explain"),
    "force": ("remove",),
    "dry-run": ("add", "remove"),
    "principal": ("list", "explain"),
    "host": ("explain",),
    "super-user": ("explain",),
    "allow-everyone": ("explain",),
    "resource-pattern-type": ("add", "remove", "list"),
    "authorizer": ("add", "remove", "list"),
    "authorizer-properties": ("add", "remove", "list"),
}
"""The actions that a flag goes with; one that is not here goes with all."""
_OF_CHANGES: Final = ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")


class Flags(NamedTuple):
    """What was given beside the connection."""

    add: bool
    remove: bool
    list: bool
    explain: bool
    topic: tuple[str, ...]
    group: tuple[str, ...]
    cluster: bool
    transactional_id: tuple[str, ...]
    delegation_token: tuple[str, ...]
    user_principal: tuple[str, ...]
    resource_pattern_type: str
    operation: tuple[str, ...]
    allow_principal: tuple[str, ...]
    deny_principal: tuple[str, ...]
    allow_host: tuple[str, ...]
    deny_host: tuple[str, ...]
    principal: tuple[str, ...]
    producer: bool
    consumer: bool
    idempotent: bool
    force: bool
    dry_run: bool
    host: str | None
    super_user: tuple[str, ...]
    allow_everyone: bool
    authorizer: str | None
    authorizer_properties: tuple[str, ...]

    @property
    def pattern_type(self) -> PatternType:
        """How the names of resources are meant.

        Raises:
            click.UsageError: there is no such type.
        """
        name = self.resource_pattern_type.upper()
        if name not in PatternType.__members__:
            names = "|".join(PatternType.__members__)
            raise BadValueError(
                f"Cannot parse argument '{self.resource_pattern_type}' of option resource-pattern-type"
                f" ({names})"
            )
        return PatternType[name]


def check(flags: Flags, *, has_brokers: bool) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: in Kafka's words.
    """
    values = flags._asdict()
    if has_brokers and flags.authorizer is not None:
        raise click.UsageError("Only one of --bootstrap-server or --authorizer must be specified")
    if has_brokers and flags.authorizer_properties:
        raise click.UsageError("The --authorizer-properties option can only be used with --authorizer option")
    if sum((flags.add, flags.remove, flags.list, flags.explain)) != 1:
        raise click.UsageError("Command must include exactly one action: --list, --add, --remove. ")
    exclude(values, "list", *_OF_CHANGES)
    exclude(values, "producer", "operation", "deny-principal", "deny-host")
    exclude(values, "consumer", "operation", "deny-principal", "deny-host")
    if flags.explain:
        exclude(values, "explain", *_OF_CHANGES, "idempotent", "dry-run", "force", "authorizer-properties")
        require(values, "principal", "operation")
        return
    if flags.principal and not flags.list:
        raise click.UsageError("The --principal option is only available if --list is set")
    exclude(values, "list", "dry-run")
    for name in ("host", "super-user", "allow-everyone"):
        if values[name.replace("-", "_")]:
            raise click.UsageError(f"The --{name} option is only available if --explain is set")
    if flags.producer and not flags.topic:
        raise click.UsageError("With --producer you must specify a --topic")
    if flags.idempotent and not flags.producer:
        raise click.UsageError("The --idempotent option is only available if --producer is set")
    if flags.consumer and not _is_whole_consumer(flags):
        raise click.UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id"
            " option should be specified."
        )


def _is_whole_consumer(flags: Flags) -> bool:
    stray = not flags.producer and (flags.cluster or flags.transactional_id)
    return bool(flags.topic and flags.group and not stray)
