"""pk-topics --delete."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pkafka.cli.kit.exit_status import compat_39
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import note
from pkafka.cli.topics.changes import raise_first, show_change
from pkafka.cli.topics.flags import Flags
from pkafka.cli.topics.names import existing

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


def delete(admin: "Admin", common: Common, flags: Flags) -> list[str]:
    """Delete topics.

    Returns:
        The names of the topics that were deleted, or with a dry run would be.
    """
    names = existing(admin, flags, required=not flags.if_exists)
    lines: list[str] = []
    if flags.dry_run:
        lines = [f"Would delete topic {name}." for name in names]
    elif names:
        if not flags.exact:
            _ask(names, flags)
        raise_first(admin.delete_topics(names, retry_on_quota_violation=False).values())
    rows = [{"name": name, "deleted": not flags.dry_run} for name in names]
    show_change(common, lines, rows, dry_run=flags.dry_run)
    return names


def _ask(names: Sequence[str], flags: Flags) -> None:
    """Ask before topics are deleted that an expression takes in without naming them: a dot is any letter.

    The command asks only at a terminal. Scripts rely on Kafka's expressions: there it prints a note to standard error.

    Raises:
        CommandError: the answer is no.
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
