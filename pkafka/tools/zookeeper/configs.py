"""What kafka-configs.sh still does by ZooKeeper alone: SCRAM credentials of users, settings of brokers that do not run.

A first user has to be there before brokers that ask for a password start, and so has what a broker needs to start.
"""

import secrets
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pkafka.coordination.entity_configs import read_config, update_config
from pkafka.coordination.store import NoNodeError, Store
from pkafka.coordination.znode_json import ZnodeFormatError, in_properties_order
from pkafka.coordination.znodes import BROKER_IDS, DEFAULT_ENTITY, desanitize, sanitize
from pkafka.coordination.znodes_security import ScramCredential
from pkafka.errors import ConfigError, PkafkaError
from pkafka.net.scram import ScramMechanism, keys_of, salted_password
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import broker_key, check_broker_names
from pkafka.server.config.passwords import password_encoder
from pkafka.tools.secret_keys import HIDDEN, is_secret

_ENCODER: Final = "password.encoder."
USERS: Final = "users"
BROKERS: Final = "brokers"

_SALT_BYTES: Final = 24
_NOUNS: Final = {USERS: "user-principal", BROKERS: "brokers"}


class RefusedError(PkafkaError):
    """It cannot be done by ZooKeeper; the text says why, and has nothing of a secret."""


class ZookeeperEntity(NamedTuple):
    """A user or a broker; an empty name is the default of all."""

    kind: str
    name: str

    def __str__(self) -> str:
        noun = _NOUNS[self.kind]
        return f"{noun} '{self.name}'" if self.name else f"default {noun}"

    @property
    def node_name(self) -> str:
        """Of its node under ``/config/KIND``."""
        if not self.name:
            return DEFAULT_ENTITY
        return sanitize(self.name) if self.kind == USERS else self.name


def described(store: Store, kind: str, name: str | None) -> dict[ZookeeperEntity, dict[str, str]]:
    """The stored settings, with what is secret hidden: of one entity, or of all users that have any.

    Args:
        kind: :data:`USERS` or :data:`BROKERS`.
        name: of the entity; empty for the default, None for all users.

    Raises:
        RefusedError: a broker that it is about runs, which has to be asked then.
        StoreError: the store failed.
    """
    if name is not None:
        entity = ZookeeperEntity(kind, name)
        _refuse_running(store, entity, "describe brokers")
        return {entity: _shown(read_config(store, kind, entity.node_name))}
    found = {}
    for node_name in _children(store, f"/config/{kind}"):
        entity = ZookeeperEntity(kind, "" if node_name == DEFAULT_ENTITY else desanitize(node_name))
        configs = _shown(read_config(store, kind, node_name))
        if configs:
            found[entity] = configs
    return found


def credential(mechanism: ScramMechanism, password: bytes, iterations: int) -> str:
    """What is stored of a password, with a new salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    keys = keys_of(mechanism, salted_password(mechanism, password, salt, iterations))
    return ScramCredential(salt, keys.stored_key, keys.server_key, iterations).encode()


def alter(
    store: Store,
    entity: ZookeeperEntity,
    added: Mapping[str, str],
    removed: Collection[str],
    *,
    dry_run: bool,
) -> None:
    """Set and delete keys of an entity.

    Args:
        added: for a user, credentials of :func:`credential`.
        dry_run: check, and change nothing.

    Raises:
        RefusedError: these keys cannot be changed so, a broker that it is about runs, or a key to delete is not set.
        StoreError: the store failed.
    """
    if entity.kind == USERS:
        _check_user_keys(entity, [*added, *removed])
    else:
        # How passwords are encrypted is not stored.
        how = {key: value for key, value in added.items() if key.startswith(_ENCODER)}
        added = {key: value for key, value in added.items() if key not in how}
        _refuse_running(store, entity, "update brokers configs")
        _check_broker_keys(added, per_broker=bool(entity.name))
        added = _with_passwords_encrypted(added, how)

    def change(stored: dict[str, str]) -> dict[str, str]:
        unset = [key for key in removed if key not in stored]
        if unset:
            raise RefusedError(f"Invalid config(s): {','.join(unset)}")
        return {key: value for key, value in {**stored, **added}.items() if key not in removed}

    if dry_run:
        change(read_config(store, entity.kind, entity.node_name))
    else:
        update_config(store, entity.kind, entity.node_name, change)


def _check_user_keys(entity: ZookeeperEntity, keys: Collection[str]) -> None:
    others = [key for key in keys if ScramMechanism.of_name(key) is None]
    if others:
        raise RefusedError(
            f"--bootstrap-server option must be specified to update users configs: {', '.join(others)}. "
            "User configuration updates using ZooKeeper are only supported for SCRAM credential updates."
        )
    if not entity.name:
        raise RefusedError(f"Unknown Dynamic Configuration: {', '.join(keys)}.")


def _check_broker_keys(added: Mapping[str, str], *, per_broker: bool) -> None:
    try:
        check_broker_names(added, per_broker=per_broker)
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def _with_passwords_encrypted(added: Mapping[str, str], how: Mapping[str, str]) -> dict[str, str]:
    known = {key: broker_key(key) for key in added}
    passwords = [key for key, its in known.items() if its is not None and its.sensitive]
    if not passwords:
        return dict(added)
    try:
        encoder = password_encoder(BrokerConfig(how, check=False))
    except ConfigError as error:
        raise RefusedError(str(error)) from error
    if encoder is None:
        raise RefusedError(
            f"password.encoder.secret must be specified to update {', '.join(passwords)}: it encrypts what is stored, "
            "and is not stored itself"
        )
    return {key: encoder.encode(value) if key in passwords else value for key, value in added.items()}


def _refuse_running(store: Store, entity: ZookeeperEntity, action: str) -> None:
    """Brokers that run have the last word on their settings."""
    if entity.kind != BROKERS:
        return
    if entity.name:
        running = store.exists(f"{BROKER_IDS}/{entity.name}") is not None
        who = f"broker {entity.name} is running"
    else:
        brokers = len(_children(store, BROKER_IDS))
        running, who = brokers > 0, f"{brokers} brokers are running"
    if running:
        raise RefusedError(
            f"--bootstrap-server option must be specified to {action} - {who}. Broker configuration operations "
            "using ZooKeeper are only supported if the affected broker(s) are not running."
        )


def _children(store: Store, path: str) -> list[str]:
    try:
        return store.children(path)
    except NoNodeError:
        return []


def _shown(configs: Mapping[str, str]) -> dict[str, str]:
    return {key: _without_secrets(key, configs[key]) for key in in_properties_order(configs)}


def _without_secrets(key: str, value: str) -> str:
    if ScramMechanism.of_name(key) is not None:
        try:
            return f"iterations={ScramCredential.decode(value).iterations}"
        except ZnodeFormatError:
            return HIDDEN
    known = broker_key(key)
    return HIDDEN if is_secret(key) or (known is not None and known.sensitive) else value
