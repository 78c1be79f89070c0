"""pk-topics --create."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.kafka_command import BadValueError, CommandError
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import line
from pkafka.cli.topics.changes import TEXT_FORMS, parse_replica_assignment, show_change
from pkafka.cli.topics.flags import Flags
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.text import trim
from pkafka.model import topic_id_text

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

_EQUALS: Final = re.compile(r"\s*=\s*", re.ASCII)
_REPLICATION_FACTOR_MAX: Final = 32_767


def create(admin: "Admin", common: Common, flags: Flags) -> None:
    """Create a topic, and print what was created."""
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
    if ("." in name or "_" in name) and common.output in TEXT_FORMS:
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
    show_change(common, lines, [row], dry_run=flags.dry_run)


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
