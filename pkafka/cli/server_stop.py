"""pk-server-stop and pk-zookeeper-server-stop: signal the servers of this machine."""

import os
from collections.abc import Sequence

import click

from pkafka.cli.kafka_command import CommandError
from pkafka.cli.options import command
from pkafka.cli.output import line
from pkafka.tools.processes import find_brokers, find_zookeepers, send_signal


def _stop(pids: Sequence[int], nothing: str) -> int:
    if not pids:
        line(nothing)
        return 1
    name = os.environ.get("SIGNAL", "TERM")
    try:
        send_signal(pids, name)
    except (ValueError, PermissionError) as error:
        raise CommandError(f"cannot stop it: {error}") from None
    return 0


@command("pk-server-stop")
@click.option(
    "--process-role", type=click.Choice(["broker", "controller"]), help="Accepted as Kafka's; a broker."
)
@click.option("--node-id", type=int, metavar="ID", help="Stop only the broker with this id.")
def main(process_role: str | None, node_id: int | None) -> int:
    """Stop the brokers of this machine: each gets SIGTERM (or SIGNAL from the environment) and ends cleanly.

    Does not wait for their end.
    """
    # Every broker can be the controller in ZooKeeper mode; none is a controller alone.
    is_controller = process_role == "controller" and node_id is None
    return _stop([] if is_controller else find_brokers(node_id=node_id), "No kafka server to stop")


@command("pk-zookeeper-server-stop")
def zookeeper_main() -> int:
    """Stop the ZooKeeper servers of this machine (SIGTERM, or SIGNAL from the environment)."""
    return _stop(find_zookeepers(), "No zookeeper server to stop")


if __name__ == "__main__":
    main()
