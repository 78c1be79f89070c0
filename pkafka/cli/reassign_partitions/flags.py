"""The flags of pk-reassign-partitions, and which of them go together."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

if TYPE_CHECKING:
    from pkafka.tools.reassignment.plan import Wanted

EXAMPLES: Final = {
    "generate": "--generate --topics-to-move-json-file topics.json --broker-list 1,2,3",
    "execute": "--execute --reassignment-json-file plan.json --throttle 10000000",
    "verify": "--verify --reassignment-json-file plan.json --wait 10m",
    "cancel": "--cancel --reassignment-json-file plan.json",
    "list": "--list",
}
_NEEDED: Final = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
BELONGS: Final[Mapping[str, Collection[str]]] = {
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
"""Flags and the actions that they belong to."""


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


def check(flags: Flags) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: says which.
    """
    values = flags._asdict()
    chosen = [name for name in EXAMPLES if values[name]]
    if len(chosen) != 1:
        names = ", ".join(f"--{name}" for name in EXAMPLES)
        raise click.UsageError(f"Command must include exactly one action: {names}")
    action = chosen[0]
    for name in _NEEDED[action]:
        if values[name.replace("-", "_")] is None:
            raise click.UsageError(f'Missing required argument "[{name}]"')
    for name, actions in BELONGS.items():
        if action not in actions and values[name.replace("-", "_")] not in (None, False):
            raise click.UsageError(f'Option "--{name}" can\'t be used with action "--{action}"')


def wanted_by(flags: Flags) -> "Wanted":
    """What the file of ``--reassignment-json-file`` asks for."""
    from pkafka.tools.reassignment.plan import parse_wanted

    return parse_wanted(Path(flags.reassignment_json_file or "").read_bytes())
