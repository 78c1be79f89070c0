"""Names that a shell offers while a person types: topics, groups, brokers, ids of the cluster meant, keys, profiles.

The person waits for them: names are kept for a moment, a cluster has 300 ms to answer, and its last answer is offered
when it does not answer in time. Nothing here prints an error: a shell would show it in the middle of a line.
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pkafka.cli.kit.client_settings import SERVERS, client_settings
from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin

_DEADLINE_S: Final = 0.3
_FRESH_S: Final = 10.0
_CLUSTERS_KEPT: Final = 20
_FILE_FLAGS: Final = frozenset(
    {"--command-config", "--producer.config", "--consumer.config", "--producer-config", "--consumer-config"}
)
_SERVER_FLAGS: Final = frozenset({"--bootstrap-server", "--broker-list", "-b"})


def names(kind: str, words: Sequence[str]) -> list[str]:
    """The names to offer.

    Args:
        kind: one of :data:`KINDS`.
        words: the command line so far, which says which cluster is meant.

    Returns:
        Names in order; none where no cluster can be asked.
    """
    if kind in _BY_ENTITY:
        kind = _BY_ENTITY[kind].get(_entity_type(words), "")
    offline = _OFFLINE.get(kind)
    try:
        if offline is not None:
            return offline()
        settings = _settings(words)
        servers = settings.get(SERVERS)
        return _of_cluster(kind, str(servers), settings) if servers and kind in _LIVE else []
    except (PkafkaError, OSError, ValueError):
        return []


def _entity_type(words: Sequence[str]) -> str:
    """The type of entity that a line of pk-configs names last; empty where it names none."""
    found = ""
    for flag, value in _flags(words):
        if flag == "--entity-type":
            found = value
        elif flag in _ENTITY_FLAGS:
            found = _ENTITY_FLAGS[flag]
    return found


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word, and what may be its value."""
    for position, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if not equals:
            value = words[position + 1] if position + 1 < len(words) else ""
        yield flag, value


def _settings(words: Sequence[str]) -> dict[str, object]:
    given: dict[str, str] = {}
    for flag, value in _flags(words):
        if flag in _SERVER_FLAGS:
            given["servers"] = value
        elif flag == "--profile":
            given["profile"] = value
        elif flag in _FILE_FLAGS:
            given["file"] = value
    return client_settings(profile=given.get("profile"), file=given.get("file"), servers=given.get("servers"))


# -- of a cluster ------------------------------------------------------------------------------------------


def _of_cluster(kind: str, servers: str, settings: Mapping[str, object]) -> list[str]:
    kept = _kept()
    entry = kept.get(servers, {}).get(kind)
    if entry is not None and 0 <= time.time() - entry["at"] < _FRESH_S:
        return list(entry["names"])
    found = _ask(kind, settings)
    if found is None:
        return list(entry["names"]) if entry is not None else []
    _keep(kept, servers, kind, found)
    return found


def _ask(kind: str, settings: Mapping[str, object]) -> list[str] | None:
    """What the cluster says; None when it says nothing in time.

    A thread asks, and is left alone when the time is over: looking up a host name has no time-out, and a signal that
    interrupts it could come between the opening of a socket and the line that keeps it.
    """
    from pkafka.clients.admin import Admin

    answers: list[list[str]] = []
    bounds = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), int(_DEADLINE_S * 1000))

    def ask() -> None:
        with (
            contextlib.suppress(PkafkaError, OSError, ValueError),
            Admin({**settings, **bounds, "client.id": "pk-completions"}, fail_fast=True) as admin,
        ):
            answers.append(sorted(_LIVE[kind](admin)))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_DEADLINE_S)
    return answers[0] if answers else None


def _cache_file() -> str:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(home, "pkafka", "names.json")


def _kept() -> dict[str, Any]:
    """What was found before, by servers and kind."""
    try:
        with open(_cache_file(), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and all(map(_is_of_a_cluster, found.values())) else {}


def _is_of_a_cluster(entries: object) -> bool:
    """Whether this is what :func:`_keep` writes; other programs of this user can write to the file too."""
    return isinstance(entries, dict) and all(
        isinstance(each, dict)
        and isinstance(each.get("at"), int | float)
        and isinstance(each.get("names"), list)
        and all(isinstance(name, str) for name in each["names"])
        for each in entries.values()
    )


def _keep(kept: dict[str, Any], servers: str, kind: str, found: Sequence[str]) -> None:
    """Write what was found; two shells at once lose one answer, never the file."""
    entries = {**kept.pop(servers, {}), kind: {"at": time.time(), "names": list(found)}}
    latest = dict(list(kept.items())[-_CLUSTERS_KEPT + 1 :])
    path = _cache_file()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    half = f"{path}.{os.getpid()}"
    with open(half, "w", encoding="utf-8") as file:
        json.dump({**latest, servers: entries}, file)
    os.replace(half, path)


def _users(admin: "Admin") -> list[str]:
    return list({*_with_quotas(admin, "user"), *admin.describe_user_scram_credentials()})


def _with_quotas(admin: "Admin", entity_type: str) -> list[str]:
    """Names of one type that have a quota, alone or together with another."""
    from pkafka.clients.admin.client_quotas import QuotaFilter

    found = admin.describe_client_quotas([QuotaFilter(entity_type)])
    return list({name for entity in found for kind, name in entity if kind == entity_type and name})


_LIVE: Final[Mapping[str, Callable[[Any], list[str]]]] = {
    "topics": lambda admin: [each.name for each in admin.list_topics()],
    "groups": lambda admin: [each.group_id for each in admin.list_groups().groups],
    "transactional-ids": lambda admin: [
        each.transactional_id for each in admin.list_transactions().transactions
    ],
    "brokers": lambda admin: [str(each.id) for each in admin.describe_cluster().brokers],
    "users": _users,
    "clients": lambda admin: _with_quotas(admin, "client-id"),
    "ips": lambda admin: _with_quotas(admin, "ip"),
}


# -- without a cluster -------------------------------------------------------------------------------------


def _topic_keys() -> list[str]:
    from pkafka.server.config.keys import topic_keys

    return sorted(topic_keys())


def _broker_keys() -> list[str]:
    from pkafka.server.config.keys import broker_keys

    return sorted(broker_keys())


def _changeable_broker_keys() -> list[str]:
    from pkafka.server.config.keys import broker_keys

    return sorted(name for name, key in broker_keys().items() if key.update_mode != "read-only")


def _producer_keys() -> list[str]:
    from pkafka.clients.config import ProducerConfig

    return sorted(ProducerConfig.defaults())


def _consumer_keys() -> list[str]:
    from pkafka.clients.config import ConsumerConfig

    return sorted(ConsumerConfig.defaults())


def _profiles() -> list[str]:
    from pkafka.cli.kit.profiles import profile_names

    return profile_names()


def _quota_keys() -> list[str]:
    from pkafka.cli.kit.quota_keys import CLIENT_KEYS

    return sorted(CLIENT_KEYS)


def _user_keys() -> list[str]:
    from pkafka.net.scram import KNOWN

    return [*_quota_keys(), *(each.mechanism_name for each in KNOWN)]


def _address_keys() -> list[str]:
    from pkafka.cli.kit.quota_keys import IP_KEYS

    return sorted(IP_KEYS)


_OFFLINE: Final[Mapping[str, Callable[[], list[str]]]] = {
    "topic-keys": _topic_keys,
    "broker-keys": _broker_keys,
    "changeable-broker-keys": _changeable_broker_keys,
    "producer-keys": _producer_keys,
    "consumer-keys": _consumer_keys,
    "profiles": _profiles,
    "client-quota-keys": _quota_keys,
    "user-keys": _user_keys,
    "address-keys": _address_keys,
}
_BY_ENTITY: Final[Mapping[str, Mapping[str, str]]] = {
    "entity-names": {
        **{kind: kind for kind in ("topics", "brokers", "users", "clients", "ips")},
        "broker-loggers": "brokers",
    },
    "config-keys": {
        "topics": "topic-keys",
        "brokers": "changeable-broker-keys",
        "users": "user-keys",
        "clients": "client-quota-keys",
        "ips": "address-keys",
    },
}
_ENTITY_FLAGS: Final = {
    "--topic": "topics",
    "--broker": "brokers",
    "--broker-defaults": "brokers",
    "--broker-logger": "broker-loggers",
    "--user": "users",
    "--user-defaults": "users",
    "--client": "clients",
    "--client-defaults": "clients",
    "--ip": "ips",
    "--ip-defaults": "ips",
}
KINDS: Final = (*_LIVE, *_OFFLINE, *_BY_ENTITY)
"""What can be asked for."""
