"""pk-connect-standalone: run connectors in one process, as connect-standalone.sh."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit import output
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.long_running import asked_to_end, run_logged, wait_for
from pkafka.cli.kit.options import command, parse_assignments

if TYPE_CHECKING:
    from pkafka.connect.connector_files import DefinedConnector

_OUTPUT_FILE = "connectStandalone.out"


@command("pk-connect-standalone")
@click.argument("worker", type=click.Path(path_type=Path), metavar="worker.properties")
@click.argument(
    "connectors",
    nargs=-1,
    type=click.Path(path_type=Path),
    metavar="[connector.properties|connector.json]...",
)
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
def main(worker: Path, connectors: tuple[Path, ...], daemon: bool, overrides: tuple[str, ...]) -> int:
    """Run a Kafka Connect worker with all connectors and tasks in one process.

    Offsets of sources are kept in the file that offset.storage.file.filename names; what runs is asked for and changed
    by the REST API, at port 8083 unless listeners says otherwise.
    """
    settings = parse_assignments(overrides, option="--override")
    from pkafka.connect.connector_files import read_connector
    from pkafka.connect.errors import ConfigError
    from pkafka.errors import ConfigError as PropertiesError
    from pkafka.java.properties import load_properties

    try:
        properties = {**load_properties(worker), **settings}
        wanted = [read_connector(path) for path in connectors]
    except (ConfigError, PropertiesError) as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    return run_logged(lambda: _run(properties, wanted), _OUTPUT_FILE, in_background=daemon)


def _run(properties: dict[str, str], wanted: "Sequence[DefinedConnector]") -> int:
    from pkafka.connect.errors import ConfigError
    from pkafka.connect.standalone_worker import StandaloneWorker
    from pkafka.errors import PkafkaError

    stop = asked_to_end()
    try:
        worker = StandaloneWorker.of(properties)
    except ConfigError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    try:
        worker.start(wanted, lambda name: output.line(f"Created connector {name}"))
    except PkafkaError as error:
        raise CommandError(str(error)) from None
    output.line(f"pkafka Connect worker is ready, its REST API at {worker.url}")
    wait_for(stop)
    worker.stop()
    return ExitStatus.OK


if __name__ == "__main__":
    main()
