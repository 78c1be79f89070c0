"""pk-zookeeper-server-start: run a real ZooKeeper server from jars that are at hand."""

import os
from pathlib import Path

import click

from pkafka.cli.kit.daemon import LOG_DIRECTORY_VARIABLE, Daemon
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import command


@command("pk-zookeeper-server-start")
@click.option(
    "--daemon",
    is_flag=True,
    help=f"Run in the background; output goes to ${LOG_DIRECTORY_VARIABLE} (./logs).",
)
@click.option(
    "--jars",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where ZooKeeper's jars are, if not in pyspark's.",
)
@click.argument("properties", type=click.Path(path_type=Path), metavar="zookeeper.properties")
def main(daemon: bool, jars: Path | None, properties: Path) -> None:
    """Run a ZooKeeper server in the foreground.

    The jars come with the extra "pkafka[spark]"; Java is needed.
    """
    from pkafka.tools.zookeeper.server import ZooKeeperUnavailableError, server_command

    try:
        arguments = server_command(properties, jars=jars)
    except ZooKeeperUnavailableError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE, kafka_status=2) from None
    if daemon:
        Daemon("zookeeper.out").__enter__()  # what it becomes never comes back here
    os.execv(arguments[0], arguments)  # noqa: S606 - the process becomes the server, so that signals reach it


if __name__ == "__main__":
    main()
