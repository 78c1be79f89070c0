"""pk-mirror: begin a mirror of a cluster, see whether it is whole, and what it is worth if the cluster is lost."""

import click

from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandGroup
from pkafka.cli.kit.options import debug_option, version_option
from pkafka.cli.mirror.back_fill import back_fill
from pkafka.cli.mirror.drill import drill
from pkafka.cli.mirror.verify import verify


@click.group("pk-mirror", cls=CommandGroup, context_settings={"help_option_names": HELP_FLAGS})
@debug_option
@version_option
def main() -> None:
    """Begin a mirror of a cluster, compare the two, and rehearse the loss of the cluster."""


for _verb in (back_fill, verify, drill):
    main.add_command(_verb)
