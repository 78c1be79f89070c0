"""pk-topics: create, list, describe, grow and delete topics, as kafka-topics.sh.

Each action is a module of its own, imported when it is asked for.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common, command, connection_options, parse_wait_s
from pkafka.cli.topics.flags import EXAMPLES, IGNORED_ELSEWHERE, REFUSED_ELSEWHERE, Flags, check

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin


@command(
    "pk-topics",
    error_text="Error while executing topic command : ",
    actions=Actions(EXAMPLES, {**REFUSED_ELSEWHERE, **IGNORED_ELSEWHERE}),
)
@connection_options
@click.option("--list", is_flag=True, help="List all topics.")
@click.option("--describe", is_flag=True, help="Show the details of topics.")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--alter", is_flag=True, help="Give a topic more partitions.")
@click.option("--delete", is_flag=True, help="Delete topics.")
@click.option(
    "--topic", metavar="NAME|REGEX", help="The topic; for all actions but --create a regular expression."
)
@click.option("--topic-id", metavar="ID", help="The topic's id, for --describe.")
@click.option("--partitions", type=int, metavar="N", help="Number of partitions.")
@click.option("--replication-factor", type=int, metavar="N", help="Number of replicas, for --create.")
@click.option("--replica-assignment", metavar="1:2,2:3", help="The brokers of every partition.")
@click.option("--config", multiple=True, metavar="KEY=VALUE", help="A configuration of the new topic.")
@click.option("--delete-config", multiple=True, hidden=True)
@click.option("--if-exists", is_flag=True, help="Do nothing when the topic does not exist.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when the topic exists.")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option("--under-replicated-partitions", is_flag=True, help="Show only under-replicated partitions.")
@click.option("--unavailable-partitions", is_flag=True, help="Show only partitions without a live leader.")
@click.option(
    "--under-min-isr-partitions", is_flag=True, help="Show only partitions under min.insync.replicas."
)
@click.option("--at-min-isr-partitions", is_flag=True, help="Show only partitions at min.insync.replicas.")
@click.option(
    "--held-back-partitions",
    is_flag=True,
    help="Show only partitions whose readers of committed records a transaction holds back, and which that is.",
)
@click.option(
    "--topics-with-overrides", is_flag=True, help="Show only topics with configurations of their own."
)
@click.option(
    "--partition-size-limit-per-response",
    type=int,
    default=2_000,
    metavar="N",
    help="With --describe: how many partitions the command asks for at once.",
)
@click.option(
    "--dry-run", is_flag=True, help="Say what --create, --alter or --delete would do, and do nothing."
)
@click.option(
    "--wait",
    metavar="DURATION",
    help="Wait until every partition has its leader and all replicas, or with --delete until the topics are gone.",
)
@click.option(
    "--exact", is_flag=True, help="Take --topic for the name of one topic, not for a regular expression."
)
@click.option(
    "--yes",
    is_flag=True,
    help="Let --delete ask nothing. Without it, on a terminal, --delete asks before it deletes topics that "
    "--topic does not name.",
)
def main(common: Common, **flags: object) -> None:
    """Create, list, describe, grow and delete topics."""
    given = Flags(**flags)  # type: ignore[arg-type]
    check(given)
    seconds = parse_wait_s(given.wait)
    if given.list:
        from pkafka.cli.topics.listing import listed

        with common.topics() as topics:
            common.show(listed(topics, given))
        return
    with common.admin() as admin:
        _act(admin, common, given, seconds)


def _act(admin: "Admin", common: Common, flags: Flags, seconds: float) -> None:
    """Do everything but ``--list``, and wait for it if that is asked for."""
    from pkafka.cli.topics.names import existing

    if flags.describe:
        from pkafka.cli.topics.describe import described

        if flags.wait:
            _wait(admin, flags, lambda: existing(admin, flags, required=False), seconds)
        common.show(described(admin, flags))
    elif flags.create:
        from pkafka.cli.topics.create import create

        create(admin, common, flags)
        if flags.wait:
            _wait(admin, flags, lambda: [flags.topic or ""], seconds)
    elif flags.alter:
        from pkafka.cli.topics.alter import alter

        alter(admin, common, flags)
        if flags.wait:
            known = existing(admin, flags, required=False)
            _wait(admin, flags, lambda: known, seconds)
    else:
        from pkafka.cli.topics.delete import delete

        gone = delete(admin, common, flags)
        if flags.wait:
            from pkafka.tools.cluster.topic_wait import wait_until_gone

            _refuse_late(wait_until_gone(admin, gone, seconds), flags)


def _wait(admin: "Admin", flags: Flags, names: Callable[[], list[str]], seconds: float) -> None:
    from pkafka.tools.cluster.topic_wait import wait_until_whole

    _refuse_late(wait_until_whole(admin, names, seconds, partitions=flags.partitions), flags)


def _refuse_late(missing: str | None, flags: Flags) -> None:
    if missing is not None:
        raise CommandError(f"{missing}, after {flags.wait}", status=ExitStatus.UNREACHABLE)
