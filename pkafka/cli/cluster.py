"""pk-cluster: the id of a cluster, where its brokers listen, and waiting for them, as kafka-cluster.sh."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pkafka.cli.kit.controllers import bootstrap_controller_option, refuse_controllers
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.gathering import in_the_place_of
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError
from pkafka.cli.kit.options import (
    Common,
    debug_option,
    parse_duration_ms,
    profile_option,
    text_output_option,
    timeout_option,
    version_option,
)
from pkafka.cli.kit.output import OutputFormat, View, line, show
from pkafka.cli.kit.subcommands import PrefixGroup

if TYPE_CHECKING:
    from pkafka.clients.admin.results import ClusterDescription

F = TypeVar("F", bound=Callable[..., Any])

_PAUSE_S: Final = 0.2
_RACK_WIDTH: Final = 10
"""Where no broker has a rack."""
_NO_ID: Final = "No cluster ID found. The Kafka version is probably too old."


@click.group("pk-cluster", cls=PrefixGroup, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """The id of a cluster and its brokers. Verbs may be shortened: pk-cluster c -b HOST:PORT."""


def _connection(function: F) -> F:
    """Add the flags that every verb has; they arrive as one ``common: Common``."""

    def gathered(
        bootstrap_server: str | None,
        bootstrap_controller: str | None,
        config: str | None,
        timeout: str,
        output: str | None,
        **others: Any,  # noqa: ANN401 - whatever flags the verb has
    ) -> object:
        refuse_controllers(bootstrap_server, bootstrap_controller)
        form = OutputFormat(output) if output else OutputFormat.TEXT
        common = Common(bootstrap_server, config, form, parse_duration_ms(timeout))
        return function(common=common, **others)

    return in_the_place_of(
        function,
        gathered,
        click.option("--bootstrap-server", "-b", metavar="HOST:PORT,...", help="Brokers to begin with."),
        profile_option,
        bootstrap_controller_option("-C"),
        click.option("--config", "-c", metavar="FILE", help="Properties file for the client."),
        debug_option,
        timeout_option,
        text_output_option,
    )


def _wait_options(function: F) -> F:
    return click.option(
        "--wait", is_flag=True, help="Wait until --brokers are up, for as long as --timeout says."
    )(
        click.option(
            "--brokers",
            type=click.IntRange(1),
            default=1,
            metavar="N",
            help="With --wait: how many brokers (1).",
        )(function)
    )


@main.command("cluster-id")
@_connection
@_wait_options
def cluster_id(common: Common, wait: bool, brokers: int) -> None:
    """Print the id of a cluster."""
    found = _describe(common, wait_for=brokers if wait else None)
    text = f"Cluster ID: {found.cluster_id}" if found.cluster_id else _NO_ID
    common.show(View("clusters", [text], [{"cluster_id": found.cluster_id, "brokers": len(found.brokers)}]))


@main.command("list-endpoints")
@_connection
@_wait_options
def list_endpoints(common: Common, wait: bool, brokers: int) -> None:
    """Print where brokers listen, as the tool of Kafka 4.1 does."""
    found = sorted(_describe(common, wait_for=brokers if wait else None).brokers)
    hosts = [broker.host for broker in found]
    racks = [broker.rack for broker in found if broker.rack is not None] or [" " * _RACK_WIDTH]
    widths = (10, max(map(len, hosts), default=0), 10, max(map(len, racks)), 10, 15)
    rows = [
        (str(each.id), each.host, str(each.port), each.rack or "null", "unfenced", "broker") for each in found
    ]
    lines = [
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), *rows]
    ]
    common.show(View("brokers", lines, [each._asdict() for each in found]))


@main.command("unregister")
@_connection
@click.option("--id", "-i", "broker", type=int, required=True, metavar="ID", help="The broker.")
def unregister(common: Common, broker: int) -> int:
    """Let a KRaft cluster forget a broker; a cluster in ZooKeeper mode forgets a broker that is gone by itself."""
    from pkafka.clients.errors import UnsupportedApiError

    with common.admin() as admin:
        try:
            admin.unregister_broker(broker)
        except UnsupportedApiError:
            text = "The target cluster does not support the broker unregistration API."
            if common.output is OutputFormat.TEXT:
                line(text)
            raise CommandError(text, kafka_status=0) from None
    show(View("brokers", [f"Broker {broker} is no longer registered."], [{"id": broker}]), common.output)
    return ExitStatus.OK


def _describe(common: Common, *, wait_for: int | None) -> "ClusterDescription":
    """The cluster; with ``wait_for``, as soon as so many brokers are up.

    Raises:
        CommandError: they are not within the time-out.
    """
    from pkafka.clients.errors import ClientTimeoutError, ConnectError

    deadline = time.monotonic() + common.timeout_ms / 1_000
    while True:
        try:
            with common.admin() as admin:
                found = admin.describe_cluster()
        except (ConnectError, ClientTimeoutError) as error:
            if wait_for is None:
                raise
            up, missing = 0, str(error)
        else:
            up, missing = len(found.brokers), ""
            if wait_for is None or up >= wait_for:
                return found
        if time.monotonic() >= deadline:
            text = f"{up} of {wait_for} brokers are up" + (f": {missing}" if missing else "")
            raise CommandError(text, status=ExitStatus.UNREACHABLE)
        time.sleep(min(_PAUSE_S, max(0.0, deadline - time.monotonic())))


if __name__ == "__main__":
    main()
