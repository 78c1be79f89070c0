"""The dynamic settings on their way from the control process to the workers and the cleaner."""

from collections.abc import Callable, Mapping
from typing import Final

from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import DYNAMIC_ONLY_KEYS
from pkafka.server.control.key_sets import KeySetFanout
from pkafka.server.control.siblings import Siblings
from pkafka.server.control.this_broker import ThisBroker
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import Peer
from pkafka.server.ipc.words import ClientQuotaSettings, Identity, Settings
from pkafka.server.limits.address_rates import ADDRESS_KEY
from pkafka.server.limits.quota_rules import QuotaKind

_UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
_OF_QUOTAS: Final = ("users", "clients", "ips")
_QUOTA_KEYS: Final = (*(kind.value for kind in QuotaKind), ADDRESS_KEY)


class ConfigFanout:
    """Tells settings to the processes, and to the controller, that act by them.

    Args:
        static: the settings of the file.
        broker: this broker, which has the dynamic settings.
        siblings: the other processes.
        key_sets: follow what the listeners' settings name.
        advertise: called after a change of the broker's settings, as its registration names some of them.
    """

    def __init__(
        self,
        static: BrokerConfig,
        broker: ThisBroker,
        siblings: Siblings,
        key_sets: KeySetFanout,
        advertise: Callable[[], None],
    ) -> None:
        self._static = static
        self._broker = broker
        self._siblings = siblings
        self._key_sets = key_sets
        self._advertise = advertise

    async def tell_all(self, peer: Peer) -> None:
        """Tell a worker that has just come all settings, and whose worker it is."""
        broker = self._broker
        await peer.call(words.IDENTITY, Identity(broker.broker_id, broker.cluster_id))
        await peer.call(words.BROKER_CONFIG, self._dynamic())
        rows = [
            row
            for entity_type in _OF_QUOTAS
            for name, configs in broker.configs.entities(entity_type).items()
            if (row := _quotas(entity_type, name, configs))[2]
        ]
        await peer.call(words.CLIENT_QUOTAS, ClientQuotaSettings(True, rows))
        await peer.call(
            words.EVERY_TOPIC_CONFIG,
            {name: dict(configs) for name, configs in broker.configs.topics().items()},
        )

    def tell_cleaner(self) -> None:
        """Tell the cleaner the broker's settings, when there is a cleaner."""
        if self._siblings.cleaner is not None:
            self._siblings.cleaner.note(words.BROKER_CONFIG, self._dynamic())

    def changed(self, entity_type: str, entity_name: str, configs: Mapping[str, str]) -> None:
        """Pass on that a topic, or this broker, has these settings of its own now."""
        broker = self._broker
        if entity_type == "topics":
            if configs.get(_UNCLEAN_ELECTION, "").strip().lower() == "true":
                broker.controller.allow_unclean_election(entity_name)
            self._siblings.tell_workers(words.TOPIC_CONFIGS, {entity_name: dict(configs)})
        elif entity_type == "brokers":
            if _UNCLEAN_ELECTION in configs and broker.config.unclean_leader_election_enable:
                broker.controller.allow_unclean_election(None)
            broker.encryption.take(broker.config)
            self._key_sets.take(broker.config)
            self._advertise()
            self._siblings.tell_workers(words.BROKER_CONFIG, self._dynamic())
            self.tell_cleaner()

        elif entity_type in _OF_QUOTAS:
            if entity_type != "ips":
                broker.mutations.change(entity_type, entity_name, configs)
            row = _quotas(entity_type, entity_name, configs)
            self._siblings.tell_workers(words.CLIENT_QUOTAS, ClientQuotaSettings(False, [row]))

    def _dynamic(self) -> Settings:
        """The broker's settings that differ from the file, by key; None for one that is gone."""
        static = self._static.originals
        current = self._broker.configs.layers.current.originals
        changed: dict[str, str | None] = {
            key: text for key, text in current.items() if static.get(key) != text
        }
        changed.update({key: None for key in static if key not in current})
        # Per-broker settings count only here: they are sent even if the file has the same value, and the file's are
        # not.
        layers = self._broker.configs.layers
        for key in DYNAMIC_ONLY_KEYS:
            changed[key] = layers.broker.get(key, layers.cluster.get(key))
        return changed


def _quotas(
    entity_type: str, entity_name: str, configs: Mapping[str, str]
) -> tuple[str, str, dict[str, str]]:
    """The quotas alone: other settings of users are secrets."""
    found = {key: configs[key] for key in _QUOTA_KEYS if key in configs}
    return entity_type, entity_name, found
