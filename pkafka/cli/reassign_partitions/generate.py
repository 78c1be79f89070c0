"""pk-reassign-partitions --generate."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, View, choose_format, hint
from pkafka.cli.reassign_partitions.flags import Flags

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

# CSV has its columns without any row, too.
_COLUMNS: Final = ("topic", "partition", "replicas", "proposed_replicas")


def generate_plan(admin: "Admin", common: Common, flags: Flags) -> None:
    """Propose brokers for the partitions of topics."""
    from pkafka.tools.reassignment.plan import parse_brokers, parse_topics, to_json
    from pkafka.tools.reassignment.run import generate

    data = Path(flags.topics_to_move_json_file or "").read_bytes()
    brokers = parse_brokers(flags.broker_list or "")
    found = generate(admin, parse_topics(data), brokers, use_racks=not flags.disable_rack_aware)
    lines = [
        "Current partition replica assignment",
        to_json(found.current),
        "",
        "Proposed partition reassignment configuration",
        to_json(found.proposed),
    ]
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": found.current[each],
            "proposed_replicas": found.proposed.get(each, ()),
        }
        for each in sorted(found.current)
    ]
    common.show(View("partitions", lines, rows, {}, _COLUMNS))
    if choose_format(common.output) is OutputFormat.TABLE:
        hint("--output text prints both as JSON, which --execute takes from a file.")
