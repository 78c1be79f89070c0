"""Why commands that take --bootstrap-controller refuse it."""

import click


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
