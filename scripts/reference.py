"""docs/reference/: every request, configuration key and metric, as tables made from the code."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_type_hints

from pkafka import KAFKA_VERSION
from pkafka.clients.admin import Admin
from pkafka.clients.config import ClientConfig, ConsumerConfig, ProducerConfig
from pkafka.clients.config.documentation import WITHOUT_EFFECT, about
from pkafka.clients.config.options import INT_MAX, LONG_MAX, Option
from pkafka.clients.connection import Address, Pending
from pkafka.clients.consumer import Consumer
from pkafka.clients.consumer.metrics import ConsumerMetrics
from pkafka.clients.metrics import Metric, Metrics, metrics_of
from pkafka.clients.network_metrics import NetworkMetrics
from pkafka.clients.producer import Producer
from pkafka.clients.producer.metrics import ProducerMetrics
from pkafka.clock import SystemClock
from pkafka.model import TopicPartition
from pkafka.protocol import registry
from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.metadata import MetadataRequest
from pkafka.server.config.keys import ConfigKey, broker_keys, documentation_of, topic_keys
from pkafka.server.config.keys.effects import (
    BROKER_EFFECTIVE,
    BROKER_WITHOUT_MEANING,
    TOPIC_EFFECTIVE,
    TOPIC_WITHOUT_MEANING,
)
from pkafka.server.groups.states import GroupState
from pkafka.server.handlers import CONTROL_APIS, FRAME_APIS, MESSAGE_APIS
from pkafka.server.metrics.jmx_beans import beans
from pkafka.server.metrics.meters import Meters
from pkafka.server.metrics.page import families
from tests.unit.server.metrics.metrics_snapshots import FACTS, worker

FOLDER: Final = "docs/reference"
_MADE: Final = "Made by `make regenerate`."
_BOUNDS: Final = {INT_MAX: "2^31 - 1", LONG_MAX: "2^63 - 1"}
_UPDATES: Final = {
    "read-only": "no",
    "per-broker": "of a broker",
    "cluster-wide": "of a broker or of all",
    "topic": "",
}
_TYPES: Final[Mapping[object, str]] = {
    int: "int",
    int | None: "int",
    float: "double",
    bool: "boolean",
    str: "string",
    str | None: "string",
    tuple[str, ...]: "list",
    object: "class",
}


def files() -> dict[str, str]:
    """Every page, by path below the root."""
    pages: Mapping[str, Callable[[], str]] = {
        "requests": requests,
        "broker-configs": broker_configs,
        "topic-configs": topic_configs,
        "client-configs": client_configs,
        "metrics": metrics,
    }
    return {f"{FOLDER}/{name}.md": page() for name, page in pages.items()}


def _page(title: str, about_it: str, *parts: Iterable[str]) -> str:
    lines = [f"# {title}", "", *about_it.splitlines(), ""]
    for part in parts:
        lines += [*part, ""]
    return "\n".join(lines)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


# -- requests ----------------------------------------------------------------------------------------------


def requests() -> str:
    """A table of every request of the reference and whether a broker of pkafka serves it."""
    served = {*FRAME_APIS, *MESSAGE_APIS, *CONTROL_APIS}
    rows = []
    for key in ApiKey:
        name = "".join(word.capitalize() for word in key.name.split("_"))
        valid = registry.versions(key)
        versions = f"0-{valid[-1]}" if len(valid) > 1 else ("0" if valid else "none")
        flexible = next((str(version) for version in valid if registry.is_flexible(key, version)), "")
        rows.append([str(int(key)), name, versions, flexible, "yes" if key in served else "no"])
    text = f"""\
The requests of Apache Kafka {KAFKA_VERSION}, the versions that pkafka encodes and decodes, the first of them with
compact sizes and tag sections (KIP-482), and whether a broker of pkafka serves them to clients. Every request that is
served is served in all of its versions. KRaft's own requests and share groups have no versions here. {_MADE}

{len(served)} of {len(rows)} requests are served."""
    return _page("Requests", text, _table(["key", "request", "versions", "flexible from", "served"], rows))


# -- configuration of brokers and topics -------------------------------------------------------------------


def valid_values(key: ConfigKey) -> str:
    """What a key's rule allows; empty for anything of its type."""
    name, *arguments = key.rule or ("",)
    if name == "range":
        low, high = arguments
        return f"{'...' if low is None else low} to {high}" if high is not None else f"{low} or more"
    if name in ("one of", "some of", "one of, any case"):
        words = ", ".join(str(each) for each in arguments if each is not None)
        return f"some of {words}" if name == "some of" else words
    words = {
        "not empty": "not empty",
        "not null": "",
        "gzip level": "-1, 1 to 9",
        "pool size": "-1, 1 or more",
        "version": "a release, as 3.9 or 3.0-IV1",
        "replica list": "*, or partition:broker,...",
        "": "",
    }[str(name)]
    return words


def shown_default(default: str | None) -> str:
    """A default as a table has it: nothing for none, quotes for an empty text."""
    return "" if default is None else default or '""'


def broker_configs() -> str:
    """A table of every key of a broker."""
    text = f"""\
Every key of a broker of Apache Kafka {KAFKA_VERSION}, and those that only pkafka has (`pkafka.`), as
`server.properties`, `--override` and `pk-configs` take them. Names, types, defaults and rules are those of Kafka, but
for `log.dirs`, which is `./data` where it is not set. {_MADE}

- **live**: whether it changes while the broker runs (`pk-configs --entity-type brokers`): of one broker only, or of one
  or of all.
- **effect**: *yes* where a test shows it; *none* where there is nothing here that it could do, and why; *not yet*
  where it is accepted, checked and shown and does no more.

Keys for internal use are left out unless they do something."""
    rows = [
        [
            f"`{key.name}`",
            key.type,
            shown_default(key.default),
            valid_values(key),
            key.importance,
            _UPDATES[key.update_mode],
            _effect(key.name, BROKER_EFFECTIVE, BROKER_WITHOUT_MEANING),
            documentation_of(key.name),
        ]
        for key in sorted(broker_keys().values())
        if not key.internal or key.name in BROKER_EFFECTIVE
    ]
    columns = ["key", "type", "default", "values", "importance", "live", "effect", "what it does"]
    return _page("Configuration of a broker", text, _table(columns, rows))


def topic_configs() -> str:
    """A table of every key of a topic."""
    text = f"""\
Every key of a topic of Apache Kafka {KAFKA_VERSION}, for `pk-topics --create --config` and
`pk-configs --entity-type topics`. All of them change while brokers run. Where a topic does not set one, the broker's
key counts: the first of those named that is set, times the factor behind it. {_MADE}

- **effect**: *yes* where a test shows it; *none* where there is nothing here that it could do, and why; *not yet*
  where it is accepted, checked and shown and does no more."""
    rows = [
        [
            f"`{key.name}`",
            key.type,
            shown_default(key.default),
            valid_values(key),
            key.importance,
            ", ".join(f"`{name}`" + (f" x {factor}" if factor != 1 else "") for name, factor in key.synonyms),
            _effect(key.name, TOPIC_EFFECTIVE, TOPIC_WITHOUT_MEANING),
            documentation_of(key.name, topic=True),
        ]
        for key in sorted(topic_keys().values())
    ]
    columns = ["key", "type", "default", "values", "importance", "broker's key", "effect", "what it does"]
    return _page("Configuration of a topic", text, _table(columns, rows))


def _effect(name: str, effective: Mapping[str, str], without: Mapping[str, str]) -> str:
    if name in effective:
        return "yes"
    return f"none: {without[name]}" if name in without else "not yet"


# -- configuration of clients ------------------------------------------------------------------------------


def client_configs() -> str:
    """Tables of every key of the clients."""
    text = f"""\
The keys of the producer, the consumer and the admin client, as their constructors, `--command-config` and
`--producer-property` take them; with the names of Apache Kafka {KAFKA_VERSION} and its defaults, but that all clients
have the same receive buffer and idle time. All of them have an effect; those below the tables have none. {_MADE}"""
    shared = ClientConfig.defaults()
    own = {
        client: [
            key for key in config.defaults() if key not in shared or about(key, client) != about(key, "admin")
        ]
        for client, config in (("producer", ProducerConfig), ("consumer", ConsumerConfig))
    }
    rows = sorted([f"`{key}`", why] for key, why in WITHOUT_EFFECT.items())
    return _page(
        "Configuration of clients",
        text,
        ["## All clients", "", *_client_table("admin", ClientConfig, shared)],
        ["## Producer", "", *_client_table("producer", ProducerConfig, own["producer"])],
        ["## Consumer", "", *_client_table("consumer", ConsumerConfig, own["consumer"])],
        ["## Accepted, without an effect", "", *_table(["key", "why"], rows)],
    )


def _client_table(client: str, config: type[ClientConfig], keys: Iterable[str]) -> Iterator[str]:
    types = get_type_hints(config)
    rows = []
    for key in sorted(keys):
        name = key.replace(".", "_")
        option = config._options[name]
        importance, what = about(key, client)
        rows.append(
            [
                f"`{key}`",
                _TYPES[types[name]],
                _client_default(key, option),
                _client_values(option),
                importance,
                what,
            ]
        )
    return _table(["key", "type", "default", "values", "importance", "what it does"], rows)


def _client_default(key: str, option: Option) -> str:
    value = option.default
    if value is None or value == ():
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return {"acks": "all"}.get(key, shown_default(str(value)))


def _client_values(option: Option) -> str:
    if option.choices:
        return ", ".join(option.choices)
    if option.at_least is None:
        return ""
    if option.at_most in _BOUNDS:
        return f"{option.at_least} or more"
    return f"{option.at_least} to {option.at_most}"


# -- metrics -----------------------------------------------------------------------------------------------


def metrics() -> str:
    """Tables of what brokers and clients measure."""
    text = f"""\
What a broker and the clients measure, under the names of Apache Kafka {KAFKA_VERSION}. `pkafka.metrics.port` opens the
pages of a broker; `metrics()` of a client gives its own. {_MADE}"""
    return _page(
        "Metrics",
        text,
        [
            "## A broker, for Prometheus",
            "",
            "At `/metrics`. Names end as the format asks for: those of counters in `_total`; a summary has `_count`,",
            "`_sum` and a row for each quantile.",
            "",
            *_table(["metric", "type", "labels", "what"], _prometheus_rows()),
        ],
        [
            "## A broker, as JMX beans",
            "",
            "At `/jmx`, and with `pk-metrics`. Words in capitals stand for what differs.",
            "",
            *_table(["bean", "attributes"], _bean_rows()),
        ],
        *(
            [f"## {title}", "", *_table(["group", "metric", "of each", "what"], _client_rows(found))]
            for title, found in _client_metrics().items()
        ),
    )


def _workers() -> list[dict[str, Any]]:
    """One worker that has something to say of everything."""
    groups = {"NumOffsets": 1, "NumGroups": 1, **{f"NumGroups{state.value}": 1 for state in GroupState}}
    events = ("offset_commit", "offset_expiration", "offset_deletion", "group_completed_rebalance")
    counted = ("messages_in", "bytes_in", "bytes_out", "failed_produces", "failed_fetches")
    return [
        worker(
            groups=groups,
            group_events=dict.fromkeys(events, 1),
            purgatory={"Produce": 1, "Fetch": 1},
            uncleanable=[["/data/a", 1, 1]],
            requests=[[int(ApiKey.PRODUCE), 9, 1]],
            **{name: {"TOPIC": 1} for name in counted},
        )
    ]


def _prometheus_rows() -> list[list[str]]:
    rows = []
    for family in families(_workers(), FACTS):
        labels = sorted({name for sample in family.samples for name in sample.labels})
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append([f"`{name}`", family.type, ", ".join(labels), family.documentation])
    return sorted(rows)


_DIFFERS: Final = (
    (re.compile(r"(?<=[,:]topic=)[^,]+"), "TOPIC"),
    (re.compile(r"(?<=,partition=)\d+"), "NUMBER"),
    (re.compile(r"(?<=,request=)[A-Z]\w+"), "REQUEST"),
    (re.compile(r"(?<=,version=)\d+"), "VERSION"),
    (re.compile(r"(?<=,logDirectory=)[^,]+"), "PATH"),
    (re.compile(r"(?<=,id=)\d+"), "BROKER"),
    (re.compile(r"(?<=[,:]listener=)[^,]+"), "NAME"),
    (re.compile(r"(?<=,networkProcessor=)\d+"), "WORKER"),
    (re.compile(r"(?<=,delayedOperation=)[^,]+"), "OPERATION"),
)


def _bean_rows() -> list[list[str]]:
    found: dict[str, str] = {}
    for name, attributes in beans(_workers(), FACTS, Meters(0.0), 1.0).items():
        for pattern, word in _DIFFERS:
            name = pattern.sub(word, name)
        found[name] = ", ".join(f"`{attribute}`" for attribute in attributes)
    return [[f"`{name}`", attributes] for name, attributes in sorted(found.items())]


@cache
def _client_metrics() -> dict[str, list[Metric]]:
    """What each client has when it is made, and what traffic adds: nobody answers at this address."""
    config = {"bootstrap.servers": "localhost:9", "client.id": "ID"}
    typed = ClientConfig.from_properties(config)
    with (
        Producer(config) as producer,
        Consumer({**config, "group.id": "GROUP"}) as consumer,
        Admin(config) as admin,
    ):
        found = {
            "producer": list(producer.metrics().values()),
            "consumer": list(consumer.metrics().values()),
            "admin-client": list(admin.metrics().values()),
        }
    for client, own in found.items():
        traffic = metrics_of(typed, SystemClock())
        _with_traffic(client, traffic)
        known = {metric.name for metric in own}
        own += [metric for name, metric in traffic.metrics().items() if name not in known]
    titles = {"producer": "The producer", "consumer": "The consumer", "admin-client": "The admin client"}
    return {titles[client]: own for client, own in found.items()}


def _with_traffic(client: str, registered: Metrics) -> None:
    address = Address("localhost", 9)
    request = Pending(ApiKey.METADATA, MetadataRequest(), address=address, deadline_ms=0)
    NetworkMetrics(registered, client, lambda _address: 1).sent(request, 0)
    if client == "producer":
        ProducerMetrics(registered).topic("TOPIC")
    elif client == "consumer":
        measured = ConsumerMetrics(registered, SystemClock())
        measured.consumed({"TOPIC": 1})
        measured.watch_distances(TopicPartition("TOPIC", 0), lambda: 0.0, lambda: 0.0)


def _client_rows(found: Iterable[Metric]) -> list[list[str]]:
    rows = set()
    for metric in found:
        tags = ", ".join(tag for tag, _ in metric.name.tags if tag != "client-id")
        rows.add((metric.name.group, f"`{metric.name.name}`", tags, metric.description))
    return [list(row) for row in sorted(rows)]
