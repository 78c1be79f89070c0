"""pk-configs --zookeeper: what may be done before a broker runs, in the words of kafka-configs.sh; no secrets."""

from collections.abc import Mapping, Sequence

from pkafka.cli.configs.changes import Change, deleted, show_changes
from pkafka.cli.configs.entities import BROKERS, USERS, Entities
from pkafka.cli.configs.quotas import parse_credential
from pkafka.cli.kit.kafka_command import BadValueError
from pkafka.cli.kit.options import Common
from pkafka.cli.kit.output import OutputFormat, View, choose_format, line
from pkafka.cli.kit.zookeeper_option import DEPRECATED, opened_store
from pkafka.net.scram import ScramMechanism
from pkafka.tools.secret_keys import is_secret
from pkafka.tools.zookeeper import configs


def run(
    common: Common,
    entities: Entities,
    flags: Mapping[str, object],
    added: Mapping[str, str],
    removed: Sequence[str],
) -> None:
    """Describe or alter, as the flags say.

    Raises:
        CommandError: ZooKeeper cannot be reached, or a value is wrong.
        RefusedError: it needs a broker.
    """
    if choose_format(common.output) is OutputFormat.TEXT:
        for each in DEPRECATED:
            line(each)
    if entities.kind == BROKERS and entities.name is None:
        raise BadValueError("an entity name must be specified with --describe of brokers by --zookeeper")
    tls_file = flags["zk_tls_config_file"]
    connect = str(flags["zookeeper"])
    values = _stored_values(entities, added)
    with opened_store(
        connect, common.timeout_ms, tls_file=None if tls_file is None else str(tls_file)
    ) as store:
        if flags["describe"]:
            common.show(_view(configs.described(store, entities.kind, entities.name)))
            return
        entity = configs.ZookeeperEntity(entities.kind, entities.name or "")
        dry_run = bool(flags["dry_run"])
        configs.alter(store, entity, values, removed, dry_run=dry_run)
    changes = [
        *(Change(key, "SET", None if is_secret(key) else value) for key, value in added.items()),
        *deleted(removed),
    ]
    show_changes(common, entities, f"config for entity: {entity}.", changes, dry_run=dry_run)


def _stored_values(entities: Entities, added: Mapping[str, str]) -> dict[str, str]:
    values = dict(added)
    for key, text in added.items():
        mechanism = ScramMechanism.of_name(key) if entities.kind == USERS else None
        if mechanism is not None:
            iterations, password = parse_credential(mechanism, text)
            values[key] = configs.credential(mechanism, password, iterations)
    return values


def _view(found: Mapping[configs.ZookeeperEntity, Mapping[str, str]]) -> View:
    lines = [
        f"Configs for {entity} are {','.join(f'{key}={value}' for key, value in settings.items())}"
        for entity, settings in found.items()
    ]
    rows = [
        {"entity_type": entity.kind, "entity_name": entity.name or None, "name": key, "value": value}
        for entity, settings in found.items()
        for key, value in settings.items()
    ]
    return View("configs", lines, rows, columns=("entity_type", "entity_name", "name", "value"))
