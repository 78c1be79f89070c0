"""pk-connect apply: have a worker run the connectors that files define."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.connect.asking import Worker
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError

if TYPE_CHECKING:
    from pkafka.connect.connector_files import Planned
    from pkafka.connect.rest_client import ConnectClient


@click.command("apply")
@click.argument("path", type=click.Path(path_type=Path), metavar="FILE|DIR")
@click.option("--delete", "deletes", is_flag=True, help="Delete the connectors that no file defines.")
@click.option(
    "--dry-run", is_flag=True, help="Check the configurations and show what there is to do, but do nothing."
)
@click.pass_obj
def apply(worker: Worker, path: Path, deletes: bool, dry_run: bool) -> int:
    """Create and change connectors so that they are as files define them.

    A file has properties or JSON: the settings of a connector, or the body of POST /connectors. All are checked by the
    worker first; if one is wrong, nothing is changed.
    """
    from pkafka.connect.connector_files import Action, plan, read_connectors
    from pkafka.connect.errors import ConfigError
    from pkafka.connect.rest_client import RefusedError

    try:
        wanted = read_connectors(path)
    except ConfigError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    with worker.asked() as client:
        present = {name: each["info"]["config"] for name, each in client.overview().items()}
        steps = plan(wanted, present, deletes=deletes)
        errors = {step.name: _errors(client, step) for step in steps}
        is_sound = not any(errors.values())
        for step in steps if is_sound and not dry_run else ():
            try:
                if step.action is Action.CREATE:
                    assert step.connector is not None
                    client.create(step.name, step.connector.configs, step.connector.initial_state)
                elif step.action is Action.UPDATE:
                    assert step.connector is not None
                    client.put(step.name, step.connector.configs)
                elif step.action is Action.DELETE:
                    client.delete(step.name)
            except RefusedError as refused:
                errors[step.name] = [str(refused)]
    rows = [
        {
            "name": step.name,
            "action": step.action.value,
            "changes": list(step.changes),
            "done": is_sound and not dry_run and not errors[step.name],
            "error": "; ".join(errors[step.name]) or None,
        }
        for step in steps
    ]
    worker.show("connectors", rows, ("name", "action", "changes", "done", "error"))
    return ExitStatus.FAILURE if any(errors.values()) else ExitStatus.OK


def _errors(client: "ConnectClient", step: "Planned") -> list[str]:
    """What the worker finds wrong with a configuration that is new."""
    from pkafka.connect.connector_files import Action
    from pkafka.connect.rest_client import RefusedError

    if step.action not in (Action.CREATE, Action.UPDATE) or step.connector is None:
        return []
    try:
        return client.errors_of(step.connector.configs)
    except RefusedError as refused:
        return [str(refused)]
