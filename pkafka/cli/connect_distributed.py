"""pk-connect-distributed: run connectors in workers that share them, as connect-distributed.sh."""

from pathlib import Path

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.long_running import asked_to_end, run_logged, run_until_asked
from pkafka.cli.kit.options import command, parse_assignments

_OUTPUT_FILE = "connectDistributed.out"


@command("pk-connect-distributed")
@click.argument("worker", type=click.Path(path_type=Path), metavar="worker.properties")
@click.option(
    "--daemon", "-daemon", is_flag=True, help="Run in the background; logs go to $LOG_DIR (./logs)."
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the worker over the file's value.",
)
def main(worker: Path, daemon: bool, overrides: tuple[str, ...]) -> int:
    """Run a Kafka Connect worker that shares connectors and tasks with the other workers of its group.

    What is to run, how far it has come and what it does is kept in three topics, so that any worker can go on where
    another one ended. Connectors are made and changed by the REST API of any worker, at port 8083 unless listeners
    says otherwise.
    """
    settings = parse_assignments(overrides, option="--override")
    from pkafka.errors import ConfigError as PropertiesError
    from pkafka.java.properties import load_properties

    try:
        properties = {**load_properties(worker), **settings}
    except PropertiesError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    return run_logged(lambda: _run(properties), _OUTPUT_FILE, in_background=daemon)


def _run(properties: dict[str, str]) -> int:
    from pkafka.connect.distributed_setup import Setup
    from pkafka.connect.errors import ConfigError
    from pkafka.errors import PkafkaError

    asked = asked_to_end()
    try:
        setup = Setup.of(properties)
        from pkafka.connect.distributed_worker import DistributedWorker  # not before processes were forked

        worker = DistributedWorker.of(setup, asked.set)
    except ConfigError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    except PkafkaError as error:
        raise CommandError(str(error)) from None
    text = f"pkafka Connect worker is starting, its REST API at {worker.address.url}"
    return run_until_asked(worker, asked, text)


if __name__ == "__main__":
    main()
