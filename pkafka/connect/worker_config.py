"""The settings of a worker: ``WorkerConfig``, ``StandaloneConfig``, and what they share with ``DistributedConfig``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import in_range, one_of_any_case
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.connect.plugins import Class, Plugins, prefixed

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_POLICIES: Final = {"All": None, "None": frozenset[str](), "Principal": frozenset({
    "sasl.jaas.config", "sasl.mechanism", "security.protocol",
})}  # fmt: skip
"""Which settings of clients a connector may override; None: any."""
_JAVA_POLICY: Final = "org.apache.kafka.connect.connector.policy."


def worker_config_def() -> ConfigDef:
    """The settings of every worker that this worker acts by."""
    return (
        ConfigDef()
        .define("bootstrap.servers", ConfigType.LIST, "localhost:9092", None, _HIGH,
                "Where the cluster is found: host:port, with commas between.")
        .define("key.converter", ConfigType.CLASS, importance=_HIGH,
                documentation="How keys are written to and read from Kafka, unless a connector says otherwise.")
        .define("value.converter", ConfigType.CLASS, importance=_HIGH,
                documentation="How values are written to and read from Kafka, unless a connector says otherwise.")
        .define("header.converter", ConfigType.CLASS,
                "org.apache.kafka.connect.storage.SimpleHeaderConverter", None, _LOW,
                "How headers are written to and read from Kafka, unless a connector says otherwise.")
        .define("offset.flush.interval.ms", ConfigType.LONG, 60_000, None, _LOW, "How often tasks store their offsets.")
        .define("offset.flush.timeout.ms", ConfigType.LONG, 5_000, None, _LOW,
                "How long storing offsets may wait for records that are on their way.")
        .define("task.shutdown.graceful.timeout.ms", ConfigType.LONG, 5_000, None, _LOW,
                "How long the tasks of a worker may take to end, all together.")
        .define("listeners", ConfigType.LIST, "http://:8083", None, _LOW,
                "Where the REST API listens: http://host:port; no host: on every address.")
        .define("rest.advertised.host.name", ConfigType.STRING, None, None, _LOW, "The host that answers name.")
        .define("rest.advertised.port", ConfigType.INT, None, None, _LOW, "The port that answers name.")
        .define("rest.advertised.listener", ConfigType.STRING, None, None, _LOW, "http or https.")
        .define("admin.listeners", ConfigType.LIST, None, None, _LOW,
                "Where /admin is served; left out: with the rest, empty: nowhere.")
        .define("access.control.allow.origin", ConfigType.STRING, "", None, _LOW,
                "Which pages of other hosts may call the REST API (CORS).")
        .define("access.control.allow.methods", ConfigType.STRING, "", None, _LOW, "By which methods they may.")
        .define("plugin.path", ConfigType.LIST, None, None, _LOW,
                "Directories of directories that pip install --target has filled with packages of plug-ins.")
        .define("plugin.discovery", ConfigType.STRING, "hybrid_warn",
                one_of_any_case("only_scan", "hybrid_warn", "hybrid_fail", "service_load"), _LOW,
                "Accepted for Java's sake: plug-ins are found by entry points.")
        .define("config.providers", ConfigType.LIST, "", None, _LOW,
                "Names of providers of values such as ${file:path:key}.")
        .define("connector.client.config.override.policy", ConfigType.STRING, "All", None, _MEDIUM,
                "Which settings of clients connectors may override: All, None or Principal.")
        .define("topic.creation.enable", ConfigType.BOOLEAN, True, None, _LOW,
                "Whether source connectors create their topics by topic.creation.*.")
        .define("topic.tracking.enable", ConfigType.BOOLEAN, True, None, _LOW,
                "Whether the worker notes which topics a connector uses.")
        .define("topic.tracking.allow.reset", ConfigType.BOOLEAN, True, None, _LOW, "Whether that note can be emptied.")
        .define("response.http.headers.config", ConfigType.STRING, "", None, _LOW, "Headers of all answers.")
        .define("metrics.sample.window.ms", ConfigType.LONG, 30_000, in_range(0), _LOW, "The window of rates.")
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the REST API listens."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The settings of a worker, read.

    Args:
        originals: as they were given.
        parsed: those that are known, typed.
    """

    originals: Mapping[str, str]
    parsed: Mapping[str, Value]
    listeners: tuple[Listener, ...] = field(default=())

    @classmethod
    def of(
        cls, originals: Mapping[str, str], plugins: Plugins, more: ConfigDef | None = None
    ) -> "WorkerConfig":
        """Read settings.

        Args:
            more: settings of this kind of worker.

        Raises:
            ConfigError: one is refused.
        """
        keys = worker_config_def()
        if more is not None:
            keys = keys.with_keys_of(more)
        keys = ConfigDef(list(keys.keys.values()), class_lookup=plugins.implementation)
        parsed = keys.parse(originals)
        for name, key in keys.keys.items():
            if key.type is ConfigType.CLASS and isinstance(parsed[name], str):
                parsed[name] = plugins.implementation(parsed[name])  # a default
        override_policy(parsed["connector.client.config.override.policy"])
        listeners = tuple(_listener(each) for each in parsed["listeners"])
        if not listeners:
            raise ConfigError.of("listeners", "", "at least one listener is needed, such as http://:8083")
        return cls(originals, parsed, listeners)

    def converter(self, name: str) -> tuple[Class, dict[str, str]]:
        """The class of ``key.converter`` and so on, and its settings."""
        return self.parsed[name], prefixed(self.originals, f"{name}.")

    def clients(self, kind: str) -> dict[str, str]:
        """The settings of a worker's clients.

        Args:
            kind: ``producer``, ``consumer`` or ``admin``.
        """
        common = {name: value for name, value in self.originals.items() if name.startswith(_SECURITY)}
        servers = ",".join(self.parsed["bootstrap.servers"])
        return {"bootstrap.servers": servers, **common, **prefixed(self.originals, f"{kind}.")}

    def overrides(self, kind: str, configs: Mapping[str, str]) -> dict[str, str]:
        """The settings of clients that a connector overrides: ``producer.override.*`` and so on."""
        return prefixed(configs, f"{kind}.override.")

    def refused_overrides(self, configs: Mapping[str, str]) -> list[tuple[str, str]]:
        """The overrides that the policy does not allow, by their whole names, with what is wrong."""
        allowed = override_policy(self.parsed["connector.client.config.override.policy"])
        if allowed is None:
            return []
        return [
            (
                name,
                f"The '{self.parsed['connector.client.config.override.policy']}' policy does not allow"
                f" '{name.partition('.override.')[2]}' to be overridden in the connector configuration.",
            )
            for name in configs
            if ".override." in name
            and name.partition(".override.")[0] in ("producer", "consumer", "admin")
            and name.partition(".override.")[2] not in allowed
        ]


_SECURITY: Final = ("security.", "ssl.", "sasl.")


def override_policy(name: str) -> frozenset[str] | None:
    """Which settings of clients connectors may override; None: all.

    Raises:
        ConfigError: there is no such policy.
    """
    short = name.removeprefix(_JAVA_POLICY).removesuffix("ConnectorClientConfigOverridePolicy")
    if short not in _POLICIES:
        raise ConfigError.of(
            "connector.client.config.override.policy", name, "there are the policies All, None and Principal"
        )
    return _POLICIES[short]


def _listener(text: str) -> Listener:
    scheme, _, rest = text.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme.lower() != "http" or not port.isdecimal() or not 0 <= int(port) <= 0xFFFF:
        raise ConfigError.of("listeners", text, "a listener is http://host:port")
    return Listener(scheme.lower(), host.strip("[]"), int(port))


def standalone_config_def() -> ConfigDef:
    """What a standalone worker has beside that."""
    return ConfigDef().define(
        "offset.storage.file.filename",
        ConfigType.STRING,
        importance=_HIGH,
        documentation="The file in which offsets of source connectors are kept.",
    )


def offset_file(config: WorkerConfig) -> Path:
    """Where a standalone worker keeps offsets."""
    return Path(config.parsed["offset.storage.file.filename"])
