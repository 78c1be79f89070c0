"""Looks, before a pipeline starts, whether its clusters answer and have the topics that it names."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.pipeline.definition import TOPIC, Pipeline, Sink, Source
from pkafka.pipeline.definition_yaml import Problem

_KAFKA: Final = "kafka."


def missing_topics(pipeline: Pipeline, *, timeout_ms: int) -> list[Problem]:
    """The topics that a pipeline names and a cluster does not have.

    Args:
        timeout_ms: of each request.

    Raises:
        ClientError: a cluster cannot be asked.
    """
    problems = []
    ends: list[Source | Sink] = [*pipeline.sources, pipeline.sink]
    for end in ends:
        if end.format != TOPIC:
            continue
        names = list(_topics(end))
        properties = _admin_properties(end.options, timeout_ms)
        with Admin(properties, fail_fast=True) as admin:
            there = {each.name for each in admin.list_topics()}
        for name in names:
            if name not in there:
                problems.append(Problem(end.line, f"there is no topic {name}", name, tuple(sorted(there))))
    return problems


def _topics(end: Source | Sink) -> Iterator[str]:
    """The topics that are named; those of a pattern, or of a column, are not."""
    options = {name.lower(): value for name, value in end.options.items()}
    if isinstance(end, Sink):
        if "topic" in options:
            yield options["topic"].strip()
    elif "subscribe" in options:
        yield from (name for each in options["subscribe"].split(",") if (name := each.strip()))
    elif "assign" in options:
        yield from json.loads(options["assign"])


def _admin_properties(options: Mapping[str, str], timeout_ms: int) -> dict[str, object]:
    given: dict[str, object] = {
        name.lower().removeprefix(_KAFKA): value
        for name, value in options.items()
        if name.lower().startswith(_KAFKA)
    }
    for key in ("default.api.timeout.ms", "request.timeout.ms", "socket.connection.setup.timeout.ms"):
        given.setdefault(key, timeout_ms)
    given.setdefault("socket.connection.setup.timeout.max.ms", timeout_ms)
    given.setdefault("client.id", "pk-pipeline")
    return given
