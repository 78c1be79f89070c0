"""pk-configs for topics, brokers and the loggers of brokers: their settings; text as kafka-configs.sh."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pkafka.cli.configs.changes import Change, refuse_unset
from pkafka.cli.configs.entities import Entities
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.output import View
from pkafka.cli.kit.spelling import did_you_mean, meant_by_reader
from pkafka.errors import ApiError, ErrorCode
from pkafka.tools.secret_keys import is_secret

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.results import ConfigEntry, ConfigResource


def describe(admin: "Admin", entity: Entities, *, show_all: bool) -> View:
    """The settings of a topic, a broker or a broker's loggers, or of all of them."""
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


def alter(
    admin: "Admin", entities: Entities, added: Mapping[str, str], removed: Sequence[str], *, dry_run: bool
) -> list[Change]:
    """Set and delete keys of one topic, broker or broker's loggers.

    Raises:
        ApiError: the broker refuses.
        CommandError: a key to delete is not set, or a logger does not exist.
    """
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


def _check_keys(
    entries: "Sequence[ConfigEntry]", entity: Entities, added: Mapping[str, str], removed: Iterable[str]
) -> None:
    """Refuse to delete a key that is not set, and to set a logger that does not exist, as Kafka's tool does."""
    present = {entry.name for entry in entries}
    if entity.kind == "broker-loggers":
        unknown = [key for key in (*added, *removed) if key not in present]
        if unknown:
            hint = did_you_mean(unknown[0], present)
            raise CommandError(f"Invalid broker logger(s): {','.join(unknown)}", hint=hint)
    refuse_unset(removed, present)
