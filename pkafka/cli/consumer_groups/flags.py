"""The flags of pk-consumer-groups, and which of them go together."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import click

from pkafka.cli.kit.options import exclude
from pkafka.model import TopicPartition

EXAMPLES: Final = {
    "list": "--list --state Empty,Dead",
    "describe": "--describe --group billing --max-lag 1000 --wait 1m",
    "delete": "--delete --group billing",
    "reset-offsets": "--reset-offsets --group billing --topic orders --to-datetime 2026-01-31T09:00:00.000 --execute",
    "delete-offsets": "--delete-offsets --group billing --topic orders",
}
_SCENARIOS: Final = (
    *("to-offset", "shift-by", "to-datetime", "by-duration"),
    *("to-earliest", "to-latest", "to-current", "from-file"),
)
REFUSED_ELSEWHERE: Final[Mapping[str, Collection[str]]] = {
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "watch": ("describe",),
    "only-lagging": ("describe",),
    "max-lag": ("describe",),
    "wait": ("describe", "delete", "reset-offsets"),
    "isolation-level": ("describe",),
    "yes": ("delete", "reset-offsets"),
}
"""Flags and the actions without which they are refused."""

IGNORED_ELSEWHERE: Final[Mapping[str, Collection[str]]] = {
    "group": ("describe", "delete", "reset-offsets", "delete-offsets"),
    "all-groups": ("describe", "delete", "reset-offsets"),
    "topic": ("reset-offsets", "delete-offsets"),
    "all-topics": ("reset-offsets",),
    **dict.fromkeys(_SCENARIOS, ("reset-offsets",)),
    "dry-run": ("delete", "reset-offsets", "delete-offsets"),
    "execute": ("reset-offsets",),
    "export": ("reset-offsets",),
}
"""As Kafka's tool does; but for --group and --topic, about which it has rules of its own."""


class Flags(NamedTuple):
    """What was given beside the connection."""

    list: bool
    describe: bool
    delete: bool
    reset_offsets: bool
    delete_offsets: bool
    group: tuple[str, ...]
    all_groups: bool
    topic: tuple[str, ...]
    all_topics: bool
    offsets: bool
    members: bool
    state: str | None
    type: str | None
    verbose: bool
    to_earliest: bool
    to_latest: bool
    to_current: bool
    to_offset: int | None
    shift_by: int | None
    to_datetime: str | None
    by_duration: str | None
    from_file: str | None
    dry_run: bool
    execute: bool
    export: bool
    watch: str | None
    only_lagging: bool
    max_lag: int | None
    wait: str | None
    isolation_level: str | None
    yes: bool


def action_of(flags: Flags) -> str:
    """The action, of flags that were checked."""
    values = flags._asdict()
    return next(name for name in EXAMPLES if values[_field(name)])


def check(flags: Flags) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: in Kafka's words.
    """
    values = flags._asdict()
    _check_scope(flags)
    if flags.reset_offsets:
        if flags.dry_run and flags.execute:
            raise click.UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        given = {name: _is_given(values[name]) for name in map(_field, _SCENARIOS)}
        for name in _SCENARIOS:
            exclude(given, name, *(other for other in _SCENARIOS if other != name))
        if not any(given.values()):
            choices = ", ".join(f"[{name}]" for name in _SCENARIOS)
            raise click.UsageError(
                f"Option '[reset-offsets]' requires one of the following scenarios: [{choices}]"
            )
        if not (flags.all_topics or flags.topic or flags.from_file):
            raise click.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
        named_topics(flags.topic)
    exclude(values, "group", "all-groups", "list")
    exclude(values, "topic", "list", "describe")
    if sum(1 for name in EXAMPLES if values[_field(name)]) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets"
        )
    for name, actions in REFUSED_ELSEWHERE.items():
        if _is_given(values[_field(name)]) and action_of(flags) not in actions:
            raise click.UsageError(
                f"Option(s) [{name}] are unavailable given other options on the command line"
            )


def _field(flag: str) -> str:
    return flag.replace("-", "_")


def _is_given(value: object) -> bool:
    return value is not None and value is not False  # which 0 is not


def _check_scope(flags: Flags) -> None:
    values = flags._asdict()
    for name in ("describe", "delete", "reset_offsets"):
        if values[name] and not flags.group and not flags.all_groups:
            shown = name.replace("_", "-")
            raise click.UsageError(f"Option [{shown}] takes one of these options: [all-groups], [group]")
    if flags.describe:
        if sum((flags.members, flags.offsets, flags.state is not None)) > 1:
            raise click.UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if flags.state:
            raise click.UsageError("Option [describe] does not take a value for [state]")
    if flags.delete and flags.topic:
        raise click.UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if flags.delete_offsets:
        if not flags.group or not flags.topic:
            raise click.UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
        if len(flags.group) > 1:
            raise click.UsageError("Found multiple arguments for option group, but you asked for only one")


def named_topics(topics: Sequence[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that ``topic:0,1`` names, and the topics that stand for themselves.

    Raises:
        click.UsageError: a partition is no number.
    """
    from pkafka.tools.groups.offset_reset import ResetError, split_topics

    try:
        return split_topics(topics)
    except ResetError as error:
        raise click.UsageError(str(error)) from error
