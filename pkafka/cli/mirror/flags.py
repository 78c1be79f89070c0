"""The flags by which the verbs of pk-mirror learn which clusters and topics are meant."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pkafka.cli.kit.options import debug_option, output_option, timeout_option
from pkafka.cli.kit.output import transient_bar
from pkafka.cli.kit.spark import master_option
from pkafka.cli.kit.topic_filter import topic_pattern

if TYPE_CHECKING:
    from pkafka.tools.mirroring.flow import Flow, Names

F = TypeVar("F", bound=Callable[..., Any])


def flow_options(function: F) -> F:
    """Add what names two clusters and what is mirrored."""
    for option in reversed(
        (
            click.option("--source", metavar="HOST:PORT,...", help="Brokers of the source."),
            click.option("--target", metavar="HOST:PORT,...", help="Brokers of the cluster with the copies."),
            click.option("--source-config", metavar="FILE", help="Properties of clients of the source."),
            click.option("--target-config", metavar="FILE", help="Properties of clients of the target."),
            click.option(
                "--include", metavar="REGEX", default=".*", help="Topics of the source; default: all."
            ),
            click.option(
                "--source-alias",
                metavar="NAME",
                default="",
                help="The source's name in MirrorMaker 2; without, copies have the names of their topics.",
            ),
            click.option(
                "--target-alias", metavar="NAME", default="", help="The target's name, for offset syncs."
            ),
            click.option("--policy", metavar="CLASS", help="replication.policy.class of the mirror."),
        )
    ):
        function = option(function)
    return timeout_option(output_option(debug_option(function)))


def opened(flags: Mapping[str, object], timeout_ms: int) -> "Flow":
    """Both clusters.

    Raises:
        click.UsageError: a cluster is not named.
        ConfigError, ClientError: see :class:`Flow`.
    """
    names = names_of(flags)
    source, target = (settings_of(flags, each, timeout_ms) for each in ("source", "target"))
    from pkafka.tools.mirroring.flow import Flow

    return Flow(source, target, names)


def names_of(flags: Mapping[str, object]) -> "Names":
    """How the mirror names things, and what it copies.

    Raises:
        BadValueError: --include is no regular expression.
    """
    include = topic_pattern(str(flags["include"]))
    from pkafka.tools.mirroring.flow import Names

    policy = flags["policy"]
    return Names(
        str(flags["source_alias"]),
        str(flags["target_alias"]),
        None if policy is None else str(policy),
        include,
    )


def settings_of(flags: Mapping[str, object], side: str, timeout_ms: int) -> dict[str, object]:
    """The settings of the clients of a cluster.

    Args:
        side: ``source`` or ``target``.
        timeout_ms: of their requests, where the file does not say.

    Raises:
        click.UsageError: the cluster is not named.
        ConfigError: a file cannot be read.
    """
    file, servers = flags[f"{side}_config"], flags[side]
    values: dict[str, object] = {}
    if file is not None:
        from pkafka.java.properties import load_properties

        values.update(load_properties(str(file)))
    if servers is not None:
        values["bootstrap.servers"] = servers
    if not values.get("bootstrap.servers"):
        raise click.UsageError(f"--{side} is missing, or bootstrap.servers in the file of --{side}-config")
    for key in (
        "default.api.timeout.ms",
        "request.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    ):
        values.setdefault(key, timeout_ms)
    return values


def spark_options(function: F) -> F:
    """Add the flags by which tasks of Spark's do the work."""
    return click.option(
        "--spark", is_flag=True, help="Each partition is a task of Spark's, on all cores or on a cluster."
    )(master_option(function))


@contextmanager
def offsets_bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar of offsets on standard error, where that is a terminal.

    Args:
        total: how many there are.

    Yields:
        What is to be told how many are done since the last call; any thread may.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("offsets"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with transient_bar(*columns) as bar:
        task = bar.add_task("offsets", total=total)
        yield lambda count: bar.advance(task, count)
