"""Words that several actions of pk-reassign-partitions need."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, line
from pkafka.errors import ApiError
from pkafka.model import TopicPartition, TopicPartitionReplica

TEXT_FORMS: Final = (None, OutputFormat.TEXT, OutputFormat.TABLE)
"""Formats in which an action tells what it does while it does it."""


def say_in(common: Common) -> Callable[[str], None]:
    """What prints a line: nothing where a document is asked for."""
    return line if common.output in TEXT_FORMS else _nothing


def begun_text(replica: TopicPartitionReplica, path: str) -> str:
    """That a replica moves to another directory, as Kafka's tool says it."""
    where = f"{replica.topic}-{replica.partition} with broker {replica.broker}"
    return f"Successfully started moving log directory to {path} for replica {where} "


def refuse(failed: "Mapping[TopicPartition, ApiError]", headline: str) -> None:
    """Fail with what became of the partitions that failed, if there are any.

    Raises:
        ReassignmentError: there are.
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
    """The ending of a noun that stands for so many values."""
    return "" if len(list(values)) == 1 else "s"
