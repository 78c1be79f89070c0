"""pk-connect pause, resume, stop and restart."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pkafka.cli.connect.asking import Worker
from pkafka.cli.kit.exit_status import ExitStatus

if TYPE_CHECKING:
    from pkafka.connect.rest_client import ConnectClient


def _each(worker: Worker, names: tuple[str, ...], act: "Callable[[ConnectClient, str], None]") -> int:
    """Do something to every connector; one that refuses keeps none of the others from it."""
    from pkafka.connect.rest_client import RefusedError

    rows: list[dict[str, object]] = []
    with worker.asked() as client:
        for name in names:
            error = None
            try:
                act(client, name)
            except RefusedError as refused:
                error = str(refused)
            rows.append({"name": name, "done": error is None, "error": error})
    worker.show("connectors", rows, ("name", "done", "error"))
    return ExitStatus.OK if all(row["done"] for row in rows) else ExitStatus.FAILURE


_names = click.argument("names", nargs=-1, required=True, metavar="NAME...")


@click.command("pause")
@_names
@click.pass_obj
def pause(worker: Worker, names: tuple[str, ...]) -> int:
    """Pause connectors and their tasks; the tasks stay where they are."""
    return _each(worker, names, lambda client, name: client.aim(name, "pause"))


@click.command("resume")
@_names
@click.pass_obj
def resume(worker: Worker, names: tuple[str, ...]) -> int:
    """Let connectors go on that are paused or stopped."""
    return _each(worker, names, lambda client, name: client.aim(name, "resume"))


@click.command("stop")
@_names
@click.pass_obj
def stop(worker: Worker, names: tuple[str, ...]) -> int:
    """Stop connectors: their tasks end, and their offsets can be changed."""
    return _each(worker, names, lambda client, name: client.aim(name, "stop"))


@click.command("restart")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--failed", is_flag=True, help="Only what failed; without names: of all connectors.")
@click.pass_obj
def restart(worker: Worker, names: tuple[str, ...], failed: bool) -> int:
    """Start connectors and their tasks anew."""
    if not names and not failed:
        raise click.UsageError("name the connectors, or say --failed")
    wanted = names
    if not names:
        with worker.asked() as client:
            wanted = tuple(
                name
                for name, each in sorted(client.overview().items())
                if "FAILED"
                in {part["state"] for part in (each["status"]["connector"], *each["status"]["tasks"])}
            )
    return _each(worker, wanted, lambda client, name: client.restart(name, only_failed=failed))
