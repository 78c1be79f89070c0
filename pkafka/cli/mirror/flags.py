"""The flags by which the verbs of pk-mirror learn which clusters and topics are meant."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pkafka.cli.kit.options import debug_option, output_option, timeout_option
from pkafka.cli.kit.topic_filter import topic_pattern

if TYPE_CHECKING:
    from pkafka.tools.mirroring.flow import Flow

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
    include = topic_pattern(str(flags["include"]))
    source, target = (_settings(flags, each, timeout_ms) for each in ("source", "target"))
    from pkafka.tools.mirroring.flow import Flow, Names

    policy = flags["policy"]
    names = Names(
        str(flags["source_alias"]),
        str(flags["target_alias"]),
        None if policy is None else str(policy),
        include,
    )
    return Flow(source, target, names)


def _settings(flags: Mapping[str, object], side: str, timeout_ms: int) -> dict[str, object]:
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
