"""pk-configs: dynamic configurations of topics, brokers and broker loggers, as kafka-configs.sh.

Settings of topics, brokers and loggers: :mod:`pkafka.cli.configs.resources`; quotas and credentials of users, clients
and addresses: :mod:`pkafka.cli.configs.quotas`; what goes without a broker: :mod:`pkafka.cli.configs.zookeeper`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.configs import quotas, resources
from pkafka.cli.configs.changes import show_changes
from pkafka.cli.configs.entities import CLIENT_METRICS, Entities, entities_of, entity_options
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common, command, connection_options, exclude
from pkafka.cli.kit.zookeeper_option import zookeeper_option
from pkafka.java.text import trim

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

# Not between brackets: an opening one comes first, or none at all.
_OUTSIDE = r"(?=[^\]]*(?:\[|$))"
_NO_BRACKETS = str.maketrans("", "", "[]")
_EXAMPLES: Final = {
    "describe": "--describe --topic orders --all",
    "alter": "--alter --topic orders --add-config retention.ms=86400000,cleanup.policy=[compact,delete]",
}
_BELONGS: Final = {
    "all": ("describe",),
    "add-config": ("alter",),
    "add-config-file": ("alter",),
    "delete-config": ("alter",),
    "force": ("alter",),
    "dry-run": ("alter",),
}


@command("pk-configs", actions=Actions(_EXAMPLES, _BELONGS))
@connection_options
@click.option("--describe", is_flag=True, help="Show configurations.")
@click.option("--alter", is_flag=True, help="Change configurations.")
@entity_options
@zookeeper_option(
    "In place of a broker: SCRAM credentials of users, and settings of brokers that do not run."
)
@click.option(
    "--zk-tls-config-file", metavar="FILE", help="Properties file for TLS to ZooKeeper; stores in PEM."
)
@click.option(
    "--add-config",
    metavar="K=V,K=[A,B]",
    help="Keys to set; brackets protect commas, as in SCRAM-SHA-256=[iterations=8192,password=...].",
)
@click.option("--add-config-file", metavar="FILE", help="Properties file of keys to set.")
@click.option("--delete-config", metavar="K,K", help="Keys to set back to their defaults.")
@click.option("--all", "show_all", is_flag=True, help="Show static and default values too.")
@click.option("--force", is_flag=True, help="Ask nothing.")
@click.option("--dry-run", is_flag=True, help="Let the broker check --alter, and change nothing.")
def main(common: Common, **flags: object) -> None:
    """Show and change dynamic configurations, quotas of clients, and SCRAM credentials of users."""
    _check_action(flags)
    entities = entities_of(flags)
    _check_connection(common, flags)
    if flags["zookeeper"] is not None:
        from pkafka.cli.configs import zookeeper

        zookeeper.run(common, entities, flags, _added(flags), _removed(flags))
        return
    if entities.kind == CLIENT_METRICS:
        raise CommandError("client-metrics needs a cluster without ZooKeeper, which this version is not for")
    with common.admin() as admin:
        if flags["describe"]:
            common.show(
                quotas.describe(admin, entities)
                if entities.kind in quotas.QUOTA_TYPES
                else resources.describe(admin, entities, show_all=bool(flags["show_all"]))
            )
        else:
            _alter(admin, common, entities, flags)


def _check_action(flags: Mapping[str, object]) -> None:
    if bool(flags["describe"]) == bool(flags["alter"]):
        raise click.UsageError("Command must include exactly one action: --describe, --alter.")
    exclude(flags, "add-config", "add-config-file")
    if flags["describe"]:
        exclude(flags, "describe", "add-config", "add-config-file", "delete-config", "dry-run")
    elif not any(flags[name] for name in ("add_config", "add_config_file", "delete_config")):
        raise click.UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def _check_connection(common: Common, flags: Mapping[str, object]) -> None:
    if flags["zookeeper"] is None:
        if flags["zk_tls_config_file"] is not None:
            raise click.UsageError(
                "Only the --zookeeper option can be used with the --zk-tls-config-file option."
            )
        return
    if common.bootstrap_server is not None:
        raise click.UsageError("Only one of --bootstrap-server and --zookeeper can be specified")
    if flags["show_all"]:
        raise click.UsageError("--bootstrap-server must be specified for --all")


def _alter(admin: "Admin", common: Common, entities: Entities, flags: Mapping[str, object]) -> None:
    added, removed, dry_run = _added(flags), _removed(flags), bool(flags["dry_run"])
    if entities.kind in quotas.QUOTA_TYPES:
        changes = quotas.alter(admin, entities, added, removed, dry_run=dry_run)
    else:
        changes = resources.alter(admin, entities, added, removed, dry_run=dry_run)
    show_changes(common, entities, f"{_updated(entities)}.", changes, dry_run=dry_run)


def _updated(entities: Entities) -> str:
    # Of a user and a client Kafka's tool names the one that comes first for it.
    if entities.name:
        return f"config for {entities.noun} {entities.name}"
    return f"default config for {entities.kind} in the cluster"


def _removed(flags: Mapping[str, object]) -> list[str]:
    return [key for each in str(flags["delete_config"] or "").split(",") if (key := trim(each))]


def _added(flags: Mapping[str, object]) -> dict[str, str]:
    if flags["add_config_file"]:
        from pkafka.java.properties import load_properties

        return load_properties(Path(str(flags["add_config_file"])))
    return parse_config_list(str(flags["add_config"] or ""))


def parse_config_list(text: str) -> dict[str, str]:
    """Read ``k=v,k=[a,b]``; a comma inside brackets belongs to the value, and the brackets do not.

    Raises:
        click.UsageError: a piece has no ``=``, or one more outside brackets.
    """
    pieces = re.split(f",{_OUTSIDE}", text)
    while pieces and not pieces[-1]:
        pieces.pop()
    values: dict[str, str] = {}
    for piece in pieces:
        key, *value = re.split(f"={_OUTSIDE}", piece)
        if len(value) != 1:
            raise click.UsageError(
                'Invalid entity config: all configs to be added must be in the format "key=val".'
            )
        values[trim(key)] = trim(value[0].translate(_NO_BRACKETS))
    return values
