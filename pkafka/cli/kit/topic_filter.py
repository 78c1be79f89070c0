"""Kafka's ways to name topics and partitions on a command line."""

import re
from collections.abc import Callable

import click

from pkafka.cli.kit.kafka_command import BadValueError
from pkafka.java.numbers import parse_int
from pkafka.java.pattern import PatternError, compile_pattern
from pkafka.java.text import split, trim
from pkafka.model import TopicPartition

_TOPIC_PARTITIONS = re.compile(r"(?P<topic>[^:,]*)(:((?P<only>[0-9]+)|(?P<low>[0-9]*)-(?P<high>[0-9]*))?)?")


def topic_pattern(text: str) -> re.Pattern[str]:
    """A list of Java's regular expressions: ``,`` means ``|``, blanks and outer quotes are dropped.

    Raises:
        BadValueError: it is no regular expression.
    """
    pattern = trim(text).replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise BadValueError(f"{pattern} is an invalid regex.") from error


def partition_filter(text: str) -> Callable[[TopicPartition], bool]:
    """Read ``t1:1,t2:0-3,t3,t4:5-,:-3``: a regular expression and a number or a range without its upper end.

    Raises:
        click.UsageError: an item is of none of these forms.
    """
    rules: list[tuple[re.Pattern[str], int, int | None]] = []
    for item in split(text, ","):
        match = _TOPIC_PARTITIONS.fullmatch(item)
        if match is None:
            raise click.UsageError(f"Invalid rule specification: {item}")
        pattern = topic_pattern(match["topic"] or ".*")
        try:
            if match["only"]:
                number = parse_int(match["only"])
                rules.append((pattern, number, number + 1))
            else:
                high = parse_int(match["high"]) if match["high"] else None
                rules.append((pattern, parse_int(match["low"] or "0"), high))
        except ValueError:
            raise click.UsageError(f"Invalid rule specification: {item}") from None

    def matches(partition: TopicPartition) -> bool:
        return any(
            pattern.fullmatch(partition.topic) is not None
            and low <= partition.partition
            and (high is None or partition.partition < high)
            for pattern, low, high in rules
        )

    return matches
