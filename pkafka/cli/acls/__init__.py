"""pk-acls: list, add and remove ACLs, and say what they decide, as kafka-acls.sh.

Each action is a module of its own, imported when it is asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from pkafka.cli.acls.flags import BELONGS, EXAMPLES, Flags, check
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.options import Common, command, connection_options, parse_assignments
from pkafka.cli.kit.zookeeper_option import opened_store

if TYPE_CHECKING:
    from pkafka.cli.acls.changes import Changeable

_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


@command("pk-acls", error_text="Error while executing ACL command: ", actions=Actions(EXAMPLES, BELONGS))
@connection_options
@click.option("--add", is_flag=True, help="Add ACLs.")
@click.option("--remove", is_flag=True, help="Remove ACLs.")
@click.option("--list", is_flag=True, help="List the ACLs of resources, or all.")
@click.option(
    "--explain",
    is_flag=True,
    help="Say whether a principal may do something, by which rule; broker by broker.",
)
@click.option("--topic", multiple=True, metavar="NAME", help="A topic; '*' for all topics.")
@click.option("--group", multiple=True, metavar="NAME", help="A consumer group; '*' for all groups.")
@click.option("--cluster", is_flag=True, help="The cluster as a whole.")
@click.option(
    "--transactional-id", multiple=True, metavar="ID", help="A transactional id; '*' for all of them."
)
@click.option(
    "--delegation-token", multiple=True, metavar="ID", help="A delegation token; '*' for all of them."
)
@click.option(
    "--user-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="A user as a resource, for CreateTokens and DescribeTokens.",
)
@click.option(
    "--resource-pattern-type",
    default="LITERAL",
    metavar="LITERAL|PREFIXED|ANY|MATCH",
    help="How names of resources are meant: ANY and MATCH choose among rules, for --list and --remove.",
)
@click.option(
    "--operation",
    multiple=True,
    metavar="NAME",
    help="Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs,"
    " IdempotentWrite, CreateTokens, DescribeTokens or All. Default: All.",
)
@click.option(
    "--allow-principal", multiple=True, metavar="TYPE:NAME", help="Who may, as User:alice or 'User:*'."
)
@click.option(
    "--deny-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Who may not; this wins over all that allows.",
)
@click.option("--allow-host", multiple=True, metavar="ADDRESS", help="From where they may. Default: '*'.")
@click.option("--deny-host", multiple=True, metavar="ADDRESS", help="From where they may not. Default: '*'.")
@click.option(
    "--principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Whose ACLs --list shows; whom --explain is about.",
)
@click.option("--producer", is_flag=True, help="What producers need: Write, Describe and Create on topics.")
@click.option(
    "--consumer", is_flag=True, help="What consumers need: Read and Describe on topics, Read on groups."
)
@click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite on the cluster, too.")
@click.option("--force", is_flag=True, help="Ask nothing.")
@click.option("--dry-run", is_flag=True, help="Say what --add or --remove would do, and do nothing.")
@click.option("--host", metavar="ADDRESS", help="The client's address, for --explain. Default: any.")
@click.option(
    "--super-user",
    multiple=True,
    metavar="TYPE:NAME",
    help="One of super.users, for --explain: brokers do not tell them.",
)
@click.option(
    "--allow-everyone",
    is_flag=True,
    help="Whether allow.everyone.if.no.acl.found is on, for --explain: brokers do not tell it.",
)
@click.option(
    "--authorizer", metavar="CLASS", help=f"In place of a broker: {_AUTHORIZER}, whose ACLs are in ZooKeeper."
)
@click.option(
    "--authorizer-properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Where that is, as zookeeper.connect=host:port/chroot.",
)
def main(common: Common, **flags: object) -> None:
    """List, add and remove ACLs, and say what they decide."""
    given = Flags(**flags)  # type: ignore[arg-type]
    check(given, has_brokers=common.bootstrap_server is not None)
    if given.explain:
        from pkafka.cli.acls.explain import explained

        with common.admin() as admin:
            found, refusal = explained(admin, given)
            common.show(found)
        if refusal is not None:
            raise refusal
        return
    with _source(common, given) as source:
        _act(source, common, given)


def _act(source: "Changeable", common: Common, flags: Flags) -> None:
    if flags.list:
        from pkafka.cli.acls.listing import listed

        common.show(listed(source, flags))
    elif flags.add:
        from pkafka.cli.acls.changes import add

        add(source, common, flags)
    else:
        from pkafka.cli.acls.changes import remove

        remove(source, common, flags)


@contextmanager
def _source(common: Common, flags: Flags) -> "Iterator[Changeable]":
    """Where rules are read and changed: a broker, or with ``--authorizer-properties`` ZooKeeper itself.

    Raises:
        click.UsageError: another authorizer is named, or no ZooKeeper.
    """
    if not flags.authorizer_properties and flags.authorizer is None:
        with common.admin() as admin:
            yield admin
        return
    if flags.authorizer not in (None, _AUTHORIZER):
        raise click.UsageError(f"--authorizer knows {_AUTHORIZER} only, not {flags.authorizer}")
    pairs = parse_assignments(flags.authorizer_properties, option="--authorizer-properties")
    connect = pairs.get("authorizer.zookeeper.url") or pairs.get("zookeeper.connect")
    if not connect:
        raise click.UsageError("--authorizer-properties needs zookeeper.connect=HOST:PORT")
    from pkafka.tools.acls.in_store import AclsInStore

    with opened_store(connect, common.timeout_ms) as store:
        yield AclsInStore(store)
