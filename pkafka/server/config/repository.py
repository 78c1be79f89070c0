"""Dynamic settings as they are stored: loaded from the coordination store, followed by its change notes, written.

A change is two nodes written in one step: the settings of the entity (/config/topics/T, /config/brokers/N,
/config/brokers/<default>) and a note of it (/config/changes/config_change_NNNNNNNNNN), which every broker watches.
Any broker that reads a note after 15 minutes removes it. All as in Kafka, so that both kinds of broker
can share a cluster.

Everything here runs on the thread that may use the store; only :attr:`ConfigRepository.layers` and
:meth:`ConfigRepository.topic` may be read from anywhere.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pkafka.clock import Clock
from pkafka.coordination.change_notes import FollowedNotes
from pkafka.coordination.entity_configs import update_config
from pkafka.coordination.store import NoNodeError, Stat, Store
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import (
    CONFIG_CHANGES,
    DEFAULT_ENTITY,
    ConfigChange,
    EntityConfig,
)
from pkafka.errors import ConfigError
from pkafka.model import BrokerId
from pkafka.security.password_encoder import is_encoded
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import (
    NO_CONFIGS,
    BrokerLayers,
    Configs,
    for_store,
    usable_broker_configs,
    usable_topic_configs,
)
from pkafka.server.config.passwords import password_encoder

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
ALL_BROKERS: Final = DEFAULT_ENTITY

_NOTE_PREFIX: Final = ConfigChange.create_path().rpartition("/")[2]
_PAIR: Final = "/clients/"
"""Stands between the names of a user and a client that have settings together."""

ChangeCallback = Callable[[str, str, Configs], None]
"""(entity type, entity name, its settings now); the type is 'topics', 'brokers', 'users', 'clients' or 'ips'."""

_LOG: Final = logging.getLogger(__name__)


class ConfigRepository:
    """The dynamic settings of all topics, users, clients and addresses, and of this broker.

    Args:
        static: the broker's own file, under the dynamic layers.
        broker_id: of this broker.
        clock: for the age of change notes.
        on_change: told about every change after it is in force here, on the store's thread.
        post: puts a call into the queue of the store's thread; called from the store's internal thread.
    """

    def __init__(
        self,
        static: BrokerConfig,
        broker_id: BrokerId,
        *,
        clock: Clock,
        on_change: ChangeCallback,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._broker_name = str(broker_id)
        self._on_change = on_change
        self._notes = FollowedNotes(
            "settings", (CONFIG_CHANGES,), _NOTE_PREFIX, clock, read=self._read_changed, post=post
        )
        self._topics: dict[str, Configs] = {}
        self._deleted: set[str] = set()
        self._others: dict[str, dict[str, Configs]] = {USERS: {}, CLIENTS: {}, IPS: {}}
        self._stored_broker: Configs = NO_CONFIGS
        self._stored_cluster: Configs = NO_CONFIGS
        self._layers = BrokerLayers(static)
        self.encoder: Final = password_encoder(static)
        """Reads and writes passwords among the settings of brokers; None where no secret for that is set."""

    @property
    def layers(self) -> BrokerLayers:
        """The settings of this broker, layer by layer; ``layers.current`` is what is in force."""
        return self._layers

    def topic(self, name: str) -> Configs:
        """The settings of a topic as last read, without those that are illegal; empty for one that has none."""
        return self._topics.get(name, NO_CONFIGS)

    def topics(self) -> Mapping[str, Configs]:
        """A copy of the settings of all topics that have any."""
        return dict(self._topics)

    def entities(self, entity_type: str) -> Mapping[str, Configs]:
        """A copy of the settings of all users, clients or addresses that have any, values as stored.

        Args:
            entity_type: 'users', 'clients' or 'ips'.

        Returns:
            The settings by the entity's name, sanitized as in its path; also ``USER/clients/CLIENT`` among users.
        """
        return dict(self._others[entity_type])

    def load_entities(self, entity_type: str) -> Mapping[str, Configs]:
        """The same, read afresh.

        Raises:
            StoreError: the store failed.
        """
        self._load_others(self._notes.store(), entity_type, self._others[entity_type])
        return self.entities(entity_type)

    def start(self, store: Store) -> None:
        """Load everything from ``store`` and follow its changes; again with each new session.

        ``on_change`` hears of what differs from before.

        Raises:
            StoreError: the store failed.
        """
        self._notes.begin(store, (CONFIG_CHANGES,))
        self._reload(BROKERS, ALL_BROKERS)
        self._reload(BROKERS, self._broker_name)
        self._leave_old_secret()
        stored = _children(store, "/config/topics")
        self.load_topics({*stored, *self._topics})
        for entity_type, known in self._others.items():
            self._load_others(store, entity_type, known)
        self._notes.purge()

    def _leave_old_secret(self) -> None:
        """Encrypt passwords anew that password.encoder.old.secret has encrypted."""
        encoder = self.encoder
        if encoder is None:
            return
        old = [text for text in self._stored_broker.values() if is_encoded(text) and encoder.is_old(text)]
        if old:
            readable, _ = usable_broker_configs(self._stored_broker, per_broker=True, encoder=encoder)
            self.update(
                BROKERS,
                self._broker_name,
                lambda stored: {**stored, **for_store(readable, stored, encoder)},
            )

    def stop(self) -> None:
        """Stop following; what was loaded stays readable."""
        self._notes.stop()

    def load_topics(self, names: Iterable[str]) -> dict[str, Configs]:
        """Read the settings of topics afresh, for topics that are new on this broker or described to a client.

        Returns:
            What is stored, illegal values included.

        Raises:
            StoreError: the store failed.
        """
        wanted = sorted(set(names))
        self._deleted.difference_update(wanted)
        found = self._notes.store().get_many([EntityConfig.path(TOPICS, name) for name in wanted])
        loaded: dict[str, Configs] = {}
        for name, node in zip(wanted, found, strict=True):
            configs = _decode(EntityConfig.path(TOPICS, name), node[0]) if node is not None else {}
            loaded[name] = configs
            self._set_topic(name, configs)
        return loaded

    def forget_topics(self, names: Iterable[str]) -> None:
        """Drop what is known of deleted topics, and tell of it; of those whose settings are still stored, later.

        A topic counts as gone while the last of its nodes are still being removed, and one of the same name may be
        there again: what is stored decides.

        Raises:
            StoreError: the store failed.
        """
        self._deleted.update(name for name in names if name in self._topics)
        stored = self.load_topics(self._deleted)
        self._deleted = {name for name, configs in stored.items() if configs}

    def update(
        self, entity_type: str, entity_name: str, change: Callable[[dict[str, str]], Configs]
    ) -> Configs:
        """Change the stored settings of an entity and leave a note; no other change is lost.

        Args:
            entity_type: 'topics', 'brokers', 'users', 'clients' or 'ips'.
            entity_name: of the topic, the broker's id, or '<default>'; of others as in :meth:`entities`.
            change: gives the new settings for the stored ones; may raise, and may run again after a conflict.

        Returns:
            The settings written.

        Raises:
            StoreError: the store failed; after a lost connection the change may still be made.
        """
        configs = update_config(self._notes.store(), entity_type, entity_name, change, decode=_decode)
        # The note reaches this broker too; reading now lets the next request see its predecessor's work.
        self._reload(entity_type, entity_name)
        return configs

    def peek(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """The stored settings of an entity, applied here or not.

        Raises:
            StoreError: the store failed.
        """
        path = EntityConfig.path(entity_type, entity_name)
        node = self._notes.store().get_many([path])[0]
        return _decode(path, node[0]) if node is not None else {}

    def process_notes(self) -> None:
        """Apply the changes whose notes came since the last call, then remove the notes that are old."""
        self._notes.process()

    def _read_changed(self, _store: Store, notes: Sequence[bytes]) -> None:
        for entity in self._entities(notes):
            self._reload(*entity)

    def _entities(self, notes: Iterable[bytes]) -> Iterable[tuple[str, str]]:
        """The entities that ``notes`` name, each once, in order."""
        found: dict[tuple[str, str], None] = {}
        for data in notes:
            try:
                entity_type, _, entity_name = ConfigChange.decode(data).entity_path.partition("/")
                found[entity_type, entity_name] = None
            except ZnodeFormatError as error:
                _LOG.error("a configuration change note is skipped: %s", error)
        return found

    def _reload(self, entity_type: str, entity_name: str) -> None:
        try:
            node = self._notes.store().get_many([EntityConfig.path(entity_type, entity_name)])[0]
        except ValueError:
            _LOG.error(
                "configuration change note of '%s/%s' is skipped: no such path", entity_type, entity_name
            )
            return
        configs = _decoded(entity_type, entity_name, node)
        if entity_type == TOPICS:
            self._set_topic(entity_name, configs)
        elif entity_type == BROKERS:
            self._set_broker(entity_name, configs)
        elif entity_type in self._others:
            self._set_other(entity_type, entity_name, configs)
        else:
            _LOG.error(
                "configuration change note of '%s/%s' is skipped: no such type", entity_type, entity_name
            )

    def _load_others(self, store: Store, entity_type: str, known: Mapping[str, Configs]) -> None:
        root = EntityConfig.path(entity_type, "")[:-1]
        names = sorted({*_children(store, root), *(name for name in known if _PAIR not in name)})
        nodes = store.get_many([EntityConfig.path(entity_type, name) for name in names])
        pairs = {name for name in known if _PAIR in name}
        for name, node in zip(names, nodes, strict=True):
            self._set_other(entity_type, name, _decoded(entity_type, name, node))
            if node is not None and node[1].num_children:
                pairs.update(
                    f"{name}{_PAIR}{client}" for client in _children(store, f"{root}/{name}{_PAIR[:-1]}")
                )
        ordered = sorted(pairs)
        nodes = store.get_many([EntityConfig.path(entity_type, name) for name in ordered])
        for name, node in zip(ordered, nodes, strict=True):
            self._set_other(entity_type, name, _decoded(entity_type, name, node))

    def _set_other(self, entity_type: str, name: str, configs: Configs) -> None:
        known = self._others[entity_type]
        if configs == known.get(name, NO_CONFIGS):
            return
        if configs:
            known[name] = MappingProxyType(dict(configs))
        else:
            del known[name]
        self._on_change(entity_type, name, configs)

    def _set_topic(self, name: str, configs: Configs) -> None:
        usable, problems = usable_topic_configs(configs)
        if usable == self.topic(name):
            return
        for problem in problems:
            _LOG.error("%s: %s", EntityConfig.path(TOPICS, name), problem)
        if usable:
            self._topics[name] = MappingProxyType(usable)
        else:
            self._topics.pop(name, None)
        self._on_change(TOPICS, name, usable)

    def _set_broker(self, name: str, configs: Configs) -> None:
        per_broker = name != ALL_BROKERS
        if per_broker and name != self._broker_name:
            return
        if configs == (self._stored_broker if per_broker else self._stored_cluster):
            return
        if per_broker:
            self._stored_broker = configs
        else:
            self._stored_cluster = configs
        usable, problems = usable_broker_configs(configs, per_broker=per_broker, encoder=self.encoder)
        for problem in problems:
            _LOG.error("%s: %s", EntityConfig.path(BROKERS, name), problem)
        layers = self._layers.with_layer(usable, per_broker=per_broker)
        try:
            layers.current  # noqa: B018 - computed here, so that what contradicts itself is never in force
        except ConfigError as error:
            _LOG.error("%s is not applied: %s", EntityConfig.path(BROKERS, name), error)
            return
        self._layers = layers
        self._on_change(BROKERS, name, usable)


def _children(store: Store, path: str) -> list[str]:
    try:
        return store.children(path)
    except NoNodeError:
        return []


def _decoded(entity_type: str, entity_name: str, node: tuple[bytes, Stat] | None) -> dict[str, str]:
    return _decode(EntityConfig.path(entity_type, entity_name), node[0]) if node is not None else {}


def _decode(path: str, data: bytes) -> dict[str, str]:
    try:
        return dict(EntityConfig.decode(data).config)
    except ZnodeFormatError as error:
        _LOG.error("the settings in %s are ignored: %s", path, error)
        return {}
