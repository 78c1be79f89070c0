"""The registry of configuration keys: what exists, of which type, with which default and rule.

The tables are data (broker.py, topic.py); this module gives them a shape and looks keys up. It reads no file
and holds no setting. Importing it costs a few milliseconds: every process of the broker does.
"""

from functools import cache
from typing import Final, NamedTuple

from pkafka.server.config.keys.broker import BROKER_KEYS
from pkafka.server.config.keys.pkafka import PKAFKA_KEYS
from pkafka.server.config.keys.topic import TOPIC_KEYS

Rule = tuple[object, ...] | None


class ConfigKey(NamedTuple):
    """One configuration key.

    ``default`` is text, as in a file; None: the key has no value until it is set.
    ``update_mode`` is 'read-only', 'per-broker' or 'cluster-wide'; topic keys say 'topic'. Keys with
    ``internal`` are accepted but never shown unless set. ``synonyms`` are broker keys with the factor that
    turns their unit into this key's.
    """

    name: str
    type: str
    default: str | None
    rule: Rule
    importance: str
    update_mode: str
    internal: bool = False
    synonyms: tuple[tuple[str, int], ...] = ()

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret that no answer and no log line may show."""
        return self.type == "password"

    @property
    def dynamic(self) -> bool:
        """Whether the value can change while the broker runs."""
        return self.update_mode != "read-only"


@cache
def broker_keys() -> dict[str, ConfigKey]:
    """All broker keys by name, those that only pkafka has (``pkafka.``) included."""
    keys: dict[str, ConfigKey] = {}
    for name, kind, default, rule, importance, mode in (*BROKER_KEYS, *PKAFKA_KEYS):
        internal = mode.startswith("internal ")
        keys[name] = ConfigKey(
            name, kind, default, rule, importance, mode.removeprefix("internal "), internal
        )
    return keys


@cache
def topic_keys() -> dict[str, ConfigKey]:
    """All topic keys by name."""
    return {
        name: ConfigKey(name, kind, default, rule, importance, "topic", synonyms=synonyms)
        for name, kind, default, rule, importance, synonyms in TOPIC_KEYS
    }


_TIME_GROUPS: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


@cache
def _broker_synonyms() -> dict[str, tuple[str, ...]]:
    synonyms: dict[str, tuple[str, ...]] = {name: group for group in _TIME_GROUPS for name in group}
    synonyms["log.flush.interval.ms"] = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    return synonyms


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker keys that say the same thing as ``name``, itself included, the strongest first."""
    return _broker_synonyms().get(name, (name,))


def documentation_of(name: str, *, topic: bool = False) -> str:
    """One line on what the key does; empty for keys that change nothing in pkafka."""
    from pkafka.server.config.keys.documentation import BROKER_DOCUMENTATION, TOPIC_DOCUMENTATION

    return (TOPIC_DOCUMENTATION if topic else BROKER_DOCUMENTATION).get(name, "")
