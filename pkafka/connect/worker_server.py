"""The REST API of a worker of either kind: where it listens, under which URL others reach it, and what it answers."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import pkafka
from pkafka import KAFKA_VERSION
from pkafka.connect.errors import ConfigError
from pkafka.connect.plugins import Plugins
from pkafka.connect.rest.calls import Answer, Call, Handler
from pkafka.connect.rest.connectors import Connectors, Herder
from pkafka.connect.rest.loggers import Loggers
from pkafka.connect.rest.plugins import PluginList
from pkafka.connect.rest.server import RestServer
from pkafka.connect.worker_config import WorkerConfig


class Address(NamedTuple):
    """How others reach a worker."""

    url: str
    worker_id: str
    """``host:port``, by which statuses name it."""

    @classmethod
    def of(cls, config: WorkerConfig, server: RestServer) -> "Address":
        """What the settings say, and where that is silent, where the server listens."""
        host = config.parsed["rest.advertised.host.name"] or config.listeners[0].host or "localhost"
        port = config.parsed["rest.advertised.port"] or server.port
        shown = f"[{host}]" if ":" in host else host
        scheme = config.parsed["rest.advertised.listener"] or config.listeners[0].scheme
        return cls(f"{scheme}://{shown}:{port}", f"{shown}:{port}")


class WorkerHerder(Herder, Protocol):
    """What is asked of a herder beside connectors."""

    plugins: Plugins
    cluster_id: str | None

    @property
    def is_ready(self) -> bool: ...
    def metrics(self) -> str: ...


def serve(
    server: RestServer,
    config: WorkerConfig,
    herder: WorkerHerder,
    url: str,
    loggers: Loggers,
    more: Mapping[tuple[str, str], Handler],
) -> None:
    """Begin to answer.

    Args:
        server: is bound already.
        url: by which answers name this worker.
        loggers: answer what is asked of loggers, unless ``admin.listeners`` is empty.
        more: by method and path, what answers instead of, or beside, what every worker has.
    """
    server.start({**_routes(config, herder, url, loggers), **more}, _headers(config))


def routes_of(config: WorkerConfig, herder: WorkerHerder, url: str) -> dict[tuple[str, str], Handler]:
    """By method and path, what answers requests about connectors and plug-ins."""
    parsed = config.parsed
    connectors = Connectors(
        herder,
        url,
        tracks_topics=parsed["topic.tracking.enable"],
        resets_topics=parsed["topic.tracking.allow.reset"],
    )
    return connectors.routes() | PluginList(herder.plugins, herder).routes()


def _routes(
    config: WorkerConfig, herder: WorkerHerder, url: str, loggers: Loggers
) -> dict[tuple[str, str], Handler]:
    def root(_call: Call) -> Answer:
        return Answer(
            body={
                "version": KAFKA_VERSION,
                "commit": f"pkafka-{pkafka.__version__}",
                "kafka_cluster_id": herder.cluster_id,
            }
        )

    def metrics(_call: Call) -> Answer:
        from pkafka.connect.metrics_page import MEDIA_TYPE

        return Answer(text=herder.metrics(), media_type=MEDIA_TYPE)

    def health(_call: Call) -> Answer:
        if not herder.is_ready:
            return Answer(503, {"status": "starting", "message": "Worker is still starting up."})
        return Answer(
            body={
                "status": "healthy",
                "message": "Worker has completed startup and is ready to handle requests.",
            }
        )

    routes: dict[tuple[str, str], Handler] = {
        ("GET", "/"): root,
        ("GET", "/health"): health,
        ("GET", "/metrics"): metrics,
        **routes_of(config, herder, url),
    }
    if config.parsed["admin.listeners"] is None or config.parsed["admin.listeners"]:
        routes |= loggers.routes()
    return routes


def _headers(config: WorkerConfig) -> dict[str, str]:
    """The headers of every answer: ``response.http.headers.config`` and CORS.

    Raises:
        ConfigError: the first cannot be read.
    """
    found = {}
    for rule in (each.strip() for each in config.parsed["response.http.headers.config"].split(",")):
        if not rule:
            continue
        action, _, header = rule.partition(" ")
        name, colon, value = header.partition(":")
        if action not in ("set", "add", "setDate", "addDate") or not colon:
            raise ConfigError.of("response.http.headers.config", rule, "a rule is: set NAME: VALUE")
        found[name.strip()] = value.strip()
    if config.parsed["access.control.allow.origin"]:
        found["Access-Control-Allow-Origin"] = config.parsed["access.control.allow.origin"]
    if config.parsed["access.control.allow.methods"]:
        found["Access-Control-Allow-Methods"] = config.parsed["access.control.allow.methods"]
    return found
