"""One file that describes clusters and the flows between them, and what workers and connectors are given of it.

``clusters = A, B`` names clusters; ``A.bootstrap.servers`` is a setting of one, ``A->B.topics`` one of a flow, and
``topics`` alone one of all flows: ``MirrorMakerConfig``. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.connect.config_providers import load_providers, resolved
from pkafka.connect.errors import ConfigError
from pkafka.connect.mirror.classes import replication_policy
from pkafka.connect.mirror.client_keys import CLIENT_KEYS
from pkafka.connect.mirror.filters import DefaultTopicFilter
from pkafka.connect.mirror.policies import keeps_names
from pkafka.connect.mirror.settings import CHECKPOINT_CONFIG, HEARTBEAT_CONFIG, SOURCE_CONFIG
from pkafka.java.text import parse_boolean, split_list, trim

CONNECTORS: Final = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
"""What each flow has, by Java's simple names."""

_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_KINDS: Final = ("producer", "consumer", "admin")
_PROVIDERS: Final = "config.providers"
_HEARTBEATS: Final = "emit.heartbeats.enabled"
_OF_WORKERS: Final = (
    *("offset.storage", "config.storage", "status.storage"),
    *("key.converter", "value.converter", "header.converter"),
    *("task", "worker", "replication.policy"),
)
"""What may stand in the file without a cluster and is for all workers."""
_NAMES: Final = frozenset(
    name for config in (SOURCE_CONFIG, CHECKPOINT_CONFIG, HEARTBEAT_CONFIG) for name in config.keys
)
_PLAIN: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\?\.(?![*+?{]))*")
"""The plain beginning of a regular expression of topics."""


class Pair(NamedTuple):
    """A flow."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class MirrorMakerConfig:
    """Reads the file.

    Args:
        properties: as they stand in it.

    Raises:
        ConfigError: it names no clusters.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        if "clusters" not in properties:
            raise ConfigError('Missing required configuration "clusters" which has no default value.')
        self.clusters: Sequence[str] = tuple(dict.fromkeys(split_list(trim(properties["clusters"]))))

    @property
    def has_internal_rest(self) -> bool:
        """Whether workers of one flow talk to each other (KIP-710)."""
        return parse_boolean(self._properties.get("dedicated.mode.enable.internal.rest"))

    def pairs(self) -> list[Pair]:
        """The flows that get a worker: those that are enabled, and those whose heartbeats are.

        Heartbeats of the flow from B to A are written on A, where the flow from A to B finds them; so by default each
        pair of clusters has two workers.
        """
        return [pair for pair in self._all_pairs() if self._is_enabled(pair) or self._has_heartbeats(pair)]

    def _all_pairs(self) -> Iterator[Pair]:
        for source in self.clusters:
            for target in self.clusters:
                if source != target:
                    yield Pair(source, target)

    def _is_enabled(self, pair: Pair) -> bool:
        return parse_boolean(self._properties.get(f"{pair}.enabled"))

    def _has_heartbeats(self, pair: Pair) -> bool:
        of_all = self._properties.get(_HEARTBEATS, "true")
        return parse_boolean(self._properties.get(f"{pair}.{_HEARTBEATS}", of_all))

    # -- what each is given --

    def cluster(self, alias: str) -> dict[str, str]:
        """The settings of a cluster, with those of its clients."""
        found = self._within(f"{alias}.")
        for given, takes_all in ((found.copy(), False), (self._properties, True)):
            for name in CLIENT_KEYS & given.keys():
                for kind in _KINDS:
                    found.setdefault(f"{kind}.{name}", given[name])
                if takes_all:
                    found.setdefault(name, given[name])
        return found

    def worker(self, pair: Pair) -> dict[str, str]:
        """The settings of the worker of a flow; it is one of the target's cluster."""
        found = self.cluster(pair.target)
        for prefix in _OF_WORKERS:
            found |= self._beginning(prefix)
        found = dict(resolved(found, load_providers(self._properties)))
        found |= self._beginning(_PROVIDERS)
        defaults = {
            "client.id": str(pair),
            "group.id": f"{pair.source}-mm2",
            **{f"{what}.storage.topic": f"mm2-{topic}.{pair.source}.internal" for what, topic in _STORES},
            **{f"{part}.converter": _BYTES for part in ("key", "value", "header")},
        }
        return {**defaults, **found}

    def connector(self, pair: Pair, name: str) -> dict[str, str]:
        """The settings of a connector of a flow.

        Args:
            name: one of :data:`CONNECTORS`.
        """
        found = {key: value for key, value in self._properties.items() if key in _NAMES}
        found |= self._beginning(_PROVIDERS) | self._beginning("replication.policy")
        for side, alias in (("source", pair.source), ("target", pair.target)):
            for key, value in self.cluster(alias).items():
                is_of_kind = key.startswith(_KINDS)
                found[f"{side}.{key}" if is_of_kind else f"{side}.cluster.{key}"] = value
        own = self._within(f"{pair}.")
        defaults = {
            "name": name,
            "connector.class": f"{_PACKAGE}{name}",
            "source.cluster.alias": pair.source,
            "target.cluster.alias": pair.target,
            "enabled": "false",
        }
        return {**defaults, **found, **own}

    def client(self, alias: str) -> dict[str, str]:
        """The settings of a :class:`~pkafka.connect.mirror.client.MirrorClient` of a cluster."""
        of_policy = self._beginning("replication.policy")
        return dict(resolved({**of_policy, **self.cluster(alias)}, load_providers(self._properties)))

    def _within(self, prefix: str) -> dict[str, str]:
        """The settings whose names go on behind a prefix, without it."""
        found = {name.removeprefix(prefix): value for name, value in self._beginning(prefix).items()}
        found.pop("", None)
        return found

    def _beginning(self, prefix: str) -> dict[str, str]:
        """The settings whose names begin so."""
        return {name: value for name, value in self._properties.items() if name.startswith(prefix)}

    # -- what must not be --

    def check(self) -> None:
        """Refuse flows by which a topic would go round in circles, as a policy that keeps names does not see.

        Raises:
            ConfigError: two flows copy one topic there and back.
        """
        for pair in self._all_pairs():
            back = Pair(pair.target, pair.source)
            if pair.source < pair.target and self._is_enabled(pair) and self._is_enabled(back):
                topic = self._circling(pair, back)
                if topic is not None:
                    raise ConfigError(
                        f"The flows {pair} and {back} both copy topics such as '{topic}' under the names that they"
                        " have, so that each record would go round for ever. Let them choose different topics, or"
                        " name copies by org.apache.kafka.connect.mirror.DefaultReplicationPolicy."
                    )

    def _circling(self, pair: Pair, back: Pair) -> str | None:
        """A name that topics of both flows may have; None: none was found."""
        filters, names = [], {"topic"}
        for each in (pair, back):
            configs = self.connector(each, "MirrorSourceConnector")
            if "topic.filter.class" in configs or not keeps_names(replication_policy(configs)):
                return None
            chosen = DefaultTopicFilter()
            chosen.configure(configs)
            filters.append(chosen)
            for part in split_list(configs.get("topics", "")):
                plain = _plain(part)
                names |= {plain, f"{plain}topic"}
        return next(
            (name for name in sorted(names) if name and all(f.takes_topic(name) for f in filters)), None
        )


def _plain(pattern: str) -> str:
    found = _PLAIN.match(pattern)
    return "" if found is None else found[0].replace("\\", "")


_STORES: Final = (("offset", "offsets"), ("status", "status"), ("config", "configs"))
