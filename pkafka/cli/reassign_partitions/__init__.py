"""pk-reassign-partitions: move partitions to other brokers, as kafka-reassign-partitions.sh.

Each action is a module of its own, imported when it is asked for.
"""

import click

from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.java_text import java_exception
from pkafka.cli.kit.kafka_command import BadValueError, CommandError, explain
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.reassign_partitions.flags import BELONGS, EXAMPLES, Flags, check
from pkafka.errors import ApiError


def _kafka_text(error: Exception) -> str | None:
    """What Kafka's tool prints of a failure to standard output, without the stack of Java below it."""
    from pkafka.tools.json_input import JsonInputError
    from pkafka.tools.reassignment.plan import ReassignmentError

    if isinstance(error, BadValueError):
        return f"Error: {error.format_message()}"
    if isinstance(error, ReassignmentError) and error.lines is not None:
        return "\n".join(error.lines)
    if isinstance(error, CommandError | click.UsageError):
        return None
    if isinstance(error, ApiError):
        return f"Error: {java_exception(error)}"
    if isinstance(error, OSError) and error.filename:
        return f"Error: Unable to read file {error.filename}"
    if isinstance(error, JsonInputError):
        return f"Error: {error.words}"
    return f"Error: {explain(error)[0]}"


@command("pk-reassign-partitions", error_text=_kafka_text, actions=Actions(EXAMPLES, BELONGS))
@connection_options
@click.option("--generate", is_flag=True, help="Propose brokers for the partitions of topics.")
@click.option("--execute", is_flag=True, help="Begin to move partitions.")
@click.option(
    "--verify",
    is_flag=True,
    help="Say how far the moves are; remove the throttles when all are done. Ends with 0 then, with 5 while partitions "
    "move, and with 1 where a partition is elsewhere and nothing moves it.",
)
@click.option("--cancel", is_flag=True, help="Cancel moves, and remove the throttles.")
@click.option("--list", is_flag=True, help="Show all partitions that move.")
@click.option("--topics-to-move-json-file", metavar="FILE", help="Topics, as JSON, for --generate.")
@click.option("--broker-list", metavar="0,1,2", help="The brokers that --generate may propose.")
@click.option("--disable-rack-aware", is_flag=True, help="Propose without looking at racks.")
@click.option("--reassignment-json-file", metavar="FILE", help="Partitions and their brokers, as JSON.")
@click.option(
    "--throttle", type=LONG, metavar="BYTES", help="How many bytes a second may move between brokers."
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=LONG,
    metavar="BYTES",
    help="How many bytes a second may move between directories of a broker.",
)
@click.option(
    "--additional",
    is_flag=True,
    help="Begin while other partitions move; or change the throttle of moves that go on.",
)
@click.option("--preserve-throttles", is_flag=True, help="Leave the throttles as they are.")
@click.option("--dry-run", is_flag=True, help="Say what --execute or --cancel would do, and do nothing.")
@click.option(
    "--wait",
    metavar="DURATION",
    help="With --verify: wait until all partitions are where the file wants them, at most so long.",
)
@click.option(
    "--rollback-file",
    metavar="FILE",
    help="With --execute: the file for the present assignment, which leads back; default: PLAN.rollback.json "
    "beside the plan.",
)
def main(common: Common, **flags: object) -> None:
    """Move partitions to other brokers, or replicas to other directories."""
    given = Flags(**flags)  # type: ignore[arg-type]
    check(given)
    with common.admin() as admin:
        if given.generate:
            from pkafka.cli.reassign_partitions.generate import generate_plan

            generate_plan(admin, common, given)
        elif given.execute:
            from pkafka.cli.reassign_partitions.execute import execute

            execute(admin, common, given)
        elif given.verify:
            from pkafka.cli.reassign_partitions.verify import verify

            verify(admin, common, given)
        elif given.cancel:
            from pkafka.cli.reassign_partitions.cancel import cancel

            cancel(admin, common, given)
        else:
            from pkafka.cli.reassign_partitions.listing import list_moves

            list_moves(admin, common)
