"""--bootstrap-controller, which commands take and refuse."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_controller_option(*short: str) -> Callable[[F], F]:
    """Add ``--bootstrap-controller``, with a short name where the command has one."""
    return click.option(
        "--bootstrap-controller",
        *short,
        metavar="HOST:PORT,...",
        help="Controllers of KRaft. Refused: a cluster in ZooKeeper mode has none.",
    )


def refuse_controllers(servers: str | None, controllers: str | None) -> None:
    """Refuse flags that name controllers: a cluster in ZooKeeper mode has none to ask.

    Raises:
        click.UsageError: a flag names controllers.
    """
    if servers and controllers:
        raise click.UsageError(
            "argument --bootstrap-controller: not allowed with argument --bootstrap-server"
        )
    if controllers:
        raise click.UsageError(
            "--bootstrap-controller is for controllers of KRaft; a cluster in ZooKeeper mode has none "
            "(use --bootstrap-server)"
        )
