"""A session of calls at the REST API of a standalone worker, successful and failing; <DIR>, <TOPIC> and <NAME> are
filled in for each worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


def _as_it_is(body: Any) -> Any:
    return body


@dataclass(frozen=True)
class Step:
    """One call.

    Args:
        body, raw, media_type: of the request.
        until: a connector and the states of it and its tasks that are waited for afterwards.
        then: a path and what the body of its answer has to have before the session goes on.
        note: tells calls of one path apart.
        status_only: the text is the worker's own.
        shown: what of the answer is compared.
    """

    method: str
    path: str
    body: Any = None
    raw: bytes | None = None
    media_type: str = "application/json"
    until: tuple[str, ...] | None = None
    then: tuple[str, Any] | None = None
    note: str = ""
    status_only: bool = False
    shown: Callable[[Any], Any] = _as_it_is


SRC: Final = "/connectors/<NAME>-src"
SNK: Final = "/connectors/<NAME>-snk"
SOURCE: Final = {
    "name": "<NAME>-src",
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "file": "<DIR>/in.txt",
    "topic": "<TOPIC>",
}
SINK: Final = {
    "name": "<NAME>-snk",
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "tasks.max": "1",
    "file": "<DIR>/out.txt",
    "topics": "<TOPIC>",
}
_PLACE: Final = {"filename": "<DIR>/in.txt"}
_READ: Final = {"offsets": [{"partition": _PLACE, "offset": {"position": 6}}]}
_TAKEN: Final = {
    "offsets": [
        {"partition": {"kafka_partition": 0, "kafka_topic": "<TOPIC>"}, "offset": {"kafka_offset": 3}}
    ]
}


def _offsets(partition: Any, offset: Any) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


def _of_kafka(partition: Any, offset: Any) -> dict[str, Any]:
    return _offsets({"kafka_topic": "<TOPIC>", "kafka_partition": partition}, {"kafka_offset": offset})


def _get(*paths: str) -> list[Step]:
    return [Step("GET", path) for path in paths]


def _without_texts(body: Any) -> Any:
    """Definitions of settings without the sentences, which are each project's own."""
    if isinstance(body, dict):
        return {key: _without_texts(value) for key, value in body.items() if key != "documentation"}
    return [_without_texts(each) for each in body] if isinstance(body, list) else body


def _of_files(body: Any) -> Any:
    """The connectors of files that a list of plug-ins has, without their versions."""
    return [(each["class"], each["type"]) for each in body if ".connect.file." in each["class"]]


def _of_kafka_itself(body: Any) -> Any:
    return sorted(
        (each["class"], each["type"])
        for each in body
        if each["class"].startswith(("org.apache.kafka.connect.transforms", "org.apache.kafka.connect.json"))
    )


_NONE: Final = "/connectors/none"
_BAD: Final = "bad"


def _bad(note: str, *, status_only: bool = False, **configs: str) -> Step:
    configs = {name.replace("_", "."): value for name, value in configs.items()}
    return Step("POST", "/connectors", {"name": _BAD, "config": configs}, note=note, status_only=status_only)


SESSION: Final = [
    *_get("/health", "/connectors", "/connectors?expand=status&expand=info", "/connectors?expand=foo"),
    # A connector that there is not.
    *_get(*(f"{_NONE}{each}" for each in ("", "/status", "/config", "/tasks", "/tasks-config", "/tasks/0/status"))),
    *_get(f"{_NONE}/topics", f"{_NONE}/offsets"),
    *(Step("PUT", f"{_NONE}/{each}") for each in ("pause", "resume", "stop", "topics/reset")),
    *(Step("POST", f"{_NONE}/{each}") for each in ("restart", "restart?includeTasks=true", "tasks/0/restart")),
    Step("DELETE", _NONE),
    Step("DELETE", f"{_NONE}/offsets"),
    Step("PATCH", f"{_NONE}/offsets", {"offsets": []}),
    Step("PATCH", f"{_NONE}/offsets", _offsets(_PLACE, {"position": 1}), note="one"),
    Step("PATCH", f"{_NONE}/config", {"a": "b"}),
    # New connectors that are refused.
    Step("POST", "/connectors", raw=b"{bad", status_only=True),
    Step("POST", "/connectors", raw=b"", status_only=True),
    Step("POST", "/connectors", [1], status_only=True),
    Step("POST", "/connectors", {}, note="nothing"),
    Step("POST", "/connectors", {"name": "x"}, note="without configuration"),
    Step("POST", "/connectors", {"name": "x", "config": {}}),
    Step("POST", "/connectors", {"name": "x", "foo": 1, "config": {}}, status_only=True),
    Step("POST", "/connectors", {"name": "x", "config": {"connector.class": "Nope"}}, status_only=True),
    Step("POST", "/connectors", {"name": "x", "config": {"name": "y", "connector.class": "FileStreamSource"}}),
    Step("POST", "/connectors", raw=b"{}", media_type="text/plain"),
    Step("POST", "/connectors", {"name": "", "config": SOURCE}),
    Step("POST", "/connectors", {"name": " a ", "config": {**SOURCE, "name": " a "}}),
    Step("POST", "/connectors", {"name": _BAD, "initial_state": "FOO", "config": SOURCE}, status_only=True),
    _bad("tasks", connector_class="FileStreamSource", tasks_max="x"),
    _bad("no tasks", connector_class="FileStreamSource", tasks_max="0", topic="t"),
    _bad("no topics", connector_class="FileStreamSink", file="/x"),
    _bad("both topics", connector_class="FileStreamSink", topics="a", topics_regex="b"),
    _bad("dead letters", connector_class="FileStreamSink", topics="a", errors_deadletterqueue_topic_name="a"),
    _bad("transforms", connector_class="FileStreamSource", topic="t", transforms="a,b",
         transforms_a_type="InsertField$Value"),
    _bad("reload", connector_class="FileStreamSource", topic="t", config_action_reload="never"),
    _bad("support", connector_class="FileStreamSource", topic="t", exactly_once_support="never"),
    _bad("twice", connector_class="FileStreamSource", topic="t", transforms="a,a"),
    _bad("tolerance", connector_class="FileStreamSource", topic="t", errors_tolerance="some"),
    _bad("boolean", connector_class="FileStreamSource", topic="t", errors_log_enable="maybe"),
    _bad("empty topic", connector_class="FileStreamSource", topic=""),
    _bad("batch", connector_class="FileStreamSource", topic="t", batch_size="many"),
    # Two that run.
    Step("POST", "/connectors", {"name": "<NAME>-src", "config": SOURCE}, until=("<NAME>-src", "RUNNING", "RUNNING"),
         then=(f"{SRC}/offsets", _READ)),
    # Which topics are used is told by workers of a cluster in a topic, which they read in their own time.
    Step("POST", "/connectors", {"name": "<NAME>-src", "config": SOURCE}, note="again",
         then=(f"{SRC}/topics", {"<NAME>-src": {"topics": ["<TOPIC>"]}})),
    Step("PUT", f"{SNK}/config", SINK, until=("<NAME>-snk", "RUNNING", "RUNNING"), then=(f"{SNK}/offsets", _TAKEN)),
    Step("GET", f"{SNK}/config", note="topics", then=(f"{SNK}/topics", {"<NAME>-snk": {"topics": ["<TOPIC>"]}})),
    *_get("/connectors", *(f"/connectors?expand={each}" for each in ("status&expand=info", "status", "info"))),
    *_get(*(f"{SRC}{each}" for each in ("", "/config", "/status", "/tasks", "/tasks-config", "/topics", "/offsets"))),
    *_get(*(f"{SRC}/tasks/{each}/status" for each in ("0", "1", "x"))),
    *_get(*(f"{SNK}{each}" for each in ("", "/config", "/status", "/tasks", "/tasks-config", "/topics", "/offsets"))),
    # Changes of configuration.
    Step("PUT", f"{SNK}/config", {**SINK, "name": "other"}, note="other name"),
    Step("PUT", f"{SNK}/config", {**SINK, "errors.tolerance": "all"}, until=("<NAME>-snk", "RUNNING", "RUNNING"),
         note="tolerant"),
    Step("PUT", f"{SNK}/config", {"file": "x"}, status_only=True, note="no class"),
    Step("PUT", f"{SNK}/config", {}, note="empty"),
    Step("PUT", f"{SNK}/config", [1], status_only=True, note="list"),
    Step("PATCH", f"{SNK}/config", {"errors.tolerance": None, "x.y": "1"}, until=("<NAME>-snk", "RUNNING", "RUNNING"),
         shown=lambda body: {**body, "config": sorted(body["config"].items())}),
    Step("PATCH", f"{SNK}/config", {"topics": None}, note="without topics"),
    Step("PATCH", f"{SNK}/config", raw=b"{bad", status_only=True, note="no JSON"),
    # Restarts.
    Step("POST", f"{SRC}/restart", until=("<NAME>-src", "RUNNING", "RUNNING")),
    Step("POST", f"{SRC}/restart?includeTasks=true", until=("<NAME>-src", "RUNNING", "RUNNING")),
    Step("POST", f"{SRC}/restart?onlyFailed=true"),
    Step("POST", f"{SRC}/restart?includeTasks=true&onlyFailed=true"),
    Step("POST", f"{SRC}/restart?includeTasks=maybe", until=("<NAME>-src", "RUNNING", "RUNNING")),
    Step("POST", f"{SRC}/tasks/0/restart", until=("<NAME>-src", "RUNNING", "RUNNING")),
    # Pauses, and offsets while they must not be changed.
    Step("PUT", f"{SRC}/pause", until=("<NAME>-src", "PAUSED", "PAUSED")),
    Step("GET", f"{SRC}/status", note="paused"),
    Step("PUT", f"{SRC}/pause", note="again"),
    Step("DELETE", f"{SRC}/offsets", note="paused"),
    Step("PATCH", f"{SRC}/offsets", _offsets(_PLACE, {"position": 2}), note="paused"),
    Step("PUT", f"{SRC}/resume", until=("<NAME>-src", "RUNNING", "RUNNING")),
    Step("GET", f"{SRC}/status", note="resumed"),
    Step("PUT", f"{SRC}/stop", until=("<NAME>-src", "STOPPED")),
    *(Step("GET", f"{SRC}/{each}", note="stopped") for each in ("status", "tasks", "tasks-config", "offsets")),
    Step("PUT", f"{SRC}/stop", note="again"),
    # Offsets of a source.
    Step("PATCH", f"{SRC}/offsets", {}, note="nothing"),
    Step("PATCH", f"{SRC}/offsets", {"offsets": []}, note="none"),
    Step("PATCH", f"{SRC}/offsets", _offsets(_PLACE, {"position": 2}), note="one"),
    Step("GET", f"{SRC}/offsets", note="changed"),
    Step("PATCH", f"{SRC}/offsets", _offsets({"nope": "x"}, {"position": 2}), note="no file"),
    Step("PATCH", f"{SRC}/offsets", _offsets({"filename": "x"}, {"position": -2}), note="negative"),
    Step("PATCH", f"{SRC}/offsets", _offsets({"filename": "x"}, {"pos": 2}), note="no position"),
    Step("PATCH", f"{SRC}/offsets", _offsets({"filename": "x"}, {"position": "2"}), note="text"),
    # Java's worker shows a partition without an offset until it has read its own tombstone.
    Step("PATCH", f"{SRC}/offsets", _offsets(_PLACE, None), note="forget one",
         then=(f"{SRC}/offsets", {"offsets": []})),
    Step("GET", f"{SRC}/offsets", note="forgotten"),
    Step("DELETE", f"{SRC}/offsets", note="all", then=(f"{SRC}/offsets", {"offsets": []})),
    Step("GET", f"{SRC}/offsets", note="gone"),
    Step("DELETE", f"{SRC}/offsets", note="none"),
    Step("PUT", f"{SRC}/resume", until=("<NAME>-src", "RUNNING", "RUNNING"), note="from stopped"),
    Step("GET", f"{SRC}/status", note="from stopped"),
    Step("GET", f"{SRC}/tasks", note="from stopped"),
    # Offsets of a sink.
    Step("PATCH", f"{SNK}/offsets", _of_kafka(0, 1), note="running"),
    Step("PUT", f"{SNK}/stop", until=("<NAME>-snk", "STOPPED")),
    Step("PATCH", f"{SNK}/offsets", _of_kafka(0, 1), note="stopped"),
    Step("GET", f"{SNK}/offsets", note="changed"),
    Step("PATCH", f"{SNK}/offsets", _of_kafka("0", "2"), note="texts"),
    Step("GET", f"{SNK}/offsets", note="texts"),
    Step("PATCH", f"{SNK}/offsets", _offsets({"kafka_topic": "<TOPIC>", "kafka_partition": 0}, None), note="forget"),
    Step("GET", f"{SNK}/offsets", note="forgotten"),
    Step("PATCH", f"{SNK}/offsets", _offsets({"kafka_topic": "<TOPIC>"}, {"kafka_offset": 1}), note="no partition"),
    Step("PATCH", f"{SNK}/offsets", _of_kafka("z", 1), note="odd partition"),
    Step("PATCH", f"{SNK}/offsets", _of_kafka(0, "z"), note="odd offset"),
    Step("PATCH", f"{SNK}/offsets", _offsets({"kafka_topic": "<TOPIC>", "kafka_partition": 0}, {"x": 1}),
         note="no offset"),
    Step("DELETE", f"{SNK}/offsets"),
    Step("GET", f"{SNK}/offsets", note="gone"),
    # Topics that were used.
    Step("PUT", f"{SRC}/pause", until=("<NAME>-src", "PAUSED", "PAUSED"), note="for topics"),
    Step("PUT", f"{SRC}/topics/reset", then=(f"{SRC}/topics", {"<NAME>-src": {"topics": []}})),
    Step("GET", f"{SRC}/topics", note="reset"),
    # Plug-ins and validation.
    Step("GET", "/connector-plugins", shown=_of_files),
    Step("GET", "/connector-plugins?connectorsOnly=false", shown=_of_kafka_itself),
    *(Step("GET", f"/connector-plugins/{each}/config", shown=_without_texts)
      for each in ("FileStreamSource", "FileStreamSink", "JsonConverter", "RegexRouter", "TopicNameMatches")),
    Step("GET", "/connector-plugins/Nope/config"),
    Step("PUT", "/connector-plugins/FileStreamSink/config/validate", {"connector.class": "FileStreamSink"},
         shown=_without_texts),
    Step("PUT", "/connector-plugins/FileStreamSource/config/validate", SOURCE, shown=_without_texts),
    Step("PUT", "/connector-plugins/FileStreamSource/config/validate", {
        **SOURCE, "transforms": "a", "transforms.a.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    }, shown=_without_texts, note="transform"),
    Step("PUT", "/connector-plugins/FileStreamSink/config/validate", SOURCE, note="another class"),
    Step("PUT", "/connector-plugins/Nope/config/validate", SOURCE),
    Step("PUT", "/connector-plugins/FileStreamSink/config/validate", {}, status_only=True, note="empty"),
    # Loggers.
    Step("GET", "/admin/loggers/nope.x"),
    Step("PUT", "/admin/loggers/org.apache.kafka.connect", {"level": "nope"}, note="odd level"),
    Step("PUT", "/admin/loggers/org.apache.kafka.connect", {}, note="no level"),
    Step("PUT", "/admin/loggers/org.apache.kafka.connect?scope=cluster", {"level": "ERROR"},
         then=("/admin/loggers/org.apache.kafka.connect", {"level": "ERROR"})),
    Step("GET", "/admin/loggers/org.apache.kafka.connect", shown=lambda body: body["level"]),
    Step("PUT", "/admin/loggers/org.apache.kafka.connect", {"level": "info"}, status_only=True),
    # What is not there.
    *_get("/nope"),
    Step("POST", "/"),
    Step("DELETE", "/connectors"),
    Step("PUT", f"{SNK}/fence"),
    Step("POST", f"{SNK}/tasks", []),
    # First states.
    *(
        step
        for name, state, first in (("st", "STOPPED", "STOPPED"), ("pa", "paused", "PAUSED"))
        for step in (
            Step("POST", "/connectors", {"name": f"<NAME>-{name}", "initial_state": state, "config": {
                "connector.class": "FileStreamSource", "topic": "<TOPIC>", "file": "<DIR>/in.txt",
            }}, until=(f"<NAME>-{name}", first), note=state),
            Step("GET", f"/connectors/<NAME>-{name}/status"),
        )
    ),
    # A task that fails.
    Step("POST", "/connectors", {"name": "<NAME>-f", "config": {
        "connector.class": "FileStreamSink", "topics": "<TOPIC>", "file": "/nodir/x",
    }}, until=("<NAME>-f", "RUNNING", "FAILED"), note="fails"),
    Step("GET", "/connectors/<NAME>-f/status"),
    Step("POST", "/connectors/<NAME>-f/restart?includeTasks=true&onlyFailed=true",
         until=("<NAME>-f", "RUNNING", "FAILED")),
    *(Step("DELETE", f"/connectors/<NAME>-{each}") for each in ("src", "snk", "st", "pa", "f")),
    *_get("/connectors"),
]  # fmt: skip

DIFFERS: Final = frozenset({
    # Java answers with the text of a NullPointerException and 500 where pkafka says 404 or 400, and what is missing.
    ("PUT", f"{_NONE}/stop", ""),
    ("POST", f"{_NONE}/restart", ""),
    ("POST", f"{_NONE}/tasks/0/restart", ""),
    ("POST", "/connectors", "nothing"),
    ("POST", "/connectors", "without configuration"),
})  # fmt: skip
"""Calls whose answers differ on purpose, by method, path and note; docs/connect.md names them."""
