"""What pk-leader-election and pk-preferred-replica-election both print."""

from typing import TYPE_CHECKING

from pkafka.cli.kit.kafka_command import failure
from pkafka.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from pkafka.tools.elections.leader import Elected


def kafka_text(error: Exception) -> str | None:
    """The text that Kafka's tool prints to standard output for a failure; None for most."""
    from pkafka.clients.errors import ClientTimeoutError, ConnectError

    if isinstance(error, ClientTimeoutError | ConnectError):
        return "Timeout waiting for election results"
    if isinstance(error, ApiError) and error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "Not authorized to perform leader election"
    return None


def planned_lines(found: "list[Elected]", kind: str) -> list[str]:
    """The lines of ``--dry-run``."""
    from pkafka.tools.elections.leader import Result

    says = {
        Result.ELECTED: f"Would elect a leader ({kind}) of",
        Result.NOT_NEEDED: "Would leave the leader of",
        Result.FAILED: f"Would fail to elect a leader ({kind}) of",
    }
    return [
        f"{says[each.result]} {each.partition}" + (f": {each.error.message}" if each.error else "")
        for each in found
    ]


def partition_row(elected: "Elected") -> dict[str, object]:
    """A partition's row in JSON."""
    return {
        "topic": elected.partition.topic,
        "partition": elected.partition.partition,
        "result": elected.result.value,
        "error": failure(elected.error),
    }
