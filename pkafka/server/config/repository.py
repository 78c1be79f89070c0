"""Dynamic settings as they are stored: loaded from the coordination store, followed by its change notes, written.

A change is two nodes written in one step: the settings of the entity (/config/topics/T, /config/brokers/N,
/config/brokers/<default>) and a note of it (/config/changes/config_change_NNNNNNNNNN), which every broker watches.
Any broker that reads a note after 15 minutes removes it. All as in Kafka, so that both kinds of broker
can share a cluster.

Everything here runs on the thread that may use the store; only :attr:`ConfigRepository.layers` and
:meth:`ConfigRepository.topic` may be read from anywhere.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from pkafka.clock import Clock
from pkafka.coordination.entity_configs import update_config
from pkafka.coordination.store import (
    NodeExistsError,
    NoNodeError,
    Store,
    StoreError,
    Watch,
    WatchEvent,
)
from pkafka.coordination.znode_json import ZnodeFormatError
from pkafka.coordination.znodes import (
    CONFIG_CHANGES,
    DEFAULT_ENTITY,
    ConfigChange,
    EntityConfig,
)
from pkafka.errors import ConfigError
from pkafka.model import BrokerId
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import (
    NO_CONFIGS,
    BrokerLayers,
    Configs,
    usable_broker_configs,
    usable_topic_configs,
)

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
ALL_BROKERS: Final = DEFAULT_ENTITY

NOTE_EXPIRY_MS: Final = 15 * 60 * 1000

_NOTE_PREFIX: Final = ConfigChange.create_path().rpartition("/")[2]
_NOTES_PER_PURGE: Final = 500

ChangeCallback = Callable[[str, str, Configs], None]
"""(entity type, entity name, its settings now); the type is 'topics', 'brokers', 'users', 'clients' or 'ips'."""

_LOG: Final = logging.getLogger(__name__)


class ConfigRepository:
    """The dynamic settings of all topics and of this broker.

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
        self._clock = clock
        self._on_change = on_change
        self._post = post
        self._store: Store | None = None
        self._watch: Watch | None = None
        self._last_note = ""
        self._topics: dict[str, Configs] = {}
        self._deleted: set[str] = set()
        self._stored_broker: Configs = NO_CONFIGS
        self._stored_cluster: Configs = NO_CONFIGS
        self._layers = BrokerLayers(static)

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

    def start(self, store: Store) -> None:
        """Load everything from ``store`` and follow its changes; again with each new session.

        ``on_change`` hears of what differs from before.

        Raises:
            StoreError: the store failed.
        """
        self.stop()
        self._store = store
        _ensure(store, CONFIG_CHANGES)
        self._watch = store.watch_children(CONFIG_CHANGES, self._notes_changed)
        # A later change leaves a newer note; earlier changes are read below.
        self._last_note = max(_notes(store), default="")
        self._reload(BROKERS, ALL_BROKERS)
        self._reload(BROKERS, self._broker_name)
        stored = _children(store, "/config/topics")
        self.load_topics({*stored, *self._topics})
        self._purge(store)

    def stop(self) -> None:
        """Stop following; what was loaded stays readable."""
        if self._watch is not None:
            self._watch.unwatch()
            self._watch = None
        self._store = None

    def load_topics(self, names: Iterable[str]) -> dict[str, Configs]:
        """Read the settings of topics afresh, for topics that are new on this broker or described to a client.

        Returns:
            What is stored, illegal values included.

        Raises:
            StoreError: the store failed.
        """
        wanted = sorted(set(names))
        self._deleted.difference_update(wanted)
        found = self._require_store().get_many([EntityConfig.path(TOPICS, name) for name in wanted])
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
            entity_type: 'topics' or 'brokers'.
            entity_name: of the topic, the broker's id, or '<default>'.
            change: gives the new settings for the stored ones; may raise, and may run again after a conflict.

        Returns:
            The settings written.

        Raises:
            StoreError: the store failed; after a lost connection the change may still be made.
        """
        configs = update_config(self._require_store(), entity_type, entity_name, change, decode=_decode)
        # The note reaches this broker too; reading now lets the next request see its predecessor's work.
        self._reload(entity_type, entity_name)
        return configs

    def peek(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """The stored settings of an entity, applied here or not.

        Raises:
            StoreError: the store failed.
        """
        path = EntityConfig.path(entity_type, entity_name)
        node = self._require_store().get_many([path])[0]
        return _decode(path, node[0]) if node is not None else {}

    def process_notes(self) -> None:
        """Apply the changes whose notes came since the last call, then remove the notes that are old.

        A failure of the store is logged: the next note, or the next session, brings what was missed.
        """
        store = self._store
        if store is None:
            return
        try:
            fresh = [name for name in _notes(store) if name > self._last_note]
            for entity in self._entities(store, fresh):
                self._reload(*entity)
            self._last_note = max(fresh, default=self._last_note)
            self._purge(store)
        except StoreError as error:
            _LOG.warning("cannot follow configuration changes: %s", error)

    def _notes_changed(self, _: WatchEvent) -> None:
        self._post(self.process_notes)

    def _require_store(self) -> Store:
        if self._store is None:
            raise StoreError(CONFIG_CHANGES, "there is no session with the coordination store")
        return self._store

    def _entities(self, store: Store, notes: list[str]) -> Iterable[tuple[str, str]]:
        """The entities that ``notes`` name, each once, in order."""
        found: dict[tuple[str, str], None] = {}
        for name, node in zip(
            notes, store.get_many([f"{CONFIG_CHANGES}/{name}" for name in notes]), strict=True
        ):
            if node is None:
                continue
            try:
                entity_type, _, entity_name = ConfigChange.decode(node[0]).entity_path.partition("/")
                found[entity_type, entity_name] = None
            except ZnodeFormatError as error:
                _LOG.error("configuration change note %s is skipped: %s", name, error)
        return found

    def _purge(self, store: Store) -> None:
        """Remove old notes, oldest first, and stop at the first young one."""
        expired_ms = self._clock.now_ms() - NOTE_EXPIRY_MS
        names = _notes(store)[:_NOTES_PER_PURGE]
        nodes = store.get_many([f"{CONFIG_CHANGES}/{name}" for name in names])
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                continue
            if node[1].ctime_ms >= expired_ms:
                break
            try:
                store.delete(f"{CONFIG_CHANGES}/{name}")
            except NoNodeError:
                continue  # another broker was faster

    def _reload(self, entity_type: str, entity_name: str) -> None:
        try:
            node = self._require_store().get_many([EntityConfig.path(entity_type, entity_name)])[0]
        except ValueError:
            _LOG.error(
                "configuration change note of '%s/%s' is skipped: no such path", entity_type, entity_name
            )
            return
        configs = _decode(EntityConfig.path(entity_type, entity_name), node[0]) if node is not None else {}
        if entity_type == TOPICS:
            self._set_topic(entity_name, configs)
        elif entity_type == BROKERS:
            self._set_broker(entity_name, configs)
        else:
            self._on_change(entity_type, entity_name, configs)

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
        usable, problems = usable_broker_configs(configs, per_broker=per_broker)
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


def _notes(store: Store) -> list[str]:
    """The names of the notes, oldest first."""
    return sorted(name for name in store.children(CONFIG_CHANGES) if name.startswith(_NOTE_PREFIX))


def _children(store: Store, path: str) -> list[str]:
    try:
        return store.children(path)
    except NoNodeError:
        return []


def _ensure(store: Store, path: str) -> None:
    with suppress(NodeExistsError):
        store.create(path, b"", make_parents=True)


def _decode(path: str, data: bytes) -> dict[str, str]:
    try:
        return dict(EntityConfig.decode(data).config)
    except ZnodeFormatError as error:
        _LOG.error("the settings in %s are ignored: %s", path, error)
        return {}
