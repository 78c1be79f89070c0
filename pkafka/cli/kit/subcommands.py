"""Groups of verbs with the habits of argparse4j, which some of Kafka's tools parse with."""

import click

from pkafka.cli.kit.kafka_command import CommandGroup


class PrefixGroup(CommandGroup):
    """A command whose verbs may be shortened as long as one of them alone begins like that."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name, or the only one that begins so."""
        exact = super().get_command(ctx, cmd_name)
        if exact is not None:
            return exact
        begins = [name for name in self.list_commands(ctx) if name.startswith(cmd_name)]
        return super().get_command(ctx, begins[0]) if cmd_name and len(begins) == 1 else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the verb's whole name for messages."""
        _, command, rest = super().resolve_command(ctx, args)
        return command.name if command else None, command, rest
