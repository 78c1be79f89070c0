"""From the flags of pk-acls to the rules that they mean."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

from pkafka.cli.acls.flags import Flags
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.java.text import trim
from pkafka.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    Entry,
    Operation,
    PatternFilter,
    PatternType,
    Permission,
    ResourceType,
)
from pkafka.security.principal import Principal

OPERATIONS: Final = {one.title.upper(): one for one in Operation}
"""By name; case does not count."""
CLUSTER_FILTER: Final = PatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
_OF_PRODUCER: Final = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_OF_CONSUMER: Final = (Operation.READ, Operation.DESCRIBE)


def resources(flags: Flags, *, required: bool) -> list[PatternFilter]:
    """The resources that the flags name.

    Raises:
        click.UsageError: they name none, and one is required.
    """
    kind = flags.pattern_type
    named: list[PatternFilter] = []
    named += [PatternFilter(ResourceType.TOPIC, trim(name), kind) for name in flags.topic]
    if kind is PatternType.LITERAL and (flags.cluster or flags.idempotent):
        named.append(CLUSTER_FILTER)
    named += [PatternFilter(ResourceType.GROUP, trim(name), kind) for name in flags.group]
    named += [PatternFilter(ResourceType.TRANSACTIONAL_ID, name, kind) for name in flags.transactional_id]
    named += [
        PatternFilter(ResourceType.DELEGATION_TOKEN, trim(name), kind) for name in flags.delegation_token
    ]
    named += [PatternFilter(ResourceType.USER, trim(name), kind) for name in flags.user_principal]
    if required and not named:
        raise click.UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or"
            " --delegation-token <Delegation Token ID>"
        )
    return list(dict.fromkeys(named))


def wanted(flags: Flags) -> dict[PatternFilter, list[Entry]]:
    """The entries that are to be added or removed, by resource.

    Raises:
        click.UsageError: an operation does not suit a resource, or a flag is missing.
        CommandError: a principal is none.
    """
    rules: dict[PatternFilter, list[Entry]] = {}
    if flags.producer or flags.consumer:
        named = resources(flags, required=True)
        if flags.producer:
            _add_producer(rules, flags, named)
        if flags.consumer:
            _add_consumer(rules, flags, named)
    else:
        entries = _entries(flags, operations(flags))
        rules = dict.fromkeys(resources(flags, required=True), entries)
    for resource, entries in rules.items():
        _check_operations(resource.type, entries)
    return rules


def addable(flags: Flags) -> dict[PatternFilter, list[Entry]]:
    """As :func:`wanted`, of ``--add``.

    Raises:
        click.UsageError, CommandError: as :func:`wanted`; or no principal is named, or the type is one of filters.
    """
    kind = flags.pattern_type
    if kind in (PatternType.ANY, PatternType.MATCH):
        raise click.UsageError(
            f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls."
        )
    rules = wanted(flags)
    if not all(rules.values()):
        raise click.UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    return rules


def operations(flags: Flags) -> list[Operation]:
    """The operations that ``--operation`` names; All when it is left out.

    Raises:
        click.UsageError: there is no such operation.
    """
    found = []
    for name in flags.operation or (Operation.ALL.title,):
        operation = OPERATIONS.get(trim(name).upper())
        if operation is None:
            titles = ", ".join(one.title for one in Operation if one is not Operation.ANY)
            raise click.UsageError(f"There is no operation {name}; operations are {titles}")
        found.append(operation)
    return found


def principals(texts: Iterable[str]) -> list[Principal]:
    """Read the values of ``--principal`` and its kin.

    Raises:
        CommandError: one is no principal.
    """
    try:
        return [Principal.parse(trim(one)) for one in texts]
    except ValueError as error:
        raise CommandError(str(error), hint="like User:alice") from None


def _add_producer(
    rules: dict[PatternFilter, list[Entry]], flags: Flags, named: Iterable[PatternFilter]
) -> None:
    for resource in named:
        if resource.type is ResourceType.TOPIC:
            rules[resource] = _entries(flags, _OF_PRODUCER)
        elif resource.type is ResourceType.TRANSACTIONAL_ID:
            rules[resource] = _entries(flags, _OF_PRODUCER[:2])
    if flags.idempotent:
        rules[CLUSTER_FILTER] = _entries(flags, (Operation.IDEMPOTENT_WRITE,))


def _add_consumer(
    rules: dict[PatternFilter, list[Entry]], flags: Flags, named: Iterable[PatternFilter]
) -> None:
    for resource in named:
        if resource.type is ResourceType.TOPIC:
            entries = _entries(flags, _OF_CONSUMER)
        elif resource.type is ResourceType.GROUP:
            entries = _entries(flags, _OF_CONSUMER[:1])
        else:
            continue
        rules[resource] = list(dict.fromkeys([*rules.get(resource, ()), *entries]))


def _entries(flags: Flags, wanted: Iterable[Operation]) -> list[Entry]:
    what = list(wanted)
    found = []
    for texts, hosts, permission in (
        (flags.allow_principal, flags.allow_host, Permission.ALLOW),
        (flags.deny_principal, flags.deny_host, Permission.DENY),
    ):
        found += [
            Entry(str(principal), host, operation, permission)
            for principal in principals(texts)
            for operation in what
            for host in (list(map(trim, hosts)) or [WILDCARD])
        ]
    return list(dict.fromkeys(found))


def _check_operations(kind: ResourceType, entries: Iterable[Entry]) -> None:
    supported: Mapping[ResourceType, tuple[Operation, ...]] = SUPPORTED_OPERATIONS
    allowed = (*supported[kind], Operation.ALL)
    if any(entry.operation not in allowed for entry in entries):
        titles = ", ".join(one.title for one in allowed)
        raise click.UsageError(f"ResourceType {kind.name} only supports operations {titles}")
