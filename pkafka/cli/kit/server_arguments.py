"""The command line of pk-server-start: it takes one, and pk-server-stop reads those of brokers that run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pkafka.cli.kit.daemon import LOG_DIRECTORY_VARIABLE
from pkafka.cli.kit.options import command

F = TypeVar("F", bound=Callable[..., Any])

_ARGUMENTS: Final[Sequence[Callable[[Any], Any]]] = (
    click.argument(
        "properties", required=False, type=click.Path(path_type=Path), metavar="[server.properties]"
    ),
    click.option(
        "--daemon",
        is_flag=True,
        help=f"Run in the background; logs go to ${LOG_DIRECTORY_VARIABLE} (./logs).",
    ),
    click.option(
        "--wait",
        is_flag=True,
        help="With --daemon: return when clients are served, fail if it does not start.",
    ),
    click.option(
        "--timeout",
        metavar="DURATION",
        help="With --wait: fail when it takes longer; the broker goes on starting. Without it there is no limit.",
    ),
    click.option(
        "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key over the file's value."
    ),
    click.option(
        "--adopt",
        is_flag=True,
        help="Take over the partitions that an Apache Kafka left in the log directories (embedded store only).",
    ),
    click.option(
        "--ready-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write host:port of the first listener to this file once clients are served.",
    ),
    click.option(
        "--end-with-parent", type=int, hidden=True, help="Stop when this process, the parent, ends (Linux)."
    ),
)


def server_arguments(function: F) -> F:
    """Add the arguments of a broker to a command."""
    for add in reversed(_ARGUMENTS):
        function = add(function)
    return function


def read_server_arguments(line: Sequence[str]) -> dict[str, Any]:
    """The arguments of a broker that runs, by their names; what is wrong there has kept no broker from running.

    Args:
        line: behind the command's name.
    """
    reader = command("pk-server-start")(server_arguments(_nothing))
    return reader.make_context("pk-server-start", [*line], resilient_parsing=True).params


def _nothing() -> None: ...
