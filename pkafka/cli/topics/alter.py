"""pk-topics --alter."""

from typing import TYPE_CHECKING

from pkafka.cli.kit.options import Common
from pkafka.cli.topics.changes import parse_replica_assignment, raise_first, show_change
from pkafka.cli.topics.flags import Flags
from pkafka.cli.topics.names import existing
from pkafka.errors import ApiError

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


def alter(admin: "Admin", common: Common, flags: Flags) -> None:
    """Give topics more partitions."""
    names = existing(admin, flags, required=not flags.if_exists)
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
    raise_first(outcomes.values())
    lines = [f"Would grow topic {name} to {count} partitions." for name in names] if flags.dry_run else []
    rows = [{"name": name, "partition_count": count} for name in names]
    show_change(common, lines, rows, dry_run=flags.dry_run)
