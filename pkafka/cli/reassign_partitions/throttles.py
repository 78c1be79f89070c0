"""How --verify and --cancel remove throttles."""

from typing import TYPE_CHECKING

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import note
from pkafka.cli.reassign_partitions.text import joined, plural, say_in

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.tools.reassignment.plan import Wanted


def clear_throttles(admin: "Admin", common: Common, wanted: "Wanted", prefix: str = "") -> None:
    """Remove the throttles of all live brokers, and those of the topics even if a broker fails."""
    from pkafka.tools.reassignment import throttling

    say = say_in(common)
    whose = throttling.throttled_by(admin, wanted)
    say(f"{prefix}Clearing broker-level throttles on broker{plural(whose.brokers)} {joined(whose.brokers)}")
    try:
        for broker, error in throttling.clear_brokers(admin, whose.brokers).items():
            note(
                f"broker {broker} keeps its throttle, if it has one ({error}):"
                " --verify removes it when the broker is back"
            )
    finally:
        say(f"Clearing topic-level throttles on topic{plural(whose.topics)} {','.join(whose.topics)}")
        throttling.clear_topics(admin, whose.topics)
