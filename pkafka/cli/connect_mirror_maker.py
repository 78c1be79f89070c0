"""pk-connect-mirror-maker: MirrorMaker 2 as processes of its own, as connect-mirror-maker.sh."""

from pathlib import Path

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.long_running import asked_to_end, run_logged, run_until_asked
from pkafka.cli.kit.options import command, parse_assignments

_OUTPUT_FILE = "mirrorMaker.out"


@command("pk-connect-mirror-maker")
@click.argument("file", type=click.Path(path_type=Path), metavar="mm2.properties")
@click.option(
    "--clusters",
    "targets",
    multiple=True,
    metavar="CLUSTER",
    help="Run only the flows to this cluster; may be given again, or name several with spaces between them.",
)
@click.option(
    "--daemon", "-daemon", is_flag=True, help="Run in the background; logs go to $LOG_DIR (./logs)."
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the file over its value.",
)
def main(file: Path, targets: tuple[str, ...], daemon: bool, overrides: tuple[str, ...]) -> int:
    """Copy topics, consumer groups' offsets and settings between clusters, as one file describes them.

    clusters = A, B names clusters, A.bootstrap.servers reaches one, A->B.enabled = true copies from A to B. Several
    processes with the same file share the work.
    """
    settings = parse_assignments(overrides, option="--override")
    from pkafka.errors import ConfigError as PropertiesError
    from pkafka.java.properties import load_properties

    try:
        properties = {**load_properties(file), **settings}
    except PropertiesError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    wanted = [each for given in targets for each in given.split()]
    return run_logged(lambda: _run(properties, wanted), _OUTPUT_FILE, in_background=daemon)


def _run(properties: dict[str, str], targets: list[str]) -> int:
    from pkafka.connect.errors import ConfigError
    from pkafka.connect.mirror_maker import MirrorMaker
    from pkafka.errors import PkafkaError

    asked = asked_to_end()
    try:
        maker = MirrorMaker.of(properties, targets, asked.set)
    except ConfigError as error:
        raise CommandError(str(error), status=ExitStatus.USAGE) from None
    except PkafkaError as error:
        raise CommandError(str(error)) from None
    return run_until_asked(maker, asked, f"pkafka MirrorMaker runs the flows {', '.join(maker.flows)}")


if __name__ == "__main__":
    main()
