"""pk-configs: dynamic configurations of topics, brokers and broker loggers, as kafka-configs.sh.

Not here yet: clients, users, ips (quotas and SCRAM credentials), client-metrics and the --zookeeper forms.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pkafka.cli.kafka_command import CommandError
from pkafka.cli.options import Common, command, connection_options, exclude
from pkafka.cli.output import OutputFormat, View, line
from pkafka.errors import ApiError, ErrorCode
from pkafka.tools.secret_keys import is_secret

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import ConfigEntry, ConfigResource

_TYPES: Final = ("topics", "brokers", "broker-loggers")
_LATER: Final = ("clients", "users", "ips", "client-metrics")
_LATER_FLAGS: Final = (
    *("user", "client", "ip", "client_metrics"),
    *("user_defaults", "client_defaults", "ip_defaults", "zookeeper"),
)
_SHORT: Final = {"topic": "topics", "broker": "brokers", "broker_logger": "broker-loggers"}

# Not between brackets: an opening one comes first, or none at all.
_OUTSIDE = r"(?=[^\]]*(?:\[|$))"
_NO_BRACKETS = str.maketrans("", "", "[]")


class Entity(NamedTuple):
    """What a configuration belongs to: a kind, and a name (empty: the default; None: all of the kind)."""

    kind: str
    name: str | None

    @property
    def noun(self) -> str:
        """The kind in the singular."""
        return self.kind[:-1]


@command("pk-configs")
@connection_options
@click.option("--describe", is_flag=True, help="Show configurations.")
@click.option("--alter", is_flag=True, help="Change configurations.")
@click.option("--entity-type", metavar="topics|brokers|broker-loggers", help="What the settings belong to.")
@click.option("--entity-name", metavar="NAME", help="Name of the topic, id of the broker.")
@click.option("--entity-default", is_flag=True, help="The default of all brokers.")
@click.option("--topic", metavar="NAME", help="Short for --entity-type topics --entity-name NAME.")
@click.option("--broker", metavar="ID", help="Short for --entity-type brokers --entity-name ID.")
@click.option("--broker-defaults", is_flag=True, help="Short for --entity-type brokers --entity-default.")
@click.option(
    "--broker-logger", metavar="ID", help="Short for --entity-type broker-loggers --entity-name ID."
)
@click.option("--user", hidden=True)
@click.option("--client", hidden=True)
@click.option("--ip", hidden=True)
@click.option("--client-metrics", hidden=True)
@click.option("--user-defaults", is_flag=True, hidden=True)
@click.option("--client-defaults", is_flag=True, hidden=True)
@click.option("--ip-defaults", is_flag=True, hidden=True)
@click.option("--zookeeper", hidden=True)
@click.option("--add-config", metavar="K=V,K=[A,B]", help="Keys to set; brackets protect commas.")
@click.option("--add-config-file", metavar="FILE", help="Properties file of keys to set.")
@click.option("--delete-config", metavar="K,K", help="Keys to set back.")
@click.option("--all", "show_all", is_flag=True, help="Show static and default values too.")
@click.option("--force", is_flag=True, help="Ask nothing.")
@click.option("--dry-run", is_flag=True, help="Let the broker check --alter, and change nothing.")
def main(common: Common, **flags: object) -> None:
    """Show and change dynamic configurations."""
    _check_action(flags)
    for name in _LATER_FLAGS:
        if flags[name]:
            raise CommandError(f"--{name.replace('_', '-')} is not supported by this version of pk-configs")
    entity = _entity(flags)
    with common.admin() as admin:
        if flags["describe"]:
            common.show(_describe(admin, entity, show_all=bool(flags["show_all"])))
        else:
            _alter(admin, common, entity, flags)


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


def _entity(flags: Mapping[str, object]) -> Entity:
    short = [(kind, str(flags[name])) for name, kind in _SHORT.items() if flags[name] is not None]
    if flags["broker_defaults"]:
        short.append(("brokers", ""))
    kind, name = flags["entity_type"], flags["entity_name"]
    if short and (kind or name is not None or flags["entity_default"]):
        raise click.UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    if len(short) > 1:
        raise click.UsageError("Only one entity may be given for topics, brokers and broker-loggers")
    if short:
        entity = Entity(*short[0])
    else:
        if kind is None:
            raise click.UsageError("At least one entity type must be specified")
        if kind in _LATER:
            raise CommandError(f"--entity-type {kind} is not supported by this version of pk-configs")
        if kind not in _TYPES:
            raise click.UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)}"
            )
        entity = Entity(str(kind), "" if flags["entity_default"] else (None if name is None else str(name)))
    _check_entity(entity, altering=bool(flags["alter"]))
    return entity


def _check_entity(entity: Entity, *, altering: bool) -> None:
    if entity.kind != "topics" and entity.name and not entity.name.isdigit():
        raise click.UsageError(
            f"The entity name for {entity.kind} must be a valid integer broker id, but it is: {entity.name}"
        )
    if entity.name == "" and entity.kind != "brokers":
        raise click.UsageError(f"--entity-default makes no sense for {entity.kind}")
    if entity.name is None and (altering or entity.kind == "broker-loggers"):
        raise click.UsageError(
            f"an entity name must be specified with --alter of {entity.kind}"
            if altering
            else "an entity name must be specified for broker-loggers"
        )


# -- describe ---------------------------------------------------------------------------------------------


def _describe(admin: "Admin", entity: Entity, *, show_all: bool) -> View:
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


def _names(admin: "Admin", entity: Entity) -> list[str]:
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
            raise ApiError(outcome.code, f"Topic '{name}' does not exist")
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


def _alter(admin: "Admin", common: Common, entity: Entity, flags: Mapping[str, object]) -> None:
    from pkafka.clients.admin.results import AlterOp, ConfigChange

    added = _added(flags)
    removed = [key.strip() for key in str(flags["delete_config"] or "").split(",") if key.strip()]
    name = entity.name or ""
    _check_keys(_entries(admin, entity.kind, name, show_all=False), entity, added, removed)
    changes: list[ConfigChange] = [ConfigChange(key, AlterOp.SET, value) for key, value in added.items()]
    changes += [ConfigChange(key, AlterOp.DELETE, "") for key in removed]
    resource = _resource(entity.kind, name)
    dry_run = bool(flags["dry_run"])
    outcome = admin.alter_configs({resource: changes}, validate_only=dry_run)[resource]
    if isinstance(outcome, ApiError):
        raise outcome
    text = (
        f"config for {entity.noun} {name}." if name else f"default config for {entity.kind} in the cluster."
    )
    text = f"Would update {text}" if dry_run else f"Completed updating {text}"
    if common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE):
        line(text)
        return
    rows = [
        {"name": each.name, "op": each.op.name, "value": None if is_secret(each.name) else each.value}
        for each in changes
    ]
    extra = {"entity_type": entity.kind, "entity_name": name or None, "dry_run": dry_run}
    common.show(View("changes", [], rows, extra))


def _check_keys(
    entries: "Sequence[ConfigEntry]", entity: Entity, added: Mapping[str, str], removed: Iterable[str]
) -> None:
    """A key that is not set cannot be deleted, and a logger that is not there cannot be set (as Kafka's tool)."""
    present = {entry.name for entry in entries}
    if entity.kind == "broker-loggers":
        unknown = [key for key in (*added, *removed) if key not in present]
        if unknown:
            raise CommandError(f"Invalid broker logger(s): {','.join(unknown)}")
    unset = [key for key in removed if key not in present]
    if unset:
        raise CommandError(f"Invalid config(s): {','.join(unset)}")


def _added(flags: Mapping[str, object]) -> dict[str, str]:
    if flags["add_config_file"]:
        from pkafka.clients.properties import load_properties

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
        values[key.strip()] = value[0].translate(_NO_BRACKETS).strip()
    return values
