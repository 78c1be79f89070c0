"""The flags of pk-console-consumer: which of them go together, their values, and the consumer that they ask for."""

import re
from collections.abc import Mapping
from typing import Final

import click

from pkafka.cli.kit.client_options import settle_consumer
from pkafka.cli.kit.kafka_command import BadValueError
from pkafka.cli.kit.moments import moment_ms
from pkafka.cli.kit.options import client_properties, require_brokers
from pkafka.java.numbers import parse_long

_CONNECT_MS: Final = 10_000


def check(flags: Mapping[str, object]) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: says which.
    """
    if bool(flags["topic"]) == bool(flags["include"]):
        raise click.UsageError("Exactly one of --include/--topic is required. ")
    if flags["include"]:
        included(str(flags["include"]))
    if flags["partition"] is not None and not flags["topic"]:
        raise click.UsageError("The topic is required when partition is specified.")
    if flags["offset"] is not None:
        if flags["partition"] is None:
            raise click.UsageError("The partition is required when offset is specified.")
        if flags["from_beginning"]:
            raise click.UsageError("Options from-beginning and offset cannot be specified together.")
        parse_offset(str(flags["offset"]))
    begins = [
        name
        for name in ("from_beginning", "offset", "tail", "from_time")
        if flags[name] is not None and flags[name] is not False
    ]
    if len(begins) > 1:
        raise click.UsageError(
            f"Options {' and '.join(each.replace('_', '-') for each in begins)} cannot be specified together."
        )
    ours = [name for name in ("tail", "from_time", "to_time") if flags[name] is not None]
    if ours and (flags["include"] or _groups_named(flags)):
        raise click.UsageError(f"--{ours[0].replace('_', '-')} is for a topic that is read without a group")
    for name in ("from_time", "to_time"):
        if flags[name] is not None:
            moment_ms(str(flags[name]))


def included(text: str) -> re.Pattern[str]:
    """The topics of ``--include``: one regular expression as it is, commas, blanks and all.

    Raises:
        BadValueError: it is none.
    """
    from pkafka.java.pattern import PatternError, compile_pattern

    try:
        return compile_pattern(text)
    except PatternError as error:
        raise BadValueError(f"--include {text}: {error}") from None


def parse_offset(text: str) -> int:
    """The offset that ``--offset`` says: -2 for earliest, -1 for latest, as in requests.

    Raises:
        click.UsageError: it is none.
    """
    named = {"earliest": -2, "latest": -1}
    if text.lower() in named:
        return named[text.lower()]
    try:
        offset = parse_long(text)
    except ValueError:
        offset = -1
    if offset < 0:
        raise click.UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
            "or a non-negative long."
        )
    return offset


def consumer_properties(flags: Mapping[str, object]) -> dict[str, object]:
    """The settings of the consumer.

    Raises:
        click.UsageError: flags, file and properties contradict each other, or no broker is named.
    """
    values = client_properties(
        flags["consumer_config"],
        flags["bootstrap_server"],
        flags["consumer_property"],
        option="--consumer-property",
    )
    require_brokers(values)
    if flags["isolation_level"]:
        values["isolation.level"] = flags["isolation_level"]
    if flags["from_beginning"]:
        if values.get("auto.offset.reset", "earliest") != "earliest":
            raise click.UsageError(
                "Can't simultaneously specify --from-beginning and 'auto.offset.reset="
                f"{values['auto.offset.reset']}', please remove one option"
            )
        values["auto.offset.reset"] = "earliest"
    # Bytes are read, whatever class of Java the file names, as by Kafka's tool.
    values["key.deserializer"] = values["value.deserializer"] = None
    values.setdefault("client.id", "console-consumer")
    values.setdefault("default.api.timeout.ms", _CONNECT_MS)
    _choose_group(values, flags)
    settle_consumer(values)
    return values


def _choose_group(values: dict[str, object], flags: Mapping[str, object]) -> None:
    """Agree on one group, or on none.

    Raises:
        click.UsageError: several are named, or one for a partition.
    """
    groups = _groups_named(flags)
    if len(groups) > 1:
        found = ", ".join(f"'{group}'" for group in sorted(groups))
        raise click.UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            f"or via '--consumer.config') do not match. Detected group ids: {found}"
        )
    if groups and flags["partition"] is not None:
        raise click.UsageError("Options group and partition cannot be specified together.")
    if groups:
        values["group.id"] = groups.pop()
    elif flags["include"]:
        from random import randrange

        values["group.id"] = f"console-consumer-{randrange(100_000)}"  # noqa: S311 - a name, as Kafka's tool makes it
        values.setdefault("enable.auto.commit", False)
    else:
        values["enable.auto.commit"] = False


def _groups_named(flags: Mapping[str, object]) -> set[str]:
    """The groups that the flag, the file and the properties name, each for itself: none of them wins."""
    groups = {str(flags["group"])} if flags["group"] else set()
    for file, pairs in ((flags["consumer_config"], ()), (None, flags["consumer_property"])):
        named = client_properties(file, None, pairs, option="--consumer-property").get("group.id")
        if named is not None:
            groups.add(str(named))
    return groups
