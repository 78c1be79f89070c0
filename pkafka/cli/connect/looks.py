"""pk-connect list and status: which connectors there are, and what they and their tasks do."""

from typing import Any

import click

from pkafka.cli.connect.asking import Worker
from pkafka.cli.kit.exit_status import ExitStatus

_FAILED = "FAILED"


@click.command("list")
@click.option(
    "--failed", is_flag=True, help="Only connectors of which something failed; then the status is 1."
)
@click.pass_obj
def list_connectors(worker: Worker, failed: bool) -> int:
    """List the connectors, with their states and how many of their tasks run and failed."""
    with worker.asked() as client:
        overview = client.overview()
    rows = [_row(name, each) for name, each in sorted(overview.items())]
    if failed:
        rows = [row for row in rows if row["state"] == _FAILED or row["failed"]]
    worker.show("connectors", rows, ("name", "type", "state", "tasks", "running", "failed", "worker"))
    return ExitStatus.FAILURE if failed and rows else ExitStatus.OK


def _row(name: str, found: dict[str, Any]) -> dict[str, object]:
    status = found["status"]
    states = [each["state"] for each in status["tasks"]]
    return {
        "name": name,
        "type": status["type"],
        "state": status["connector"]["state"],
        "worker": status["connector"]["worker_id"],
        "tasks": len(states),
        "running": states.count("RUNNING"),
        "failed": states.count(_FAILED),
        "class": found["info"]["config"].get("connector.class"),
    }


@click.command("status")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--trace", is_flag=True, help="Show the whole traces of what failed; JSON always has them.")
@click.pass_obj
def status(worker: Worker, names: tuple[str, ...], trace: bool) -> int:
    """Show what connectors and their tasks do, of all when none is named. The status is 1 when something failed."""
    with worker.asked() as client:
        wanted = names or tuple(sorted(client.overview()))
        found = [client.status(name) for name in wanted]
    rows = [row for each in found for row in _parts(each)]
    worker.show(
        "parts", rows, ("connector", "task", "state", "worker", "error", *(("trace",) if trace else ()))
    )
    return ExitStatus.FAILURE if any(row["state"] == _FAILED for row in rows) else ExitStatus.OK


def _parts(status: dict[str, Any]) -> list[dict[str, object]]:
    parts = [(None, status["connector"]), *((each["id"], each) for each in status["tasks"])]
    return [
        {
            "connector": status["name"],
            "task": number,
            "state": each["state"],
            "worker": each["worker_id"],
            "error": _first_line(each.get("trace")),
            "trace": each.get("trace"),
        }
        for number, each in parts
    ]


def _first_line(trace: str | None) -> str | None:
    return None if not trace else trace.partition("\n")[0]
