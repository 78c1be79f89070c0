"""Texts that several actions of pk-reassign-partitions print."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, line
from pkafka.errors import ApiError
from pkafka.model import TopicPartition, TopicPartitionReplica

TEXT_FORMS: Final = (None, OutputFormat.TEXT, OutputFormat.TABLE)
"""Formats in which an action tells what it does while it does it."""


def say_in(common: Common) -> Callable[[str], None]:
    """The function that prints a line of text; it prints nothing where a document is asked for."""
    return line if common.output in TEXT_FORMS else _nothing


def begun_text(replica: TopicPartitionReplica, path: str) -> str:
    """The line of Kafka's tool about a replica that begins to move to another directory."""
    where = f"{replica.topic}-{replica.partition} with broker {replica.broker}"
    return f"Successfully started moving log directory to {path} for replica {where} "


def refuse(failed: "Mapping[TopicPartition, ApiError]", headline: str) -> None:
    """Fail where partitions failed, and say why each did.

    Raises:
        ReassignmentError: there are failed partitions.
    """
    from pkafka.tools.reassignment.plan import ReassignmentError

    if failed:
        texts = [f"{each}: {failed[each].message}" for each in sorted(failed)]
        raise ReassignmentError(f"{headline} {'; '.join(texts)}", [headline, *texts])


def _nothing(_: str) -> None:
    """Print nothing: where a document is asked for, it is all that is printed."""


def joined(brokers: Iterable[int]) -> str:
    """Ids with commas between them."""
    return ",".join(str(broker) for broker in brokers)


def plural(values: Iterable[object]) -> str:
    """The ending of a noun for this number of values: an s, or nothing for one."""
    return "" if len(list(values)) == 1 else "s"
