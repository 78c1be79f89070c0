"""pk-configs: dynamic configurations of topics, brokers and broker loggers, as kafka-configs.sh.

Quotas and credentials of users, clients and addresses: :mod:`pkafka.cli.configs.quotas`; what goes without a broker:
:mod:`pkafka.cli.configs.zookeeper`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.configs import quotas
from pkafka.cli.configs.changes import Change, refuse_unset, show_changes
from pkafka.cli.configs.entities import CLIENT_METRICS, Entities, entities_of, entity_options
from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common, command, connection_options, exclude
from pkafka.cli.kit.output import View
from pkafka.cli.kit.spelling import did_you_mean, meant_by_reader
from pkafka.cli.kit.zookeeper_option import zookeeper_option
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.text import trim
from pkafka.tools.secret_keys import is_secret

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import ConfigEntry, ConfigResource

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
@click.option("--delete-config", metavar="K,K", help="Keys to set back.")
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
                else _describe(admin, entities, show_all=bool(flags["show_all"]))
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


# -- describe ---------------------------------------------------------------------------------------------


def _describe(admin: "Admin", entity: Entities, *, show_all: bool) -> View:
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for name in _names(admin, entity):
        entries = _entries(admin, entity.kind, name, show_all=show_all)
        if name:
            word = "All" if show_all else "Dynamic"
            lines.append(f"{word} configs for {entity.noun} {name} are:")
        else:
            lines.append(f"Default configs for {entity.kind} in the cluster are:")
        for entry in entries:
            lines.append(_entry_line(entry))
            rows.append(_entry_row(entity.kind, name, entry))
    columns = ("entity_type", "entity_name", "name", "value", "source")
    return View("configs", lines, rows, columns=columns)


def _names(admin: "Admin", entity: Entities) -> list[str]:
    if entity.name is not None:
        return [entity.name]
    if entity.kind == "topics":
        return sorted(each.name for each in admin.list_topics())
    brokers = sorted(each.id for each in admin.describe_cluster().brokers)
    return [*(str(broker) for broker in brokers), ""]


def _entries(admin: "Admin", kind: str, name: str, *, show_all: bool) -> "list[ConfigEntry]":
    from pkafka.clients.admin.results import ConfigSource, ResourceType

    resource = _resource(kind, name)
    outcome = admin.describe_configs([resource], include_synonyms=True)[resource]
    if isinstance(outcome, ApiError):
        if outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            error = ApiError(outcome.code, f"Topic '{name}' does not exist")
            hint = meant_by_reader(name, lambda: [each.name for each in admin.list_topics()])
            if hint is not None:
                error.add_note(hint)
            raise error
        raise outcome
    wanted = {
        ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ResourceType.BROKER: (
            ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ),
    }.get(resource.type)
    entries = [each for each in outcome if show_all or wanted is None or each.source is wanted]
    return sorted(entries, key=lambda entry: entry.name)


def _resource(kind: str, name: str) -> "ConfigResource":
    from pkafka.clients.admin.results import ConfigResource, ResourceType

    types = {
        "topics": ResourceType.TOPIC,
        "brokers": ResourceType.BROKER,
        "broker-loggers": ResourceType.BROKER_LOGGER,
    }
    return ConfigResource(types[kind], name)


def _entry_line(entry: "ConfigEntry") -> str:
    synonyms = ", ".join(f"{each.source.name}:{each.name}={_java(each.value)}" for each in entry.synonyms)
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_java(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _entry_row(kind: str, name: str, entry: "ConfigEntry") -> dict[str, object]:
    return {
        "entity_type": kind,
        "entity_name": name or None,
        "name": entry.name,
        "value": entry.value,
        "sensitive": entry.is_sensitive,
        "read_only": entry.is_read_only,
        "source": entry.source.name,
        "synonyms": [
            {"source": each.source.name, "name": each.name, "value": each.value} for each in entry.synonyms
        ],
    }


def _java(value: str | None) -> str:
    return "null" if value is None else value


# -- alter ------------------------------------------------------------------------------------------------


def _alter(admin: "Admin", common: Common, entities: Entities, flags: Mapping[str, object]) -> None:
    added, removed, dry_run = _added(flags), _removed(flags), bool(flags["dry_run"])
    if entities.kind in quotas.QUOTA_TYPES:
        changes = quotas.alter(admin, entities, added, removed, dry_run=dry_run)
    else:
        changes = _alter_resource(admin, entities, added, removed, dry_run=dry_run)
    show_changes(common, entities, f"{_updated(entities)}.", changes, dry_run=dry_run)


def _updated(entities: Entities) -> str:
    # Of a user and a client Kafka's tool names the one that comes first for it.
    if entities.name:
        return f"config for {entities.noun} {entities.name}"
    return f"default config for {entities.kind} in the cluster"


def _alter_resource(
    admin: "Admin", entities: Entities, added: Mapping[str, str], removed: Sequence[str], *, dry_run: bool
) -> list[Change]:
    from pkafka.clients.admin.results import AlterOp, ConfigChange

    name = entities.name or ""
    _check_keys(_entries(admin, entities.kind, name, show_all=False), entities, added, removed)
    changes: list[ConfigChange] = [ConfigChange(key, AlterOp.SET, value) for key, value in added.items()]
    changes += [ConfigChange(key, AlterOp.DELETE, "") for key in removed]
    resource = _resource(entities.kind, name)
    outcome = admin.alter_configs({resource: changes}, validate_only=dry_run)[resource]
    if isinstance(outcome, ApiError):
        raise outcome
    return [Change(each.name, each.op.name, None if is_secret(each.name) else each.value) for each in changes]


def _check_keys(
    entries: "Sequence[ConfigEntry]", entity: Entities, added: Mapping[str, str], removed: Iterable[str]
) -> None:
    """A key that is not set cannot be deleted, and a logger that is not there cannot be set (as Kafka's tool)."""
    present = {entry.name for entry in entries}
    if entity.kind == "broker-loggers":
        unknown = [key for key in (*added, *removed) if key not in present]
        if unknown:
            hint = did_you_mean(unknown[0], present)
            raise CommandError(f"Invalid broker logger(s): {','.join(unknown)}", hint=hint)
    refuse_unset(removed, present)


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
