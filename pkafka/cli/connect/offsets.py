"""pk-connect offsets: how far a connector has come, and a new beginning."""

import click

from pkafka.cli.connect.asking import Worker
from pkafka.cli.kit import output


@click.command("offsets")
@click.argument("name")
@click.option(
    "--reset", is_flag=True, help="Forget them: the connector, which has to be stopped, begins anew."
)
@click.option("--dry-run", is_flag=True, help="Show what --reset would forget.")
@click.pass_obj
def offsets(worker: Worker, name: str, reset: bool, dry_run: bool) -> None:
    """Show how far a connector has come, partition by partition."""
    if dry_run and not reset:
        raise click.UsageError("--dry-run goes with --reset")
    with worker.asked() as client:
        found = client.offsets(name)
        said = client.reset_offsets(name) if reset and not dry_run else None
    rows = [{"partition": _text(each["partition"]), "offset": _text(each["offset"])} for each in found]
    worker.show("offsets", rows, ("partition", "offset"))
    if said is not None:
        output.note(said)


def _text(place: object) -> str:
    import json

    return json.dumps(place, separators=(",", ":"), ensure_ascii=False)
