"""What pk-configs --alter says of the keys that it changed, in a broker or in ZooKeeper."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pkafka.cli.configs.entities import Entities
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, View, line
from pkafka.cli.kit.spelling import did_you_mean


class Change(NamedTuple):
    """What is done to one key; the value is empty for one that is deleted, and None for a secret."""

    name: str
    op: str
    value: str | None


def deleted(keys: Iterable[str]) -> list[Change]:
    """The changes for keys that are set back to their defaults."""
    return [Change(key, "DELETE", "") for key in keys]


def refuse_unset(removed: Iterable[str], present: Iterable[str]) -> None:
    """Refuse to delete a key that is not set, as Kafka's tool does.

    Raises:
        CommandError: a key is not set.
    """
    known = set(present)
    unset = [key for key in removed if key not in known]
    if unset:
        hint = did_you_mean(unset[0], known)
        raise CommandError(f"Invalid config(s): {','.join(unset)}", hint=hint)


def show_changes(
    common: Common, entities: Entities, what: str, changes: Sequence[Change], *, dry_run: bool
) -> None:
    """Print what was changed, or would be.

    Args:
        what: the words behind Kafka's "Completed updating".
    """
    if common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE):
        line(f"Would update {what}" if dry_run else f"Completed updating {what}")
        return
    rows = [{"name": each.name, "op": each.op, "value": each.value} for each in changes]
    extra = {
        "entity_type": entities.kind,
        "entity_name": entities.name or None,
        "entities": [{"type": kind, "name": name or None} for kind, name in entities.pairs],
        "dry_run": dry_run,
    }
    common.show(View("changes", [], rows, extra))
