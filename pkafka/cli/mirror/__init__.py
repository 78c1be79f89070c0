"""pk-mirror: whether a mirror of a cluster is whole, and what it would be worth if the cluster were lost."""

import click

from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandGroup
from pkafka.cli.kit.options import debug_option, version_option
from pkafka.cli.mirror.drill import drill
from pkafka.cli.mirror.verify import verify


@click.group("pk-mirror", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@debug_option
@version_option
def main() -> None:
    """Compare a cluster with its mirror; any tool may have made the copies."""


for _verb in (verify, drill):
    main.add_command(_verb)
